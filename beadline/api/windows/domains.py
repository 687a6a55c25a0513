"""The two clocks that time windows follow: what an assigner does differently in event time and in processing time."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

from beadline.api.windows.assigner import WindowAssigner
from beadline.api.windows.serializers import TimeWindowSerializer
from beadline.api.windows.trigger import Trigger
from beadline.api.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger
from beadline.api.windows.window import TimeWindow
from beadline.common.constants import MIN_LONG_VALUE
from beadline.common.serializer import TypeSerializer
from beadline.errors import GraphError

T = TypeVar("T")


class TimeWindowAssigner(WindowAssigner[T, TimeWindow]):
    """An assigner that looks at the time of an element, by one of the two clocks below."""

    @abstractmethod
    def _time_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> int:
        """The time of the element by the clock of the windows."""

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()


class InEventTime(TimeWindowAssigner[T]):
    """Goes by the timestamps of the elements."""

    def _time_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> int:
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


class InProcessingTime(TimeWindowAssigner[T]):
    """Goes by the wall clock."""

    def _time_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> int:
        return context.get_current_processing_time()

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False
