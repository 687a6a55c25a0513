"""The short path of common windows gives what the long path gives: results, their order and times, late elements."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.api.function import AggregateFunction, ReduceFunction
from beadline.api.process import ProcessFunction
from beadline.api.window_functions import WindowFunction
from beadline.api.windows.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from beadline.api.windows.triggers import EventTimeTrigger
from beadline.common import Duration, Time, Types, WatermarkStrategy
from beadline.errors import JobExecutionError
from beadline.graph.specs import TimestampsSpec, WindowSpec
from beadline.runtime.operators import Setup, make_operator
from beadline.runtime.operators.windowing.folded import FoldedWindowOperator
from beadline.runtime.operators.windowing.windows import WindowOperator
from tests.graph.programs import Program, by
from tests.runtime.harness import Given, Job
from tests.timestamps import At

TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(3))
SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(12), Time.milliseconds(4))
UNEVEN = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(4))
GAPS = SlidingEventTimeWindows.of(Time.milliseconds(4), Time.milliseconds(10))


class AnotherTrigger(EventTimeTrigger[Any]):
    """The same trigger, but not known to be: it takes the long path."""


class Concatenated(ReduceFunction):
    """Shows the order in which elements were folded."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1], value1[2] + value2[2]


class Kept(AggregateFunction):
    """A mutable accumulator."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> Any:
        return (accumulator[0][0], tuple(value[2] for value in accumulator))

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        return acc_a + acc_b


class Labelled(WindowFunction):  # type: ignore[type-arg]
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [(key, window.start, window.end, *inputs)]


class Stamped(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


def program_of(assigner: Any, trigger: Any, fold: Any, function: Any, every: int, out_of_order: int) -> Program:
    program = Program()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(out_of_order))
    times = program.add(
        "times",
        TimestampsSpec(strategy.with_timestamp_assigner(At()), every),
        program.source(Given(), parallelism=1),
        parallelism=1,
    )
    spec = WindowSpec(assigner, trigger, fold, function, late_tag="late")
    window = program.add("window", spec, (times, by(lambda r: r[0])), side_types={"late": Types.PICKLED_BYTE_ARRAY()})
    program.collect(program.function("process", Stamped(), window))
    program.collect((window, None, 0, "late"), name="late")
    return program


def operator_of(assigner: Any, trigger: Any, fold: Any) -> Any:
    plan = program_of(assigner, trigger, fold, None, 1, 0).plan(1)
    (node,) = (node for node in plan.nodes.values() if node.name == "window")
    return make_operator(Setup(node, 0))


@pytest.mark.parametrize(
    ("assigner", "trigger", "fold", "short"),
    [
        (TUMBLING, EventTimeTrigger(), Concatenated(), True),
        (SLIDING, EventTimeTrigger(), Kept(), True),
        (UNEVEN, EventTimeTrigger(), Kept(), False),
        (GAPS, EventTimeTrigger(), Kept(), False),
        (TUMBLING, AnotherTrigger(), Kept(), False),
        (TUMBLING, EventTimeTrigger(), None, False),
    ],
)
def test_which_windows_take_the_short_path(assigner: Any, trigger: Any, fold: Any, short: bool) -> None:
    assert type(operator_of(assigner, trigger, fold)) is (FoldedWindowOperator if short else WindowOperator)


events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 60)), max_size=30)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    events,
    st.lists(st.integers(1, 7), max_size=5).map(lambda sizes: [*sizes, 5]),
    st.sampled_from([TUMBLING, SLIDING]),
    st.sampled_from([Concatenated(), Kept()]),
    st.sampled_from([None, Labelled()]),
    st.integers(1, 5),
    st.integers(0, 20),
    st.integers(0, 99),
)
def test_the_short_path_gives_what_the_long_one_gives(
    tmp_path: Path,
    pairs: list[tuple[str, int]],
    sizes: list[int],
    assigner: Any,
    fold: Any,
    function: Any,
    every: int,
    out_of_order: int,
    seed: int,
) -> None:
    records = [(key, time, f"{number};") for number, (key, time) in enumerate(pairs)]

    def run(trigger: Any, sizes: list[int], trouble: random.Random | None) -> dict[str, list[Any]]:
        program = program_of(assigner, trigger, fold, function, every, out_of_order)
        return Job(program, tmp_path, parallelism=2, workers=2, trouble=trouble).work_through({1: [records]}, sizes).out

    def keyed(out: dict[str, list[Any]]) -> dict[Any, list[Any]]:
        """By output and key: the order between keys of two subtasks means nothing."""
        found: dict[Any, list[Any]] = {}
        for name, results in out.items():
            for result in results:
                found.setdefault((name, result[0][0] if name == "out" else result[0]), []).append(result)
        return found

    short = keyed(run(EventTimeTrigger(), sizes, random.Random(seed)))
    assert short == keyed(run(AnotherTrigger(), [10**9], None))


class Broken(Concatenated):
    def reduce(self, value1: Any, value2: Any) -> Any:
        raise ValueError("no")


class NoResult(Kept):
    def get_result(self, accumulator: list[Any]) -> Any:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("fold", "operator", "record"), [(Broken(), "window", "('a', 2, 'y')"), (NoResult(), "", "'a'")]
)
def test_failures_name_operator_and_record(tmp_path: Path, fold: Any, operator: str, record: str) -> None:
    program = program_of(TUMBLING, EventTimeTrigger(), fold, None, 1, 0)
    with pytest.raises(JobExecutionError) as caught:
        Job(program, tmp_path, parallelism=1).work_through({1: [[("a", 1, "x"), ("a", 2, "y")]]})
    assert caught.value.record == record
    assert caught.value.operator == (operator or "window (timer at 2)")


def test_windows_that_open_and_end_within_a_step_leave_nothing_behind(tmp_path: Path) -> None:
    program = program_of(TUMBLING, EventTimeTrigger(), Concatenated(), None, 1, 0)
    job = Job(program, tmp_path, parallelism=1)
    (ack,) = (s for a in job.step({1: [[("a", 1, "x"), ("a", 50, "y")]]}) for s in a.subtasks if s.node == 3)
    # The window of "y" and its timer, and nothing of the window of "x".
    assert ack.touched == 2
