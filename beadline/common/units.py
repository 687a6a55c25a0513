"""Durations and memory sizes as Flink's options write them: ``10 s``, ``64mb``."""

from __future__ import annotations

import re

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
