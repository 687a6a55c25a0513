"""Workers die while functions hold operator state, and nothing of it is lost or counted twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Types
from beadline.datastream import (
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedBroadcastProcessFunction,
    RuntimeContext,
)
from beadline.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.engine.jobs import ANY, KEYS, KILL_AT, STEP, accidents, environment, key_of, kill_worker, numbers, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDS = 6 * STEP
BATCH = 7
RULES = MapStateDescriptor("rules", Types.STRING(), ANY)


class Batches(FlatMapFunction, CheckpointedFunction):
    """Holds numbers back until there are seven, and numbers what it lets go. At some, the worker is killed."""

    def __init__(self, marker: Path, at: tuple[int, ...]) -> None:
        self._accidents = accidents(marker, at)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._state = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting", ANY))
        held = list(self._state.get())
        self._count, self._waiting = held[0] if held else (0, [])

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update([(self._count, self._waiting)])

    def flat_map(self, value: int) -> Iterator[Any]:
        self._waiting.append(value)
        if len(self._waiting) == BATCH:
            for held in self._waiting:
                self._count += 1
                yield self._subtask, self._count, held
            self._waiting = []
        if value in self._accidents and self._accidents[value].happens():
            kill_worker()


@pytest.mark.parametrize("inline_limit", ["0 bytes", "20 kb"], ids=["in files", "inline"])
def test_what_is_held_back_survives_its_worker(inline_limit: str, spark: Any, tmp_path: Path) -> None:
    env = environment(1, {"execution.checkpointing.data-inline-threshold": inline_limit})
    stream = numbers(env, RECORDS).flat_map(Batches(tmp_path / "accident", KILL_AT), output_type=ANY)
    outcome = run(env, stream, "held back")
    assert len(list(tmp_path.glob("accident*"))) == len(KILL_AT)
    assert sum(tries > 1 for tries in outcome.tries) == len(KILL_AT)
    assert outcome.results == [(0, n + 1, n) for n in range(RECORDS // BATCH * BATCH)]


def test_every_subtask_has_its_own(spark: Any, tmp_path: Path) -> None:
    env = environment(2)
    outcome = run(env, numbers(env, RECORDS).flat_map(Batches(tmp_path / "accident", KILL_AT), ANY), "held back twice")
    by_subtask = defaultdict(list)
    for subtask, count, _ in outcome.results:
        by_subtask[subtask].append(count)
    assert len(by_subtask) == 2
    for counts in by_subtask.values():
        assert counts == list(range(1, len(counts) + 1))
    values = Counter(value for _, _, value in outcome.results)
    assert set(values.values()) == {1}
    assert len(values) > RECORDS - 2 * BATCH


class Tally(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """Counts its elements by key, adds up the rules, and tells both at the end of input."""

    def __init__(self, marker: Path, at: tuple[int, ...]) -> None:
        self._on_elements = accidents(f"{marker}-element", at)
        self._on_rules = accidents(f"{marker}-rule", at)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        state = ctx.get_broadcast_state(RULES)
        tally = state.get("tally") or {"count": 0, "sum": 0}
        tally["count"] += 1
        tally["sum"] += value
        state.put("tally", tally)
        if value in self._on_rules and self._on_rules[value].happens():
            kill_worker()

    def process_element(self, value: int, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        self._count.update((self._count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1)
        if value in self._on_elements and self._on_elements[value].happens():
            kill_worker()

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        tally = ctx.get_broadcast_state(RULES).get("tally")
        yield ctx.get_current_key(), self._count.value(), tally["count"], tally["sum"]


def test_rules_count_once_in_every_subtask(spark: Any, tmp_path: Path) -> None:
    env = environment(2)
    rules = numbers(env, RECORDS // 2)
    at = (10, RECORDS // 2 - 1)
    stream = (
        numbers(env, RECORDS)
        .key_by(key_of, key_type=Types.LONG())
        .connect(rules.broadcast(RULES))
        .process(Tally(tmp_path / "accident", at), output_type=ANY)
    )
    outcome = run(env, stream, "rules")
    assert len(list(tmp_path.glob("accident*"))) == 2 * len(at)
    count = RECORDS // 2
    assert sorted(outcome.results) == [(key, RECORDS // KEYS, count, count * (count - 1) // 2) for key in range(KEYS)]
