"""A window operator's contexts in memory: one key, its clocks, its timers and its state."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from beadline.api.metrics import MetricGroup
from beadline.api.windows.assigner import MergingWindowAssigner, WindowAssigner
from beadline.api.windows.trigger import Trigger, TriggerResult
from beadline.datastream.state import ReducingStateDescriptor, StateDescriptor


class Cell:
    """One piece of value or reducing state."""

    def __init__(self, descriptor: StateDescriptor) -> None:
        self._descriptor = descriptor
        self._value: Any = None

    def value(self) -> Any:
        return self._value

    get = value

    def update(self, value: Any) -> None:
        self._value = value

    def add(self, value: Any) -> None:
        assert isinstance(self._descriptor, ReducingStateDescriptor)
        reduce = self._descriptor.get_reduce_function().reduce
        self._value = value if self._value is None else reduce(self._value, value)

    def clear(self) -> None:
        self._value = None


class Key:
    """Everything that belongs to one key. Timers are ``(time, window)``."""

    def __init__(self) -> None:
        self.watermark = -(2**63)
        self.processing_time = 0
        self.event_timers: set[tuple[int, Any]] = set()
        self.processing_timers: set[tuple[int, Any]] = set()
        self.states: dict[tuple[Any, str], Cell] = {}
        self.metrics = MetricGroup()

    def cell(self, window: Any, descriptor: StateDescriptor) -> Cell:
        return self.states.setdefault((window, descriptor.name), Cell(descriptor))

    def remembered(self) -> dict[tuple[Any, str], Any]:
        return {place: cell.value() for place, cell in self.states.items() if cell.value() is not None}


class Pane(Trigger.OnMergeContext):
    """The trigger context of one window, also of one that came of a merge."""

    def __init__(self, key: Key, window: Any, merged: tuple[Any, ...] = ()) -> None:
        self.key = key
        self.window = window
        self.merged = merged

    def get_current_processing_time(self) -> int:
        return self.key.processing_time

    def get_metric_group(self) -> MetricGroup:
        return self.key.metrics

    def get_current_watermark(self) -> int:
        return self.key.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self.key.processing_timers.add((time, self.window))

    def register_event_time_timer(self, time: int) -> None:
        self.key.event_timers.add((time, self.window))

    def delete_processing_time_timer(self, time: int) -> None:
        self.key.processing_timers.discard((time, self.window))

    def delete_event_time_timer(self, time: int) -> None:
        self.key.event_timers.discard((time, self.window))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self.key.cell(self.window, state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        values = [self.key.cell(window, state_descriptor).value() for window in self.merged]
        for window in self.merged:
            self.key.cell(window, state_descriptor).clear()
        for value in values:
            if value is not None:
                self.key.cell(self.window, state_descriptor).add(value)


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """The assigner's context of one key; it is its own runtime context, as far as assigners need one."""

    def __init__(self, key: Key | None = None) -> None:
        self.key = key or Key()

    def get_current_processing_time(self) -> int:
        return self.key.processing_time

    def get_runtime_context(self) -> Any:
        return self

    def get_state(self, descriptor: StateDescriptor) -> Any:
        return self.key.cell("the key itself", descriptor)


class Merges(MergingWindowAssigner.MergeCallback[Any]):
    """Notes what was merged."""

    def __init__(self) -> None:
        self.by_result: dict[Any, set[Any]] = {}

    def merge(self, to_be_merged: Any, merge_result: Any) -> None:
        assert merge_result not in self.by_result
        self.by_result[merge_result] = set(to_be_merged)


def advance_watermark(trigger: Trigger[Any, Any], key: Key, to: int) -> list[tuple[int, Any, TriggerResult]]:
    """Moves the watermark and returns what each timer that fired led to, in the order of time."""
    key.watermark = to
    return _fire(trigger.on_event_time, key.event_timers, key, to)


def advance_clock(trigger: Trigger[Any, Any], key: Key, to: int) -> list[tuple[int, Any, TriggerResult]]:
    """Moves the wall clock and returns what each timer that fired led to, in the order of time."""
    key.processing_time = to
    return _fire(trigger.on_processing_time, key.processing_timers, key, to)


def _fire(call: Any, timers: set[tuple[int, Any]], key: Key, to: int) -> list[tuple[int, Any, TriggerResult]]:
    fired: list[tuple[int, Any, TriggerResult]] = []
    seen: dict[tuple[int, Any], int] = defaultdict(int)
    while due := [timer for timer in timers if timer[0] <= to]:
        timer = min(due, key=lambda timer: timer[0])
        timers.remove(timer)
        seen[timer] += 1
        assert seen[timer] == 1, f"{timer} is set again as soon as it fires"
        fired.append((*timer, call(timer[0], timer[1], Pane(key, timer[1]))))
    return fired
