"""broadcast(), connect() and process() build what PyFlink's do; the harness runs it without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Time, Types, WatermarkStrategy
from beadline.datastream import (
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    BroadcastStream,
    CheckpointedFunction,
    ConnectedStreams,
    DataStream,
    FilterFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from beadline.datastream import functions as functions_module
from beadline.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from beadline.errors import GraphError, StateAccessError, TypeMismatchError
from beadline.graph.specs import Broadcast, BroadcastSpec, CollectSpec, Hash
from tests.runtime.harness import Given, Job

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
NAMES = MapStateDescriptor("names", Types.STRING(), Types.STRING())
ODD = OutputTag("odd", Types.LONG())


class Add(BroadcastProcessFunction[Any, Any, Any]):
    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(*value)

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        total = value + sum(ctx.get_broadcast_state(RULES).values())
        yield (ODD, total) if total % 2 else total


class Count(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(*value)

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value(), ctx.get_broadcast_state(RULES).get("step")


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    made = StreamExecutionEnvironment()
    made.set_parallelism(2)
    return made


def source(env: StreamExecutionEnvironment, name: str, type_info: Any = None) -> DataStream:
    stream = env.from_source(Given(), WatermarkStrategy.no_watermarks(), name, type_info).set_parallelism(1)
    assert isinstance(stream, DataStream)
    return stream


def run(env: StreamExecutionEnvironment, folder: Path, streams: dict[str, DataStream], *steps: dict[str, Any]) -> Job:
    """Each step gives records by the name of their source."""
    for name, stream in streams.items():
        stream._apply(name, CollectSpec(name), None)
    plan = env._plan("broadcast")
    numbers = {node.name.removeprefix("Source: "): node.id for node in plan.nodes.values() if node.is_source}
    job = Job(plan, folder)
    for given in steps:
        job.step({numbers[name]: [records] for name, records in given.items()})
    return job


def test_a_stream_that_is_not_keyed(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    broadcast = source(env, "rules").broadcast(RULES, NAMES)
    connected = source(env, "events").connect(broadcast)
    assert isinstance(broadcast, BroadcastStream)
    assert isinstance(connected, BroadcastConnectedStream)
    assert broadcast.broadcast_state_descriptors == connected.broadcast_state_descriptors == [RULES, NAMES]
    result = connected.process(Add(), Types.LONG())
    assert result.get_type() == Types.LONG()
    assert result.get_name() == "Co-Process-Broadcast"
    job = run(
        env,
        tmp_path,
        {"out": result, "odd": result.get_side_output(ODD)},
        {"rules": [("a", 1)], "events": [10, 11]},
        {"rules": [("b", 2)], "events": [10, 11]},
    )
    assert sorted(job.out["out"]) == [12, 14]
    assert sorted(job.out["odd"]) == [11, 13]


def test_a_keyed_stream(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    keyed = source(env, "events").key_by(lambda e: e[0], Types.STRING())
    result = keyed.connect(source(env, "rules").broadcast(RULES)).process(Count())
    node = result._edges[0].source
    assert node.name == "Keyed-Co-Process-Broadcast"
    assert isinstance(node.spec, BroadcastSpec)
    assert node.spec.keyed
    assert [(type(edge.partitioning), edge.input_index) for edge in node.inputs] == [(Hash, 0), (Broadcast, 1)]
    job = run(
        env,
        tmp_path,
        {"out": result},
        {"events": ["ab", "bc", "ax"]},
        {"rules": [("step", 2)], "events": ["ab", "c"]},
    )
    assert sorted(job.out["out"], key=str) == sorted(
        [("a", 1, None), ("b", 1, None), ("a", 2, None), ("a", 3, 2), ("c", 1, 2)], key=str
    )


def test_one_broadcast_stream_for_two(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    broadcast = source(env, "rules").map(lambda rule: (rule, 1)).broadcast(RULES)
    events = source(env, "events")
    first = events.connect(broadcast).process(Add())
    second = events.map(lambda n: n * 10).connect(broadcast).process(Add())
    job = run(env, tmp_path, {"first": first, "second": second}, {"rules": ["a", "b"], "events": [2, 4]})
    assert sorted(job.out["first"]) == [4, 6]
    assert sorted(job.out["second"]) == [22, 42]


def test_without_descriptors_it_is_a_partitioning(env: StreamExecutionEnvironment) -> None:
    stream = source(env, "events").broadcast()
    assert type(stream) is DataStream
    assert isinstance(source(env, "others").connect(stream), ConnectedStreams)


def test_functions_must_fit_the_stream(env: StreamExecutionEnvironment) -> None:
    broadcast = source(env, "rules").broadcast(RULES)
    events = source(env, "events")
    with pytest.raises(TypeMismatchError, match=r"non-keyed stream .* takes a BroadcastProcessFunction, got Count"):
        events.connect(broadcast).process(Count())
    with pytest.raises(TypeMismatchError, match=r"keyed stream .* takes a KeyedBroadcastProcessFunction, got Add"):
        events.key_by(str).connect(broadcast).process(Add())
    with pytest.raises(TypeMismatchError, match="got the class Add"):
        events.connect(broadcast).process(Add)  # type: ignore[arg-type]


def test_descriptors_must_be_of_maps_with_names_of_their_own(env: StreamExecutionEnvironment) -> None:
    rules = source(env, "rules")
    with pytest.raises(TypeMismatchError, match="takes MapStateDescriptors, got ListStateDescriptor"):
        rules.broadcast(RULES, ListStateDescriptor("list", Types.LONG()))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="two descriptors have the name 'rules'"):
        rules.broadcast(RULES, RULES)
    expiring = MapStateDescriptor("expiring", Types.STRING(), Types.LONG())
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    with pytest.raises(StateAccessError, match="'expiring' can't have a time to live"):
        rules.broadcast(expiring)
    with pytest.raises(GraphError, match="Cannot override partitioning"):
        rules.key_by(str).broadcast(RULES)
    with pytest.raises(TypeMismatchError, match=r"connect\(\) takes a DataStream or a BroadcastStream, got int: 5"):
        rules.connect(5)  # type: ignore[call-overload]


class Forgot:
    """The methods, without the class that makes them count."""

    def snapshot_state(self, context: Any) -> None: ...

    def initialize_state(self, context: Any) -> None: ...


class ForgotMap(Forgot, MapFunction):
    def map(self, value: Any) -> Any:
        return value


class ForgotFilter(Forgot, FilterFunction):
    def filter(self, value: Any) -> bool:
        return True


class ForgotProcess(Forgot, ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None: ...


class ForgotKeyed(Forgot, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None: ...


@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.map(ForgotMap()),
        lambda stream: stream.filter(ForgotFilter()),
        lambda stream: stream.process(ForgotProcess()),
        lambda stream: stream.key_by(str).process(ForgotKeyed()),
    ],
)
def test_operator_state_needs_its_interface(env: StreamExecutionEnvironment, use: Any) -> None:
    message = r"has snapshot_state\(\) but is not a CheckpointedFunction, .* class \w+\(…, CheckpointedFunction\)"
    with pytest.raises(StateAccessError, match=message):
        use(source(env, "events"))


def test_the_names_are_where_programs_look_for_them() -> None:
    for name in (
        "CheckpointedFunction",
        "CheckpointListener",
        "FunctionInitializationContext",
        "FunctionSnapshotContext",
        "RawStateFunction",
        "KeyedRawStateFunction",
        "KeyedStateFunction",
    ):
        assert name in functions_module.__all__
    assert functions_module.CheckpointedFunction is CheckpointedFunction
