"""The window assigners that come with Beadline: by time, by count, and one window for everything.

Tumbling and sliding windows start at multiples of their size or slide since 1970-01-01 00:00 UTC, shifted by the
offset. For days that begin at midnight in UTC+8: ``TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))``.
A session window lasts as long as elements follow each other closely enough.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from beadline.api.arguments import as_milliseconds, check_positive
from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.api.windows.assigner import (
    AssignerContext,
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    WindowAssigner,
)
from beadline.api.windows.trigger import Trigger
from beadline.api.windows.triggers import CountTrigger, EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger
from beadline.api.windows.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    ShowsNumbers,
    TimeWindow,
    TimeWindowSerializer,
)
from beadline.common.constants import MIN_LONG_VALUE
from beadline.common.serializer import TypeSerializer
from beadline.common.time import Duration, Time
from beadline.common.typeinfo import Types
from beadline.errors import ConfigurationError, GraphError, TypeMismatchError

T = TypeVar("T")


# -- windows by time, after one of two clocks


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


# -- windows by count, and the one window for everything


class _CountWindows(ShowsNumbers, WindowAssigner[T, CountWindow]):
    """Numbers the elements of each key from 0 and assigns by that number."""

    _window_size: int
    _count_descriptor: ValueStateDescriptor

    def _next_number(self, context: AssignerContext) -> int:
        count = context.get_runtime_context().get_state(self._count_descriptor)
        number: int = count.value() or 0
        count.update(number + 1)
        return number

    def get_default_trigger(self, env: Any) -> Trigger[T, CountWindow]:
        return CountTrigger(self._window_size)

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Every ``window_size`` elements of a key make a window."""

    def __init__(self, window_size: int) -> None:
        self._window_size = check_positive(window_size, "window_size", "CountTumblingWindowAssigner")
        self._count_descriptor = ValueStateDescriptor("tumble-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Any]:
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(self, element: T, timestamp: int, context: AssignerContext) -> Collection[CountWindow]:
        return [CountWindow(self._next_number(context) // self._window_size)]


class CountSlidingWindowAssigner(_CountWindows[T]):
    """A window of ``window_size`` elements begins every ``window_slide`` elements of a key."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        self._window_size = check_positive(window_size, "window_size", "CountSlidingWindowAssigner")
        self._window_slide = check_positive(window_slide, "window_slide", "CountSlidingWindowAssigner")
        self._count_descriptor = ValueStateDescriptor("slide-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Any]:
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(self, element: T, timestamp: int, context: AssignerContext) -> Collection[CountWindow]:
        # Window i holds the numbers from i * slide up to i * slide + size - 1.
        number = self._next_number(context)
        newest = number // self._window_slide
        oldest = max(0, (number - self._window_size) // self._window_slide + 1)
        return [CountWindow(i) for i in range(newest, oldest - 1, -1)]


class GlobalWindows(ShowsNumbers, WindowAssigner[T, GlobalWindow]):
    """Puts everything in one window that never ends; give it a trigger, or nothing comes out."""

    @staticmethod
    def create() -> GlobalWindows[Any]:
        return GlobalWindows()

    def assign_windows(self, element: T, timestamp: int, context: AssignerContext) -> Collection[GlobalWindow]:
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> Trigger[T, GlobalWindow]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False
