"""Windows give what a plain model gives, whatever the cut into steps, the parallelism, and the trouble on the way."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.api.function import AggregateFunction
from beadline.api.output_tag import OutputTag
from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.api.window_functions import ProcessWindowFunction, WindowFunction
from beadline.api.windows.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from beadline.common import Duration, Time, Types, WatermarkStrategy
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from beadline.errors import ConfigurationError, GraphError, JobExecutionError
from beadline.graph.specs import CollectSpec
from tests.runtime.harness import Given, Job
from tests.timestamps import At

Records = list[tuple[str, int]]
records_ = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 80)), max_size=30)
cuts = st.lists(st.integers(0, 6), max_size=8).map(lambda sizes: [*sizes, 4])
hypothesis = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
LATE = OutputTag("late")


class Gather(WindowFunction[Any, Any, Any, Any]):
    """The key, the window and how many elements it holds."""

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield key, window.start, window.end, len(list(inputs))


class Tell(ProcessWindowFunction[Any, Any, Any, Any]):
    """The fold's result, with the window around it."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        for element in elements:
            yield key, context.window().start, context.window().end, element


class CountAll(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


def run(
    build: Any, folder: Path, records: Any, sizes: list[int], seed: int | None = None, p: int = 2, late: int = 1000
) -> Job:
    """The stream of ``build`` over records of (key, time), a watermark after each record."""
    env = StreamExecutionEnvironment()
    env._configuration.set_integer("beadline.watermark.records", 1)
    env.set_parallelism(p)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(late))
    source = env.from_source(Given(), strategy.with_timestamp_assigner(At()), "records").set_parallelism(1)
    stream = build(source)
    stream._apply("out", CollectSpec("out"), None)
    trouble = None if seed is None else random.Random(seed)
    plan = env._plan("windows")
    node = next(n.id for n in plan.nodes.values() if n.is_source)
    return Job(plan, folder, workers=2, trouble=trouble).work_through({node: [records]}, sizes)


def out(job: Job) -> Counter[Any]:
    return Counter(job.out.get("out", []))


def keyed(source: Any) -> Any:
    return source.key_by(lambda record: record[0])


def tumbling(records: Records, size: int) -> Counter[Any]:
    counts = Counter((key, at // size * size) for key, at in records)
    return Counter((key, start, start + size, n) for (key, start), n in counts.items())


@hypothesis
@given(records_, cuts, st.integers(0, 99), st.integers(1, 4))
def test_tumbling(tmp_path: Path, records: Records, sizes: list[int], seed: int, p: int) -> None:
    windows = TumblingEventTimeWindows.of(Time.milliseconds(10))
    for build in (
        lambda source: keyed(source).window(windows).apply(Gather()),
        lambda source: keyed(source).window(windows).aggregate(CountAll(), Tell()),
    ):
        assert out(run(build, tmp_path, records, sizes, seed, p)) == tumbling(records, 10)


@hypothesis
@given(records_, cuts, st.integers(0, 99))
def test_sliding_with_a_reduce(tmp_path: Path, records: Records, sizes: list[int], seed: int) -> None:
    expected: dict[Any, int] = defaultdict(int)
    for key, at in records:
        for start in range(at // 4 * 4 - 8, at + 1, 4):
            if start <= at < start + 10:
                expected[key, start, start + 10] += at
    windows = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(4))
    job = run(
        lambda source: keyed(source).window(windows).reduce(lambda a, b: (a[0], a[1] + b[1]), Tell()),
        tmp_path,
        records,
        sizes,
        seed,
    )
    assert out(job) == Counter((*place, (place[0], total)) for place, total in expected.items())


def sessions(records: Records, gap: int) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for key in {key for key, _ in records}:
        times = sorted(at for k, at in records if k == key)
        start, last, n = times[0], times[0], 1
        for at in times[1:]:
            if at > last + gap:
                found[key, start, last + gap, n] += 1
                start, n = at, 0
            last, n = at, n + 1
        found[key, start, last + gap, n] += 1
    return found


@hypothesis
@given(records_, cuts, st.integers(0, 99), st.integers(1, 3))
def test_sessions(tmp_path: Path, records: Records, sizes: list[int], seed: int, p: int) -> None:
    windows = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    for build in (
        lambda source: keyed(source).window(windows).apply(Gather()),
        lambda source: keyed(source).window(windows).aggregate(CountAll(), Tell()),
    ):
        assert out(run(build, tmp_path, records, sizes, seed, p)) == sessions(records, 5)


@hypothesis
@given(st.lists(st.sampled_from("ab"), max_size=25), cuts, st.integers(0, 99))
def test_count_windows(tmp_path: Path, keys: list[str], sizes: list[int], seed: int) -> None:
    records = [(key, number) for number, key in enumerate(keys)]
    job = run(lambda source: keyed(source).count_window(3).aggregate(CountAll()), tmp_path, records, sizes, seed)
    full = sum(n // 3 for n in Counter(keys).values())
    assert out(job) == (Counter({3: full}) if full else Counter())


@hypothesis
@given(records_, cuts, st.integers(0, 12))
def test_what_is_late_does_not_depend_on_the_cut(
    tmp_path: Path, records: Records, sizes: list[int], lateness: int
) -> None:
    """On one channel: every record is either in a window or, if that is over, in the side output."""

    def build(source: Any) -> Any:
        windows = keyed(source).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        counted = windows.allowed_lateness(lateness).side_output_late_data(LATE).aggregate(CountAll(), Tell())
        late = counted.get_side_output(LATE).map(lambda record: ("late", *record))
        return counted.map(lambda result: ("window", *result)).union(late)

    whole = out(run(build, tmp_path, records, [99], late=5))
    assert out(run(build, tmp_path, records, sizes, late=5)) == whole
    watermark, highest, late_count = -(1 << 63), 0, 0
    for _, at in records:
        late_count += at // 10 * 10 + 9 + lateness <= watermark
        highest = max(highest, at)
        watermark = highest - 6
    assert sum(n for what, n in whole.items() if what[0] == "late") == late_count


def test_a_late_element_that_is_allowed_fires_again(tmp_path: Path) -> None:
    def build(source: Any) -> Any:
        windows = keyed(source).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.allowed_lateness(20).aggregate(CountAll(), Tell())

    records = [("a", 1), ("a", 15), ("a", 2), ("a", 50), ("a", 3)]
    assert out(run(build, tmp_path, records, [1], late=0)) == Counter(
        [("a", 0, 10, 1), ("a", 0, 10, 2), ("a", 10, 20, 1), ("a", 50, 60, 1)]
    )


@pytest.mark.parametrize("sizes", [[99], [1], [2, 3]])
def test_triggers(tmp_path: Path, sizes: list[int]) -> None:
    records = [("a", at) for at in (0, 1, 2, 3, 4, 5, 12, 13)]

    def counted(trigger: Any) -> Counter[Any]:
        windows = TumblingEventTimeWindows.of(Time.milliseconds(10))
        build = lambda source: keyed(source).window(windows).trigger(trigger).aggregate(CountAll(), Tell())  # noqa: E731
        return out(run(build, tmp_path, records, sizes, late=0))

    assert counted(CountTrigger.of(3)) == Counter([("a", 0, 10, 3), ("a", 0, 10, 6)])
    assert counted(PurgingTrigger.of(CountTrigger.of(2))) == Counter({("a", 0, 10, 2): 3, ("a", 10, 20, 2): 1})
    continuous = counted(ContinuousEventTimeTrigger.of(Time.milliseconds(4)))
    assert continuous[("a", 0, 10, 6)] == 3, "at 4, at 8 and at the end"
    assert continuous[("a", 10, 20, 2)] >= 1
    assert counted(NeverTrigger()) == Counter()


def test_evictors(tmp_path: Path) -> None:
    records = [("a", at) for at in (1, 2, 3, 8, 9)]

    def kept(evictor: Any) -> list[int]:
        windows = TumblingEventTimeWindows.of(Time.milliseconds(10))
        build = lambda source: keyed(source).window(windows).evictor(evictor).apply(Values())  # noqa: E731
        return run(build, tmp_path, records, [2]).out["out"][0]  # type: ignore[no-any-return]

    assert kept(CountEvictor.of(2)) == [8, 9]
    assert kept(TimeEvictor.of(Time.milliseconds(7))) == [3, 8, 9]
    assert kept(DeltaEvictor.of(7, lambda old, new: new[1] - old[1])) == [3, 8, 9]
    assert kept(CountEvictor.of(2, do_evict_after=True)) == [1, 2, 3, 8, 9]


class Values(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        yield [value for _, value in inputs]


def test_an_evictor_before_a_fold(tmp_path: Path) -> None:
    def build(source: Any) -> Any:
        windows = keyed(source).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.evictor(CountEvictor.of(2)).reduce(lambda a, b: (a[0], a[1] + b[1]))

    assert run(build, tmp_path, [("a", at) for at in (1, 2, 3, 8, 9)], [2]).out["out"] == [("a", 17)]


class Firings(ProcessWindowFunction[Any, Any, Any, Any]):
    """Counts in the window's state and in the key's."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        descriptor = ValueStateDescriptor("firings", Types.INT())
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(
                ValueStateDescriptor(f"{descriptor.name}-{store is context.window_state()}", Types.INT())
            )
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield key, context.window().start, *counts

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("firings-True", Types.INT())).clear()


def left_in_state(job: Job) -> int:
    """Slots that the segments of all subtasks amount to, timers included."""
    from beadline.state.store import open_store

    return sum(open_store(None, handle, range(128)).count() for handle in job.handles.values())


def test_window_and_global_state_and_what_remains(tmp_path: Path) -> None:
    def build(source: Any) -> Any:
        windows = keyed(source).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.trigger(CountTrigger.of(1)).process(Firings())

    job = run(build, tmp_path, [("a", 1), ("a", 2), ("a", 11), ("b", 3)], [1], p=1)
    assert out(job) == Counter([("a", 0, 1, 1), ("a", 0, 2, 2), ("a", 10, 1, 3), ("b", 0, 1, 1)])
    assert left_in_state(job) == 2, "only the state of the two keys is left"


@hypothesis
@given(records_, cuts, st.sampled_from(["tumbling", "sliding", "session"]))
def test_nothing_of_a_window_remains_when_it_is_over(
    tmp_path: Path, records: Records, sizes: list[int], kind: str
) -> None:
    assigners: dict[str, Any] = {
        "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(10)),
        "sliding": SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
        "session": EventTimeSessionWindows.with_gap(Time.milliseconds(5)),
    }
    job = run(lambda source: keyed(source).window(assigners[kind]).apply(Gather()), tmp_path, records, sizes, p=1)
    assert left_in_state(job) == 0


def test_the_windows_of_a_whole_stream(tmp_path: Path) -> None:
    windows = TumblingEventTimeWindows.of(Time.milliseconds(10))
    job = run(
        lambda source: source.window_all(windows).aggregate(CountAll()), tmp_path, [("a", 1), ("b", 2), ("c", 11)], [1]
    )
    assert out(job) == Counter([2, 1])


def test_sum_min_max_on_windows(tmp_path: Path) -> None:
    records = [("a", 3), ("a", 1), ("a", 2)]
    for name, expected in (("sum", ("a", 6)), ("min", ("a", 1)), ("max_by", ("a", 3))):
        windows = TumblingEventTimeWindows.of(Time.milliseconds(10))
        job = run(lambda s, n=name, w=windows: getattr(keyed(s).window(w), n)(1), tmp_path, records, [2])
        assert job.out["out"] == [expected]


def test_global_windows_with_a_count_trigger(tmp_path: Path) -> None:
    def build(source: Any) -> Any:
        return keyed(source).window(GlobalWindows.create()).trigger(CountTrigger.of(2)).aggregate(CountAll())

    assert run(build, tmp_path, [("a", n) for n in range(5)], [2]).out["out"] == [2, 4]


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment()
    stream = env.from_collection([("a", 1)]).key_by(lambda record: record[0])
    for size in (0, -5):
        with pytest.raises(ConfigurationError):
            TumblingEventTimeWindows.of(Time.milliseconds(size))
    windows = stream.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
    with pytest.raises(GraphError, match="can't merge"):
        windows.trigger(NoMerge())
    with pytest.raises(ConfigurationError, match="0 or more"):
        windows.allowed_lateness(-1)
    assert not hasattr(env.from_collection([1]), "window"), "windows need key_by(), or window_all()"


class NoMerge(NeverTrigger):  # type: ignore[type-arg]
    def can_merge(self) -> bool:
        return False


def test_event_time_windows_need_timestamps(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment()
    env.set_parallelism(1)
    stream = env.from_source(Given(), WatermarkStrategy.no_watermarks(), "records")
    counted = keyed(stream).window(TumblingEventTimeWindows.of(Time.milliseconds(10))).aggregate(CountAll())
    counted._apply("out", CollectSpec("out"), None)
    with pytest.raises(JobExecutionError, match="assign_timestamps_and_watermarks"):
        Job(env._plan("windows"), tmp_path).work_through({1: [[("a", 1)]]}, [9])


def test_processing_time_windows(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment()
    env.set_parallelism(1)
    stream = env.from_source(Given(), WatermarkStrategy.no_watermarks(), "records")
    counted = (
        keyed(stream).window(TumblingProcessingTimeWindows.of(Time.milliseconds(10))).aggregate(CountAll(), Tell())
    )
    counted._apply("out", CollectSpec("out"), None)
    job = Job(env._plan("windows"), tmp_path)
    job.step({1: [[("a", 1), ("a", 2)]]}, now=3)
    job.step({1: [[("a", 3)]]}, now=8)
    assert min(job.timers.values()) == 9
    job.step({}, now=12)
    job.step({1: [[("a", 4)]]}, now=15)
    assert job.out["out"] == [("a", 0, 10, 3)]
