"""The harness behaves as a job does."""

from __future__ import annotations

import os
import pickle
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beadline.common import Configuration, Row, Time, Types, WatermarkStrategy
from beadline.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    CheckpointListener,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ReduceFunction,
    RuntimeContext,
)
from beadline.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from beadline.datastream.window import TumblingEventTimeWindows
from beadline.errors import (
    ConfigurationError,
    JobExecutionError,
    SerializationError,
    StateAccessError,
    TypeMismatchError,
)
from beadline.state.key_groups import key_group_of
from beadline.testing import Harness, KeyedHarness, Timer
from beadline.testing.rounds import Rounds
from tests.timestamps import At

COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.LONG())
TAGS = MapStateDescriptor("tags", Types.STRING(), Types.LONG())
LARGEST = ReducingStateDescriptor("largest", max, Types.LONG())
STATES = (COUNT, SEEN, TAGS, LARGEST)
ODD = OutputTag("odd", Types.LONG())
ANY = Types.PICKLED_BYTE_ARRAY()


def first(record: Any) -> Any:
    return record[0]


def itself(record: Any) -> Any:
    return record


class Everything(KeyedProcessFunction):
    """Counts and keeps what comes in every kind of state; timers tell the count."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)
        self.seen = runtime_context.get_list_state(SEEN)
        self.tags = runtime_context.get_map_state(TAGS)
        self.largest = runtime_context.get_reducing_state(LARGEST)

    def process_element(self, value: Any, ctx: Any) -> Any:
        key, number = value
        if number < 0:
            raise ValueError("negative")
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(number)
        self.tags.put(f"mod {number % 3}", number)
        self.largest.add(number)
        if number % 2:
            yield ODD, number
        ctx.timer_service().register_event_time_timer(number + 10)
        ctx.timer_service().register_processing_time_timer(number + 100)
        yield key, self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp, self.count.value()


def everything(**options: Any) -> KeyedHarness:
    return KeyedHarness(Everything(), first, side_outputs=[ODD], **options)


# -- one element at a time


def test_elements_go_in_and_results_come_out() -> None:
    with everything() as harness:
        assert harness.push(("a", 4)) == [("a", 1)]
        assert harness.push(("a", 7), timestamp=3) == [("a", 2)]
        assert harness.push_all([("b", 1), ("a", 2)]) == [("b", 1), ("a", 3)]
        assert harness.outputs() == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]
        assert harness.timed_outputs()[:2] == [(("a", 1), None), (("a", 2), 3)]
        assert harness.side_outputs(ODD) == [7, 1]
        assert "4 outputs after 3 steps" in repr(harness)


def test_state_and_timers_can_be_looked_into() -> None:
    with everything(parallelism=3) as harness:
        assert harness.num_keyed_entries() == 0
        harness.push_all([("a", 4), ("b", 5), ("a", 3)])
        assert (harness.state(COUNT, "a"), harness.state(COUNT, "b"), harness.state(COUNT, "c")) == (2, 1, None)
        assert (harness.state(SEEN, "a"), harness.state(SEEN, "c")) == ([4, 3], [])
        assert (harness.state(TAGS, "a"), harness.state(TAGS, "c")) == ({"mod 1": 4, "mod 0": 3}, {})
        assert harness.state(LARGEST, "a") == 4
        assert sorted(harness.keys(COUNT)) == ["a", "b"]
        assert harness.num_keyed_entries() == 2 * 4
        assert harness.event_time_timers() == [Timer(13, "a"), Timer(14, "a"), Timer(15, "b")]
        assert harness.processing_time_timers() == [Timer(103, "a"), Timer(104, "a"), Timer(105, "b")]
        assert (harness.num_event_time_timers(), harness.num_processing_time_timers()) == (3, 3)


def test_looking_changes_nothing() -> None:
    with everything() as harness:
        harness.push(("a", 4))
        harness.state(SEEN, "a").append(99)
        harness.state(TAGS, "a").clear()
        assert (harness.state(SEEN, "a"), harness.state(TAGS, "a")) == ([4], {"mod 1": 4})


def test_time_fires_timers() -> None:
    with everything() as harness:
        harness.push_all([("a", 4), ("a", 5)])
        assert harness.advance_watermark(13) == []
        assert harness.advance_watermark(14) == [("a", "EVENT_TIME", 14, 2)]
        assert harness.timed_outputs()[-1][1] == 14
        assert harness.event_time_timers() == [Timer(15, "a")]
        assert harness.advance_processing_time(500) == [("a", "PROCESSING_TIME", t, 2) for t in (104, 105)]
        assert harness.num_processing_time_timers() == 0
        assert harness.processing_time == 500
        with pytest.raises(ConfigurationError, match="is 500 and can't go back to 499"):
            harness.advance_processing_time(499)


def test_the_end_of_input_fires_what_waits_for_event_time_and_closes() -> None:
    harness = everything()
    harness.push(("a", 4))
    assert harness.end_input() == [("a", "EVENT_TIME", 14, 1)]
    with pytest.raises(ConfigurationError, match="has ended"):
        harness.push(("a", 5))


class BadEnd(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        raise OSError("can't say goodbye")


def test_functions_are_closed_once_at_the_end_of_input_or_of_the_harness() -> None:
    with Harness(BadEnd()) as harness:  # as in a worker, nobody hears of it
        assert harness.push(1) == [1]
    with Harness(BadEnd()) as harness, pytest.raises(JobExecutionError, match="can't say goodbye"):
        harness.end_input()


def test_a_failed_call_changes_nothing() -> None:
    with everything() as harness:
        harness.push(("a", 4))
        with pytest.raises(JobExecutionError, match=r"operator 'Everything'.*ValueError: negative") as caught:
            harness.push_all([("a", 6), ("a", -1)])
        assert caught.value.record == "('a', -1)"
        assert harness.state(SEEN, "a") == [4]
        assert harness.outputs() == [("a", 1)]
        assert harness.push(("a", 8)) == [("a", 2)]


def test_bad_keys_are_refused_as_in_a_job() -> None:
    functions = KeyedHarness(Everything(), lambda record: len)
    with functions, pytest.raises(JobExecutionError, match="no canonical encoding"):
        functions.push(("a", 1))
    with KeyedHarness(Everything(), first, key_type=Types.LONG()) as harness:
        assert harness.push((5, 1)) == [(5, 1)]
        with pytest.raises(JobExecutionError, match="key_by before Everything"):
            harness.push(("a", 1))


# -- snapshots


def test_a_snapshot_brings_back_state_timers_and_time() -> None:
    with everything() as harness:
        harness.advance_processing_time(50)
        harness.advance_watermark(5)
        harness.push_all([("a", 4), ("b", 5)])
        snapshot = harness.snapshot()
        harness.push_all([("a", 9), ("c", 1)])
        harness.advance_watermark(1000)
        assert harness.num_event_time_timers() == 0
        harness.restore(snapshot)
        assert harness.outputs() == []
        assert (harness.state(SEEN, "a"), harness.state(COUNT, "c")) == ([4], None)
        assert harness.advance_watermark(4) == []
        assert harness.advance_watermark(15) == [("a", "EVENT_TIME", 14, 1), ("b", "EVENT_TIME", 15, 1)]
    with everything() as other:  # in a process of its own, say
        other.restore(pickle.loads(pickle.dumps(snapshot)))
        assert other.processing_time == 50
        assert other.push(("a", 1)) == [("a", 2)]


def test_nan_is_one_key() -> None:
    with everything() as harness:
        assert [count for _, count in harness.push_all([(float("nan"), 4), (-float("nan"), 6)])] == [1, 2]
        snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
    with everything() as other:
        other.restore(snapshot)
        ((key, count),) = other.push((float("inf") - float("inf"), 8))
        assert (repr(key), count) == ("nan", 3)
        assert [fired[3] for fired in other.advance_watermark(100)] == [3, 3, 3]


class Upgraded(Everything):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield "now", self.count.value(), list(self.seen.get())


def test_a_later_version_of_a_function_reads_the_snapshot_of_an_earlier_one() -> None:
    with everything() as harness:
        harness.push_all([("a", 4), ("a", 6)])
        snapshot = harness.snapshot()
    with KeyedHarness(Upgraded(), first, parallelism=2) as harness:
        harness.restore(snapshot)
        assert harness.push(("a", 0)) == [("now", 2, [4, 6])]


def test_keys_move_and_nothing_is_lost_when_the_parallelism_changes() -> None:
    keys = [f"key {i}" for i in range(40)]
    with everything(max_parallelism=13) as harness:
        harness.push_all([(key, i) for i, key in enumerate(keys)])
        for parallelism in (3, 13, 2):
            harness.rescale(parallelism)
            assert [harness.subtask_of(key) for key in keys] == [key_group_of(k, 13) * parallelism // 13 for k in keys]
            assert [harness.state(SEEN, key) for key in keys] == [[i] for i in range(40)]
            assert harness.num_keyed_entries() == 40 * 4
            assert (harness.num_event_time_timers(), harness.num_processing_time_timers()) == (40, 40)
        with pytest.raises(ConfigurationError, match="parallelism 14 is higher than its max parallelism 13"):
            harness.rescale(14)
        assert "parallelism 2:" in repr(harness)
        fired = harness.advance_watermark(1000)
        assert Counter(fired) == Counter((key, "EVENT_TIME", i + 10, 1) for i, key in enumerate(keys))
        assert len(harness.outputs()) == 80  # those from before are still there


def test_a_job_that_is_about_to_be_replaced_may_look_for_input() -> None:
    """Its sources belong to the next one already, whose job master does not exist yet."""
    with everything() as harness:
        harness.push(("a", 1))
        job = harness._job
        source = job.plan.nodes[harness._input_node(1)].spec.source
        source.attach(Rounds(0, job.engine), harness._input_node(1))
        assert source.plan({"round": 1}, 100, 1) == ({"round": 1}, [])


def test_losing_a_worker_changes_nothing() -> None:
    with everything(parallelism=2) as harness, everything(parallelism=2) as other:
        for number in range(12):
            record = ("abc"[number % 3], number)
            assert harness.push(record) == other.push(record)
            harness.lose_worker()
        assert harness.advance_watermark(50) == other.advance_watermark(50)
        for key in "abc":
            assert [harness.state(each, key) for each in STATES] == [other.state(each, key) for each in STATES]
        assert harness.processing_time_timers() == other.processing_time_timers()


class Hoarder(KeyedProcessFunction):
    def __init__(self) -> None:
        self.total = 0

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total += value
        yield self.total


def test_a_field_that_should_be_state_is_found_out() -> None:
    with KeyedHarness(Hoarder(), lambda number: "all") as harness:
        assert harness.push(1) == [1]
        assert harness.push(2) == [3]
        assert harness.warnings == ["Hoarder.total is a field that changed and is in no snapshot"]
        harness.lose_worker()
        assert harness.push(4) == [4]


class Hostile:
    def __reduce__(self) -> Any:
        return os.system, ("true",)


class Infected(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", ANY))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value == "read":
            yield self.kept.value()
        else:
            self.kept.update(Hostile())


def test_state_is_read_as_carefully_as_in_a_job() -> None:
    """Code that somebody put into a pickle does not run, be it in a worker that kept the state, in one that reads it,
    after a restore, or in the test."""
    with KeyedHarness(Infected(), lambda value: "all") as harness:
        harness.push("write")
        snapshot = harness.snapshot()
        with pytest.raises(JobExecutionError, match=r"state refers to posix\.system"):
            harness.push("read")
        harness.lose_worker()
        with pytest.raises(JobExecutionError, match=r"state refers to posix\.system"):
            harness.push("read")
        with pytest.raises(SerializationError, match=r"state refers to posix\.system"):
            harness.state(ValueStateDescriptor("kept", ANY), "all")
        harness.restore(snapshot)
        with pytest.raises(JobExecutionError, match=r"state refers to posix\.system"):
            harness.push("read")


def test_a_snapshot_that_was_altered_is_refused() -> None:
    with everything() as harness:
        harness.push(("a", 4))
        snapshot = harness.snapshot()
        with pytest.raises(Exception, match="cut short or altered"):
            harness.restore(snapshot.replace(b'"entries": ', b'"entries": 1'))
        with pytest.raises(Exception, match="is not the metadata"):
            harness.restore(b"something else")
        assert harness.push(("a", 4)) == [("a", 2)]


# -- a model, cut and broken in every way

EVENTS = st.one_of(
    st.tuples(st.just("push"), st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 30)), max_size=4)),
    st.tuples(st.just("watermark"), st.integers(0, 60)),
    st.tuples(st.just("rescale"), st.integers(1, 5)),
    st.tuples(st.just("lose"), st.none()),
    st.tuples(st.just("fail"), st.none()),
)


class Model:
    """Counts, timers and event time, which starts again when the parallelism changes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.timers: set[tuple[int, str]] = set()
        self.event_time = -1

    def push(self, records: list[tuple[str, int]]) -> list[Any]:
        made = []
        for key, number in records:
            self.counts[key] += 1
            self.timers.add((number + 10, key))
            made.append((key, self.counts[key]))
        return made

    def watermark(self, watermark: int) -> list[Any]:
        if watermark <= self.event_time:
            return []
        self.event_time = watermark
        due = {timer for timer in self.timers if timer[0] <= watermark}
        self.timers -= due
        return [(key, "EVENT_TIME", time, self.counts[key]) for time, key in due]


@given(st.lists(EVENTS, max_size=25))
@settings(max_examples=40)
def test_any_story_ends_as_its_model_says(story: list[tuple[str, Any]]) -> None:
    model, parallelism = Model(), 2
    with everything(parallelism=2, max_parallelism=7) as harness:
        for event, value in story:
            if event == "push":
                assert Counter(harness.push_all(value)) == Counter(model.push(value))
            elif event == "watermark":
                assert Counter(harness.advance_watermark(value)) == Counter(model.watermark(value))
            elif event == "rescale":
                harness.rescale(value)
                if value != parallelism:
                    parallelism, model.event_time = value, -1
            elif event == "lose":
                harness.lose_worker()
            else:
                with pytest.raises(JobExecutionError):
                    harness.push_all([("a", 1), ("b", -1)])
            assert {key: harness.state(COUNT, key) for key in harness.keys(COUNT)} == dict(model.counts)
            assert {(timer.timestamp, timer.key) for timer in harness.event_time_timers()} == model.timers
        assert Counter(harness.advance_watermark(1000)) == Counter(model.watermark(1000))


def test_many_steps_leave_few_segments() -> None:
    with everything() as harness:
        for number in range(150):
            harness.push((f"key {number % 7}", number))
        assert [len(harness.state(SEEN, f"key {i}")) for i in range(7)] == [22, 22, 22, 21, 21, 21, 21]
        (handle,) = [h for h in harness._job.truth.book.handles.values() if h.segments]
        assert len(handle.segments) < 40
        snapshot = harness.snapshot()
    del harness, handle  # and its files with it
    with everything(parallelism=2) as harness:
        harness.restore(snapshot)
        assert [len(harness.state(SEEN, f"key {i}")) for i in range(7)] == [22, 22, 22, 21, 21, 21, 21]


# -- other shapes


class Words(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        yield from value.split()


class Long(FilterFunction):
    def filter(self, value: Any) -> bool:
        return len(value) > 3


class Parameter(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.unit = runtime_context.get_job_parameter("unit", "none")

    def map(self, value: Any) -> Any:
        return f"{value} {self.unit}"


class Add(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return "first", value

    def map2(self, value: Any) -> Any:
        return "second", value


class Enrich(KeyedCoProcessFunction):
    """Elements of the first input wait until the second has told the name of their key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.seen = runtime_context.get_list_state(SEEN)

    def process_element1(self, value: Any, ctx: Any) -> Any:
        if self.name.value() is None:
            self.seen.add(value[1])
            ctx.timer_service().register_event_time_timer(100)
        else:
            yield self.name.value(), value[1]

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.name.update(value[1])
        for number in self.seen.get():
            yield value[1], number
        self.seen.clear()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for number in self.seen.get():
            yield "nameless", number


def test_functions_without_keys() -> None:
    with Harness(Words()) as harness:
        assert harness.push("to be or", 7) == ["to", "be", "or"]
        assert harness.timed_outputs()[0] == ("to", 7)
    with Harness(Long(), parallelism=2) as harness:
        assert sorted(harness.push_all(["a", "abcd", "abcde", "abc"])) == ["abcd", "abcde"]
    configuration = Configuration.from_dict({"pipeline.global-job-parameters": "unit:km"})
    with Harness(Parameter(), output_type=Types.STRING(), configuration=configuration) as harness:
        assert harness.push(5) == ["5 km"]


def test_a_running_fold() -> None:
    with KeyedHarness(Add(), first) as harness:
        assert harness.push_all([("a", 1), ("b", 2), ("a", 3)]) == [("a", 1), ("b", 2), ("a", 4)]


def test_two_inputs() -> None:
    with Harness(Both()) as harness:
        assert harness.push(1) + harness.push(2, input=2) == [("first", 1), ("second", 2)]
        with pytest.raises(ConfigurationError, match="no input 3: they are numbered from 1 to 2"):
            harness.push(1, input=3)
    with KeyedHarness(Enrich(), (first, first), parallelism=2) as harness:
        assert harness.push(("a", 1)) == []
        assert harness.push(("a", "Anna"), input=2) == [("Anna", 1)]
        assert harness.push_all([("b", 2), ("a", 3)]) == [("Anna", 3)]
        assert harness.advance_watermark(200, input=1) == []  # the other input is behind
        assert harness.advance_watermark(150, input=2) == [("nameless", 2)]


def test_declared_types_are_applied() -> None:
    harness = Harness(Parameter(), output_type=Types.LONG())
    with harness, pytest.raises(JobExecutionError, match="not of its declared type Long"):
        harness.push(5)


# -- pieces of programs


def test_windows() -> None:
    late = OutputTag("late", ANY)

    def summed(stream: Any) -> Any:
        windows = stream.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.side_output_late_data(late).reduce(lambda a, b: (a[0], a[1] + b[1]))

    with KeyedHarness(summed, first, side_outputs=[late], parallelism=2) as harness:
        harness.push_all([("a", 1), ("a", 2), ("b", 5), ("a", 9)], [1, 9, 3, 10])
        assert len(harness.event_time_timers()) == 3
        assert harness.event_time_timers()[0].window == (0, 10)
        assert harness.num_keyed_entries() == 3
        snapshot = harness.snapshot()
        assert sorted(harness.advance_watermark(9)) == [("a", 3), ("b", 5)]
        assert harness.push(("a", 7), 4) == []
        assert harness.side_outputs(late) == [("a", 7)]
        harness.rescale(3)
        assert harness.advance_watermark(19) == [("a", 9)]
        assert harness.num_keyed_entries() == 0
    with KeyedHarness(summed, first, side_outputs=[late], parallelism=1) as harness:
        harness.restore(snapshot)
        assert sorted(harness.end_input()) == [("a", 3), ("a", 9), ("b", 5)]


def test_a_piece_may_make_its_own_watermarks() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())

    def program(words: Any) -> Any:
        return words.assign_timestamps_and_watermarks(strategy).key_by(first).process(Everything())

    with Harness(program) as harness:
        assert harness.push(("a", 4)) == [("a", 1)]
        assert harness.push(("b", 15)) == [("b", 1), ("a", "EVENT_TIME", 14, 1)]
        assert harness.timed_outputs() == [(("a", 1), 4), (("b", 1), 15), (("a", "EVENT_TIME", 14, 1), 14)]


class Once(KeyedProcessFunction):
    """Hands on the first element of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.count.value() is None:
            self.count.update(1)
            yield value


def test_programs_of_several_levels() -> None:
    def program(words: Any) -> Any:
        return words.process(Everything()).name("counts").key_by(lambda pair: pair[1]).process(Once()).name("once")

    with KeyedHarness(program, first, parallelism=3) as harness:
        assert sorted(harness.push_all([("a", 2), ("a", 4), ("a", 6)])) == [("a", 1), ("a", 2), ("a", 3)]
        assert harness.push_all([("b", 2), ("b", 4), ("a", 6)]) == [("a", 4)]
        assert harness.state(COUNT, "a", operator="counts") == 4
        assert sorted(harness.keys(COUNT, operator="once")) == [1, 2, 3, 4]
        with pytest.raises(ConfigurationError, match=r"say operator='…'\. The keyed operators are: 'counts', 'once'"):
            harness.state(COUNT, "a")
        harness.rescale(1)
        assert harness.state(COUNT, "a", operator="counts") == 4
        assert harness.push_all([("b", 2), ("c", 4), ("a", 6)]) == [("a", 5)]


class Rules(BroadcastProcessFunction[int, int, int]):
    LIMIT = MapStateDescriptor("limit", Types.STRING(), Types.LONG())

    def process_element(self, value: Any, ctx: Any) -> Any:
        limit = ctx.get_broadcast_state(self.LIMIT).get("limit")
        if limit is not None and value > limit:
            yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(self.LIMIT).put("limit", value)


def test_broadcast_state() -> None:
    def program(numbers: Any, rules: Any) -> Any:
        return numbers.connect(rules.broadcast(Rules.LIMIT)).process(Rules())

    with Harness(program, parallelism=2) as harness:
        assert harness.push(9) == []
        harness.push(5, input=2)
        assert sorted(harness.push_all([4, 6, 7, 1])) == [6, 7]
        harness.rescale(3)
        assert sorted(harness.push_all([4, 6, 7, 1])) == [6, 7]


class Batches(FlatMapFunction, CheckpointedFunction, CheckpointListener):
    """Hands on pairs, and tells of checkpoints."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(SEEN)
        self.waiting = list(self.state.get())
        self.news: list[str] = []

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.waiting)

    def flat_map(self, value: Any) -> Any:
        self.waiting.append(value)
        if len(self.waiting) == 2:
            yield tuple(self.waiting)
            self.waiting = []
        yield from self.news
        self.news = []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.news.append(f"complete {checkpoint_id}")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.news.append(f"aborted {checkpoint_id}")


def test_operator_state_and_news_of_checkpoints() -> None:
    with Harness(Batches()) as harness:
        assert harness.push(1) == []
        snapshot = harness.snapshot()
        harness.notify_checkpoint_complete()
        assert harness.push(2) == [(1, 2), "complete 1"]
        harness.snapshot()
        harness.notify_checkpoint_aborted()
        assert harness.push(3) == ["aborted 3"]
        harness.restore(snapshot)
        assert harness.push(5) == [(1, 5)]


class Remembers(KeyedProcessFunction):
    TOLD = ValueStateDescriptor("told", Types.STRING())

    def open(self, runtime_context: RuntimeContext) -> None:
        self.told = runtime_context.get_state(told())

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.told.value() is None:
            self.told.update("yes")
            yield value


def told() -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor("told", Types.STRING())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
    return descriptor


def test_time_to_live_follows_the_clock_of_the_harness() -> None:
    with KeyedHarness(Remembers(), itself) as harness:
        assert harness.push("a") + harness.push("a") == ["a"]
        assert harness.state(told(), "a") == "yes"
        harness.advance_processing_time(101)
        assert harness.state(told(), "a") is None
        assert harness.push("a") == ["a"]


@dataclass
class Total:
    """A class that state holds."""

    count: int = 0
    values: list[int] = field(default_factory=list)


class InPlace(KeyedProcessFunction):
    STATE = ValueStateDescriptor("total", ANY)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(self.STATE)

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.total.value() is None:
            self.total.update(Total())
        total: Any = self.total.value()
        total.count += 1
        total.values.append(value)
        yield total


def test_state_may_hold_the_classes_of_a_test() -> None:
    """And what went out or was looked at does not change with it."""
    with KeyedHarness(InPlace(), lambda number: "all") as harness:
        harness.push_all([1, 2])
        harness.state(InPlace.STATE, "all").values.clear()
        snapshot = harness.snapshot()
        harness.push(3)
        assert harness.outputs() == [Total(1, [1]), Total(2, [1, 2]), Total(3, [1, 2, 3])]
    with KeyedHarness(InPlace(), lambda number: "all") as harness:
        harness.restore(snapshot)
        assert harness.state(InPlace.STATE, "all") == Total(2, [1, 2])


def test_keys_that_no_dictionary_takes() -> None:
    with KeyedHarness(Everything(), lambda record: Row(record[0], 1)) as harness:
        harness.push(("a", 1))
        assert harness.state(COUNT, Row("a", 1)) == 1
        assert harness.keys(COUNT) == [Row("a", 1)]


# -- what can't work


def test_mistakes_are_told() -> None:
    with pytest.raises(TypeMismatchError, match="got the class Everything"):
        KeyedHarness(Everything, first)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="2 inputs and 1 key selectors"):
        KeyedHarness(Enrich(), first)
    with pytest.raises(TypeMismatchError, match="must return a stream, got 5"):
        Harness(lambda stream: 5)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeMismatchError, match="without key_by"):
        Harness(Everything())
    with pytest.raises(TypeMismatchError, match="use KeyedHarness"):
        Harness(Add())
    with Harness(Words()) as harness:
        with pytest.raises(ConfigurationError, match="make the harness with side_outputs"):
            harness.side_outputs(ODD)
        with pytest.raises(ConfigurationError, match="2 elements and 1 timestamps"):
            harness.push_all(["a", "b"], [1])
    with pytest.raises(SerializationError, match="can't be sent to the workers"):
        Harness(lambda stream: stream.map(_holding_a_lock()))
    asking = Harness(lambda stream: stream.map(StateAsker()))
    with asking, pytest.raises(JobExecutionError, match=StateAccessError.__name__):
        asking.push(1)


class StateAsker(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(COUNT)

    def map(self, value: Any) -> Any:
        return value


def _holding_a_lock() -> Any:
    import threading

    lock = threading.Lock()
    return lambda value: (value, lock)


def test_its_folder_goes_with_it() -> None:
    harness = everything()
    chance = random.Random(1)
    harness.push(("a" * 30_000, chance.randrange(100)))  # too large to ride along: a file
    harness.restore(harness.snapshot())
    harness.push(("b" * 30_000, chance.randrange(100)))
    paths = [
        segment.path
        for h in harness._job.truth.book.handles.values()
        for segment in h.segments
        if segment.path is not None
    ]
    assert paths
    paths.append(harness._folder)
    assert all(map(os.path.exists, paths))
    del harness
    end = time.monotonic() + 20
    while any(map(os.path.exists, paths)):
        assert time.monotonic() < end
        time.sleep(0.01)
