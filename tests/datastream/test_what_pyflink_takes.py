"""Small things that PyFlink's own tests rely on: orders, keys and functions that it takes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from beadline.common import Row, Time, Types, WatermarkStrategy
from beadline.datastream import CoMapFunction, CoProcessFunction, KeyedProcessFunction, ProcessFunction
from beadline.datastream.connectors.number_seq import NumberSequenceSource
from beadline.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from beadline.datastream.window import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
)
from beadline.errors import GraphError, JobExecutionError, TypeMismatchError
from beadline.testing import KeyedHarness

from .jobs import collect, environment


def test_collecting_keeps_the_order_of_a_single_subtask(spark: Any) -> None:
    env = environment(2, step_records=7)
    numbers = env.from_collection(list(range(20)))
    assert collect(numbers) == list(range(20))
    assert collect(numbers.map(lambda value: -value).set_parallelism(1)) == [-value for value in range(20)]
    assert numbers.execute_and_collect(limit=9) == list(range(9))
    keyed = numbers.key_by(lambda value: value % 3)
    assert collect(keyed) == [Row(f0=value % 3, f1=value) for value in range(20)]
    both = numbers.union(env.from_collection(list(range(100, 110))))
    found = collect(both)
    assert [value for value in found if value < 100] == list(range(20))
    assert [value for value in found if value >= 100] == list(range(100, 110))


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(GraphError, match=r"limit must be at least 1, got 0"):
        environment().from_collection([1]).execute_and_collect(limit=0)


class Touch(KeyedProcessFunction):
    """Touches state in open()."""

    def __init__(self, make: Any, touch: Any) -> None:
        self._make = make
        self._touch = touch

    def open(self, runtime_context: Any) -> None:
        self._touch(self._make(runtime_context))

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


VALUE = ValueStateDescriptor("mine", Types.INT())
TOUCHES = {
    "value": (lambda ctx: ctx.get_state(VALUE), lambda state: state.value()),
    "update": (lambda ctx: ctx.get_state(VALUE), lambda state: state.update(1)),
    "clear": (lambda ctx: ctx.get_state(VALUE), lambda state: state.clear()),
    "list": (lambda ctx: ctx.get_list_state(ListStateDescriptor("mine", Types.INT())), lambda state: state.add(1)),
    "map": (
        lambda ctx: ctx.get_map_state(MapStateDescriptor("mine", Types.INT(), Types.INT())),
        lambda state: state.put(1, 1),
    ),
    "items": (
        lambda ctx: ctx.get_map_state(MapStateDescriptor("mine", Types.INT(), Types.INT())),
        lambda state: list(state.items()),
    ),
    "reducing": (
        lambda ctx: ctx.get_reducing_state(ReducingStateDescriptor("mine", max, Types.INT())),
        lambda state: state.add(1),
    ),
}


@pytest.mark.parametrize("touch", TOUCHES)
def test_state_touched_without_a_key_is_refused_at_the_call(touch: str) -> None:
    with (
        pytest.raises(JobExecutionError) as caught,
        KeyedHarness(Touch(*TOUCHES[touch]), lambda value: value) as harness,
    ):
        harness.push("a")
    text = str(caught.value)
    assert re.search(
        r"StateAccessError: operator '.*' reads or writes keyed state \(states that it has: 'mine'\)", text
    )
    assert "In open() get the state from the runtime context" in text
    assert "self._touch(self._make(runtime_context))" in (caught.value.user_traceback or "")


class Together(CoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(VALUE)

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        yield value[0], self.total.value()

    process_element2 = process_element1


def test_a_co_process_function_has_state_on_keyed_streams(spark: Any) -> None:
    env = environment(2)
    left, right = env.from_collection([("a", 1), ("b", 2)]), env.from_collection([("a", 10)])
    connected = left.connect(right).key_by(lambda value: value[0], lambda value: value[0])
    found = collect(connected.process(Together()))
    assert max(total for key, total in found if key == "a") == 11
    assert ("b", 2) in found


class First(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    map2 = map1


@pytest.mark.parametrize("keyed_first", [True, False])
@pytest.mark.parametrize(("method", "function"), [("process", Together()), ("map", First())])
def test_a_keyed_stream_connected_with_one_that_is_not_is_refused(
    keyed_first: bool, method: str, function: Any
) -> None:
    env = environment()
    keyed, other = env.from_collection([("a", 1)]).key_by(lambda value: value[0]), env.from_collection([("a", 10)])
    connected = keyed.connect(other) if keyed_first else other.connect(keyed)
    with pytest.raises(GraphError, match=r"must both be keyed, or neither: call key_by\(\) on the other one too"):
        getattr(connected, method)(function)


WINDOWS = {
    "TumblingEventTimeWindows": TumblingEventTimeWindows.of(Time.seconds(1)),
    "SlidingProcessingTimeWindows": SlidingProcessingTimeWindows.of(Time.seconds(2), Time.seconds(1)),
    "EventTimeSessionWindows": EventTimeSessionWindows.with_gap(Time.seconds(1)),
    "CountTumblingWindowAssigner": CountTumblingWindowAssigner(2),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_has_the_name_of_its_assigner(name: str) -> None:
    numbers = environment().from_collection([1, 2])
    for windows in numbers.key_by(abs).window(WINDOWS[name]), numbers.window_all(WINDOWS[name]):
        assert windows.reduce(max).get_name() == name
        assert windows.sum().get_name() == name


def test_keyed_operators_have_the_names_that_pyflink_gives() -> None:
    keyed = environment().from_collection([1, 2]).key_by(abs)
    assert keyed.reduce(max).get_name() == "Reduce"
    assert keyed.sum().get_name() == "Reduce"
    assert keyed.connect(keyed).process(Together()).get_name() == "Keyed Co-Process"
    assert keyed.connect(keyed).map(First()).get_name() == "Co-Map"


class TellsTime(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.timestamp()


def test_a_lambda_gives_timestamps() -> None:
    env = environment(beadline__engine="local")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, timestamp: value * 10
    )
    stream = env.from_collection([1, 2, 3]).assign_timestamps_and_watermarks(strategy)
    assert sorted(collect(stream.process(TellsTime()))) == [(1, 10), (2, 20), (3, 30)]


def test_a_source_without_a_strategy_is_told_which_one_to_take() -> None:
    for given in (None, WatermarkStrategy.no_watermarks):
        with pytest.raises(TypeMismatchError, match=r"'orders'.*WatermarkStrategy\.no_watermarks\(\)"):
            environment().from_source(NumberSequenceSource(1, 3), given, "orders")  # type: ignore[arg-type]
