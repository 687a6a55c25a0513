"""What must not be shown: values of options that are secrets by their names, and passwords within texts.

The names are those that Flink hides, and a few more. Checkpoints, histories, pages, answers, archives and logs are read
by many, so every text of them goes through here: names with values after them (``password=…``, ``"api_key": "…"``),
user names with passwords in URLs, the header ``Authorization``, and private keys in PEM.

Texts come from outside and may be long: the time that this takes grows with their length, and no faster.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

HIDDEN = "****"

_S = "[-_.]?"
# Names that say "secret" wherever they stand, also before a colon in a sentence.
_NAME = (
    r"password|passwd|passphrase|(?<![a-z])pwd(?![a-z])|secret|"
    rf"token(?!iz|{_S}(?:count|limit|length|size|type))|authorization|basic{_S}auth|auth{_S}user{_S}info|"
    rf"(?:api|access|service|private|account){_S}key"
)
# Names that say it of an option. In a sentence they may be names of files, or plain words.
_OPTION = (
    rf"key{_S}pem|keystore{_S}key(?![a-z])|credential|auth{_S}params|jaas{_S}config|http{_S}headers|"
    r"(?<![a-z0-9])(?:sas|sig|x-amz-signature|x-goog-signature)(?![a-z0-9])"
)
_SECRET_OPTION = re.compile(f"{_NAME}|{_OPTION}", re.IGNORECASE)
# What such an option may have as a value without being a secret.
_HARMLESS = frozenset({"", "none", "null", "true", "false"})

# A value: in quotes, with quotes in it that are doubled or escaped, or up to a space. A delimiter belongs to it only
# if more of it follows, and not the next name. Quotes that nobody closes hide the rest of the line.
_DELIMITER = r"[\"',;&)\]}]"
_VALUE = (
    r"(?:"
    r"\"(?>(?:[^\"\\\n]|\\.|\"\")*)\"|'(?>(?:[^'\\\n]|\\.|'')*)'|"
    r"\\\"(?>(?:[^\"\\\n]|\\(?!\")[^\n])*)\\\"|\\'(?>(?:[^'\\\n]|\\(?!')[^\n])*)\\'|"
    r"\\?[\"'][^\n]*|"
    r"(?:(?:basic|bearer|digest|negotiate)[ ]+)?"
    rf"(?>(?:[^\s\"',;&)\]}}]|{_DELIMITER}(?![\"',;&)\]}}:=\s]|$|[\w.-]{{1,40}}\\?[\"']?\s?[=:]))+)"
    r")"
)
_END = r"(?=[\s,;&)\]}\"']|$)"
_ASSIGNED = re.compile(
    rf"((?:(?:{_NAME})(?!s\\?[\"']?\s?[=:]\s?\d+{_END})[\w.-]{{0,40}}\\?[\"']?\s{{0,3}}[=:]|"
    rf"(?:{_OPTION})[\w.-]{{0,40}}\\?[\"']?\s{{0,3}}=)\s{{0,3}})"
    rf"(?!(?:none|null|true|false){_END}|(?:\w{{1,20}}[ ])?<){_VALUE}",
    re.IGNORECASE | re.MULTILINE,
)
_BEARER = re.compile(r"\b(bearer )\s{0,3}[\w.~+/-]{16,}=*", re.IGNORECASE)
_PEM = re.compile(
    r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----).*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)

_USER = re.compile(r"[^\s/:@?#\"'<>]{0,256}:")
# Where the address in which a password stands is over: a space, a quote that closes something, or the next address.
_ADDRESS_ENDS = re.compile(r"[\s<>]|[\"'](?=[\s,;:)\]}]|$)|[,;](?=\w[\w+.-]{0,30}://)", re.MULTILINE)
_PORT = re.compile(r"\d{1,5}(?:[/?#\\\"',;)\]}\s]|$)")
_PAGES = ("http", "https", "ws", "wss", "hdfs")


def is_secret(name: str) -> bool:
    """Whether the value of an option of this name is not to be shown."""
    return _SECRET_OPTION.search(name) is not None


def without_passwords(text: str) -> str:
    """A text with the passwords hidden that stand in URLs, those that follow ``password=`` or the like, and private
    keys."""
    if "-----BEGIN" in text:
        text = _PEM.sub(rf"\1{HIDDEN}", text)
    if "://" in text and "@" in text:
        text = _without_users(text)
    if "=" in text or ":" in text:
        text = _ASSIGNED.sub(rf"\1{HIDDEN}", text)
    return _BEARER.sub(rf"\1{HIDDEN}", text)


def masked(options: Mapping[str, str]) -> dict[str, str]:
    """Options to be shown."""
    return {key: masked_value(key, str(value)) for key, value in options.items()}


def masked_value(key: str, value: str) -> str:
    """The value of an option as it may be shown."""
    if is_secret(key) and value.strip().lower() not in _HARMLESS:
        return HIDDEN
    return without_passwords(value)


def masked_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments of a command line: ``--password x`` and ``--password=x`` without the ``x``."""
    kept: list[str] = []
    hide = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        names_secret = argument.startswith("-") and is_secret(name)
        if hide and not argument.startswith("-"):
            kept.append(HIDDEN)
        elif equals and names_secret:
            kept.append(f"{name}={HIDDEN}")
        else:
            kept.append(without_passwords(argument))
        hide = not equals and names_secret
    return tuple(kept)


def _without_users(text: str) -> str:
    """Hide what stands between ``user:`` and the last ``@`` of each address: passwords may have ``/`` and ``@`` in
    them."""
    ends = [found.start() for found in _ADDRESS_ENDS.finditer(text)]
    parts: list[str] = []
    done = at = 0
    none_before = 0  # from where the search stands to here, there is no @
    while (at := text.find("://", at)) >= 0:
        scheme_ends, at = at, at + 3
        user = _USER.match(text, at)
        if user is None:
            continue
        begin = user.end()
        number = bisect_right(ends, begin - 1)
        end = ends[number] if number < len(ends) else len(text)
        if end <= none_before or _is_page_with_port(text, scheme_ends, begin):
            continue
        last = text.rfind("@", begin, end)
        if last < 0:
            none_before = end
            continue
        if last > begin:
            parts += [text[done:begin], HIDDEN]
            done = last
        at = last
    return "".join([*parts, text[done:]])


def _is_page_with_port(text: str, scheme_ends: int, begin: int) -> bool:
    """Whether what follows the colon is a port of a page or a file: an @ in its path or query is no password's."""
    scheme = text[max(0, scheme_ends - 5) : scheme_ends].lower()
    return scheme.endswith(_PAGES) and _PORT.match(text, begin) is not None
