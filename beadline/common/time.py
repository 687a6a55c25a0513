"""Lengths of time and points in time."""

from __future__ import annotations

__all__ = ["Duration", "Instant", "Time"]

_NANOS_PER_MILLI = 1_000_000
_NANOS_PER_SECOND = 1_000_000_000


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r} of type {type(value).__name__}.")
    return value


class Duration:
    """A length of time, exact to the nanosecond: ``Duration.of_seconds(20)``."""

    __slots__ = ("_nanos",)

    def __init__(self, nanos: int) -> None:
        self._nanos = _whole("nanos", nanos)

    @staticmethod
    def of_days(days: int) -> Duration:
        return Duration.of_hours(_whole("days", days) * 24)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        return Duration.of_minutes(_whole("hours", hours) * 60)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        return Duration(_whole("millis", millis) * _NANOS_PER_MILLI)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        return Duration.of_seconds(_whole("minutes", minutes) * 60)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        return Duration(nanos)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        return Duration(_whole("seconds", seconds) * _NANOS_PER_SECOND)

    def to_millis(self) -> int:
        """The length in whole milliseconds, rounded down."""
        return self._nanos // _NANOS_PER_MILLI

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self._nanos == other._nanos

    def __hash__(self) -> int:
        return hash((Duration, self._nanos))

    def __repr__(self) -> str:
        if self._nanos % _NANOS_PER_MILLI:
            return f"Duration<{self._nanos} ns>"
        return f"Duration<{self.to_millis()} ms>"


class Instant:
    """A point on the time line: whole seconds since 1970-01-01T00:00Z, and 0 to 999,999,999 nanoseconds after them."""

    __slots__ = ("nanos", "seconds")

    def __init__(self, seconds: int, nanos: int) -> None:
        self.seconds = seconds
        self.nanos = nanos

    def to_epoch_milli(self) -> int:
        """Milliseconds since 1970-01-01T00:00Z, rounded down."""
        return self.seconds * 1000 + self.nanos // _NANOS_PER_MILLI

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instant) and (self.seconds, self.nanos) == (other.seconds, other.nanos)

    def __hash__(self) -> int:
        return hash((self.seconds, self.nanos))

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


class Time:
    """A length of time in whole milliseconds, for windows and time-to-live: ``Time.minutes(5)``."""

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def to_milliseconds(self) -> int:
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        return Time.seconds(minutes * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        return Time.minutes(hours * 60)

    @staticmethod
    def days(days: int) -> Time:
        return Time.hours(days * 24)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self._milliseconds == other._milliseconds

    def __hash__(self) -> int:
        return hash((Time, self._milliseconds))

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"

    def __repr__(self) -> str:
        return f"Time<{self._milliseconds} ms>"
