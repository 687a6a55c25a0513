"""Windows by time: tumbling, sliding and session windows, in event time and in processing time.

Tumbling and sliding windows start at multiples of their size or slide since 1970-01-01 00:00 UTC, shifted by the
offset. For days that begin at midnight in UTC+8: ``TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))``.
A session window lasts as long as elements follow each other closely enough.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from beadline.api.arguments import as_milliseconds, check_positive
from beadline.api.windows.assigner import (
    AssignerContext,
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    WindowAssigner,
)
from beadline.api.windows.trigger import Trigger
from beadline.api.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger
from beadline.api.windows.window import ShowsNumbers, TimeWindow, TimeWindowSerializer
from beadline.common.constants import MIN_LONG_VALUE
from beadline.common.serializer import TypeSerializer
from beadline.common.time import Duration, Time
from beadline.errors import ConfigurationError, GraphError, TypeMismatchError

T = TypeVar("T")


# -- the two clocks


class _TimeWindows(ShowsNumbers, WindowAssigner[T, TimeWindow]):
    """Goes by the time of an element, by one of the two clocks below."""

    @abstractmethod
    def _time_of(self, timestamp: int | None, context: AssignerContext) -> int:
        """The time of the element by the clock of the windows."""

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()


class _InEventTime(_TimeWindows[T]):
    """Goes by the timestamps of the elements."""

    def _time_of(self, timestamp: int | None, context: AssignerContext) -> int:
        if timestamp is None or timestamp <= MIN_LONG_VALUE:
            raise GraphError(
                f"An element without a timestamp came to {type(self).__name__}. Event-time windows need timestamps: "
                f"call stream.assign_timestamps_and_watermarks(...) with a timestamp assigner before the window."
            )
        return timestamp

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class _InProcessingTime(_TimeWindows[T]):
    """Goes by the wall clock."""

    def _time_of(self, timestamp: int | None, context: AssignerContext) -> int:
        return context.get_current_processing_time()

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


# -- tumbling and sliding windows


class _TumblingWindows(_TimeWindows[T]):
    def __init__(self, size: int, offset: int) -> None:
        owner = type(self).__name__
        self._size = check_positive(size, "size", owner, "ms")
        self._offset = _checked_offset(offset, size, "size", owner)

    def assign_windows(self, element: T, timestamp: int, context: AssignerContext) -> Collection[TimeWindow]:
        time = self._time_of(timestamp, context)
        start = TimeWindow.get_window_start_with_offset(time, self._offset, self._size)
        return [TimeWindow(start, start + self._size)]


class _SlidingWindows(_TimeWindows[T]):
    def __init__(self, size: int, slide: int, offset: int) -> None:
        owner = type(self).__name__
        self._size = check_positive(size, "size", owner, "ms")
        self._slide = check_positive(slide, "slide", owner, "ms")
        self._offset = _checked_offset(offset, slide, "slide", owner)

    def assign_windows(self, element: T, timestamp: int, context: AssignerContext) -> Collection[TimeWindow]:
        """From the latest window to the earliest: none if the time is in the gap of a slide above the size."""
        time, size = self._time_of(timestamp, context), self._size
        last_start = TimeWindow.get_window_start_with_offset(time, self._offset, self._slide)
        return [TimeWindow(start, start + size) for start in range(last_start, time - size, -self._slide)]


class TumblingEventTimeWindows(_InEventTime[T], _TumblingWindows[T]):
    """Windows of one size, one after the other, by the timestamps of the elements."""

    @staticmethod
    def of(size: Time | Duration, offset: Time | Duration | None = None) -> TumblingEventTimeWindows[Any]:
        return TumblingEventTimeWindows(*_milliseconds(offset, size=size))


class TumblingProcessingTimeWindows(_InProcessingTime[T], _TumblingWindows[T]):
    """Windows of one size, one after the other, by the wall clock."""

    @staticmethod
    def of(size: Time | Duration, offset: Time | Duration | None = None) -> TumblingProcessingTimeWindows[Any]:
        return TumblingProcessingTimeWindows(*_milliseconds(offset, size=size))


class SlidingEventTimeWindows(_InEventTime[T], _SlidingWindows[T]):
    """Windows of one size, a new one every slide, by the timestamps of the elements."""

    @staticmethod
    def of(
        size: Time | Duration, slide: Time | Duration, offset: Time | Duration | None = None
    ) -> SlidingEventTimeWindows[Any]:
        return SlidingEventTimeWindows(*_milliseconds(offset, size=size, slide=slide))


class SlidingProcessingTimeWindows(_InProcessingTime[T], _SlidingWindows[T]):
    """Windows of one size, a new one every slide, by the wall clock."""

    @staticmethod
    def of(
        size: Time | Duration, slide: Time | Duration, offset: Time | Duration | None = None
    ) -> SlidingProcessingTimeWindows[Any]:
        return SlidingProcessingTimeWindows(*_milliseconds(offset, size=size, slide=slide))


def _milliseconds(offset: Time | Duration | None, **lengths: Time | Duration) -> list[int]:
    """The lengths by their names, then the offset."""
    shift = 0 if offset is None else as_milliseconds(offset, "offset")
    return [*(as_milliseconds(length, name) for name, length in lengths.items()), shift]


def _checked_offset(offset: int, period: int, period_name: str, owner: str) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int) or abs(offset) >= period:
        raise ConfigurationError(
            f"The offset of {owner} must be between -{period_name} and {period_name}, both excluded: "
            f"{offset!r} ms does not fit a {period_name} of {period} ms."
        )
    return offset


# -- sessions


class _SessionWindows(_TimeWindows[T], MergingWindowAssigner[T, TimeWindow]):
    """Each element opens a window of its own up to the gap; windows that overlap or touch become one."""

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)


class _FixedGap(_SessionWindows[T]):
    def __init__(self, session_gap: int) -> None:
        self._session_gap = check_positive(session_gap, "gap", type(self).__name__, "ms")

    def assign_windows(self, element: T, timestamp: int, context: AssignerContext) -> Collection[TimeWindow]:
        start = self._time_of(timestamp, context)
        return [TimeWindow(start, start + self._session_gap)]


class _DynamicGap(_SessionWindows[T]):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        if not callable(getattr(session_window_time_gap_extractor, "extract", None)):
            raise TypeMismatchError(
                f"{type(self).__name__} needs a SessionWindowTimeGapExtractor, "
                f"not {type(session_window_time_gap_extractor).__name__}: {session_window_time_gap_extractor!r}."
            )
        self._extractor = session_window_time_gap_extractor

    def assign_windows(self, element: T, timestamp: int, context: AssignerContext) -> Collection[TimeWindow]:
        start = self._time_of(timestamp, context)
        gap = self._extractor.extract(element)
        if isinstance(gap, bool) or not isinstance(gap, int) or gap <= 0:
            raise ConfigurationError(
                f"{type(self._extractor).__name__}.extract must return a gap in milliseconds of more than 0, "
                f"not {gap!r} for element {element!r}."
            )
        return [TimeWindow(start, start + gap)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._extractor).__name__})"


class DynamicEventTimeSessionWindows(_InEventTime[T], _DynamicGap[T]):
    """Sessions by the timestamps of the elements, with a gap read off each element."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_InProcessingTime[T], _DynamicGap[T]):
    """Sessions by the wall clock, with a gap read off each element."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows[Any]:
        return DynamicProcessingTimeSessionWindows(extractor)


class EventTimeSessionWindows(_InEventTime[T], _FixedGap[T]):
    """Sessions by the timestamps of the elements, all with the same gap."""

    @staticmethod
    def with_gap(size: Time | Duration) -> EventTimeSessionWindows[Any]:
        """Sessions that end when no element follows for ``size``."""
        return EventTimeSessionWindows(as_milliseconds(size, "gap"))

    with_dynamic_gap = staticmethod(DynamicEventTimeSessionWindows.with_dynamic_gap)


class ProcessingTimeSessionWindows(_InProcessingTime[T], _FixedGap[T]):
    """Sessions by the wall clock, all with the same gap."""

    @staticmethod
    def with_gap(size: Time | Duration) -> ProcessingTimeSessionWindows[Any]:
        """Sessions that end when no element follows for ``size``."""
        return ProcessingTimeSessionWindows(as_milliseconds(size, "gap"))

    with_dynamic_gap = staticmethod(DynamicProcessingTimeSessionWindows.with_dynamic_gap)
