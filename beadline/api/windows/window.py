"""The windows that elements are grouped by, and their serializers."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import total_ordering
from io import BytesIO
from typing import TYPE_CHECKING

from beadline.common.constants import MAX_LONG_VALUE
from beadline.common.serializer import TypeSerializer
from beadline.errors import SerializationError

if TYPE_CHECKING:
    from beadline.api.windows.assigner import MergingWindowAssigner


class ShowsNumbers:
    """Shows itself with the numbers that it was made with: ``TumblingEventTimeWindows(5000, 0)``."""

    def __repr__(self) -> str:
        numbers = [repr(value) for value in vars(self).values() if isinstance(value, int | float)]
        return f"{type(self).__name__}({', '.join(numbers)})"


class Window(ABC):
    """A finite group of elements. Windows are used as keys: they must be hashable and equal by content."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest event time that still belongs to the window: when the watermark is there, it is complete."""


@total_ordering
class TimeWindow(Window):
    """The times from ``start`` up to, and without, ``end``, in milliseconds."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the two overlap or touch; sessions that touch are one session."""
        return self.start <= other.end and other.start <= self.end

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window of ``timestamp``, where windows start at ``offset`` plus multiples of their size."""
        # Python's % is never negative for a positive size, so times before 1970 need no case of their own.
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Calls ``callback.merge`` once for each group of several windows that overlap or touch."""
        group: set[TimeWindow] = set()
        covering: TimeWindow | None = None
        for window in sorted(windows):
            if covering is not None and covering.intersects(window):
                covering = covering.cover(window)
                group.add(window)
                continue
            if covering is not None and len(group) > 1:
                callback.merge(group, covering)
            covering, group = window, {window}
        if covering is not None and len(group) > 1:
            callback.merge(group, covering)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and self.start == other.start and self.end == other.end

    def __lt__(self, other: TimeWindow) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return (self.start, self.end) < (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class CountWindow(Window):
    """The window with the number ``id`` among the count windows of a key."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        return MAX_LONG_VALUE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    def __hash__(self) -> int:
        return hash(("count", self.id))

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The one window that holds everything; all objects of this class are equal."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        return GlobalWindow()

    def max_timestamp(self) -> int:
        return MAX_LONG_VALUE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow()"


# -- how windows are written: big-endian integers of fixed width, so that bytes sort and compare like windows

_TWO_LONGS = struct.Struct(">qq")
_LONG = struct.Struct(">q")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Writes a time window as 16 bytes: start and end."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(_read(stream, _TWO_LONGS.size, "TimeWindow")))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Writes a count window as 8 bytes: its number."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(*_LONG.unpack(_read(stream, _LONG.size, "CountWindow")))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Writes the global window as one zero byte."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        _read(stream, 1, "GlobalWindow")
        return GlobalWindow.get()


def _read(stream: BytesIO, size: int, what: str) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise SerializationError(f"A {what} takes {size} bytes, but only {len(data)} were left to read.")
    return data
