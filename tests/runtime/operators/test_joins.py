"""Joins give what a plain model gives, whatever the cut into steps, the parallelism, and the trouble on the way."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.api.output_tag import OutputTag
from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.api.windows.evictors import CountEvictor
from beadline.common import Duration, Time, Types, WatermarkStrategy
from beadline.datastream import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    KeySelector,
    ProcessFunction,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from beadline.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from beadline.errors import JobExecutionError
from beadline.graph.specs import CollectSpec
from beadline.state.store import open_store
from tests.runtime.harness import Given, Job
from tests.timestamps import At

Record = tuple[str, int, int]  # key, time, number
BOUND = 4
hypothesis = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
LATE_LEFT = OutputTag("late-left")
LATE_RIGHT = OutputTag("late-right")


@st.composite
def streams(draw: st.DrawFn) -> list[Record]:
    """Elements out of order by at most the bound: their times are a rising line plus something below the bound."""
    steps = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 6), st.integers(0, BOUND)), max_size=20))
    line = 0
    made = []
    for number, (key, rise, ahead) in enumerate(steps):
        line += rise
        made.append((key, line + ahead, number))
    return made


cuts = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=6).map(lambda sizes: [*sizes, (5, 3)])


def key(record: Any) -> Any:
    return record[0]


def start(
    build: Any, folder: Path, p: int = 2, seed: int | None = None, sources: int = 1, bound: int = BOUND
) -> tuple[Job, list[int]]:
    """The job of ``build(left, right)``, with a watermark after each record; and the numbers of its sources."""
    env = StreamExecutionEnvironment()
    env._configuration.set_integer("beadline.watermark.records", 1)
    env.set_parallelism(p)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound)).with_timestamp_assigner(At())
    left = env.from_source(Given(), strategy, "left").set_parallelism(sources)
    right = env.from_source(Given(), strategy, "right").set_parallelism(sources)
    built = build(left, right)
    for name, stream in (built if isinstance(built, dict) else {"out": built}).items():
        stream._apply(name, CollectSpec(name), None)
    plan = env._plan("joins")
    job = Job(plan, folder, workers=2, trouble=None if seed is None else random.Random(seed))
    return job, [node.id for node in plan.nodes.values() if node.is_source]


def run(
    build: Any,
    folder: Path,
    left: list[Any],
    right: list[Any],
    sizes: list[tuple[int, int]],
    p: int = 2,
    seed: int | None = None,
    sources: int = 1,
    bound: int = BOUND,
) -> Job:
    """Both streams to their ends, in steps of so many records of each (the last sizes repeat)."""
    job, (one, two) = start(build, folder, p, seed, sources, bound)
    waiting = iter(sizes)
    size = (5, 5)
    while left or right:
        size = next(waiting, size)
        if sum(size) == 0:
            job.step()
            continue
        job.step({one: spread(left[: size[0]], sources), two: spread(right[: size[1]], sources)})
        left, right = left[size[0] :], right[size[1] :]
    job.step(final=True)
    return job


def spread(records: list[Any], subtasks: int) -> list[list[Any]]:
    return [records[i::subtasks] for i in range(subtasks)]


def out(job: Job, name: str = "out") -> Counter[Any]:
    return Counter(job.out.get(name, []))


def left_in_state(job: Job) -> int:
    """Slots that the segments of all subtasks amount to, timers included."""
    return sum(open_store(None, handle, range(128)).count() for handle in job.handles.values())


# -- window joins


def pair(first: Any, second: Any) -> Any:
    return first[0], first[2], second[2]


class Pair(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return pair(first, second)


class Twice(FlatJoinFunction):
    """Nothing, one or two elements for a pair."""

    def open(self, runtime_context: Any) -> None:
        self.most = 3

    def join(self, first: Any, second: Any) -> Any:
        for _ in range((first[2] + second[2]) % self.most):
            yield pair(first, second)


class MaybeNothing(FlatJoinFunction):
    """A function that returns instead of yielding."""

    def join(self, first: Any, second: Any) -> Any:
        return None if first[2] == 0 else [pair(first, second)]


class Outer(CoGroupFunction):
    """The two groups as they are."""

    def co_group(self, first: Any, second: Any) -> Any:
        first, second = list(first), list(second)
        yield (
            (first or second)[0][0],
            tuple(sorted(e[2] for e in first)),
            tuple(sorted(e[2] for e in second)),
        )


ASSIGNERS: dict[str, Any] = {
    "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(10)),
    "sliding": SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(4)),
    "session": EventTimeSessionWindows.with_gap(Time.milliseconds(3)),
}


def spans_of(kind: str, left: list[Record], right: list[Record]) -> Iterator[tuple[list[Record], list[Record]]]:
    """The elements of both streams by key and window."""
    groups: dict[Any, tuple[list[Record], list[Record]]] = defaultdict(lambda: ([], []))
    sides = [(0, record) for record in left] + [(1, record) for record in right]
    session: dict[str, tuple[int, int]] = {}
    for side, record in sorted(sides, key=lambda entry: entry[1][1]):
        name, time, _ = record
        if kind == "tumbling":
            starts = [time // 10 * 10]
        elif kind == "sliding":
            starts = [s for s in range(time // 4 * 4 - 12, time + 1, 4) if s <= time < s + 10]
        else:
            begun, last = session.get(name, (time, time))
            begun = begun if time - last <= 3 else time  # windows that touch are one
            session[name] = (begun, time)
            starts = [begun]
        for begin in starts:
            groups[name, begin][side].append(record)
    yield from groups.values()


def joined(streams_: Any, function: Any, kind: str) -> Any:
    left, right = streams_
    return left.join(right).where(key).equal_to(key).window(ASSIGNERS[kind]).apply(function)


@hypothesis
@given(
    streams(), streams(), cuts, st.integers(0, 99), st.integers(1, 4), st.integers(1, 2), st.sampled_from([*ASSIGNERS])
)
def test_window_join(
    tmp_path: Path, left: Any, right: Any, sizes: Any, seed: int, p: int, sources: int, kind: str
) -> None:
    pairs = [(a, b) for first, second in spans_of(kind, left, right) for a, b in product(first, second)]
    expected = Counter(pair(a, b) for a, b in pairs)
    twice = Counter(pair(a, b) for a, b in pairs for _ in range((a[2] + b[2]) % 3))

    def build(one: Any, two: Any) -> Any:
        return {"pairs": joined((one, two), Pair(), kind), "twice": joined((one, two), Twice(), kind)}

    job = run(build, tmp_path, left, right, sizes, p, seed, sources)
    assert out(job, "pairs") == expected
    assert out(job, "twice") == twice
    assert left_in_state(job) == 0, "windows that are over leave nothing"


@hypothesis
@given(
    streams(), streams(), cuts, st.integers(0, 99), st.integers(1, 4), st.integers(1, 2), st.sampled_from([*ASSIGNERS])
)
def test_co_group(
    tmp_path: Path, left: Any, right: Any, sizes: Any, seed: int, p: int, sources: int, kind: str
) -> None:
    expected = Counter(next(iter(Outer().co_group(*groups))) for groups in spans_of(kind, left, right))

    def build(one: Any, two: Any) -> Any:
        return one.co_group(two).where(key).equal_to(key).window(ASSIGNERS[kind]).apply(Outer())

    job = run(build, tmp_path, left, right, sizes, p, seed, sources)
    assert out(job) == expected
    assert left_in_state(job) == 0


def test_callables_and_functions_that_return(tmp_path: Path) -> None:
    def both(first: Any, second: Any) -> Iterator[Any]:
        yield first[2]
        yield second[2]

    def build(one: Any, two: Any) -> Any:
        sides = (one, two)
        groups = one.co_group(two).where(key).equal_to(key).window(ASSIGNERS["tumbling"])
        return {
            "one": joined(sides, lambda a, b: a[2] * 10 + b[2], "tumbling"),
            "yields": joined(sides, both, "tumbling"),
            "returns": joined(sides, MaybeNothing(), "tumbling"),
            "sizes": groups.apply(lambda a, b: [(len(a), len(b))]),
            "nothing": groups.apply(lambda a, b: None),
        }

    left, right = [("a", 1, 0), ("a", 2, 1)], [("a", 9, 7), ("b", 3, 8)]
    job = run(build, tmp_path, left, right, [(1, 1)], p=1)
    assert out(job, "one") == Counter([7, 17])
    assert out(job, "yields") == Counter([0, 7, 1, 7])
    assert out(job, "returns") == Counter([("a", 1, 7)])
    assert out(job, "sizes") == Counter([(2, 1), (0, 1)])
    assert job.out["nothing"] == []


class Length(KeySelector):
    """A selector with a life: its key is made in open()."""

    def open(self, runtime_context: Any) -> None:
        self.add = 1

    def get_key(self, value: Any) -> Any:
        return len(value[0]) + self.add


def test_keys_of_other_shapes_and_one_declared_type(tmp_path: Path) -> None:
    def build(one: Any, two: Any) -> Any:
        windows = one.join(two).where(Length(), Types.INT()).equal_to(lambda e: e[2]).window(ASSIGNERS["tumbling"])
        return windows.apply(lambda a, b: (a[0], b[0]), Types.TUPLE([Types.STRING(), Types.STRING()]))

    job = run(build, tmp_path, [("xx", 1, 0), ("x", 1, 0)], [("r", 2, 3), ("s", 2, 2), ("t", 2, 4)], [(1, 1)])
    assert out(job) == Counter([("xx", "r"), ("x", "s")])


def test_a_declared_key_type_holds_for_both_streams(tmp_path: Path) -> None:
    def build(one: Any, two: Any) -> Any:
        return one.join(two).where(lambda e: e[2], Types.INT()).equal_to(key).window(ASSIGNERS["tumbling"]).apply(pair)

    with pytest.raises(JobExecutionError, match=r"key_by before Window Join.*declared type Integer: got 'a'"):
        run(build, tmp_path, [("a", 1, 0)], [("a", 1, 0)], [(1, 1)])


def test_a_stream_with_itself_and_keyed_streams(tmp_path: Path) -> None:
    """Keys that the streams have already don't matter, and one stream may stand on both sides."""

    def build(one: Any, two: Any) -> Any:
        keyed = one.key_by(lambda e: e[2])
        return {
            "self": joined((one, one), pair, "tumbling"),
            "keyed": joined((keyed, two.key_by(key)), pair, "tumbling"),
        }

    job = run(build, tmp_path, [("a", 1, 0), ("a", 2, 1)], [("a", 9, 7)], [(1, 1)])
    assert out(job, "self") == Counter([("a", 0, 0), ("a", 0, 1), ("a", 1, 0), ("a", 1, 1)])
    assert out(job, "keyed") == Counter([("a", 0, 7), ("a", 1, 7)])


def test_trigger_evictor_and_unions(tmp_path: Path) -> None:
    """Every third element of a key fires; the evictor leaves the newest two, whichever stream they are of."""

    def build(one: Any, two: Any) -> Any:
        windows = one.union(one.filter(lambda e: False)).co_group(two).where(key).equal_to(key)
        windows = windows.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3)))
        return windows.evictor(CountEvictor.of(2)).apply(lambda a, b: [(len(a), len(b))])

    left = [("a", n, n) for n in range(2)]
    job = run(build, tmp_path, left, [("a", 5, 5)], [(2, 0), (0, 1)], p=1)
    assert job.out["out"] == [(1, 1)]


def test_late_elements_and_allowed_lateness(tmp_path: Path) -> None:
    """Within the lateness the window fires again with all of its elements; behind it they are dropped."""

    def build(lateness: int) -> Any:
        def built(one: Any, two: Any) -> Any:
            windows = one.join(two).where(key).equal_to(key).window(ASSIGNERS["tumbling"])
            return windows.allowed_lateness(lateness).apply(pair)

        return built

    left = [("a", 1, 0), ("a", 15, 1), ("a", 2, 2)]
    right = [("a", 3, 7), ("a", 15, 8)]
    sizes = [(2, 2), (1, 0)]
    assert out(run(build(0), tmp_path, left, right, sizes, p=1, bound=0)) == Counter([("a", 0, 7), ("a", 1, 8)])
    assert out(run(build(50), tmp_path, left, right, sizes, p=1, bound=0)) == Counter(
        [("a", 0, 7), ("a", 1, 8), ("a", 0, 7), ("a", 2, 7)]
    )


class Tagged(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        yield (LATE_LEFT, pair(first, second)) if first[2] > 0 else pair(first, second)


def test_side_outputs_of_a_window_join(tmp_path: Path) -> None:
    def build(one: Any, two: Any) -> Any:
        result = joined((one, two), Tagged(), "tumbling")
        return {"out": result, "side": result.get_side_output(LATE_LEFT)}

    job = run(build, tmp_path, [("a", 1, 0), ("a", 1, 1)], [("a", 9, 7)], [(1, 1)])
    assert (job.out["out"], job.out["side"]) == ([("a", 0, 7)], [("a", 1, 7)])


# -- interval joins


class Meet(ProcessJoinFunction):
    """The pair with its times, and how many pairs of the key there were: it has state like any keyed function."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        assert left[0] == right[0]
        assert (ctx.get_left_timestamp(), ctx.get_right_timestamp()) == (left[1], right[1])
        assert ctx.get_timestamp() == max(left[1], right[1])
        self.count.update((self.count.value() or 0) + 1)
        yield left[0], left[2], right[2]


class TimesToo(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield *value, ctx.timestamp()


def interval(lower: int, upper: int, function: Any = None) -> Any:
    def build(one: Any, two: Any) -> Any:
        joined_ = one.key_by(key).interval_join(two.key_by(key))
        joined_ = joined_.in_event_time().between(Time.milliseconds(lower), Duration.of_millis(upper))
        return joined_.process(function or Meet()).process(TimesToo())

    return build


def within(left: list[Record], right: list[Record], lower: int, upper: int) -> Counter[Any]:
    return Counter(
        (a[0], a[2], b[2], max(a[1], b[1]))
        for a, b in product(left, right)
        if a[0] == b[0] and a[1] + lower <= b[1] <= a[1] + upper
    )


bounds = st.tuples(st.integers(-20, 20), st.integers(-20, 20)).map(sorted)


@hypothesis
@given(streams(), streams(), cuts, st.integers(0, 99), st.integers(1, 4), st.integers(1, 2), bounds)
def test_interval_join(
    tmp_path: Path, left: Any, right: Any, sizes: Any, seed: int, p: int, sources: int, between: Any
) -> None:
    job = run(interval(*between), tmp_path, left, right, sizes, p, seed, sources)
    expected = within(left, right, *between)
    assert out(job) == expected
    assert left_in_state(job) == len({result[0] for result in expected}), "nothing but the function's own counts"


@pytest.mark.parametrize(
    ("exclude", "expected"), [("", {2, 3, 4}), ("l", {3, 4}), ("u", {2, 3}), ("lu", {3}), ("lul", {3})]
)
def test_bounds_may_be_excluded(tmp_path: Path, exclude: str, expected: set[int]) -> None:
    def build(one: Any, two: Any) -> Any:
        joined_ = one.key_by(key).interval_join(two.key_by(key)).between(Time.milliseconds(-1), Time.milliseconds(1))
        for which in exclude:
            joined_ = joined_.lower_bound_exclusive() if which == "l" else joined_.upper_bound_exclusive()
        return joined_.process(Meet())

    job = run(build, tmp_path, [("a", 3, 0)], [("a", n, n) for n in range(7)], [(1, 1)])
    assert {result[2] for result in job.out["out"]} == expected


class Watch(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield left[0], left[2], right[2]


def buffered(job: Job) -> int:
    """Elements that are held for a match."""
    total = 0
    for handle in job.handles.values():
        table = open_store(None, handle, range(128)).table("_interval-join", "list", True)
        total += sum(len(items) for items in table.base.values())
    return total


@hypothesis
@given(streams(), streams(), bounds, st.integers(1, 4))
def test_what_can_not_match_any_more_is_dropped(tmp_path: Path, left: Any, right: Any, between: Any, p: int) -> None:
    """At a watermark, held are all that could still match, and at most a quarter of the interval beyond it."""
    lower, upper = between
    job, (one, two) = start(interval(lower, upper, Watch()), tmp_path, p)
    for n in range(0, max(len(left), len(right)) + 4, 4):
        job.step({one: [left[n : n + 4]], two: [right[n : n + 4]]})
        if n >= min(len(left), len(right)):
            break
        watermark = min(max(e[1] for e in side[: n + 4]) for side in (left, right)) - BOUND - 1
        slack = (upper - lower) // 4 + 1
        lasting = [(e[1] + max(upper, 0)) for e in left[: n + 4]] + [(e[1] + max(-lower, 0)) for e in right[: n + 4]]
        needed = sum(last > watermark for last in lasting)
        allowed = sum(last + slack > watermark for last in lasting)
        assert needed <= buffered(job) <= allowed
    job.step(final=True)
    assert left_in_state(job) == 0


def test_a_long_stream_holds_no_more_than_its_interval(tmp_path: Path) -> None:
    """200 elements a side, 10 ms apart: those of the last 60 ms or so are held, however long the stream is."""
    job, (one, two) = start(interval(-40, 40, Watch()), tmp_path, p=2)
    held = []
    for n in range(0, 200, 10):
        records = [(name, t * 10, t) for t in range(n, n + 10) for name in "ab"]
        job.step({one: [records], two: [records]})
        held.append(buffered(job))
    assert max(held) <= 2 * 2 * 10, held
    assert sum(out(job).values()) == 2 * sum(1 for a, b in product(range(200), repeat=2) if abs(a - b) <= 4)


def test_late_elements_go_to_their_side_outputs(tmp_path: Path) -> None:
    def build(one: Any, two: Any) -> Any:
        joined_ = one.key_by(key).interval_join(two.key_by(key)).between(Time.milliseconds(-5), Time.milliseconds(5))
        joined_ = joined_.side_output_left_late_data(LATE_LEFT).side_output_right_late_data(LATE_RIGHT)
        result = joined_.process(Watch())
        return {
            "out": result,
            "left": result.get_side_output(LATE_LEFT),
            "right": result.get_side_output(LATE_RIGHT),
        }

    # The watermark of both streams is 19 when the second step begins: 19 itself is not late, 18 is.
    left = [("a", 10, 0), ("a", 20, 1), ("a", 18, 2), ("a", 19, 3)]
    right = [("a", 12, 0), ("a", 20, 1), ("a", 17, 2), ("a", 21, 3)]
    job = run(build, tmp_path, left, right, [(2, 2)], p=1, bound=0)
    assert (job.out["left"], job.out["right"]) == ([("a", 18, 2)], [("a", 17, 2)])
    assert out(job) == Counter([("a", 0, 0), ("a", 1, 1), ("a", 1, 3), ("a", 3, 1), ("a", 3, 3)])
    assert left_in_state(job) == 0


def test_an_element_at_the_watermark_is_dropped_in_the_end(tmp_path: Path) -> None:
    """It comes to a bucket that has just been dropped, in the same step."""
    job, (one, two) = start(interval(-5, 0, Watch()), tmp_path, p=1, bound=0)
    job.step({two: [[("a", 20, 0)]]})
    job.step({one: [[("a", 19, 0), ("a", 20, 1), ("a", 19, 2)]]})
    assert out(job) == Counter([("a", 1, 0, 20)])
    assert buffered(job) == 3
    job.step(final=True)
    assert left_in_state(job) == 0


def test_late_elements_are_dropped_and_counted(tmp_path: Path) -> None:
    job, (one, two) = start(interval(-5, 5, Watch()), tmp_path, p=1, bound=0)
    job.step({one: [[("a", 10, 0)]], two: [[("a", 10, 0)]]})
    acks = job.step({one: [[("a", 3, 1)]], two: [[("a", 8, 1), ("a", 9, 2)]]})
    assert out(job) == Counter([("a", 0, 0, 10), ("a", 0, 2, 10)])
    counts = [m for ack in acks for s in ack.subtasks for m in [repr(s.metrics)] if "numLateRecordsDropped" in m]
    assert len(counts) == 1
    assert "2" in counts[0]


class Mutable(ProcessJoinFunction):
    """Changes what it is given."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        left.append(right[2])
        right[2] = "seen"
        yield left


@pytest.mark.parametrize("sizes", [[(1, 0), (0, 1)], [(0, 3), (1, 0)], [(1, 1)], [(9, 9)]])
def test_what_is_held_is_safe_from_the_function(tmp_path: Path, sizes: Any) -> None:
    """For each pair both elements are as they came, whichever came last."""

    def build(one: Any, two: Any) -> Any:
        joined_ = one.key_by(key).interval_join(two.key_by(key)).between(Time.milliseconds(-9), Time.milliseconds(9))
        return joined_.process(Mutable())

    job = run(build, tmp_path, [["a", 1, 0]], [["a", n, n] for n in range(3)], sizes, p=1)
    assert sorted(job.out["out"]) == [["a", 1, 0, 0], ["a", 1, 0, 1], ["a", 1, 0, 2]]


@pytest.mark.parametrize("side", ["left", "right"])
def test_an_interval_join_needs_timestamps(tmp_path: Path, side: str) -> None:
    env = StreamExecutionEnvironment()
    env.set_parallelism(1)
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    untimed = WatermarkStrategy.no_watermarks()
    one = env.from_source(Given(), untimed if side == "left" else timed, "left")
    two = env.from_source(Given(), untimed if side == "right" else timed, "right")
    interval(-5, 5, Watch())(one, two)._apply("out", CollectSpec("out"), None)
    plan = env._plan("joins")
    sources = [node.id for node in plan.nodes.values() if node.is_source]
    with pytest.raises(JobExecutionError, match=f"the {side} stream has none: call assign_timestamps_and_watermarks"):
        Job(plan, tmp_path).step({source: [[("a", 1, 0)]] for source in sources})


def test_an_event_time_window_join_needs_timestamps(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment()
    env.set_parallelism(1)
    streams_ = [env.from_source(Given(), WatermarkStrategy.no_watermarks(), name) for name in ("left", "right")]
    joined(streams_, pair, "tumbling")._apply("out", CollectSpec("out"), None)
    plan = env._plan("joins")
    sources = [node.id for node in plan.nodes.values() if node.is_source]
    with pytest.raises(JobExecutionError, match="assign_timestamps_and_watermarks"):
        Job(plan, tmp_path).step({source: [[("a", 1, 0)]] for source in sources})


# -- a regular join: no window, nothing is ever forgotten
