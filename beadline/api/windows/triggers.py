"""The triggers that come with Beadline."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from beadline.api.arguments import as_milliseconds, check_positive
from beadline.api.state_descriptors import ReducingStateDescriptor, ValueStateDescriptor
from beadline.api.windows.trigger import Trigger, TriggerResult, W
from beadline.api.windows.window import CountWindow, GlobalWindow, ShowsNumbers, TimeWindow, Window
from beadline.common.time import Duration, Time
from beadline.common.typeinfo import TypeInformation, Types
from beadline.errors import GraphError, TypeMismatchError

T = TypeVar("T")


class _WithoutTimers(ShowsNumbers, Trigger[T, W]):
    """Nothing happens at timers, unless a trigger says otherwise for its kind."""

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE


class _AtTheEnd(_WithoutTimers[T, TimeWindow]):
    """Fires when its clock passes the end of the window."""

    def can_merge(self) -> bool:
        return True


class EventTimeTrigger(_AtTheEnd[T]):
    """Fires when the watermark passes the end of the window, and again for each late element that is still allowed."""

    @staticmethod
    def create() -> EventTimeTrigger[Any]:
        return EventTimeTrigger()

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        # If the watermark is already past the merged window, on_element fires it.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(_AtTheEnd[T]):
    """Fires when the wall clock passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger[Any]:
        return ProcessingTimeTrigger()

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class _Continuous(_WithoutTimers[T, TimeWindow]):
    """Keeps the time at which it fires next in its state, with a timer for it."""

    def __init__(self, interval: int) -> None:
        self.interval = check_positive(interval, "interval", type(self).__name__, "ms")
        self._fire_time = ReducingStateDescriptor("fire-time", min, Types.LONG())

    @abstractmethod
    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Sets a timer of its clock."""

    @abstractmethod
    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        """Takes such a timer back."""

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._fire_time)
        fire_time = ctx.get_partitioned_state(self._fire_time).get()
        if fire_time is not None:
            self._register(fire_time, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        fire_time = ctx.get_partitioned_state(self._fire_time)
        if fire_time.get() is not None:
            self._delete(fire_time.get(), ctx)
            fire_time.clear()

    def _set_first(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        if ctx.get_partitioned_state(self._fire_time).get() is None:
            self._set_next(time - time % self.interval, window, ctx)
        return TriggerResult.CONTINUE

    def _fire(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        fire_time = ctx.get_partitioned_state(self._fire_time)
        if fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        # A timer after the window's end would be due at once, again and again.
        if time < window.max_timestamp():
            self._set_next(time, window, ctx)
        return TriggerResult.FIRE

    def _set_next(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        next_time = min(time + self.interval, window.max_timestamp())
        ctx.get_partitioned_state(self._fire_time).add(next_time)
        self._register(next_time, ctx)


class ContinuousEventTimeTrigger(_Continuous[T]):
    """Fires at every multiple of an interval that the watermark passes, and at the end of the window."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousEventTimeTrigger[Any]:
        return ContinuousEventTimeTrigger(as_milliseconds(interval, "interval"))

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return self._set_first(timestamp, window, ctx)

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else self._fire(time, window, ctx)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())
        super().clear(window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_Continuous[T]):
    """Fires at every multiple of an interval that the wall clock passes."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousProcessingTimeTrigger[Any]:
        return ContinuousProcessingTimeTrigger(as_milliseconds(interval, "interval"))

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._set_first(ctx.get_current_processing_time(), window, ctx)

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._fire(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


class CountTrigger(_WithoutTimers[T, CountWindow]):
    """Fires whenever the window has got ``window_size`` more elements."""

    def __init__(self, window_size: int) -> None:
        self._window_size = check_positive(window_size, "window_size", "CountTrigger")
        self._count = ReducingStateDescriptor("count", operator.add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger[Any]:
        return CountTrigger(window_size)

    def on_element(self, element: T, timestamp: int, window: CountWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: CountWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: CountWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()


class DeltaTrigger(_WithoutTimers[T, Window]):
    """Fires when an element is further than a threshold from the last one it fired for, or else from the first one."""

    def __init__(
        self,
        threshold: float,
        delta_function: Callable[[T, T], float],
        state_type: TypeInformation | None = None,
    ) -> None:
        if isinstance(threshold, bool) or not isinstance(threshold, int | float):
            raise TypeMismatchError(f"The threshold of a DeltaTrigger must be a number, not {threshold!r}.")
        if not callable(delta_function):
            raise TypeMismatchError(
                f"The delta function of a DeltaTrigger takes two elements and returns their distance; it can't be "
                f"{delta_function!r}. Write for example DeltaTrigger.of(10.0, lambda old, new: new[1] - old[1])."
            )
        self._threshold = threshold
        self._delta_function = delta_function
        self._last = ValueStateDescriptor("last-element", state_type or Types.PICKLED_BYTE_ARRAY())

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[Any, Any], float], state_type: TypeInformation | None = None
    ) -> DeltaTrigger[Any]:
        """Fires if ``delta_function(last element, new element)`` is more than ``threshold``.

        :param state_type: the type of the elements, one of which is kept for each key and window
        """
        return DeltaTrigger(threshold, delta_function, state_type)

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        last = ctx.get_partitioned_state(self._last)
        known = last.value()
        if known is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if self._delta_function(known, element) > self._threshold:
            last.update(element)
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        raise GraphError(
            "DeltaTrigger can't be used with merging windows: each has its own last element, and none counts for both."
        )

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()


class PurgingTrigger(Trigger[T, Window]):
    """Fires when its nested trigger fires, and empties the window each time."""

    def __init__(self, nested_trigger: Trigger[T, Any]) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise TypeMismatchError(
                f"PurgingTrigger.of takes a Trigger, not {type(nested_trigger).__name__}: {nested_trigger!r}. "
                f"Write for example PurgingTrigger.of(CountTrigger.of(10))."
            )
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, Any]) -> PurgingTrigger[T]:
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


class NeverTrigger(_WithoutTimers[T, GlobalWindow]):
    """Never fires: the default of :class:`GlobalWindows`, which therefore need a trigger of your choice."""

    def on_element(
        self, element: T, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: GlobalWindow, ctx: Trigger.OnMergeContext) -> None:
        pass

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        pass


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
