"""The contexts of assigners, triggers and window functions."""

from __future__ import annotations

from typing import Any

from beadline.api.metrics import MetricGroup
from beadline.api.runtime_context import KeyedStateStore, RuntimeContext
from beadline.api.state_descriptors import StateDescriptor
from beadline.api.window_functions import ProcessAllWindowFunction, ProcessWindowFunction
from beadline.api.windows.assigner import WindowAssigner
from beadline.api.windows.trigger import Trigger
from beadline.errors import StateAccessError
from beadline.runtime.functions.context import Clock
from beadline.state.access.backend import KeyedBackend


class AssignerContext(WindowAssigner.WindowAssignerContext):
    def __init__(self, clock: Clock, context: RuntimeContext) -> None:
        self._clock = clock
        self._context = context

    def get_current_processing_time(self) -> int:
        return self._clock.now

    def get_runtime_context(self) -> RuntimeContext:
        return self._context


class TriggerCallContext(Trigger.OnMergeContext):
    """Clocks, timers and state of the window that the operator has entered."""

    def __init__(self, clock: Clock, backend: KeyedBackend, metrics: MetricGroup) -> None:
        self._clock = clock
        self._backend = backend
        self._scope = backend.window_scope
        self._metrics = metrics
        self.merged: list[Any] = []

    def begin(self) -> None:
        self._event = self._backend.event_timers
        self._processing = self._backend.processing_timers

    def get_current_processing_time(self) -> int:
        return self._clock.now

    def get_metric_group(self) -> MetricGroup:
        return self._metrics

    def get_current_watermark(self) -> int:
        return self._clock.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self._processing.register(time, self._scope.slot)

    def register_event_time_timer(self, time: int) -> None:
        self._event.register(time, self._scope.slot)

    def delete_processing_time_timer(self, time: int) -> None:
        self._processing.delete(time, self._scope.slot)

    def delete_event_time_timer(self, time: int) -> None:
        self._event.delete(time, self._scope.slot)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._backend.state(state_descriptor, windowed=True)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        handle = self._backend.state(state_descriptor, windowed=True)
        merge = getattr(handle, "merge_slots", None)
        if merge is None:
            raise StateAccessError(
                f"state '{state_descriptor.name}' of a trigger can't be merged: use reducing, aggregating or list state"
            )
        merge(self.merged, self._scope.slot)


class _WindowState(KeyedStateStore):
    def __init__(self, backend: KeyedBackend, windowed: bool) -> None:
        self._backend = backend
        self._windowed = windowed

    def _state(self, state_descriptor: Any) -> Any:
        return self._backend.state(state_descriptor, self._windowed)

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = _state


class WindowCallContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    def __init__(self, clock: Clock, backend: KeyedBackend) -> None:
        self._clock = clock
        self._of_window = _WindowState(backend, windowed=True)
        self._of_key = _WindowState(backend, windowed=False)
        self.current: Any = None

    def window(self) -> Any:
        return self.current

    def current_processing_time(self) -> int:
        return self._clock.now

    def current_watermark(self) -> int:
        return self._clock.watermark

    def window_state(self) -> KeyedStateStore:
        return self._of_window

    def global_state(self) -> KeyedStateStore:
        return self._of_key
