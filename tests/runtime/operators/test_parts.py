"""Watermarks of a source with parts: a generator for each part, and the lowest of those that are not idle counts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.api.process import ProcessFunction
from beadline.common import Duration, WatermarkStrategy
from beadline.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from beadline.connectors.source import Part, PartSplit, Position
from beadline.errors import ConfigurationError, JobExecutionError
from beadline.graph.specs import Rebalance, TimestampsSpec
from beadline.runtime.exchange.gate import MAX_WATERMARK, MIN_WATERMARK
from beadline.runtime.messages import RunContext, StepHeader, SubtaskAck, SubtaskInput
from beadline.runtime.operators import Setup, make_operator
from tests.graph.programs import Program
from tests.runtime.harness import Given, Job
from tests.runtime.operators.test_watermark_generator import SecondHighest
from tests.timestamps import Itself

hypothesis = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


class Parted(Given):
    """Has the parts that the test names; they may change."""

    parted = True

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = list(names)

    def parts(self, position: Position) -> list[str]:
        return list(self.names)

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        end, splits = super().plan(start, rows, parallelism)
        nothing = [PartSplit(name, ()) for name in self.names[:1]]
        return end, nothing if splits == [()] else splits


class Seen(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


def make(source: Any, strategy: WatermarkStrategy = MONOTONOUS, every: int = 1, at_source: bool = True) -> Program:
    """Node 2 makes watermarks, node 3 in one subtask receives them."""
    program = Program()
    spec = TimestampsSpec(strategy.with_timestamp_assigner(Itself()), every, at_source)
    marks = program.add("marks", spec, program.source(source))
    program.collect(program.map((marks, Rebalance()), parallelism=1))
    return program


def read(**parts: list[int]) -> dict[int, list[Any]]:
    return {1: [PartSplit(name, records) for name, records in parts.items()]}


def test_the_lowest_part_counts(tmp_path: Path) -> None:
    job = Job(make(Parted("a", "b")), tmp_path, parallelism=1)
    job.step(read(a=[10, 20]))
    assert job.watermarks[3, 0] == MIN_WATERMARK, "nothing is known of the other part"
    job.step(read(b=[5]))
    assert job.watermarks[3, 0] == 4
    job.step(read(b=[50], a=[30]))
    assert job.watermarks[3, 0] == 29
    job.step(final=True)
    assert job.watermarks[3, 0] == MAX_WATERMARK


def test_later_in_the_stream_parts_play_no_role(tmp_path: Path) -> None:
    job = Job(make(Parted("a", "b"), at_source=False), tmp_path, parallelism=1)
    job.step(read(a=[10, 20]))
    assert job.watermarks[3, 0] == 19


def test_an_idle_part_holds_nothing_back_until_it_speaks_again(tmp_path: Path) -> None:
    job = Job(make(Parted("a", "b"), MONOTONOUS.with_idleness(Duration.of_millis(100))), tmp_path, parallelism=1)
    job.step(read(a=[10]), now=0)
    job.step(read(a=[20]), now=60)
    assert job.watermarks[3, 0] == MIN_WATERMARK
    assert job.timers[2, 0] == 100, "a step is wanted when the silent part has been silent for long enough"
    job.step(now=100)
    assert job.watermarks[3, 0] == 19
    assert job.timers[2, 0] == 160, "then the other one is the next"
    job.step(read(b=[3]), now=110)
    job.step(read(a=[40]), now=120)
    assert job.watermarks[3, 0] == 19, "it counts again, and the watermark waits for it"
    job.step(read(b=[30]), now=130)
    assert job.watermarks[3, 0] == 29
    job.step(now=1000)
    assert (2, 0) not in job.timers, "all are idle, nothing is to be waited for"
    assert job.watermarks[3, 0] == 29, "as in Flink: idle parts are not looked at, however far they are"


def test_a_subtask_without_parts_is_idle_at_once(tmp_path: Path) -> None:
    job = Job(make(Parted("a", "b")), tmp_path, parallelism=4)
    job.step(read(a=[10], b=[20]))
    assert job.watermarks[3, 0] == 9


@pytest.mark.parametrize(("idle_after", "expected"), [(None, MIN_WATERMARK), (100, 9)])
def test_a_source_that_has_no_part_so_far_holds_back(tmp_path: Path, idle_after: int | None, expected: int) -> None:
    quiet = MONOTONOUS if idle_after is None else MONOTONOUS.with_idleness(Duration.of_millis(idle_after))
    program = make(Parted(), quiet)
    steady = TimestampsSpec(MONOTONOUS.with_timestamp_assigner(Itself()), 1, at_source=True)
    numbers = program.add("steady", steady, program.source(Given()))
    both = program.map((numbers, Rebalance()), (program.nodes[1], Rebalance()), parallelism=1)
    program.collect(both, name="both")
    job = Job(program, tmp_path, parallelism=1)
    job.step({5: [[10]]}, now=0)
    job.step({5: [[10]]}, now=200)
    assert job.watermarks[both.id, 0] == expected


def test_splits_must_name_their_part(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"source 'source' has parts.*PartSplit\(part, split\), not \[1\]"):
        Job(make(Parted("a")), tmp_path, parallelism=1).step({1: [[1]]})


def test_a_part_that_ends_counts_no_more(tmp_path: Path) -> None:
    source = Parted("a", "b")
    job = Job(make(source), tmp_path, parallelism=1)
    job.step(read(a=[10, 20], b=[5]))
    assert job.watermarks[3, 0] == 4
    source.names.remove("b")
    job.step(read(b=[6]))
    assert job.watermarks[3, 0] == 5, "its last records come, and it counts with them"
    job.step(read(a=[21]))
    assert job.watermarks[3, 0] == 20


def test_a_new_part_holds_back_what_comes_and_takes_nothing_back(tmp_path: Path) -> None:
    source = Parted("a", "b")
    job = Job(make(source), tmp_path, parallelism=2)
    job.step(read(a=[10], b=[20]))
    source.names.append("c")
    job.step(read(a=[30], b=[40]))
    assert job.watermarks[3, 0] == 9
    job.step(read(c=[25], b=[50]))
    assert job.watermarks[3, 0] == 24


@pytest.mark.parametrize("kind", ["built in", "generator"])
@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_parts_are_found_again_by_other_subtasks(tmp_path: Path, parallelism: int, kind: str) -> None:
    strategy = MONOTONOUS if kind == "built in" else WatermarkStrategy.for_generator(Behind)
    source = Parted("a", "b", "c")
    job = Job(make(source, strategy), tmp_path, parallelism=3)
    job.step(read(a=[10], b=[20], c=[30]))
    assert job.watermarks[3, 0] == 9
    other = Job(make(source, strategy), tmp_path, parallelism=parallelism).go_back(job.savepoint())
    other.step(read(a=[40], c=[50]))
    assert other.watermarks[3, 0] == 19, "the second part was not read, and is still known"


def test_after_a_restore_parts_stay_where_they_were(tmp_path: Path) -> None:
    source = Parted("a", "b", "c")
    job = Job(make(source), tmp_path, parallelism=2)
    job.step(read(a=[10], b=[20], c=[30]))
    source.names.remove("a")
    job.step(read(b=[21]))
    source.names.append("d")
    job.step(read(b=[22]))
    assert _readers(job) == {"b": 1, "c": 0, "d": 0}
    job.go_back(job.savepoint())
    job.step(read(b=[23]))
    assert _readers(job) == {"b": 1, "c": 0, "d": 0}


def _readers(job: Job) -> dict[str, int]:
    return dict(job._job.truth.parts.snapshot(1))


class Behind(WatermarkGenerator):
    """A watermark with each record, one behind it."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(event_timestamp - 1)

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


class Highest(WatermarkGenerator):
    """What the built-in strategy does."""

    highest = MIN_WATERMARK

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.highest = max(self.highest, event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self.highest > MIN_WATERMARK:
            output.emit_watermark(self.highest - 1)


class Mark(WatermarkOutput):
    watermark = MIN_WATERMARK

    def emit_watermark(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)

    def mark_idle(self) -> None: ...

    def mark_active(self) -> None: ...


def model(records: list[tuple[str, int]], every: int, supplier: Any) -> list[tuple[int, int, int]]:
    """What a stream in one piece sees: the watermark before each record."""
    lanes = {name: (supplier(), Mark()) for name in "abc"}
    current = MIN_WATERMARK
    seen = []
    for position, (name, number) in enumerate(records):
        seen.append((number, number, current))
        generator, mark = lanes[name]
        generator.on_event(number, number, mark)
        if (position + 1) % every == 0:
            for each, said in lanes.values():
                each.on_periodic_emit(said)
        current = max(current, min(mark.watermark for _, mark in lanes.values()))
    return seen


def in_steps(records: list[tuple[str, int]], sizes: list[int]) -> Iterator[dict[int, list[Any]]]:
    """One split for each record, in their order."""
    left = list(records)
    sizes = [size for size in sizes if size] or [4]
    while left:
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        yield {1: [PartSplit(name, [number]) for name, number in left[:size]]}
        left = left[size:]


@pytest.mark.parametrize(
    ("strategy", "supplier"),
    [(MONOTONOUS, Highest), (WatermarkStrategy.for_generator(SecondHighest), SecondHighest)],
    ids=["built in", "generator"],
)
@hypothesis
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), max_size=40),
    st.lists(st.integers(0, 6), max_size=8).map(lambda sizes: [*sizes, 4]),
    st.integers(1, 7),
    st.integers(0, 99),
)
def test_watermarks_do_not_depend_on_the_cuts(
    tmp_path: Path,
    strategy: WatermarkStrategy,
    supplier: Any,
    records: list[tuple[str, int]],
    sizes: list[int],
    every: int,
    seed: int,
) -> None:
    program = Program()
    spec = TimestampsSpec(strategy.with_timestamp_assigner(Itself()), every, at_source=True)
    marks = program.add("marks", spec, program.source(Parted("a", "b", "c")))
    program.collect(program.function("process", Seen(), marks))
    job = Job(program, tmp_path, parallelism=1, workers=2, trouble=random.Random(seed))
    for step in in_steps(records, sizes):
        job.step(step)
    assert job.out.get("out", []) == model(records, every, supplier)


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


def test_a_generator_marks_its_part_as_idle(tmp_path: Path) -> None:
    job = Job(make(Parted("a", "b"), WatermarkStrategy.for_generator(Switch)), tmp_path, parallelism=1)

    def watermark_after(**parts: list[int]) -> int | None:
        job.step(read(**parts))
        return job.watermarks[3, 0]

    assert watermark_after(a=[4], b=[10]) == 4
    assert watermark_after(a=[0]) == 10, "only the other part counts"
    assert watermark_after(b=[12]) == 12
    assert watermark_after(b=[0]) == 12, "now all are idle"
    assert watermark_after(a=[1]) == 12, "one is active again, and behind"
    assert watermark_after(b=[20]) == 12
    assert watermark_after(a=[16]) == 16


class Silent(Parted):
    """Forgets to say from which part it reads."""

    def read_parts(self, splits: Any) -> Iterator[Any]:
        return self.read_batches(splits[0].split)


class Wrong(Parted):
    """Reads from a part that was not planned."""

    def read_parts(self, splits: Any) -> Iterator[Any]:
        yield Part("z")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (Silent("a"), r"gave records before it said with Part\(name\)"),
        (Wrong("a"), "a part 'z', which was not planned"),
    ],
    ids=["silent", "wrong"],
)
def test_a_source_that_breaks_the_contract(tmp_path: Path, source: Parted, told: str) -> None:
    with pytest.raises(JobExecutionError, match=told):
        Job(make(source), tmp_path, parallelism=1).step(read(a=[1]))


def test_a_part_that_has_to_wait_is_not_idle(tmp_path: Path) -> None:
    """Nothing comes from it because nothing is planned."""
    strategy = MONOTONOUS.with_idleness(Duration.of_millis(100))
    node = make(Parted(), strategy).plan(1).nodes[2]
    operator = make_operator(Setup(node, 0))
    operator.output.connect([])

    def step(now: int, start: SubtaskInput) -> SubtaskAck:
        operator.begin(StepHeader(RunContext("execution"), 1, now), start, None)
        operator.end_step()
        ack = SubtaskAck(2, 0)
        operator.finish(ack)
        return ack

    first = step(0, SubtaskInput(parts={"a": None, "b": None}))
    ack = step(100, SubtaskInput(local=first.local, parts=dict(first.parts), waiting_parts=frozenset({"a"})))
    assert {name: state.idle for name, state in ack.parts.items()} == {"a": False, "b": True}
    assert ack.next_timer == 200
    ack = step(150, SubtaskInput(local=ack.local, parts=dict(ack.parts), waits=True))
    assert ack.next_timer == 250
    ack = step(250, SubtaskInput(local=ack.local, parts=dict(ack.parts)))
    assert ack.idle
    alone = step(0, SubtaskInput())
    assert not step(500, SubtaskInput(local=alone.local, waits=True)).idle, "likewise a source without parts"
