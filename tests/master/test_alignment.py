"""Sources that wait for each other, so that none runs far ahead in event time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration, Duration, WatermarkStrategy
from beadline.connectors.collections import CollectionSource
from beadline.connectors.source import PartSplit, Position, StepSource
from beadline.datastream import StreamExecutionEnvironment
from beadline.errors import ConfigurationError, UnsupportedFeatureError
from beadline.graph.plan import Plan
from beadline.graph.specs import SourceSpec, TimestampsSpec
from beadline.master.alignment import Alignment
from beadline.master.upkeep.truth import Truth
from beadline.runtime.exchange.gate import MIN_WATERMARK
from beadline.runtime.messages import PartState, SubtaskAck
from beadline.state.segments.files import SegmentFiles
from tests.graph.programs import Program
from tests.timestamps import Itself

WANTED = 1000


def aligned(group: str = "group", drift: int = 10, interval: int = 100) -> WatermarkStrategy:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    return strategy.with_watermark_alignment(group, Duration.of_millis(drift), Duration.of_millis(interval))


class Parted(CollectionSource):
    parted = True

    def __init__(self, holds: bool) -> None:
        super().__init__([])
        self.holds_parts = holds


class Sources:
    """Aligned sources, and what their subtasks report. Source ``n`` is node 2n+1, its strategy node 2n+2."""

    def __init__(self, *strategies: WatermarkStrategy, sources: list[StepSource] | None = None) -> None:
        program = Program()
        for number, strategy in enumerate(strategies):
            source = sources[number] if sources else CollectionSource([])
            program.add(
                "marks",
                TimestampsSpec(strategy, 1, at_source=True),
                program.add(f"source {number}", SourceSpec(source)),
            )
        self.plan: Plan = program.plan(parallelism=2)
        self.alignment = Alignment(self.plan)
        self.truth = Truth("job", self.plan, SegmentFiles(""))
        self.finished: set[int] = set()
        self.now = 0

    def report(self, number: int, *watermarks: int | None, read: int = 0) -> None:
        """What each subtask says; None for idle."""
        acks = [SubtaskAck(2 * number + 1, 0, records_in=read)]
        for subtask, watermark in enumerate(watermarks):
            ack = SubtaskAck(2 * number + 2, subtask, idle=watermark is None)
            ack.watermark = MIN_WATERMARK if watermark is None else watermark
            acks.append(ack)
        self.alignment.sealed(acks)

    def report_parts(self, number: int, **watermarks: int | None) -> None:
        names = list(watermarks)
        self.truth.parts.assign(self.plan.nodes[2 * number + 1], names, [])
        states = {name: PartState(w or 0, w is None, b"") for name, w in watermarks.items() if w != MIN_WATERMARK}
        self.truth.parts.seal([SubtaskAck(2 * number + 2, 0, parts=states)])

    def compare(self, after: int = 1000) -> list[int]:
        """What each source may read afterwards."""
        self.now += after
        self.alignment.compare(self.now, self.truth, self.finished)
        sources = [node.id for node in self.plan.nodes.values() if node.is_source]
        return [self.alignment.rows(node, WANTED) for node in sources]


def test_who_is_too_far_ahead_waits() -> None:
    sources = Sources(aligned(), aligned())
    assert sources.compare() == [WANTED, WANTED], "nothing is known yet"
    sources.report(0, 100, 105)
    sources.report(1, 120, 111)
    assert sources.compare() == [WANTED, 0]
    sources.report(0, 101, 105)
    assert sources.compare() == [WANTED, WANTED], "exactly as far as it may be"


def test_each_has_its_own_drift() -> None:
    sources = Sources(aligned(drift=0), aligned(drift=5), aligned(drift=50))
    for number, watermark in enumerate([100, 106, 150]):
        sources.report(number, watermark)
    assert sources.compare() == [WANTED, 0, WANTED]


def test_groups_have_nothing_to_do_with_each_other() -> None:
    sources = Sources(aligned("one"), aligned("two"), WatermarkStrategy.for_monotonous_timestamps())
    for number, watermark in enumerate([1, 1000, 100_000]):
        sources.report(number, watermark)
    assert sources.compare() == [WANTED] * 3


def test_they_compare_once_per_interval() -> None:
    sources = Sources(aligned(interval=300), aligned(interval=100))
    sources.report(0, 0)
    sources.report(1, 50)
    assert sources.compare() == [WANTED, 0]
    assert sources.alignment.wakes_in(sources.now + 30) == 0.07, "the shortest interval of the group counts"
    sources.report(0, 45)
    assert sources.compare(after=99) == [WANTED, 0]
    assert sources.compare(after=1) == [WANTED, WANTED]
    assert sources.alignment.wakes_in(sources.now) is None, "nobody waits"
    sources.report(1, 56)
    assert sources.compare(after=1) == [WANTED, 0], "it has come to its limit, without a new one"
    sources.report(0, 61)
    assert sources.compare(after=1) == [WANTED, WANTED], "both had come to theirs, so they compared at once"


def test_the_ended_and_the_idle_count_no_more() -> None:
    sources = Sources(aligned(), aligned(), aligned())
    sources.report(0, 0)
    sources.report(1, 100)
    sources.report(2, 200)
    assert sources.compare() == [WANTED, 0, 0]
    sources.report(0, None)
    assert sources.compare() == [WANTED, WANTED, 0]
    sources.finished.add(3)
    assert sources.compare()[2] == WANTED
    sources.report(2, None)
    assert sources.compare()[2] == WANTED, "all are idle"


def test_a_silent_source_that_is_not_idle_is_waited_for() -> None:
    sources = Sources(aligned(), aligned())
    sources.report(0, MIN_WATERMARK, MIN_WATERMARK)
    sources.report(1, 5)
    assert sources.compare() == [WANTED, 0]
    sources.report(0, MIN_WATERMARK, 0)
    assert sources.compare() == [WANTED, WANTED], "that one of its subtasks has read nothing does not matter"


def test_who_waits_long_for_a_silent_source_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    sources = Sources(aligned(), aligned())
    sources.report(0, MIN_WATERMARK)
    sources.report(1, 5)
    sources.compare()
    assert sources.compare(after=29_999) == [WANTED, 0]
    assert caplog.messages == []
    sources.compare(after=1)
    sources.compare(after=60_000)
    assert len(caplog.messages) == 1
    assert "'group': source 1 waits for source 0, which gave no watermark so far" in caplog.text


def test_who_has_ended_is_not_waited_for_in_vain() -> None:
    sources = Sources(aligned(), aligned())
    sources.report(0, 0)
    sources.report(1, 50)
    sources.compare()
    sources.finished.add(3)
    sources.compare()
    assert sources.alignment.wakes_in(sources.now) is None


def test_a_group_of_one_never_waits() -> None:
    sources = Sources(aligned(drift=0))
    for watermark in (0, 1000, 5):
        sources.report(0, watermark)
        assert sources.compare() == [WANTED]


def test_a_source_reads_no_more_than_brings_it_to_its_limit() -> None:
    sources = Sources(aligned(drift=10), aligned(drift=10))
    sources.report(0, 0)
    sources.report(1, 0)
    sources.report(1, 4, read=200)
    assert sources.compare() == [WANTED, (0 + 10 - 4) * 50]
    sources.report(1, 10, read=600)
    assert sources.compare() == [WANTED, 100], "but a step is worth its cost"


def test_parts_wait_one_by_one_if_the_source_can() -> None:
    sources = Sources(aligned(), aligned(), sources=[Parted(holds=True), Parted(holds=False)])
    sources.report_parts(0, a=5, b=50, c=None)
    sources.report_parts(1, d=16, e=60)
    assert sources.compare() == [WANTED, 0], "of the second, the part that is furthest behind decides"
    assert sources.alignment.held(1) == {"b"}
    assert sources.alignment.held(3) == frozenset()
    sources.report_parts(0, a=45)
    assert sources.compare() == [WANTED, WANTED]
    assert sources.alignment.held(1) == {"a", "b"}, "they wait for the second source; the idle one may be read"
    sources.report_parts(1, d=40)
    sources.compare()
    assert sources.alignment.held(1) == frozenset()


def test_a_part_that_gave_nothing_yet_is_waited_for() -> None:
    sources = Sources(aligned(), sources=[Parted(holds=True)])
    sources.report_parts(0, a=5, b=MIN_WATERMARK)
    assert sources.compare() == [WANTED]
    assert sources.alignment.held(1) == {"a"}


# -- whole jobs


class Watched(StepSource):
    """Numbers as times, every so many milliseconds; writes down what is planned.

    :param parts: how many there are, each with all numbers and ten times as fast as the one before
    """

    bounded = True

    def __init__(self, log: list[tuple[str, int]], name: str, stride: int, count: int, parts: int = 0) -> None:
        self._log, self._count = log, count
        self._strides = {f"{name}{number}": stride * 10**number for number in range(parts)} or {name: stride}
        self.parted = self.holds_parts = bool(parts)
        self._held: frozenset[str] = frozenset()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_log": []}

    def initial(self) -> Position:
        return dict.fromkeys(self._strides, 0)

    def hold(self, parts: frozenset[str]) -> None:
        self._held = parts

    def parts(self, position: Position) -> list[str]:
        return [name for name, at in position.items() if at < self._count]

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        end = {k: at if k in self._held else min(self._count, at + rows) for k, at in start.items()}
        ranges = [(name, (start[name], end[name], self._strides[name])) for name in start if end[name] > start[name]]
        self._log += [(name, (last - 1) * stride) for name, (_, last, stride) in ranges if parallelism > 1]
        return end, [PartSplit(name, given) if self.parted else given for name, given in ranges]

    def finished(self, position: Position) -> bool:
        return all(at >= self._count for at in position.values())

    def read_batches(self, split: Any) -> Iterator[Any]:
        first, end, stride = split
        yield [number * stride for number in range(first, end)]


def run(*sources: Watched, strategies: list[WatermarkStrategy]) -> list[int]:
    options = {
        "beadline.step.first-records": "20",
        "beadline.step.max-records": "20",
        "beadline.watermark.records": "1",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options)).set_parallelism(2)
    streams = [env.from_source(s, w, f"source {i}") for i, (s, w) in enumerate(zip(sources, strategies, strict=True))]
    with streams[0].union(*streams[1:]).execute_and_collect() as results:
        return sorted(results)


def furthest_apart(log: list[tuple[str, int]], names: list[str]) -> int:
    """By how much one was planned ahead of the lowest, while all had something to read."""
    at = dict.fromkeys(names, 0)
    apart = 0
    for name, time in log:
        at[name] = time
        apart = max(apart, max(at.values()) - min(at.values()))
    return apart


@pytest.mark.usefixtures("local_engine")
def test_aligned_jobs_read_everything_and_stay_together() -> None:
    log: list[tuple[str, int]] = []
    slow, fast = Watched(log, "slow", 1, 300), Watched(log, "fast", 50, 300)
    strategy = aligned(drift=1000, interval=1)
    found = run(slow, fast, strategies=[strategy, strategy])
    assert found == sorted([*range(300), *range(0, 300 * 50, 50)])
    while_slow = log[: max(i for i, (name, _) in enumerate(log) if name == "slow")]
    assert furthest_apart(while_slow, ["slow", "fast"]) < 3000, "not 15,000, which is where the fast one would be"
    assert max(time for _, time in log) == 299 * 50


@pytest.mark.usefixtures("local_engine")
def test_parts_of_one_source_stay_together() -> None:
    log: list[tuple[str, int]] = []
    source = Watched(log, "p", 1, 200, parts=3)
    found = run(source, strategies=[aligned(drift=5, interval=1)])
    assert found == sorted(number * stride for stride in (1, 10, 100) for number in range(200))
    while_slow = log[: max(i for i, (name, _) in enumerate(log) if name == "p0")]
    assert furthest_apart(while_slow, ["p0", "p1", "p2"]) < 5000, "not 20,000"


@pytest.mark.usefixtures("local_engine")
def test_a_bounded_source_that_ends_lets_the_other_go_on() -> None:
    log: list[tuple[str, int]] = []
    found = run(
        Watched(log, "short", 1, 5), Watched(log, "long", 100, 200), strategies=[aligned(drift=0), aligned(drift=0)]
    )
    assert len(found) == 205


def test_a_strategy_without_watermarks_can_not_be_aligned() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.no_watermarks().with_watermark_alignment("group", Duration.of_seconds(1))
    with pytest.raises(ConfigurationError, match=r"source 'numbers'.*'group'.*this strategy makes none"):
        env.from_source(CollectionSource([1]), strategy, "numbers")


def test_only_sources_can_be_aligned(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(UnsupportedFeatureError, match=r"'group'.*give the strategy to from_source\(\)"):
        env.from_collection([1]).assign_timestamps_and_watermarks(aligned())
