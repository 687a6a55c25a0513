"""Session windows: a window lasts as long as elements follow each other closely enough."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from beadline.api.durations import as_milliseconds
from beadline.api.windows.assigner import MergingWindowAssigner, SessionWindowTimeGapExtractor, WindowAssigner
from beadline.api.windows.checks import check_positive
from beadline.api.windows.domains import InEventTime, InProcessingTime, TimeWindowAssigner
from beadline.api.windows.window import TimeWindow
from beadline.common.time import Duration, Time
from beadline.errors import ConfigurationError, TypeMismatchError

T = TypeVar("T")


class _SessionWindows(TimeWindowAssigner[T], MergingWindowAssigner[T, TimeWindow]):
    """Each element opens a window of its own up to the gap; windows that overlap or touch become one."""

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)


class _FixedGap(_SessionWindows[T]):
    def __init__(self, session_gap: int) -> None:
        self._session_gap = check_positive(session_gap, "gap", type(self).__name__, "ms")

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        start = self._time_of(timestamp, context)
        return [TimeWindow(start, start + self._session_gap)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_gap})"


class _DynamicGap(_SessionWindows[T]):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        if not callable(getattr(session_window_time_gap_extractor, "extract", None)):
            raise TypeMismatchError(
                f"{type(self).__name__} needs a SessionWindowTimeGapExtractor, "
                f"not {type(session_window_time_gap_extractor).__name__}: {session_window_time_gap_extractor!r}."
            )
        self._extractor = session_window_time_gap_extractor

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
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


class EventTimeSessionWindows(InEventTime[T], _FixedGap[T]):
    """Sessions by the timestamps of the elements, all with the same gap."""

    @staticmethod
    def with_gap(size: Time | Duration) -> EventTimeSessionWindows[Any]:
        """Sessions that end when no element follows for ``size``."""
        return EventTimeSessionWindows(as_milliseconds(size, "gap"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        """Sessions whose gap is read off each element."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(InProcessingTime[T], _FixedGap[T]):
    """Sessions by the wall clock, all with the same gap."""

    @staticmethod
    def with_gap(size: Time | Duration) -> ProcessingTimeSessionWindows[Any]:
        """Sessions that end when no element follows for ``size``."""
        return ProcessingTimeSessionWindows(as_milliseconds(size, "gap"))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows[Any]:
        """Sessions whose gap is read off each element."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(InEventTime[T], _DynamicGap[T]):
    """Sessions by the timestamps of the elements, with a gap read off each element."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        """Sessions whose gap is read off each element."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(InProcessingTime[T], _DynamicGap[T]):
    """Sessions by the wall clock, with a gap read off each element."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows[Any]:
        """Sessions whose gap is read off each element."""
        return DynamicProcessingTimeSessionWindows(extractor)
