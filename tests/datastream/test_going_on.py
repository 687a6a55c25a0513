"""Programs that go on from a savepoint, and those that may not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.common import Configuration, JobClient, Types, WatermarkStrategy
from beadline.common.restart_strategy import RestartStrategies
from beadline.common.type_description import type_to_text
from beadline.connectors.collections import SequenceSource
from beadline.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.state import ListStateDescriptor, ValueStateDescriptor
from beadline.errors import GraphError, JobFinishedError, StateMismatchError
from beadline.state.description import StateDescription
from beadline.testing import AwaitCheckpoint, Crash, EndStep, TestSource, VerifyingSink

from .jobs import environment

pytestmark = pytest.mark.usefixtures("local_engine")

KEYS = 5
RECORDS = 120
HALF = 60
PATIENCE = 120.0
GROUPS = 16
SHAPE = Types.TUPLE([Types.INT(), Types.INT()])

Build = Callable[[DataStream], None]


def pair(number: int) -> tuple[int, int]:
    """Up and down again, so that a minimum and a maximum change many times."""
    return number % KEYS, (number * 37) % 101 - 50


def second(value: Any) -> Any:
    return value[1]


FOLDS: dict[str, tuple[Callable[[Any], DataStream], Callable[[Any, Any], Any]]] = {
    "reduce": (lambda keyed: keyed.reduce(lambda a, b: (a[0], a[1] + b[1])), lambda a, b: (a[0], a[1] + b[1])),
    "sum": (lambda keyed: keyed.sum(1), lambda a, b: (a[0], a[1] + b[1])),
    "min": (lambda keyed: keyed.min(1), lambda a, b: min(a, b, key=second)),
    "max": (lambda keyed: keyed.max(1), lambda a, b: max(a, b, key=second)),
    "min_by": (lambda keyed: keyed.min_by(1), lambda a, b: min(a, b, key=second)),
    "max_by": (lambda keyed: keyed.max_by(1), lambda a, b: max(a, b, key=second)),
}


def totals(sink: VerifyingSink) -> Build:
    """All folds over one stream."""

    def build(pairs: DataStream) -> None:
        keyed = pairs.key_by(lambda value: value[0], Types.INT())
        named = [
            apply(keyed).name(name).uid(name).map(lambda value, name=name: (name, *value))
            for name, (apply, _) in FOLDS.items()
        ]
        named[0].union(*named[1:]).sink_to(sink)

    return build


def expected() -> list[tuple[str, int, int]]:
    """What the folds give over all numbers, without any interruption."""
    made = []
    for name, (_, fold) in FOLDS.items():
        last: dict[int, Any] = {}
        for value in map(pair, range(RECORDS)):
            key = value[0]
            last[key] = value if key not in last else fold(last[key], value)
            made.append((name, *last[key]))
    return made


def program(
    script: list[Any], build: Build, bounded: bool, markers: Path | None = None, **options: Any
) -> tuple[StreamExecutionEnvironment, TestSource]:
    env = environment(options.pop("parallelism", 2), **options)
    env.enable_checkpointing(150)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(5, 10))
    source = TestSource(script, bounded=bounded, step=20, markers=None if markers is None else str(markers))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    build(numbers.map(pair, SHAPE).uid("pairs"))
    return env, source


def stopped(env: StreamExecutionEnvironment, sink: VerifyingSink, records: int, folder: Path) -> str:
    """Run until so many records are committed, then stop with a savepoint."""
    client = env.execute_async("totals")
    sink.wait_for(records, PATIENCE)
    path: str = client.stop_with_savepoint(False, str(folder)).result()
    client.get_job_execution_result().result()
    return path


class Late(KeyedProcessFunction):
    """Asks for its state when the first record comes."""

    def __init__(self, descriptor: Any, writes: bool) -> None:
        self._descriptor = descriptor
        self._writes = writes

    def open(self, runtime_context: Any) -> None:
        self._context = runtime_context

    def process_element(self, value: Any, ctx: Any) -> Any:
        context = self._context
        ask = context.get_list_state if isinstance(self._descriptor, ListStateDescriptor) else context.get_state
        state = ask(self._descriptor)
        if self._writes:
            state.update(value[1])
        yield value


def late(descriptor: Any, key_type: Any = None, sink: VerifyingSink | None = None) -> Build:
    """A function that asks for its state late, and writes to it if there is a sink."""

    def build(pairs: DataStream) -> None:
        keyed = pairs.key_by(lambda value: value[0], key_type or Types.INT())
        processed = keyed.process(Late(descriptor, writes=sink is not None)).name("late").uid("late")
        processed.sink_to(sink or VerifyingSink()).uid("out")

    return build


@pytest.fixture(scope="module")
def savepoint(local_engine: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a function with a late state of LONG."""
    sink = VerifyingSink()
    build = late(ValueStateDescriptor("total", Types.LONG()), sink=sink)
    env, _ = program([*range(HALF)], build, bounded=False, **{"pipeline__max-parallelism": GROUPS})
    return stopped(env, sink, HALF, tmp_path_factory.mktemp("late"))


def resumed(savepoint: str, build: Build, checkpoints: Path, **options: Any) -> StreamExecutionEnvironment:
    settings = {
        "execution__state-recovery__path": savepoint,
        "execution__checkpointing__dir": str(checkpoints),
        **options,
    }
    return program([*range(RECORDS)], build, True, **settings)[0]


def tree(folder: Path | str) -> dict[str, int]:
    """All files below a folder, and when they were changed."""
    return {
        os.path.join(where, name): os.stat(os.path.join(where, name)).st_mtime_ns
        for where, _, names in os.walk(folder)
        for name in names
    }


@pytest.mark.spark
def test_folds_keep_their_totals_through_crashes_and_a_savepoint(
    spark_engine: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = VerifyingSink()
    first = [*range(30), AwaitCheckpoint(), *range(30, HALF), Crash()]
    env, source = program(first, totals(sink), bounded=False, markers=tmp_path / "crashes")
    path = stopped(env, sink, HALF * len(FOLDS), tmp_path)
    assert source.crashes == 1
    for name in FOLDS:
        operator = read_snapshot(path).operator(name)
        assert operator is not None
        (state,) = operator.state_descriptions
        assert (state.name, state.type) == ("_reduce", type_to_text(SHAPE))
        assert operator.key_type == type_to_text(Types.INT())
    whole = [*first, EndStep(), *range(HALF, 90), AwaitCheckpoint(), Crash(), *range(90, RECORDS)]
    settings = {"execution__state-recovery__path": path, "parallelism": 3}
    env, source = program(whole, totals(sink), bounded=True, markers=tmp_path / "crashes", **settings)
    env.execute("totals")
    assert source.crashes == 2
    sink.assert_exactly(expected())
    told = [text for text in caplog.messages if text.startswith("generated uids of operators that have state: 'Sink: ")]
    assert len(told) == 2, "of the savepoint, and of the job that went on from it"


def test_a_savepoint_describes_what_was_declared_on_the_way(savepoint: str) -> None:
    held: Snapshot = read_snapshot(savepoint)
    operator = held.operator("late")
    assert operator is not None
    total = StateDescription("total", "value", type_to_text(Types.LONG()), descriptor="ValueState")
    assert operator.state_descriptions == (total,)


def test_a_program_that_does_not_fit_is_refused_and_nothing_is_written(savepoint: str, tmp_path: Path) -> None:
    before = tree(savepoint)
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    changed = late(ValueStateDescriptor("total", Types.LONG()), key_type=Types.STRING())
    with pytest.raises(SnapshotError, match="keys of type STRING, and its state was written with keys of type INT"):
        resumed(savepoint, changed, checkpoints).execute()
    assert tree(savepoint) == before
    assert tree(checkpoints) == {}


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        (ValueStateDescriptor("total", Types.STRING()), "a value of LONG in the snapshot and a value of STRING in the"),
        (
            ListStateDescriptor("total", Types.LONG()),
            "state 'total' is of kind value in the snapshot and list",
        ),
    ],
)
def test_a_state_that_is_asked_for_late_and_is_another_ends_the_job_at_once(
    savepoint: str, tmp_path: Path, descriptor: Any, message: str
) -> None:
    before = tree(savepoint)
    env = resumed(savepoint, late(descriptor), tmp_path)
    client = env.execute_async("late")
    with pytest.raises(StateMismatchError, match=message):
        client.get_job_execution_result().result()
    (failure,) = client.get_exceptions()
    assert failure["restarted_from"] is None, "no restart was tried, which could not help"
    assert tree(savepoint) == before


def test_max_parallelism_is_that_of_the_state(savepoint: str, tmp_path: Path) -> None:
    same = late(ValueStateDescriptor("total", Types.LONG()))
    client = resumed(savepoint, same, tmp_path, parallelism=1).execute_async("late")
    client.get_job_execution_result().result()
    plan = client._control._master.plan  # type: ignore[attr-defined]
    assert {node.uid: node.max_parallelism for node in plan.nodes.values() if node.keyed} == {"late": GROUPS}
    with pytest.raises(SnapshotError, match=f"has max parallelism 32, and its state was written with {GROUPS}"):
        resumed(savepoint, same, tmp_path, **{"pipeline__max-parallelism": 32}).execute()


# -- a job whose id the user chose


def started(folder: Path, **options: str) -> JobClient:
    env = environment(step_records=50)
    settings = {"beadline.job-id": "orders-eu", "execution.checkpointing.dir": str(folder), **options}
    env.configure(Configuration.from_dict(settings))
    env.enable_checkpointing(100)
    env.from_sequence(1, 100).print()
    return env.execute_async("orders")


def test_a_chosen_id_names_the_job_and_its_folder(tmp_path: Path) -> None:
    for epoch in (1, 2):
        client = started(tmp_path)
        assert str(client.get_job_id()) == "orders-eu"
        result = client.get_job_execution_result().result()
        assert str(result.get_job_id()) == "orders-eu"
        left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
        names = f"driver-{epoch}", "ended", f"fence-{epoch}", f"lease-{epoch}"
        assert left == [f"orders-eu/{name}" for name in names]
    with pytest.raises(JobFinishedError, match=r"job 'orders' \(orders-eu\) finished at 20"):
        started(tmp_path, **{"execution.state-recovery.path": "latest"})


# -- a program that must name its operators


def refusing() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.get_config().disable_auto_generated_uids()
    return env


def test_a_job_refuses_generated_uids_before_it_starts() -> None:
    env = refusing()
    env.from_collection([1]).uid("numbers").key_by(lambda v: v).reduce(max).name("highest").print()
    with pytest.raises(GraphError, match=r"these operators have no uid: 'highest', 'Print to Std\. Out'"):
        env.execute()


def test_a_source_and_its_watermarks_have_one_uid_to_be_set() -> None:
    env = refusing()
    source = env.from_source(SequenceSource(1, 3), WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    source.uid("numbers").print().uid("out")
    assert [node.uid for node in env._plan(None).nodes.values()] == ["numbers", "numbers-watermarks", "out"]
