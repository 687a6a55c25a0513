"""The states of a program are known before it runs, as far as its functions declare them when they are opened."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.api.checkpointed import CheckpointedFunction
from beadline.api.function import MapFunction
from beadline.api.join_functions import ProcessJoinFunction
from beadline.api.process import BroadcastProcessFunction, KeyedProcessFunction
from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.cep import CEP, Pattern
from beadline.common import Time, Types, WatermarkStrategy
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.window import CountTrigger, EventTimeSessionWindows, TumblingEventTimeWindows
from beadline.runtime.operators import describe
from beadline.runtime.operators.describe import DeclaredStates, declared_states
from beadline.state.description import OPERATOR
from tests.graph.programs import Program, by, same

TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
calls: list[str] = []


class Asks(KeyedProcessFunction):
    def __init__(self, trouble: str = "") -> None:
        self._trouble = trouble
        self.opened = False

    def open(self, runtime_context: Any) -> None:
        self.opened = True
        calls.append("open")
        runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        if self._trouble == "raises":
            raise OSError("no route to host")
        if self._trouble == "exits":
            raise SystemExit(3)
        if self._trouble == "waits":
            describe.threading.Event().wait(5)

    def close(self) -> None:
        calls.append("close")

    def process_element(self, value: Any, ctx: Any) -> Any:
        raise AssertionError("no record is there")


class Seen(MapFunction, CheckpointedFunction):
    def __init__(self) -> None:
        self.restored: list[Any] = []

    def initialize_state(self, context: Any) -> None:
        calls.append(f"restored from {context.get_restored_checkpoint_id()}")
        self._seen = context.get_operator_state_store().get_union_list_state(
            ListStateDescriptor("seen", Types.STRING())
        )
        assert list(self._seen.get()) == []

    def snapshot_state(self, context: Any) -> None:
        raise AssertionError("nothing is taken")

    def map(self, value: Any) -> Any:
        return value


class Opens(MapFunction):
    def open(self, runtime_context: Any) -> None:
        calls.append("a function without state is opened")

    def map(self, value: Any) -> Any:
        return value


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


def of(function: Any) -> DeclaredStates:
    program = Program()
    node = program.function("process", function, (program.source(), by(same)))
    return declared_states(program.plan())[node.id]


def timed() -> Any:
    stream = StreamExecutionEnvironment().from_collection([("a", 1)])
    return stream.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())


def key(value: Any) -> Any:
    return value[0]


def pattern(stream: Any) -> Any:
    return CEP.pattern(stream.key_by(key), Pattern.begin("first").followed_by("second")).select(len)


def broadcast(stream: Any) -> Any:
    rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
    return stream.connect(stream.broadcast(rules)).process(Applies())


class Applies(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return []


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        return []


GAP = EventTimeSessionWindows.with_gap(Time.milliseconds(5))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda s: s.key_by(key).reduce(max), {"_reduce"}),
        (lambda s: s.key_by(key).sum(1), {"_reduce"}),
        (lambda s: s.key_by(key).max_by(1), {"_reduce"}),
        (lambda s: s.key_by(key).map(lambda value: value), set()),
        (lambda s: s.key_by(key).window(TEN).reduce(max), {"window-contents"}),
        (lambda s: s.key_by(key).window(TEN).trigger(CountTrigger.of(3)).reduce(max), {"window-contents"}),
        (lambda s: s.key_by(key).window(GAP).reduce(max), {"window-contents", "merging-windows"}),
        (lambda s: s.window_all(TEN).reduce(max), {"window-contents"}),
        (lambda s: s.join(s).where(key).equal_to(key).window(TEN).apply(lambda a, b: a), {"window-contents"}),
        (
            lambda s: (
                s.key_by(key).interval_join(s.key_by(key)).between(Time.seconds(0), Time.seconds(1)).process(Pairs())
            ),
            {"_interval-join"},
        ),
        (pattern, {"_cep_matches", "_cep_events"}),
        (broadcast, {"rules"}),
    ],
)
def test_operators_that_are_built_in(build: Any, expected: set[str]) -> None:
    stream = build(timed())
    stream.print()
    declared = declared_states(stream._env._plan(None))
    assert [each.unknown for each in declared.values() if each.unknown] == []
    assert {state.name for each in declared.values() for state in each.states} == expected


def test_a_function_declares_in_open_and_is_closed_again() -> None:
    function = Asks()
    found = of(function)
    assert [(state.name, state.type) for state in found.states] == [("total", '"LONG"')]
    assert found.unknown == ""
    assert calls == ["open", "close"]
    assert not function.opened, "the function that is going to run is not touched"


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [("raises", "OSError: no route to host"), ("exits", "SystemExit: 3")],
)
def test_a_function_that_can_not_be_opened_here_is_no_error(trouble: str, reason: str) -> None:
    found = of(Asks(trouble))
    assert found.unknown.startswith(reason)
    assert [state.name for state in found.states] == ["total"], "what it had declared is known"
    assert calls == ["open", "close"]


def test_a_function_that_takes_too_long_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "_PATIENCE_SECONDS", 0.05)
    assert "takes longer than" in of(Asks("waits")).unknown


def test_a_function_that_can_not_be_copied_is_no_error() -> None:
    function = Asks()
    function.lock = describe.threading.Lock()  # type: ignore[attr-defined]
    assert "cannot pickle" in of(function).unknown


def test_operator_state_is_asked_for_as_in_a_restored_job() -> None:
    program = Program()
    node = program.map(program.source(), function=Seen())
    (state,) = declared_states(program.plan(), restored_step=17)[node.id].states
    assert (state.name, state.kind, state.scope) == ("seen", "union", OPERATOR)
    assert calls == ["restored from 17"]


def test_functions_that_can_have_no_state_are_not_opened() -> None:
    program = Program()
    program.collect(program.map(program.source(), function=Opens()))
    assert declared_states(program.plan()) == {}
    assert calls == []
