"""What all sinks of users need: copies of their own, a runtime context, and rows that hold records as they are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import cloudpickle

from beadline.api.function import Function
from beadline.api.runtime_context import DistributedCache, RuntimeContext
from beadline.api.sinks import SinkContext
from beadline.errors import StateAccessError, UnsupportedFeatureError

T = TypeVar("T")


def as_rows(records: list[Any], timestamps: list[int] | None) -> list[Any]:
    """Records with their timestamps."""
    times: Sequence[int | None] = timestamps or [None] * len(records)
    return list(zip(records, times, strict=True))


def values_of(batches: Iterator[list[Any]]) -> Iterator[tuple[Any, SinkContext]]:
    for batch in batches:
        for value, timestamp in batch:
            yield value, SinkContext(timestamp)


def copy_of(function: T) -> T:
    """Several threads of the driver call a sink at a time: each has a copy, as tasks have."""
    copied: T = cloudpickle.loads(cloudpickle.dumps(function, 5))
    return copied


@contextlib.contextmanager
def opened(function: Function, subtask: int) -> Iterator[None]:
    function.open(OutsideContext(type(function).__name__, subtask))
    try:
        yield
    finally:
        function.close()


class OutsideContext(RuntimeContext):
    """A sink has no state, and no fixed place: only the number of the subtask whose records it gets."""

    def __init__(self, name: str, subtask: int) -> None:
        self._name = name
        self._subtask = subtask

    def get_task_name(self) -> str:
        return self._name

    def get_index_of_this_subtask(self) -> int:
        return self._subtask

    def get_task_name_with_subtasks(self) -> str:
        return f"{self._name} ({self._subtask + 1})"

    def get_attempt_number(self) -> int:
        return 0

    def get_job_parameter(self, key: str, default_value: str) -> NoReturn:
        raise _unknown("job parameters: hand them to its constructor")

    def get_number_of_parallel_subtasks(self) -> NoReturn:
        raise _unknown("the parallelism")

    def get_max_number_of_parallel_subtasks(self) -> NoReturn:
        raise _unknown("the parallelism")

    def get_distributed_cache(self) -> DistributedCache:
        raise _unknown("cached files: hand their paths to its constructor")

    def get_metrics_group(self) -> NoReturn:
        raise _unknown("metrics")

    def _no_state(self, state_descriptor: Any) -> NoReturn:
        raise StateAccessError(
            f"the sink {self._name} can't have state: it runs outside of the steps. Keep it in a function before"
        )

    get_state = get_list_state = get_map_state = get_reducing_state = get_aggregating_state = _no_state


def _unknown(what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"a sink runs outside of the steps, and does not know {what}")
