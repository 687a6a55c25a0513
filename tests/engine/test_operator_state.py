"""Workers die while functions hold operator state, and nothing of it is lost or counted twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Types
from beadline.datastream import (
    KeyedBroadcastProcessFunction,
    RuntimeContext,
)
from beadline.datastream.state import MapStateDescriptor, ValueStateDescriptor
from tests.engine.jobs import ANY, KEYS, STEP, accidents, environment, key_of, kill_worker, numbers, run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDS = 6 * STEP
RULES = MapStateDescriptor("rules", Types.STRING(), ANY)


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
