"""What user functions are handed: the runtime context in ``open``, and the context of a call."""

from __future__ import annotations

from typing import Any, NoReturn

from beadline.api.metrics import MetricGroup
from beadline.api.process import CoProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction, ProcessFunction
from beadline.api.runtime_context import DistributedCache, RuntimeContext
from beadline.api.state_descriptors import StateDescriptor
from beadline.api.time_domain import TimeDomain
from beadline.api.timer_service import TimerService
from beadline.errors import StateAccessError, TypeMismatchError
from beadline.graph.plan import PlanNode
from beadline.runtime.exchange.gate import MIN_WATERMARK
from beadline.runtime.worker.surroundings import current_surroundings
from beadline.state.access.backend import KeyedBackend
from beadline.state.access.keyed import Scope
from beadline.state.key_groups import BoxedKey


class SubtaskContext(RuntimeContext):
    def __init__(
        self, node: PlanNode, subtask: int, backend: KeyedBackend | None, parameters: dict[str, str], attempt: int
    ) -> None:
        self._node = node
        self._subtask = subtask
        self._backend = backend
        self._parameters = parameters
        self._attempt = attempt
        self.metrics = MetricGroup()

    def __repr__(self) -> str:
        return f"<RuntimeContext of {self.get_task_name_with_subtasks()}>"

    def get_task_name(self) -> str:
        return self._node.name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._node.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._node.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._subtask

    def get_attempt_number(self) -> int:
        return self._attempt

    def get_task_name_with_subtasks(self) -> str:
        return f"{self._node.name} ({self._subtask + 1}/{self._node.parallelism})"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._parameters.get(key, default_value)

    def get_distributed_cache(self) -> DistributedCache:
        return _ShippedFiles()

    def get_metrics_group(self) -> MetricGroup:
        return self.metrics

    def _state(self, state_descriptor: Any) -> Any:
        descriptor: StateDescriptor = state_descriptor
        if self._backend is None:
            raise StateAccessError(
                f"operator '{self._node.name}' asks for state '{descriptor.name}': "
                "This state is only accessible by functions executed on a KeyedStream. Put a "
                "key_by() before the operator."
            )
        return self._backend.state(descriptor)

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = _state

    def _no_operator_state(self, *_: Any) -> NoReturn:
        raise StateAccessError(
            f"operator '{self._node.name}' asks its runtime context for operator state. Let the function inherit from "
            "CheckpointedFunction too, and get it from context.get_operator_state_store() in initialize_state(context)."
        )

    get_operator_state_store = get_union_list_state = get_broadcast_state = _no_operator_state


class _ShippedFiles(DistributedCache):
    def get_file(self, name: str) -> str:
        return current_surroundings().cached_file(name)


class Clock(TimerService):
    """The timer service of an operator without a key: it tells the time and refuses timers."""

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self.now = 0
        self.watermark = MIN_WATERMARK

    def current_processing_time(self) -> int:
        return self.now

    def current_watermark(self) -> int:
        return self.watermark

    def _refuse(self, timestamp: int) -> None:
        raise StateAccessError(
            f"operator '{self._operator}': Register timers is only supported on a keyed stream. "
            "Put a key_by() before the operator."
        )

    register_processing_time_timer = register_event_time_timer = _refuse
    delete_processing_time_timer = delete_event_time_timer = _refuse


class KeyedClock(Clock):
    def __init__(self, operator: str, backend: KeyedBackend) -> None:
        super().__init__(operator)
        self._backend = backend

    def _time(self, timestamp: Any) -> int:
        if not isinstance(timestamp, int):
            raise TypeMismatchError(
                f"operator '{self._operator}': a timer needs an int in milliseconds, "
                f"got {type(timestamp).__name__}: {timestamp!r}"
            )
        return timestamp

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._backend.processing_timers.register(self._time(timestamp), self._backend.scope.slot)

    def register_event_time_timer(self, timestamp: int) -> None:
        self._backend.event_timers.register(self._time(timestamp), self._backend.scope.slot)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._backend.processing_timers.delete(self._time(timestamp), self._backend.scope.slot)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._backend.event_timers.delete(self._time(timestamp), self._backend.scope.slot)


class _Call:
    """The time of the current record or timer, and the clocks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.time = MIN_WATERMARK  # what Flink shows for a record without a timestamp

    def timer_service(self) -> TimerService:
        return self._clock

    def timestamp(self) -> int:
        return self.time


class WithKey:
    """The current key, and the clock that its timer followed."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.domain = TimeDomain.EVENT_TIME

    def get_current_key(self) -> Any:
        slot = self._scope.slot
        return slot.copied() if slot.__class__ is BoxedKey else slot

    def time_domain(self) -> TimeDomain:
        return self.domain


class CallContext(_Call, ProcessFunction.Context, CoProcessFunction.Context):
    """The context of ``process_element`` without a key."""


class KeyedCallContext(_Call, WithKey, KeyedProcessFunction.OnTimerContext, KeyedCoProcessFunction.OnTimerContext):
    """The context of ``process_element`` and ``on_timer`` with a key."""

    def __init__(self, clock: KeyedClock, backend: KeyedBackend) -> None:
        _Call.__init__(self, clock)
        WithKey.__init__(self, backend.scope)
