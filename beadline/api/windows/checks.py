"""Checks that windows, triggers and assigners make of their arguments."""

from __future__ import annotations

from beadline.errors import ConfigurationError


def check_positive(value: int, name: str, owner: str, unit: str = "") -> int:
    """Returns ``value`` if it is a positive int."""
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ConfigurationError(f"The {name} of {owner} must be a positive int, not {f'{value!r} {unit}'.strip()}.")
    return value


def check_offset(offset: int, period: int, period_name: str, owner: str) -> int:
    """Returns ``offset`` if it is an int and smaller than the period it shifts."""
    if isinstance(offset, bool) or not isinstance(offset, int) or abs(offset) >= period:
        raise ConfigurationError(
            f"The offset of {owner} must be between -{period_name} and {period_name}, both excluded: "
            f"{offset!r} ms does not fit a {period_name} of {period} ms."
        )
    return offset
