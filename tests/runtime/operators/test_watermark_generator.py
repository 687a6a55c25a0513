"""Watermarks that the program's own generator makes, however the stream is cut and whatever is run again."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.api.process import ProcessFunction
from beadline.common import WatermarkStrategy
from beadline.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from beadline.datastream import StreamExecutionEnvironment
from beadline.errors import ConfigurationError, JobExecutionError
from beadline.graph.specs import Rebalance, TimestampsSpec
from beadline.runtime.exchange.gate import MIN_WATERMARK
from tests.graph.programs import Program
from tests.runtime.harness import Given, Job
from tests.timestamps import Itself

hypothesis = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class Seen(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


class SecondHighest(WatermarkGenerator):
    """Follows the second highest timestamp, at each multiple of ten and periodically: needs both as state."""

    def __init__(self) -> None:
        self.highest: list[int] = []

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.highest = sorted({*self.highest, event_timestamp})[-2:]
        if event % 10 == 0:
            self.on_periodic_emit(output)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if len(self.highest) == 2:
            output.emit_watermark(self.highest[0])


class InSlots(SecondHighest):
    __slots__ = ("seen",)

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.seen += 1
        if self.seen % 4:
            super().on_event(event, event_timestamp, output)


def model(numbers: list[int], every: int, generator: WatermarkGenerator) -> list[tuple[int, int, int]]:
    """What a stream in one piece sees: the watermark before each record."""
    current = MIN_WATERMARK

    class Output(WatermarkOutput):
        def emit_watermark(self, watermark: int) -> None:
            nonlocal current
            current = max(current, watermark)

        def mark_idle(self) -> None: ...

        def mark_active(self) -> None: ...

    seen = []
    for position, number in enumerate(numbers):
        seen.append((number, number, current))
        generator.on_event(number, number, Output())
        if (position + 1) % every == 0:
            generator.on_periodic_emit(Output())
    return seen


def run(folder: Path, strategy: WatermarkStrategy, every: int, numbers: list[int], sizes: list[int], seed: int) -> Job:
    program = Program()
    node = program.add(
        "marks", TimestampsSpec(strategy.with_timestamp_assigner(Itself()), every), program.source(Given())
    )
    program.collect(program.function("process", Seen(), node))
    job = Job(program, folder, parallelism=1, workers=2, trouble=random.Random(seed))
    return job.work_through({1: [numbers]}, sizes)


@pytest.mark.parametrize("kind", [SecondHighest, InSlots])
@hypothesis
@given(
    st.lists(st.integers(0, 60), max_size=40),
    st.lists(st.integers(0, 6), max_size=8).map(lambda sizes: [*sizes, 4]),
    st.integers(1, 7),
    st.integers(0, 99),
)
def test_watermarks_do_not_depend_on_the_cuts(
    tmp_path: Path, kind: type[SecondHighest], numbers: list[int], sizes: list[int], every: int, seed: int
) -> None:
    job = run(tmp_path, WatermarkStrategy.for_generator(kind), every, numbers, sizes, seed)
    assert job.out.get("out", []) == model(numbers, every, kind())


def test_a_generator_of_a_local_class_is_kept_as_well(tmp_path: Path) -> None:
    class Local(SecondHighest):
        pass

    numbers = [3, 9, 20, 1, 30, 7, 8]
    job = run(tmp_path, WatermarkStrategy.for_generator(lambda: Local()), 2, numbers, [1], 5)
    assert job.out["out"] == model(numbers, 2, Local())


def test_the_stream_that_caught_up_is_asked_once_more(tmp_path: Path) -> None:
    program = Program()
    strategy = WatermarkStrategy.for_generator(SecondHighest).with_timestamp_assigner(Itself())
    program.collect(program.add("marks", TimestampsSpec(strategy, 100), program.source(Given())))
    job = Job(program, tmp_path, parallelism=1)
    job.step({1: [[11, 12, 13]]})
    assert job.watermarks[2, 0] == MIN_WATERMARK
    job.step({1: [[14]]}, caught_up=True)
    assert job.watermarks[2, 0] == 13


class Switch(WatermarkGenerator):
    """Zero: idle. Odd: active. Other numbers: a watermark."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event == 0:
            output.mark_idle()
        elif event % 2:
            output.mark_active()
        else:
            output.emit_watermark(event)

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


class Highest(WatermarkGenerator):
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


@pytest.mark.parametrize("exchange", [True, False])
def test_an_idle_stream_lets_the_watermark_pass_until_it_is_active(tmp_path: Path, exchange: bool) -> None:
    program = Program()
    marks = [
        program.add(
            name,
            TimestampsSpec(WatermarkStrategy.for_generator(kind).with_timestamp_assigner(Itself()), 1),
            program.source(Given()),
        )
        for name, kind in (("switch", Switch), ("steady", Highest))
    ]
    program.collect(program.map(*((node, Rebalance()) if exchange else node for node in marks)))
    job = Job(program, tmp_path, parallelism=1)

    def watermark_after(switch: list[int], steady: list[int]) -> int | None:
        job.step({1: [switch], 3: [steady]})
        return job.watermarks[5, 0]

    assert watermark_after([4], [10]) == 4
    assert watermark_after([0], [11]) == 11
    assert watermark_after([], [12]) == 12
    assert watermark_after([0], []) == 12, "a record alone does not make the stream active"
    assert watermark_after([], [13]) == 13
    assert watermark_after([1], []) == 13
    assert watermark_after([14], [20]) == 14, "the stream counts again"


def test_what_the_generator_raises_names_operator_and_record(tmp_path: Path) -> None:
    class Broken(Highest):
        def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
            output.emit_watermark(str(event))  # type: ignore[arg-type]

    with pytest.raises(JobExecutionError, match="takes an int in milliseconds, not '7'") as caught:
        run(tmp_path, WatermarkStrategy.for_generator(Broken), 1, [7], [1], 0)
    assert (caught.value.operator, caught.value.record) == ("marks", "7")


def test_fields_that_do_not_pickle_are_named(tmp_path: Path) -> None:
    class Locked(Highest):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    with pytest.raises(JobExecutionError, match="the fields of Locked are state"):
        run(tmp_path, WatermarkStrategy.for_generator(Locked), 1, [7], [1], 0)


def test_a_supplier_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="each subtask needs one of its own"):
        WatermarkStrategy.for_generator(Highest())  # type: ignore[arg-type]


def test_a_supplier_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(JobExecutionError, match="must give a WatermarkGenerator, and 5 has no method on_event"):
        run(tmp_path, WatermarkStrategy.for_generator(lambda: 5), 1, [7], [1], 0)  # type: ignore[arg-type, return-value]


def test_a_job_on_spark(spark: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    strategy = WatermarkStrategy.for_generator(lambda: Highest()).with_timestamp_assigner(Itself())
    timed = env.from_collection([5, 10, 20, 3, 30]).assign_timestamps_and_watermarks(strategy)
    seen = timed.process(Seen()).execute_and_collect(limit=100)
    assert seen == [(5, 5, MIN_WATERMARK), (10, 10, 5), (20, 20, 10), (3, 3, 20), (30, 30, 20)]
