"""Patterns on streams: what brute force finds, whatever the order of arrival, the cut into steps, the parallelism, and
the trouble on the way."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.cep import (
    CEP,
    AfterMatchSkipStrategy,
    ConditionContext,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
)
from beadline.common import Duration, Time, Types, WatermarkStrategy
from beadline.datastream import OutputTag, StreamExecutionEnvironment
from beadline.errors import JobExecutionError
from beadline.graph.specs import CollectSpec
from beadline.state.store import open_store
from tests.cep.matching import Walk
from tests.cep.model import Stage, all_matches, as_pattern, described, fits
from tests.datastream.jobs import collect, environment
from tests.runtime.harness import Given, Job
from tests.timestamps import At

hypothesis = settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
cuts = st.lists(st.integers(0, 6), max_size=8).map(lambda sizes: [*sizes, 4])
LATE = OutputTag("late")
OVER = OutputTag("over")

letters = st.sampled_from(["a", "b", "c", "ab", "bc"])
hows = st.sampled_from(["next", "followed_by", "followed_by_any"])
single = st.builds(Stage, letters, hows)
looping = st.builds(
    lambda letters, how, low, more, inner: Stage(letters, how, low, low + more if more < 3 else 0, inner),
    letters,
    hows,
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from(["consecutive", None, "allow_combinations"]),
)
optional = st.builds(lambda stage: Stage(**{**vars(stage), "optional": True}), st.one_of(single, looping))
stages_ = st.lists(st.one_of(single, looping, optional), min_size=1, max_size=4)
withins = st.one_of(st.none(), st.integers(1, 30))


@settings(max_examples=400)
@given(stages_, withins, st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcd")), max_size=10))
def test_the_matcher_finds_what_brute_force_finds(stages: list[Stage], within: int | None, steps: Any) -> None:
    walk = Walk(as_pattern(stages, within))
    walk._text = lambda path: tuple((path[at], path[at + 1][1][3]) for at in range(0, len(path), 2))  # type: ignore[method-assign]
    events: list[Any] = []
    for number, (wait, letter) in enumerate(steps):
        events.append(("k", walk.time + wait, letter, number))
        walk.until(walk.time + wait)
        walk._note(walk.matcher.process(walk.state, walk.time, events[-1]))
    assert Counter(walk.found) == Counter(all_matches(stages, within, events))


@given(stages_, withins, st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcd")), max_size=10))
def test_an_event_that_does_not_matter_changes_nothing(stages: list[Stage], within: int | None, steps: Any) -> None:
    walks = [Walk(as_pattern(stages, within)) for _ in range(2)]
    for every, walk in zip((True, False), walks, strict=True):
        walk._text = lambda path: tuple(part[1][3] for part in path[1::2])  # type: ignore[method-assign]
        for number, (wait, letter) in enumerate(steps):
            walk.until(walk.time + wait)
            event = ("k", walk.time, letter, number)
            if every or walk.matcher.matters(event):
                walk._note(walk.matcher.process(walk.state, walk.time, event))
        walk.until(1000)
    assert Counter(walks[0].found) == Counter(walks[1].found)
    assert Counter(walks[0].timed_out) == Counter(walks[1].timed_out)


# -- on streams


def key(event: Any) -> Any:
    return event[0]


def flat(match: dict[str, list[Any]]) -> Any:
    """A match as (key, ((stage, event), …))."""
    events = tuple((stage, event) for stage, events in match.items() for event in events)
    return events[0][1][0], events


def run(
    build: Any,
    folder: Path,
    records: Any,
    sizes: list[int],
    seed: int | None = None,
    p: int = 2,
    late: int = 1000,
    sides: tuple[OutputTag, ...] = (),
    every: int = 1,
) -> Job:
    """The matches of ``build(keyed stream)``, with a watermark after so many records."""
    env = StreamExecutionEnvironment()
    env._configuration.set_integer("beadline.watermark.records", every)
    env.set_parallelism(p)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(late))
    source = env.from_source(Given(), strategy.with_timestamp_assigner(At()), "records").set_parallelism(1)
    stream = build(source.key_by(key))
    stream._apply("out", CollectSpec("out"), None)
    for side in sides:
        stream.get_side_output(side)._apply(side.tag_id, CollectSpec(side.tag_id), None)
    trouble = None if seed is None else random.Random(seed)
    plan = env._plan("patterns")
    node = next(n.id for n in plan.nodes.values() if n.is_source)
    return Job(plan, folder, workers=2, trouble=trouble).work_through({node: [records]}, sizes)


def left_in_state(job: Job) -> int:
    """Slots that the segments of all subtasks amount to, timers included."""
    return sum(open_store(None, handle, range(128)).count() for handle in job.handles.values())


def numbered(records: list[tuple[str, int, str]]) -> list[tuple[str, int, str, int]]:
    return [(*record, number) for number, record in enumerate(records)]


records_ = st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 40), st.sampled_from("abcd")), max_size=24).map(
    numbered
)


@hypothesis
@given(stages_, withins, records_, cuts, st.integers(0, 99), st.integers(1, 4))
def test_matches_on_a_stream(
    tmp_path: Path, stages: list[Stage], within: int | None, records: Any, sizes: list[int], seed: int, p: int
) -> None:
    """Events come in any order; of equal timestamps the first to come is the first."""
    pattern = as_pattern(stages, within)
    job = run(lambda keyed: CEP.pattern(keyed, pattern).select(flat), tmp_path, records, sizes, seed, p)
    assert Counter(job.out.get("out", [])) == Counter(described(stages, within, records))


@hypothesis
@given(stages_, withins, records_, cuts, cuts, st.integers(0, 99), st.integers(0, 12), st.integers(1, 5))
def test_what_is_late_does_not_depend_on_the_cut(
    tmp_path: Path, stages: list[Stage], within: Any, records: Any, one: Any, two: Any, seed: int, late: int, every: int
) -> None:
    pattern = as_pattern(stages, within)

    def build(keyed: Any) -> Any:
        return CEP.pattern(keyed, pattern).side_output_late_data(LATE).select(flat)

    options: dict[str, Any] = {"late": late, "sides": (LATE,), "every": every}
    calm = run(build, tmp_path, records, one, **options)
    rough = run(build, tmp_path, records, two, seed, p=3, **options)
    expected_late, highest, watermark = [], -1, -(1 << 63)
    for count, record in enumerate(records, start=1):
        if record[1] <= watermark:
            expected_late.append(record)
        highest = max(highest, record[1])
        if count % every == 0:
            watermark = highest - late - 1
    on_time = [record for record in records if record not in expected_late]
    for job in (calm, rough):
        assert Counter(job.out.get("late", [])) == Counter(expected_late)
        assert Counter(job.out.get("out", [])) == Counter(described(stages, within, on_time))
    for name in "xyz":
        in_order = [[match for match in job.out.get("out", []) if match[0] == name] for job in (calm, rough)]
        assert in_order[0] == in_order[1], "the matches of a key come in the same order too"


@hypothesis
@given(st.permutations(numbered([("x", at, "abcab"[at % 5]) for at in range(12)])), stages_, cuts)
def test_the_order_of_arrival_does_not_matter(
    tmp_path: Path, shuffled: Any, stages: list[Stage], sizes: list[int]
) -> None:
    pattern = as_pattern(stages, 6, AfterMatchSkipStrategy.skip_to_next())
    build = lambda keyed: CEP.pattern(keyed, pattern).select(flat)  # noqa: E731
    in_order = run(build, tmp_path, sorted(shuffled, key=lambda event: event[1]), [99], p=1)
    assert run(build, tmp_path, shuffled, sizes, p=1).out == in_order.out


def test_a_comparator_orders_events_of_the_same_time(tmp_path: Path) -> None:
    pattern = as_pattern([Stage("a"), Stage("b", "next")], None)
    records = numbered([("x", 5, "b"), ("x", 5, "a"), ("x", 5, "c"), ("x", 6, "b")])
    plain = run(lambda keyed: CEP.pattern(keyed, pattern).select(len), tmp_path, records, [1])
    assert plain.out.get("out", []) == [], "in the order of arrival: b a c b"

    def compare(one: Any, other: Any) -> int:
        return (one[2] > other[2]) - (one[2] < other[2])

    build = lambda keyed: CEP.pattern(keyed, pattern, compare).select(flat)  # noqa: E731
    (match,) = run(build, tmp_path, records, [1]).out["out"]
    assert [event[3] for _, event in match[1]] == [1, 0], "sorted: a b c b"


# -- partial matches that run out of time, and what remains

a_then_b = [Stage("a"), Stage("b")]


def over(match: dict[str, list[Any]], time: int) -> Any:
    return (*match["s0"][0], time)


@hypothesis
@given(records_, cuts, st.integers(0, 99), st.integers(1, 20))
def test_partial_matches_that_run_out_of_time(
    tmp_path: Path, records: Any, sizes: list[int], seed: int, within: int
) -> None:
    pattern = as_pattern(a_then_b, within)
    build = lambda keyed: CEP.pattern(keyed, pattern).select(flat, None, OVER, over)  # noqa: E731
    job = run(build, tmp_path, records, sizes, seed, sides=(OVER,))
    matches = described(a_then_b, within, records)
    complete = {match[1][0][1] for match in matches}
    expected = [(*record, record[1] + within) for record in records if record[2] == "a" and record not in complete]
    assert Counter(job.out.get("out", [])) == Counter(matches)
    assert Counter(job.out.get("over", [])) == Counter(expected)
    assert left_in_state(job) == 0


class WhenSilent(PatternProcessFunction):
    def process_match(self, match: Any, ctx: PatternProcessFunction.Context) -> Any:
        yield (*match["a"][0], ctx.timestamp())


@hypothesis
@given(records_, cuts, st.integers(0, 99), st.integers(1, 20))
def test_silence_is_found_when_the_time_is_over(
    tmp_path: Path, records: Any, sizes: list[int], seed: int, within: int
) -> None:
    pattern = Pattern.begin("a").where(fits("a")).not_followed_by("b").where(fits("b"))
    pattern.within(Time.milliseconds(within))
    job = run(lambda keyed: CEP.pattern(keyed, pattern).process(WhenSilent()), tmp_path, records, sizes, seed)
    expected = []
    for name, at, letter, number in records:
        behind = [r for r in records if r[0] == name and r[2] == "b" and (at, number) < (r[1], r[3])]
        if letter == "a" and not any(r[1] < at + within for r in behind):
            expected.append((name, at, letter, number, at + within))
    assert Counter(job.out.get("out", [])) == Counter(expected)
    assert left_in_state(job) == 0


@hypothesis
@given(stages_, st.integers(1, 30), records_, cuts, st.integers(0, 99))
def test_nothing_remains_when_the_time_is_over(
    tmp_path: Path, stages: list[Stage], within: int, records: Any, sizes: list[int], seed: int
) -> None:
    pattern = as_pattern(stages, within)
    assert (
        left_in_state(run(lambda keyed: CEP.pattern(keyed, pattern).select(len), tmp_path, records, sizes, seed)) == 0
    )


def test_only_keys_with_something_under_way_have_state(tmp_path: Path) -> None:
    pattern = as_pattern(a_then_b, None)
    records = [(f"k{n}", n, letter, n) for n, letter in enumerate("acbdcabbbcda")]
    records += [("k0", 50, "b", 50), ("k5", 51, "c", 51)]
    job = run(lambda keyed: CEP.pattern(keyed, pattern).select(len), tmp_path, records, [3])
    assert job.out["out"] == [2]
    assert left_in_state(job) == 2, "k5 and k11 wait for their b; k0 has got it; the others never began"


class Tell(PatternProcessFunction, TimedOutPartialMatchHandler):
    """All that a function is told, its own life included."""

    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context.get_task_name()

    def process_match(self, match: Any, ctx: PatternProcessFunction.Context) -> Any:
        yield self.name, ctx.get_current_key(), list(match), ctx.timestamp(), ctx.current_processing_time()
        yield OVER, "a match"

    def process_timed_out_match(self, match: Any, ctx: PatternProcessFunction.Context) -> Any:
        yield OVER, (ctx.get_current_key(), list(match), ctx.timestamp())


def test_a_pattern_process_function(tmp_path: Path) -> None:
    pattern = as_pattern(a_then_b, 10)
    records = numbered([("x", 1, "a"), ("y", 2, "a"), ("x", 4, "b")])
    job = run(lambda keyed: CEP.pattern(keyed, pattern).process(Tell()), tmp_path, records, [1], p=1, sides=(OVER,))
    assert job.out["out"] == [("Pattern", "x", ["s0", "s1"], 4, 0)]
    assert job.out["over"] == ["a match", ("y", ["s0"], 12)]


def test_flat_select(tmp_path: Path) -> None:
    pattern = as_pattern(a_then_b, 10)
    records = numbered([("x", 1, "a"), ("x", 2, "b"), ("x", 3, "a")])

    def build(keyed: Any) -> Any:
        each = lambda match: [event[3] for events in match.values() for event in events]  # noqa: E731
        return CEP.pattern(keyed, pattern).flat_select(each, None, OVER, lambda match, time: [time, time + 1])

    job = run(build, tmp_path, records, [1], p=1, sides=(OVER,))
    assert job.out == {"out": [0, 1], "over": [13, 14]}


def test_events_need_timestamps_in_event_time(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment()
    stream = env.from_source(Given(), WatermarkStrategy.no_watermarks(), "records")
    CEP.pattern(stream.key_by(key), as_pattern(a_then_b, None)).select(len)._apply("out", CollectSpec("out"), None)
    with pytest.raises(JobExecutionError, match=r"in_processing_time\(\)"):
        Job(env._plan("patterns"), tmp_path).work_through({1: [[("x", 1, "a")]]}, [9])


class Mutable:
    def __init__(self, key: str, letter: str) -> None:
        self.parts = [key, 0, letter]

    def __getitem__(self, at: int) -> Any:
        return self.parts[at]


def test_processing_time(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment()
    env.set_parallelism(1)
    stream = env.from_source(Given(), WatermarkStrategy.no_watermarks(), "records")
    pattern = as_pattern([Stage("a"), Stage("b"), Stage("c")], 10)
    letters = lambda match: "".join(event[2] for events in match.values() for event in events)  # noqa: E731
    found = CEP.pattern(stream.key_by(key), pattern).in_processing_time()
    result = found.select(letters, None, OVER, lambda match, time: (letters(match), time))
    result._apply("out", CollectSpec("out"), None)
    result.get_side_output(OVER)._apply("over", CollectSpec("over"), None)
    job = Job(env._plan("patterns"), tmp_path)
    job.step({1: [[Mutable("x", letter) for letter in "dab"] + [Mutable("y", "a")]]}, now=100)
    assert min(job.timers.values()) == 110
    job.step({1: [[Mutable("x", "a")]]}, now=105)
    job.step({1: [[Mutable("x", "c")]]}, now=109)
    assert job.out == {"out": ["abc"], "over": []}
    job.step(now=110)
    job.step({1: [[Mutable("x", letter) for letter in "bc"]]}, now=115)
    assert job.out == {"out": ["abc"], "over": [("a", 110), ("a", 115)]}, "115 is too late for what began at 105"
    assert left_in_state(job) == 0


def test_a_pattern_may_be_continued_twice() -> None:
    first = Pattern.begin("a").where(fits("a"))
    one, other = first.next("b").where(fits("b")), first.next("c").where(fits("c"))
    assert [stage.get_name() for stage in one._stages()] == ["a", "b"]
    assert [stage.get_name() for stage in other._stages()] == ["a", "c"]
    assert one.within(Time.seconds(1)).get_window_time() == 1000
    assert other.get_window_time() is None


# -- the alarm that complex event processing is explained with, on Spark


QUIET = OutputTag("quiet", Types.LONG())
MINUTE = 60_000


def far_apart(reading: Any, ctx: ConditionContext) -> bool:
    (first,) = ctx.get_events_for_pattern("first")
    return bool(abs(reading[2] - first[2]) > 20)


def readings() -> list[tuple[str, int, float]]:
    """Three sensors, a reading every two to seven seconds, up to 20 s out of order."""
    chance = random.Random(7)
    made = []
    for sensor in ("boiler", "cellar", "attic"):
        at = 0
        for _ in range(150):
            at += chance.randrange(2000, 7000)
            made.append((sensor, at, round(chance.gauss(50, 6), 1)))
    return sorted(made, key=lambda reading: reading[1] + chance.randrange(20_000))


@pytest.mark.slow
@pytest.mark.spark
def test_two_readings_within_a_minute_that_are_far_apart(spark: Any) -> None:
    given = readings()
    env = environment(3, step_records=90)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20)).with_timestamp_assigner(At())
    kind = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
    stream = env.from_collection(given, kind).assign_timestamps_and_watermarks(strategy).key_by(lambda r: r[0])
    pattern = Pattern.begin("first").followed_by("second").where(far_apart).within(Time.minutes(1))
    alarms = collect(CEP.pattern(stream, pattern).select(lambda match: (*match["first"], *match["second"])))

    expected = []
    for first in given:
        behind = sorted(r for r in given if r[0] == first[0] and first[1] < r[1] < first[1] + MINUTE)
        expected += [(first, other) for other in behind if abs(other[2] - first[2]) > 20][:1]
    assert len(expected) > 20
    assert sorted(alarms) == sorted(expected)
