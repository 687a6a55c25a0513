"""What functions declare reaches the driver with the acknowledgement of every step."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest

from beadline.api.checkpointed import CheckpointedFunction
from beadline.api.function import MapFunction
from beadline.api.process import KeyedProcessFunction
from beadline.api.state_descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from beadline.api.state_ttl import StateTtlConfig
from beadline.common import Time, Types, WatermarkStrategy
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.window import TumblingEventTimeWindows
from beadline.errors import StateMismatchError
from beadline.graph.plan import Plan
from beadline.master.stepping import check_acks
from beadline.runtime.messages import TaskAck
from beadline.state.backend_settings import BackendSettings, RocksSettings
from beadline.state.description import OPERATOR, StateDescription
from tests.graph.programs import Program, by, same
from tests.runtime.harness import Given, Job
from tests.timestamps import Itself

OPENED = {"value", "list", "map", "reducing"}
ROCKS = BackendSettings("rocksdb", RocksSettings(directories=(tempfile.gettempdir(),)))


class Declares(KeyedProcessFunction):
    """Every kind of state in ``open``, one more at the first record of ``later``, a timer at the first of ``timer``."""

    def open(self, runtime_context: Any) -> None:
        self._context = runtime_context
        pair = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
        expiring = ValueStateDescriptor("value", pair)
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(5)).build())
        runtime_context.get_state(expiring)
        runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.PICKLED_BYTE_ARRAY()))
        runtime_context.get_reducing_state(ReducingStateDescriptor("reducing", max, Types.DOUBLE()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value == "later":
            self._context.get_state(ValueStateDescriptor("later", Types.BOOLEAN()))
        if value == "timer":
            ctx.timer_service().register_event_time_timer(10)


class Total(MapFunction, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        states = context.get_operator_state_store()
        states.get_list_state(ListStateDescriptor("seen", Types.STRING()))
        states.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        return value


def of(acks: list[TaskAck]) -> dict[str, list[StateDescription]]:
    """What was announced, by state."""
    found: dict[str, list[StateDescription]] = {}
    for ack in acks:
        for subtask in ack.subtasks:
            for description in subtask.descriptions:
                found.setdefault(description.name, []).append(description)
    return found


def keyed_job(folder: Path, workers: int = 1) -> Job:
    program = Program()
    source = program.source(Given())
    program.collect(program.function("process", Declares(), (source, by(same))))
    return Job(program, folder, parallelism=1, workers=workers)


def test_a_step_tells_what_open_declares(tmp_path: Path) -> None:
    announced = of(keyed_job(tmp_path).step({1: [["a"]]}))
    row = '{"row":[["name","STRING"],["age","INT"]]}'
    assert announced == {
        "value": [StateDescription("value", "value", row, descriptor="ValueState", ttl_ms=5000)],
        "list": [StateDescription("list", "list", '"LONG"', descriptor="ListState")],
        "map": [StateDescription("map", "map", "", '"STRING"', descriptor="MapState")],
        "reducing": [StateDescription("reducing", "value", '"DOUBLE"', descriptor="ReducingState")],
    }


def test_a_state_that_is_declared_later_is_told_from_then_on(tmp_path: Path) -> None:
    job = keyed_job(tmp_path)
    assert of(job.step({1: [["a"]]})).keys() == OPENED
    assert of(job.step({1: [["later"]]})).keys() == OPENED | {"later"}
    assert of(job.step({1: [["a"]]})).keys() == OPENED | {"later"}


def test_timers_are_described_where_one_is_set(tmp_path: Path) -> None:
    job = keyed_job(tmp_path)
    assert "_event-timers" not in of(job.step({1: [["a"]]}))
    timers = StateDescription("_event-timers", "timer", descriptor="EventTimeTimers")
    assert of(job.step({1: [["timer"]]}))["_event-timers"] == [timers]
    assert "_event-timers" not in of(job.step({1: [["a"]]}))


@pytest.mark.parametrize("value", ["a", "later", "timer"])
def test_subtasks_of_a_new_worker_acknowledge_in_the_same_bytes(value: str, tmp_path: Path) -> None:
    """What passes through an exchange has to be equal when a task is run again, and there acknowledgements do."""
    job = keyed_job(tmp_path)
    job.step({1: [["a"]]})
    first = [pickle.dumps(ack.subtasks) for ack in job.attempt({1: [[value]]})]
    job.workers = [job.new_worker()]
    assert [pickle.dumps(ack.subtasks) for ack in job.attempt({1: [[value]]})] == first


def test_operator_state_is_described_by_its_mode(tmp_path: Path) -> None:
    program = Program()
    program.collect(program.map(program.source(Given()), function=Total()))
    announced = of(Job(program, tmp_path, parallelism=1).step({1: [["a"]]}))
    assert announced == {
        "seen": [StateDescription("seen", "list", '"STRING"', scope=OPERATOR, descriptor="ListState")],
        "rules": [
            StateDescription("rules", "broadcast", '"LONG"', '"STRING"', scope=OPERATOR, descriptor="MapState"),
        ],
    }


def test_states_and_timers_of_windows_belong_to_windows(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    stream = env.from_source(Given(), strategy, "numbers")
    windows = stream.key_by(lambda value: value % 2, Types.INT()).window(
        TumblingEventTimeWindows.of(Time.milliseconds(10))
    )
    windows.reduce(max).print()
    job = Job(env._plan(None), tmp_path, parallelism=1)
    assert {name: each[0].namespaced for name, each in of(job.step({1: [[3]]})).items()} == {
        "window-contents": True,
        "_event-timers": True,
    }


class Counts(KeyedProcessFunction):
    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor

    def open(self, runtime_context: Any) -> None:
        of_list = isinstance(self._descriptor, ListStateDescriptor)
        self._state = (runtime_context.get_list_state if of_list else runtime_context.get_state)(self._descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._state.update([value] if isinstance(self._descriptor, ListStateDescriptor) else value)


def counting(descriptor: Any) -> Plan:
    env = StreamExecutionEnvironment()
    env.set_parallelism(1)
    stream = env.from_source(Given(), WatermarkStrategy.no_watermarks(), "numbers")
    stream.key_by(same).process(Counts(descriptor)).name("counts")
    return env._plan(None)


def windowed() -> Plan:
    env = StreamExecutionEnvironment()
    env.set_parallelism(1)
    stream = env.from_source(Given(), WatermarkStrategy.no_watermarks(), "numbers")
    stream.key_by(same).count_window(2).reduce(max).name("counts")
    return env._plan(None)


@pytest.mark.parametrize("backend", [BackendSettings(), ROCKS])
@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            counting(ListStateDescriptor("n", Types.LONG())),
            "state 'n' is of kind value in the snapshot and list",
        ),
        (windowed(), "state 'window-contents' is of kind list in the snapshot and value, by window in the program"),
    ],
)
def test_another_kind_of_state_fails_the_step_for_good(
    plan: Plan, message: str, backend: BackendSettings, tmp_path: Path
) -> None:
    """As the failure of a task, which nobody repeats, and not as a step that Spark could not do."""
    name, descriptor = ("n", ValueStateDescriptor) if "'n'" in message else ("window-contents", ListStateDescriptor)
    first = Job(counting(descriptor(name, Types.LONG())), tmp_path, backend=backend)
    first.step({1: [[1, 2, 3]]})
    second = Job(plan, tmp_path, backend=backend)
    second.book.handles.update(first.handles)  # the job master would refuse to start from them
    acks = second.attempt({1: [[4]]})
    with pytest.raises(StateMismatchError, match=f"operator 'counts': {message}"):
        check_acks(plan, acks, second.handles)
