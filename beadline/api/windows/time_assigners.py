"""Tumbling and sliding time windows.

Windows start at multiples of their size or slide since 1970-01-01 00:00 UTC, shifted by the offset. For days that begin
at midnight in UTC+8: ``TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from beadline.api.durations import as_milliseconds
from beadline.api.windows.assigner import WindowAssigner
from beadline.api.windows.checks import check_offset, check_positive
from beadline.api.windows.domains import InEventTime, InProcessingTime, TimeWindowAssigner
from beadline.api.windows.window import TimeWindow
from beadline.common.time import Duration, Time

T = TypeVar("T")


class _TumblingWindows(TimeWindowAssigner[T]):
    def __init__(self, size: int, offset: int) -> None:
        owner = type(self).__name__
        self._size = check_positive(size, "size", owner, "ms")
        self._offset = check_offset(offset, size, "size", owner)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        time = self._time_of(timestamp, context)
        start = TimeWindow.get_window_start_with_offset(time, self._offset, self._size)
        return [TimeWindow(start, start + self._size)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._offset})"


class _SlidingWindows(TimeWindowAssigner[T]):
    def __init__(self, size: int, slide: int, offset: int) -> None:
        owner = type(self).__name__
        self._size = check_positive(size, "size", owner, "ms")
        self._slide = check_positive(slide, "slide", owner, "ms")
        self._offset = check_offset(offset, slide, "slide", owner)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        """From the latest window to the earliest: none if the time is in the gap of a slide above the size."""
        time, size = self._time_of(timestamp, context), self._size
        last_start = TimeWindow.get_window_start_with_offset(time, self._offset, self._slide)
        return [TimeWindow(start, start + size) for start in range(last_start, time - size, -self._slide)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._size}, {self._slide}, {self._offset})"


class TumblingEventTimeWindows(InEventTime[T], _TumblingWindows[T]):
    """Windows of one size, one after the other, by the timestamps of the elements."""

    @staticmethod
    def of(size: Time | Duration, offset: Time | Duration | None = None) -> TumblingEventTimeWindows[Any]:
        """Windows of ``size``; ``offset`` shifts where they start."""
        return TumblingEventTimeWindows(as_milliseconds(size, "size"), _offset_millis(offset))


class TumblingProcessingTimeWindows(InProcessingTime[T], _TumblingWindows[T]):
    """Windows of one size, one after the other, by the wall clock."""

    @staticmethod
    def of(size: Time | Duration, offset: Time | Duration | None = None) -> TumblingProcessingTimeWindows[Any]:
        """Windows of ``size``; ``offset`` shifts where they start."""
        return TumblingProcessingTimeWindows(as_milliseconds(size, "size"), _offset_millis(offset))


class SlidingEventTimeWindows(InEventTime[T], _SlidingWindows[T]):
    """Windows of one size, a new one every slide, by the timestamps of the elements."""

    @staticmethod
    def of(
        size: Time | Duration, slide: Time | Duration, offset: Time | Duration | None = None
    ) -> SlidingEventTimeWindows[Any]:
        """Windows of ``size``, one every ``slide``; ``offset`` shifts where they start."""
        return SlidingEventTimeWindows(
            as_milliseconds(size, "size"), as_milliseconds(slide, "slide"), _offset_millis(offset)
        )


class SlidingProcessingTimeWindows(InProcessingTime[T], _SlidingWindows[T]):
    """Windows of one size, a new one every slide, by the wall clock."""

    @staticmethod
    def of(
        size: Time | Duration, slide: Time | Duration, offset: Time | Duration | None = None
    ) -> SlidingProcessingTimeWindows[Any]:
        """Windows of ``size``, one every ``slide``; ``offset`` shifts where they start."""
        return SlidingProcessingTimeWindows(
            as_milliseconds(size, "size"), as_milliseconds(slide, "slide"), _offset_millis(offset)
        )


def _offset_millis(offset: Time | Duration | None) -> int:
    return 0 if offset is None else as_milliseconds(offset, "offset")
