"""Lists and maps in the text of an option: ``[a, b]`` or ``a;b``, ``{k: v}`` or ``k:v,l:w``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from beadline.errors import ConfigurationError

_PLAIN = re.compile(r"[^\s,:;\[\]{}'\"#&*!|>%@`-][^,:;\[\]{}'\"#]*", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_VALUE_STARTS = ",;:"
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None}


def parse_list(text: str) -> list[Any]:
    """The elements of ``[a, 'b;c']``, of a line-by-line ``- a`` list, or of ``a;b``. In the first two, numbers and
    booleans are taken as such."""
    stripped = text.strip()
    if not stripped:
        return []
    if stripped.startswith("[") and stripped.endswith("]"):
        return [_scalar(item) for item in split(stripped[1:-1], ",")]
    lines = stripped.splitlines()
    if all(line.strip().startswith("- ") for line in lines):
        return [_scalar(line.strip()[2:]) for line in lines]
    return [_unquoted(item) for item in split(text, ";")]


def parse_map(text: str) -> dict[str, str]:
    """The entries of ``{k: v, l: 'w,x'}`` or ``k:v,l:w``."""
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        stripped = stripped[1:-1]
    entries: dict[str, str] = {}
    for pair in split(stripped, ","):
        key, *rest = split(pair, ":", limit=1)
        if not rest:
            raise ConfigurationError(f"{text!r} is not a map: {pair.strip()!r} has no ':'. Write key:value,key:value.")
        entries[_unquoted(key)] = _unquoted(rest[0])
    return entries


def format_list(items: Sequence[object]) -> str:
    """A list that :func:`parse_list` reads back."""
    return f"[{', '.join(_quoted(str(item)) for item in items)}]"


def format_map(entries: Mapping[str, object]) -> str:
    """A map that :func:`parse_map` reads back."""
    return f"{{{', '.join(f'{_quoted(key)}: {_quoted(str(value))}' for key, value in entries.items())}}}"


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """``text`` cut at each ``separator`` that is not inside quotes; empty text has no parts."""
    if not text.strip():
        return []
    parts: list[str] = []
    start = index = 0
    opens = True  # a quote counts only where a value starts: "it's" has none
    while index < len(text):
        character = text[index]
        if opens and character in "'\"":
            index = _end_of_quote(text, index)
            opens = False
            continue
        if character == separator and len(parts) != limit:
            parts.append(text[start:index])
            start = index + 1
        opens = character in _VALUE_STARTS or (opens and character.isspace())
        index += 1
    parts.append(text[start:])
    return parts


def _end_of_quote(text: str, start: int) -> int:
    """Where the text goes on after the quoted part that starts here; a doubled quote stands for one quote."""
    quote = text[start]
    index = start + 1
    while (index := text.find(quote, index)) >= 0:
        if text[index + 1 : index + 2] != quote:
            return index + 1
        index += 2
    raise ConfigurationError(f"{text!r} has a quote {quote} that is never closed.")


def _unquoted(text: str) -> str:
    stripped = text.strip()
    if len(stripped) >= 2 and stripped[0] == stripped[-1] and stripped[0] in "'\"":
        return stripped[1:-1].replace(stripped[0] * 2, stripped[0])
    return stripped


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text == text.strip() and not isinstance(_scalar(text), bool | None):
        return text
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _scalar(text: str) -> Any:
    stripped = text.strip()
    if stripped[:1] in ("'", '"'):
        return _unquoted(stripped)
    if _INTEGER.fullmatch(stripped):
        return int(stripped)
    return _WORDS.get(stripped.lower(), stripped)
