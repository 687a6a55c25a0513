"""The trigger that fires when an element has moved away from the one it fired for last."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.common import Time, Types, WatermarkStrategy
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.window import (
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    PurgingTrigger,
    TriggerResult,
)
from beadline.errors import GraphError, TypeMismatchError
from beadline.graph.specs import CollectSpec
from tests.api.windows.pane import Key, Pane
from tests.runtime.harness import Given, Job

hypothesis = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
CONTINUE, FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE


def distance(old: Any, new: Any) -> float:
    return float(new - old)


def test_it_fires_above_the_threshold_and_goes_on_from_there() -> None:
    trigger, key, window = DeltaTrigger.of(5, distance, Types.LONG()), Key(), GlobalWindow()
    said = [trigger.on_element(e, 0, window, Pane(key, window)) for e in (10, 15, 16, 17, 21, 22, 3)]
    assert said == [CONTINUE, CONTINUE, FIRE, CONTINUE, CONTINUE, FIRE, CONTINUE]
    assert key.remembered() == {(window, "last-element"): 22}
    assert trigger.on_event_time(1, window, Pane(key, window)) is CONTINUE
    assert trigger.on_processing_time(1, window, Pane(key, window)) is CONTINUE
    assert not key.event_timers | key.processing_timers
    trigger.clear(window, Pane(key, window))
    assert key.remembered() == {}


def test_it_travels() -> None:
    assert repr(pickle.loads(pickle.dumps(DeltaTrigger.of(2.5, distance)))) == "DeltaTrigger(2.5)"


def test_windows_that_merge_are_refused() -> None:
    trigger = DeltaTrigger.of(1.0, distance)
    assert not trigger.can_merge()
    with pytest.raises(GraphError, match="merging windows"):
        trigger.on_merge(GlobalWindow(), Pane(Key(), GlobalWindow()))
    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    keyed = StreamExecutionEnvironment().from_collection([1]).key_by(lambda n: n)
    for refused in (trigger, PurgingTrigger.of(trigger)):
        with pytest.raises(GraphError, match="can't merge"):
            keyed.window(sessions).trigger(refused)


def test_wrong_arguments() -> None:
    with pytest.raises(TypeMismatchError, match="threshold"):
        DeltaTrigger.of("5", distance)  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError, match="two elements"):
        DeltaTrigger.of(5, 6)  # type: ignore[arg-type]


def far(old: Any, new: Any) -> float:
    return abs(float(new[1] - old[1]))


@hypothesis
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20)), max_size=25),
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
)
def test_in_windows(tmp_path: Path, records: list[tuple[str, int]], sizes: list[int]) -> None:
    env = StreamExecutionEnvironment()
    env.set_parallelism(2)
    source = env.from_source(Given(), WatermarkStrategy.no_watermarks(), "records").set_parallelism(1)
    windows = source.key_by(lambda e: e[0]).window(GlobalWindows.create()).trigger(DeltaTrigger.of(4, far))
    windows.reduce(lambda a, b: (a[0], a[1] + b[1]))._apply("out", CollectSpec("out"), None)
    job = Job(env._plan("delta"), tmp_path).work_through({1: [records]}, sizes)
    expected = []
    last: dict[str, int] = {}
    total: dict[str, int] = {}
    for key, value in records:
        total[key] = total.get(key, 0) + value
        if key not in last:
            last[key] = value
        elif abs(value - last[key]) > 4:
            last[key] = value
            expected.append((key, total[key]))
    assert sorted(job.out.get("out", [])) == sorted(expected)
