"""Reading and writing the options of checkpoints and state backends.

A program may set an option by a method or by its key; both end up in one ``Configuration``, which also knows the keys
that older Flink versions had.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from beadline.common.configuration import Configuration
from beadline.errors import ConfigurationError

E = TypeVar("E", bound=Enum)


def write(configuration: Configuration, key: str, value: str | int | bool | None) -> None:
    """Sets ``key`` to a text that a configuration file could hold as well; None leaves it as it is."""
    if value is not None:
        configuration.set_string(key, str(value).lower() if isinstance(value, bool) else str(value))


def read_milliseconds(configuration: Configuration, key: str, default: int) -> int:
    number = configuration.get_duration_ms(key, None)
    return default if number is None else at_least(0, number, key)


def read_int(configuration: Configuration, key: str, default: int, minimum: int) -> int:
    number = configuration.get_integer(key, None)
    return default if number is None else at_least(minimum, number, key)


def read_bytes(configuration: Configuration, key: str, default: int, maximum: int = 2**63 - 1) -> int:
    """The memory size under ``key``, in bytes, which must not be more than ``maximum``."""
    number = configuration.get_memory_bytes(key, None)
    if number is not None and number > maximum:
        raise ConfigurationError(f"{key} must be at most {maximum} bytes, not {number}.")
    return default if number is None else number


def member_of(enum: type[E], value: object, what: str) -> E:
    if isinstance(value, enum):
        return value
    names = ", ".join(f"{enum.__name__}.{name}" for name in enum.__members__)
    raise ConfigurationError(f"The {what} must be one of {names}, not {value!r}.")


def truth(value: object, what: str) -> bool:
    if isinstance(value, bool):
        return value
    raise ConfigurationError(f"The {what} must be True or False, not {value!r}.")


def at_least(minimum: int, value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigurationError(f"{what} must be a whole number of at least {minimum}, not {value!r}.")
    return value
