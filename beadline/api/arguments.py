"""Checks of what programs pass in."""

from __future__ import annotations

from typing import Any

from beadline.common.time import Duration, Time
from beadline.errors import ConfigurationError, TypeMismatchError


def as_milliseconds(value: Any, what: str) -> int:
    """The milliseconds of a ``Time`` or ``Duration``; ``what`` names the value in the error if it is neither."""
    if isinstance(value, Time):
        return value.to_milliseconds()
    if isinstance(value, Duration):
        return value.to_millis()
    hint = f"Time.milliseconds({value})" if isinstance(value, int) else "Time.seconds(10)"
    raise TypeMismatchError(
        f"The {what} must be a Time or a Duration, not {type(value).__name__}: {value!r}. Write for example {hint}."
    )


def check_positive(value: int, name: str, owner: str, unit: str = "") -> int:
    """Returns ``value`` if it is a positive int."""
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ConfigurationError(f"The {name} of {owner} must be a positive int, not {f'{value!r} {unit}'.strip()}.")
    return value
