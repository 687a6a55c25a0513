"""What the text of an option means: durations and sizes (``10 s``, ``64mb``), lists and maps.

A list is written as ``[a, b]`` or ``a;b``, a map as ``{k: v}`` or ``k:v,l:w``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from beadline.errors import ConfigurationError

_NUMBER_AND_LABEL = re.compile(r"(\d+)\s*(.*)", re.ASCII | re.DOTALL)
_ISO_DURATION = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+)(?:\.(\d{1,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)

_MILLI = 1_000_000
_SECOND = 1000 * _MILLI
_MAX_NANOS = 2**63 * _SECOND

_TIME_LABELS: dict[str, int] = {
    label: nanos
    for labels, nanos in (
        ("d day days", 86400 * _SECOND),
        ("h hour hours", 3600 * _SECOND),
        ("m min minute minutes", 60 * _SECOND),
        ("s sec secs second seconds", _SECOND),
        ("ms milli millis millisecond milliseconds", _MILLI),
        ("µs micro micros microsecond microseconds", 1000),
        ("ns nano nanos nanosecond nanoseconds", 1),
    )
    for label in labels.split()
}

_MEMORY_LABELS: dict[str, int] = {
    label: size
    for labels, size in (
        ("b bytes", 1),
        ("k kb kibibytes", 1 << 10),
        ("m mb mebibytes", 1 << 20),
        ("g gb gibibytes", 1 << 30),
        ("t tb tebibytes", 1 << 40),
    )
    for label in labels.split()
}


def parse_duration_ms(text: str) -> int:
    """Whole milliseconds of ``10 s``, ``5min``, ``250`` (milliseconds) or ISO 8601's ``PT1M30S``; rest rounded down."""
    nanos = _parse_iso_duration(text.strip())
    if nanos is None:
        nanos = _number(text, _TIME_LABELS, "ms", "a duration", "'10 s', '5 min' or '250 ms'")
        if nanos >= _MAX_NANOS:
            raise ConfigurationError(f"{text!r} is too long for a duration.")
    return nanos // _MILLI


def parse_memory_bytes(text: str) -> int:
    """Bytes of ``64mb``, ``1 g`` or ``4096``; a unit is a power of 1024."""
    size = _number(text, _MEMORY_LABELS, "b", "a memory size", "'64mb', '1 gb' or '4096'")
    if size >= 2**63:
        raise ConfigurationError(f"{text!r} is more memory than 64 bits can count.")
    return size


def _number(text: str, labels: dict[str, int], default: str, what: str, examples: str) -> int:
    """A number times what its label stands for."""
    found = _NUMBER_AND_LABEL.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(f"{text!r} is not {what}. Write a whole number and a unit, such as {examples}.")
    label = found[2].lower() or default
    if label not in labels:
        raise ConfigurationError(f"{text!r} is not {what}: its unit {found[2]!r} is none of {list(labels)}.")
    return int(found[1]) * labels[label]


def _parse_iso_duration(text: str) -> int | None:
    found = _ISO_DURATION.fullmatch(text)
    if found is None or all(part is None for part in found.groups()[1:]) or (found[3] or "").upper() == "T":
        return None
    days, hours, minutes, seconds = (int(found[group] or 0) for group in (2, 4, 5, 6))
    fraction = int((found[7] or "").ljust(9, "0"))
    if (found[6] or "").startswith("-"):
        fraction = -fraction
    nanos = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * _SECOND + fraction
    return -nanos if found[1] == "-" else nanos


# -- lists and maps

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
