"""What a function learns about its subtask, and where it gets its state from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beadline.api.metrics import MetricGroup
    from beadline.api.state import AggregatingState, ListState, MapState, ReducingState, ValueState
    from beadline.api.state_descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )


class KeyedStateStore(ABC):
    """Hands out state by descriptor. The handle shows the entry of the key that is current when it is used.

    Only functions after a ``key_by`` have keyed state.
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """One value per key that added elements are folded into."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """One accumulator per key."""


class DistributedCache(ABC):
    """Files that the program registered by name. Not in PyFlink, which can register files but not get them."""

    @abstractmethod
    def get_file(self, name: str) -> str:
        """The path of a registered file or folder on this machine."""


class RuntimeContext(KeyedStateStore):
    """Given to ``open``: the place of this subtask in the job, its state, parameters and metrics."""

    @abstractmethod
    def get_task_name(self) -> str:
        """The name of the operator, for example ``"count"``."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """The parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """The number of key groups, which is the highest parallelism the operator can have."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """The number of this subtask, from 0 to parallelism - 1."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often the job has been restarted: 0 in the first run."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """The name with its place, counted from 1: ``"count (3/6)"``."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """The global job parameter ``key``, or ``default_value`` if it is not set."""

    @abstractmethod
    def get_distributed_cache(self) -> DistributedCache:
        """The files that the program registered with ``env.register_cached_file()``."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Where the function registers counters, gauges, meters and distributions."""
