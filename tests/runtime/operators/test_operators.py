"""What operators make of records, however the stream is cut into steps and whatever is lost on the way."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.api.function import CoFlatMapFunction, CoMapFunction, FilterFunction, MapFunction
from beadline.api.output_tag import OutputTag
from beadline.api.process import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from beadline.api.runtime_context import RuntimeContext
from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.api.time_domain import TimeDomain
from beadline.common.typeinfo import Types
from beadline.common.watermark_strategy import WatermarkStrategy
from beadline.graph.specs import Broadcast, Rebalance, TimestampsSpec
from beadline.runtime.exchange.gate import MIN_WATERMARK
from tests.graph.programs import ANY, Program, by
from tests.runtime.harness import Given, Job
from tests.timestamps import At

Pairs = list[tuple[str, int]]
pairs = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), max_size=25)
cuts = st.lists(st.integers(0, 6), max_size=8).map(lambda sizes: [*sizes, 4])
hypothesis = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def key(record: Any) -> Any:
    return record[0]


def by_key(results: list[Any]) -> dict[Any, list[Any]]:
    grouped = defaultdict(list)
    for result in results:
        grouped[result[0]].append(result)
    return dict(grouped)


def run(program: Program, folder: Path, records: Any, sizes: list[int], seed: int | None, **options: Any) -> Job:
    """Source 1 reads the records; with a seed there is trouble on the way."""
    trouble = None if seed is None else random.Random(seed)
    job = Job(program, folder, workers=2, trouble=trouble, inline_limit=0 if seed and seed % 2 else 20 << 10, **options)
    given_ = records if isinstance(records, dict) else {1: [records]}
    return job.work_through(given_, sizes)


# -- without a key


class Add(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.more = int(runtime_context.get_job_parameter("more", "1"))

    def map(self, value: Any) -> Any:
        return value + self.more


class Even(FilterFunction):
    def filter(self, value: Any) -> bool:
        return value % 2 == 0


class Twice(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        assert ctx.timestamp() == MIN_WATERMARK
        yield value
        yield value


@hypothesis
@given(st.lists(st.integers(0, 99), max_size=30), cuts, st.integers(0, 99))
def test_a_chain_of_functions(tmp_path: Path, numbers: list[int], sizes: list[int], seed: int) -> None:
    program = Program()
    node = program.map(program.source(Given()), function=Add())
    node = program.function("filter", Even(), node)
    node = program.function("flat_map", lambda n: range(n % 4), node)
    node = program.function("process", Twice(), node)
    program.collect(node)
    expected = [n for number in numbers if (number + 1) % 2 == 0 for m in range((number + 1) % 4) for n in (m, m)]
    assert run(program, tmp_path, numbers, sizes, seed, parallelism=1).out.get("out", []) == expected


def test_a_function_may_give_nothing(tmp_path: Path) -> None:
    program = Program()
    source = program.source(Given())
    program.collect(program.function("flat_map", lambda n: None if n == 1 else [n], source))
    assert run(program, tmp_path, [0, 1, 2], [1], None).out["out"] == [0, 2]


def test_results_are_converted_to_the_declared_type(tmp_path: Path) -> None:
    program = Program()
    program.collect(program.map(program.source(Given()), function=lambda n: n, output_type=Types.FLOAT()))
    (result,) = run(program, tmp_path, [1], [1], None).out["out"]
    assert type(result) is float


# -- by key


class Count(KeyedProcessFunction):
    """State of every kind; emits what it holds."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.times = runtime_context.get_map_state(MapStateDescriptor("times", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        assert ctx.get_current_key() == value[0]
        self.total.update((self.total.value() or 0) + value[1])
        self.seen.add(value[1])
        self.times.put(value[1], (self.times.get(value[1]) or 0) + 1)
        if value[1] == 9:
            self.seen.clear()
        yield value[0], self.total.value(), tuple(self.seen.get()), tuple(sorted(self.times.items()))


@hypothesis
@given(pairs, cuts, st.integers(0, 99))
def test_keyed_state(tmp_path: Path, records: Pairs, sizes: list[int], seed: int) -> None:
    program = Program()
    source = program.source(Given(), parallelism=1)
    program.collect(program.function("process", Count(), (source, by(key))))
    expected = defaultdict(list)
    total: dict[str, int] = defaultdict(int)
    seen: dict[str, list[int]] = defaultdict(list)
    times: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for name, number in records:
        total[name] += number
        seen[name].append(number)
        times[name][number] += 1
        if number == 9:
            seen[name].clear()
        expected[name].append((name, total[name], tuple(seen[name]), tuple(sorted(times[name].items()))))
    assert by_key(run(program, tmp_path, records, sizes, seed, parallelism=3).out.get("out", [])) == dict(expected)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_long_job_with_merges_in_a_sea_of_trouble(tmp_path: Path, seed: int) -> None:
    program = Program()
    program.collect(program.function("process", Count(), (program.source(Given()), by(key))))
    chance = random.Random(seed)
    records = [(chance.choice("abcdefgh"), chance.randrange(10)) for _ in range(120)]
    calm = run(program, tmp_path, records, [99], None)
    rough = run(program, tmp_path, records, [1, 3], seed)
    assert by_key(rough.out["out"]) == by_key(calm.out["out"])
    assert all(len(handle.segments) < 25 for handle in rough.book.handles.values()), "there were merges"


def summed(left: Any, right: Any) -> Any:
    return left[0], left[1] + right[1]


@hypothesis
@given(pairs, cuts, st.integers(0, 99))
def test_reduce_streams_every_value(tmp_path: Path, records: Pairs, sizes: list[int], seed: int) -> None:
    program = Program()
    program.collect(program.function("reduce", summed, (program.source(Given(), parallelism=1), by(key))))
    expected = {
        name: [(name, total) for total in itertools.accumulate(n for k, n in records if k == name)]
        for name in {k for k, _ in records}
    }
    assert by_key(run(program, tmp_path, records, sizes, seed).out.get("out", [])) == expected


@hypothesis
@given(pairs, cuts, st.integers(0, 99))
def test_reduce_in_batch_gives_the_last_value(tmp_path: Path, records: Pairs, sizes: list[int], seed: int) -> None:
    program = Program()
    source = program.source(Given(), parallelism=1)
    program.collect(program.function("reduce", summed, (source, by(key)), batch=True))
    expected = {name: sum(n for k, n in records if k == name) for name, _ in records}
    results = run(program, tmp_path, records, sizes, seed).out.get("out", [])
    assert dict(results) == expected
    assert len(results) == len(expected)


def appended(left: list[Any], right: list[Any]) -> list[Any]:
    left[1] += right[1]
    return left


@pytest.mark.parametrize("sizes", [[1], [2], [99]])
def test_reduce_may_change_its_argument(tmp_path: Path, sizes: list[int]) -> None:
    program = Program()
    program.collect(program.function("reduce", appended, (program.source(Given()), by(key))))
    records = [["k", "a"], ["k", "b"], ["k", "c"]]
    assert run(program, tmp_path, records, sizes, None).out["out"] == [["k", "a"], ["k", "ab"], ["k", "abc"]]


class Remember(KeyedProcessFunction):
    """Yields the very object that its state holds, and goes on changing it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.all = runtime_context.get_state(ValueStateDescriptor("all", ANY))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        everything = self.all.value() or [value[0]]
        everything.append(value[1])
        self.all.update(everything)
        ctx.timer_service().register_event_time_timer(value[1])
        yield everything

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        everything = self.all.value()
        everything.append(-timestamp)
        yield everything


@pytest.mark.parametrize("sizes", [[1], [2], [99]])
def test_results_do_not_change_behind_their_back(tmp_path: Path, sizes: list[int]) -> None:
    program = Program()
    program.collect(program.function("process", Remember(), (program.source(Given()), by(key))))
    assert run(program, tmp_path, [("k", 1), ("k", 2), ("k", 3)], sizes, None).out["out"] == [
        ["k", 1],
        ["k", 1, 2],
        ["k", 1, 2, 3],
        ["k", 1, 2, 3, -1],
        ["k", 1, 2, 3, -1, -2],
        ["k", 1, 2, 3, -1, -2, -3],
    ]


def test_a_function_may_use_one_list_for_all_its_results(tmp_path: Path) -> None:
    def prefixes(text: str) -> Any:
        letters: list[str] = []
        for letter in text:
            letters.append(letter)
            yield letters

    program = Program()
    program.collect(program.function("flat_map", prefixes, program.source(Given())))
    assert run(program, tmp_path, ["abc"], [1], None).out["out"] == [["a"], ["a", "b"], ["a", "b", "c"]]


# -- two inputs


class Label(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return "one", value

    def map2(self, value: Any) -> Any:
        return None if value % 2 else ("two", value)


class Unfold(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return [("one", value)] * 2

    def flat_map2(self, value: Any) -> Any:
        if value % 2 == 0:
            yield "two", value


class Both(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield "one", value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield "two", value


@pytest.mark.parametrize(
    ("shape", "function", "expected"),
    [
        ("co_map", Label(), [("one", 1), ("one", 2), ("two", 4)]),
        ("co_flat_map", Unfold(), [("one", 1), ("one", 1), ("one", 2), ("one", 2), ("two", 4)]),
        ("co_process", Both(), [("one", 1), ("one", 2), ("two", 3), ("two", 4)]),
    ],
)
def test_connected_streams(tmp_path: Path, shape: str, function: Any, expected: list[Any]) -> None:
    for sizes in ([1], [9]):
        program = Program()
        first, second = program.source(Given()), program.source(Given())
        program.collect(program.function(shape, function, (first, None, 0), (second, Rebalance(), 1)))
        job = run(program, tmp_path, {1: [[1, 2]], 2: [[3, 4]]}, sizes, None)
        assert sorted(job.out["out"]) == expected


class Match(KeyedCoProcessFunction):
    """Pairs the n-th of one side with the n-th of the other."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = [runtime_context.get_list_state(ListStateDescriptor(f"side{n}", ANY)) for n in (0, 1)]

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self.meet(0, value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self.meet(1, value)

    def meet(self, side: int, value: Any) -> Any:
        others = list(self.waiting[1 - side].get())
        if others:
            self.waiting[1 - side].update(others[1:])
            pair = (value, others[0])
            yield value[0], pair[side][1], pair[1 - side][1]
        else:
            self.waiting[side].add(value)


@hypothesis
@given(pairs, pairs, cuts, st.integers(0, 99))
def test_two_keyed_inputs_share_their_state(
    tmp_path: Path, left: Pairs, right: Pairs, sizes: list[int], seed: int
) -> None:
    program = Program()
    first, second = (program.source(Given(), parallelism=1) for _ in range(2))
    program.collect(program.function("co_process", Match(), (first, by(key), 0), (second, by(key), 1)))
    expected = {}
    for name in "abcd":
        sides = [[n for k, n in side if k == name] for side in (left, right)]
        if min(map(len, sides)):
            expected[name] = [(name, *pair) for pair in zip(*sides, strict=False)]
    job = run(program, tmp_path, {1: [left], 2: [right]}, sizes, seed)
    assert by_key(job.out.get("out", [])) == expected


# -- side outputs, unions, several consumers

LATE = OutputTag("late", Types.STRING())


class Route(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value % 3 == 0:
            yield LATE, str(value)
        if value % 3 < 2:
            yield value


@hypothesis
@given(st.lists(st.integers(0, 20), max_size=20), cuts, st.integers(0, 99))
def test_side_outputs(tmp_path: Path, numbers: list[int], sizes: list[int], seed: int) -> None:
    program = Program()
    routed = program.function("process", Route(), program.source(Given()), side_types={"late": LATE.type_info})
    program.collect(routed)
    program.collect((routed, None, 0, "late"), name="near")
    program.collect((routed, Rebalance(), 0, "late"), name="far")
    job = run(program, tmp_path, numbers, sizes, seed, parallelism=1)
    late = [str(n) for n in numbers if n % 3 == 0]
    assert job.out.get("out", []) == [n for n in numbers if n % 3 < 2]
    assert job.out.get("near", []) == late
    assert sorted(job.out.get("far", [])) == sorted(late)


def grown(value: list[Any]) -> list[Any]:
    value.append("grown")
    return value


def test_consumers_do_not_see_each_others_changes(tmp_path: Path) -> None:
    program = Program()
    source = program.source(Given())
    program.collect(program.map(source, function=grown), name="first")
    program.collect(source, name="second")
    program.collect((program.map(source, function=grown), Rebalance()), name="third")
    job = run(program, tmp_path, [[1], [2]], [9], None, parallelism=1)
    assert job.out["second"] == [[1], [2]]
    assert job.out["first"] == [[1, "grown"], [2, "grown"]]
    assert sorted(job.out["third"]) == [[1, "grown"], [2, "grown"]]


@hypothesis
@given(st.lists(st.integers(), max_size=15), st.lists(st.integers(), max_size=15), cuts, st.integers(0, 99))
def test_unions_of_different_depth(
    tmp_path: Path, left: list[int], right: list[int], sizes: list[int], seed: int
) -> None:
    program = Program()
    first, second = program.source(Given()), program.source(Given(), parallelism=3)
    deep = program.map((program.map((first, Rebalance())), by(lambda n: n)))
    program.collect(deep, first, second, (program.map(second), Broadcast()))
    job = run(program, tmp_path, {1: [left, left], 2: [right, [], right]}, sizes, seed)
    assert sorted(job.out.get("out", [])) == sorted(4 * left + 2 * right + 2 * 2 * right)


# -- time


def with_times(program: Program, source: Any, every: int = 1, **strategy: Any) -> Any:
    made = WatermarkStrategy("bounded", strategy.pop("late", 0)).with_timestamp_assigner(At())
    made.idle_timeout_ms = strategy.pop("idle", None)
    return program.add("times", TimestampsSpec(made, every), source)


class Window(KeyedProcessFunction):
    """Sums per key and ten milliseconds, by event-time timers; tells of what came too late."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", ANY, ANY))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        assert ctx.timestamp() == value[1]
        end = value[1] // 10 * 10 + 9
        if end <= ctx.timer_service().current_watermark():
            yield value[0], "late", value[1]
        else:
            self.sums.put(end, (self.sums.get(end) or 0) + 1)
            ctx.timer_service().register_event_time_timer(end)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        assert ctx.timestamp() == timestamp
        yield ctx.get_current_key(), timestamp, self.sums.get(timestamp)
        self.sums.remove(timestamp)


times = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), max_size=30)


@hypothesis
@given(times, cuts, st.integers(0, 99), st.integers(1, 4), st.integers(0, 20))
def test_event_time_does_not_depend_on_cuts(
    tmp_path: Path, records: Pairs, sizes: list[int], seed: int, every: int, late: int
) -> None:
    program = Program()
    timed = with_times(program, program.source(Given(), parallelism=1), every=every, late=late)
    program.nodes[1].parallelism = 1
    program.collect(program.function("process", Window(), (timed, by(key))))
    whole = run(program, tmp_path, records, [99], None).out.get("out", [])
    assert by_key(run(program, tmp_path, records, sizes, seed).out.get("out", [])) == by_key(whole)
    assert sum(1 if what[1] == "late" else what[2] for what in whole) == len(records)
    highest, watermark, expected = -1, -(1 << 63), 0
    for count, (_, at) in enumerate(records, start=1):
        expected += at // 10 * 10 + 9 <= watermark
        highest = max(highest, at)
        if count % every == 0:
            watermark = highest - late - 1
    assert sum(what[1] == "late" for what in whole) == expected


class Alarm(KeyedProcessFunction):
    """Processing-time timers: set by records, moved on once by a timer, deleted by a record."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        service = ctx.timer_service()
        assert ctx.timestamp() == MIN_WATERMARK
        if value[1] < 0:
            service.delete_processing_time_timer(-value[1])
        else:
            service.register_processing_time_timer(value[1])
            service.register_processing_time_timer(value[1])
        yield value[0], "at", service.current_processing_time()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
        yield ctx.get_current_key(), "timer", timestamp
        if timestamp % 2 == 0:
            ctx.timer_service().register_processing_time_timer(timestamp + 5)


def with_alarms() -> Program:
    program = Program()
    program.collect(program.function("process", Alarm(), (program.source(Given()), by(key))))
    return program


def test_processing_time_timers(tmp_path: Path) -> None:
    job = Job(with_alarms(), tmp_path)
    job.step({1: [[("a", 20), ("b", 30), ("a", 40), ("b", 7)]]}, now=10)
    fired = [result for result in job.out["out"] if result[1] == "timer"]
    assert fired == [("b", "timer", 7)], "what lies in the past is due in the same step"
    assert min(job.timers.values()) == 20
    job.step({1: [[("a", -40)]]}, now=12)
    job.out.clear()
    job.step(now=25)
    assert job.out["out"] == [("a", "timer", 20), ("a", "timer", 25)]
    job.out.clear()
    job.step(now=100)
    assert job.out["out"] == [("b", "timer", 30), ("b", "timer", 35)]
    assert job.timers == {}


def test_pending_processing_time_timers_are_dropped_at_the_end(tmp_path: Path) -> None:
    job = Job(with_alarms(), tmp_path)
    job.step({1: [[("a", 20)]]}, now=10)
    job.step(now=50, final=True)
    assert [result[1] for result in job.out["out"]] == ["at"]


@hypothesis
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 60)), max_size=15), st.integers(0, 99))
def test_timers_survive_trouble(tmp_path: Path, records: Pairs, seed: int) -> None:
    calm = Job(with_alarms(), tmp_path).work_through({1: [records]}, [2], itertools.count(0, 8))
    rough = Job(with_alarms(), tmp_path, workers=3, trouble=random.Random(seed))
    rough.work_through({1: [records]}, [2], itertools.count(0, 8))
    assert by_key(rough.out.get("out", [])) == by_key(calm.out.get("out", []))


def test_results_of_timers_and_of_records_travel_together(tmp_path: Path) -> None:
    """The ones have timestamps and the others have none."""

    class Tell(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            yield (*value, ctx.timestamp())

    program = Program()
    alarms = program.function("process", Alarm(), (program.source(Given()), by(key)))
    program.collect(program.function("process", Tell(), (alarms, by(key))))
    job = Job(program, tmp_path, parallelism=1)
    job.step({1: [[("a", 7), ("a", 8)]]}, now=10)
    job.step({1: [[("a", 70)]]}, now=20)
    assert job.out["out"] == [
        ("a", "at", 10, MIN_WATERMARK),
        ("a", "at", 10, MIN_WATERMARK),
        ("a", "timer", 7, 7),
        ("a", "timer", 8, 8),
        ("a", "timer", 13, 13),
        ("a", "at", 20, MIN_WATERMARK),
    ]


def test_an_idle_source_holds_nothing_back(tmp_path: Path) -> None:
    program = Program()
    timed = with_times(program, program.source(Given()), idle=100)
    program.collect(program.function("process", Window(), (timed, by(key))))
    job = Job(program, tmp_path)
    job.step({1: [[("a", 5)], []]}, now=0)
    job.step({1: [[("a", 25)], []]}, now=60)
    assert job.out.get("out", []) == [], "the second subtask of the source has said nothing yet"
    assert min(job.timers.values()) == 100, "a step is wanted when it has been silent for long enough"
    job.step(now=100)
    assert job.out["out"] == [("a", 9, 1)]
    job.step({1: [[("a", 45)], [("b", 3)]]}, now=120)
    assert job.out["out"][1:] == [("b", "late", 3), ("a", 29, 1)]


def test_a_step_that_caught_up_sends_the_watermark(tmp_path: Path) -> None:
    program = Program()
    timed = with_times(program, program.source(Given(), parallelism=1), every=1000)
    program.nodes[1].parallelism = 1
    program.collect(program.function("process", Window(), (timed, by(key))))
    job = Job(program, tmp_path)
    job.step({1: [[("a", 5), ("a", 12)]]})
    assert job.out.get("out", []) == []
    job.step(caught_up=True)
    assert job.out["out"] == [("a", 9, 1)]


def test_the_first_step_is_run_again_from_nothing(tmp_path: Path) -> None:
    """Operators that an unsealed try left in a worker send the same watermarks again."""
    program = Program()
    timed = with_times(program, program.source(Given(), parallelism=1))
    program.nodes[1].parallelism = 1
    program.collect(program.function("process", Window(), (timed, by(key))))
    job = Job(program, tmp_path)
    records = {1: [[("a", 5), ("a", 25)]]}
    job.attempt(records)
    job.step(records)
    assert job.out["out"] == [("a", 9, 1)]


# -- lives


class Lifetime(MapFunction):
    def __init__(self) -> None:
        self.log: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        LOG.append(f"open {self.subtask}/{runtime_context.get_number_of_parallel_subtasks()}")

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        LOG.append(f"close {self.subtask}")


LOG: list[str] = []


def test_a_worker_that_ends_an_execution_closes_its_functions(tmp_path: Path) -> None:
    LOG.clear()
    program = Program()
    program.map(program.source(Given()), function=Lifetime())
    job = Job(program, tmp_path, parallelism=1)
    job.step({1: [[1]]})
    job.workers[0].close()
    assert LOG == ["open 0/1", "close 0"]
