from enum import Enum

__all__ = ["TimeCharacteristic"]


class TimeCharacteristic(Enum):
    """The time that a program works in. Operators choose it themselves today, by their windows and timers."""

    ProcessingTime = 0
    """No watermarks are made before the end of the input: event time does not pass."""

    IngestionTime = 1
    """Refused: sources would stamp each record with the clock, and a replay would give it another time."""

    EventTime = 2
    """The default: watermarks come from the watermark strategies."""
