"""Functions with operator state, however the stream is cut into steps and whatever is lost on the way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.api.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedRawStateFunction,
    RawStateFunction,
)
from beadline.api.function import FlatMapFunction, KeySelector, MapFunction
from beadline.api.process import KeyedProcessFunction
from beadline.api.runtime_context import RuntimeContext
from beadline.api.state_descriptors import ListStateDescriptor, ValueStateDescriptor
from beadline.common.typeinfo import Types
from beadline.connectors.sink import Committer, StagedSink, Stager
from beadline.errors import JobExecutionError
from beadline.graph.specs import Rebalance, SinkSpec
from beadline.master.upkeep import handles
from beadline.state.key_groups import key_group_of
from beadline.state.operator.handles import read_ref
from tests.graph.programs import ANY, Program, by
from tests.runtime.harness import Given, Job

cuts = st.lists(st.integers(0, 6), max_size=8).map(lambda sizes: [*sizes, 4])
seeds = st.integers(0, 99)
numbers = st.lists(st.integers(0, 99), max_size=40)
hypothesis = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

WAITING = ListStateDescriptor("waiting", ANY)


def job_of(function: Any, folder: Path, parallelism: int = 1, seed: int | None = None, **options: Any) -> Job:
    """Node 1 reads, node 2 is the function, behind a round robin if it is parallel."""
    program = Program()
    source = program.source(Given(), parallelism=1)
    stream = source if parallelism == 1 else (source, Rebalance())
    program.collect(program.function(options.pop("shape", "flat_map"), function, stream))
    trouble = None if seed is None else random.Random(seed)
    limit = options.pop("limit", 0 if seed and seed % 2 else 20 << 10)
    return Job(program, folder, parallelism, workers=2, trouble=trouble, inline_limit=limit, **options)


def held(job: Job, name: str, node: int = 2) -> list[list[Any]]:
    """What the sealed version of each subtask holds."""
    found = []
    for subtask in range(job.plan.nodes[node].parallelism):
        ref = job.states[node, subtask].states[name]
        found.append(read_ref(ref).items)
    return found


def flat(parts: Iterable[Iterable[Any]]) -> list[Any]:
    return [item for part in parts for item in part]


# -- lists


class Batches(FlatMapFunction, CheckpointedFunction):
    """Holds elements back until there are five, as a sink does that writes in batches."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state(WAITING)
        self.waiting = list(self.state.get())
        assert context.is_restored() == (context.get_restored_checkpoint_id() is not None)
        assert context.is_restored() or not self.waiting

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(self.waiting)

    def flat_map(self, value: Any) -> Iterator[Any]:
        self.waiting.append(value)
        if len(self.waiting) == 5:
            yield tuple(self.waiting)
            self.waiting.clear()


@hypothesis
@given(numbers, cuts, seeds)
def test_what_is_held_back_is_neither_lost_nor_doubled(
    tmp_path: Path, values: list[int], sizes: list[int], seed: int
) -> None:
    job = job_of(Batches(), tmp_path, seed=seed).work_through({1: [values]}, sizes)
    full = len(values) // 5 * 5
    assert job.out.get("out", []) == [tuple(values[i : i + 5]) for i in range(0, full, 5)]
    assert held(job, "waiting") == [values[full:]]
    assert job.changed_fields == []


class Totals(KeyedProcessFunction, CheckpointedFunction):
    """Keyed state and operator state in one function; the keyed one comes from the initialization context."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.by_key = context.get_keyed_state_store().get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.all = sum(self.state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.all])

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.all += value[1]
        self.by_key.update((self.by_key.value() or 0) + value[1])
        yield value[0], self.by_key.value(), self.all


@hypothesis
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), max_size=30), cuts, seeds)
def test_a_keyed_function_has_both_kinds(
    tmp_path: Path, values: list[tuple[str, int]], sizes: list[int], seed: int
) -> None:
    program = Program()
    source = program.source(Given(), parallelism=1)
    program.collect(program.function("process", Totals(), (source, by(lambda v: v[0]))))
    job = Job(program, tmp_path, 1, workers=2, trouble=random.Random(seed)).work_through({1: [values]}, sizes)
    total, sums, expected = 0, Counter[str](), []
    for name, number in values:
        total += number
        sums[name] += number
        expected.append((name, sums[name], total))
    assert job.out.get("out", []) == expected


@pytest.mark.parametrize("old", [1, 2, 3])
@pytest.mark.parametrize("new", [1, 2, 4])
def test_another_parallelism_deals_the_elements_out(tmp_path: Path, old: int, new: int) -> None:
    values = list(range(23))
    before = job_of(Batches(), tmp_path, old)
    before.step({1: [values]})
    after = job_of(Batches(), tmp_path, new).go_back(before.savepoint())
    waiting = held(after, "waiting")
    assert Counter(flat(waiting)) == Counter(flat(held(before, "waiting")))
    assert max(map(len, waiting)) - min(map(len, waiting)) <= 1 or old == new
    after.step({1: [list(range(23, 60))]}, final=True)
    out = before.out.get("out", []) + after.out["out"]
    assert Counter(flat(out)) + Counter(flat(held(after, "waiting"))) == Counter(range(60))


# -- unions


class Leader(FlatMapFunction, CheckpointedFunction):
    """Every subtask remembers what it saw; when they are restored, the first one takes over everything."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("seen", Types.LONG()))

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = list(self.state.get()) if runtime_context.get_index_of_this_subtask() == 0 else []

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(self.seen)

    def flat_map(self, value: Any) -> None:
        self.seen.append(value)


class Adder(FlatMapFunction, CheckpointedFunction):
    """Only ever adds to its union, and says how much it is shown."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.restored = sorted(self.state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        pass

    def flat_map(self, value: Any) -> Iterator[Any]:
        self.state.add(value)
        yield value, tuple(self.restored)


@hypothesis
@given(numbers, cuts, seeds, st.integers(1, 4), st.sampled_from([Leader, Adder]))
def test_unions_are_restored_by_all_subtasks_together(
    tmp_path: Path, values: list[int], sizes: list[int], seed: int, parallelism: int, kind: type
) -> None:
    job = job_of(kind(), tmp_path, parallelism, seed).work_through({1: [values]}, sizes)
    assert Counter(flat(held(job, "seen"))) == Counter(values)


def test_everybody_is_shown_the_lists_of_all(tmp_path: Path) -> None:
    job = job_of(Adder(), tmp_path, 3, seed=1)
    job.step({1: [[1, 2, 3, 4, 5, 6]]})
    job.step({1: [[7, 8, 9]]})
    job.step({1: [[10, 11, 12]]})
    shown = dict(job.out["out"])
    assert {shown[n] for n in (1, 2, 3, 4, 5, 6)} == {()}
    assert {shown[n] for n in (7, 8, 9)} == {(1, 2, 3, 4, 5, 6)}
    assert {shown[n] for n in (10, 11, 12)} == {tuple(range(1, 10))}
    larger = job_of(Adder(), tmp_path, 4).go_back(job.savepoint())
    larger.step({1: [[20, 21, 22, 23]]})
    assert {shown for _, shown in larger.out["out"]} == {tuple(range(1, 13))}
    assert Counter(flat(held(larger, "seen"))) == Counter([*range(1, 13), 20, 21, 22, 23])


def test_a_union_that_grew_large_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handles, "_LARGE_UNION", 1000)
    job = job_of(Adder(), tmp_path, 2)
    job.step({1: [list(range(20))]})
    assert "has grown" not in caplog.text
    for _ in range(2):
        job.step({1: [list(range(1000, 1500))]})
        assert sum(handle.size for handle in job.states.values()) > 1000
        assert caplog.text.count("union list state 'seen' has grown") == 1


# -- raw


class RawBatches(Batches, RawStateFunction):
    """The same, with bytes of its own making."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.waiting: list[int] = []

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        pass

    def snapshot_raw(self, stream: BinaryIO) -> None:
        stream.write(bytes(self.waiting))

    def restore_raw(self, streams: Iterable[BinaryIO]) -> None:
        self.waiting = list(flat(stream.read() for stream in streams))


class RawCounts(KeyedProcessFunction, KeyedRawStateFunction):
    """Counts by key in a dict that it writes by key group itself."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def open(self, runtime_context: RuntimeContext) -> None:
        self.groups = runtime_context.get_max_number_of_parallel_subtasks()

    def snapshot_keyed_raw(self, key_group: int, stream: BinaryIO) -> None:
        for key, count in sorted(self.counts.items()):
            if key_group_of(key, self.groups) == key_group:
                stream.write(f"{key}{count};".encode())

    def restore_keyed_raw(self, key_group: int, stream: BinaryIO) -> None:
        for entry in stream.read().decode().split(";")[:-1]:
            self.counts[entry[0]] = int(entry[1:])

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.counts[value] += 1
        yield value, self.counts[value]


@hypothesis
@given(numbers, cuts, seeds)
def test_raw_bytes(tmp_path: Path, values: list[int], sizes: list[int], seed: int) -> None:
    job = job_of(RawBatches(), tmp_path, seed=seed).work_through({1: [values]}, sizes)
    full = len(values) // 5 * 5
    assert job.out.get("out", []) == [tuple(values[i : i + 5]) for i in range(0, full, 5)]
    assert held(job, "_raw") == [[bytes(values[full:])] if values[full:] else []]


@hypothesis
@given(st.lists(st.sampled_from("abcdefgh"), max_size=30), cuts, seeds, st.integers(1, 4), st.integers(1, 4))
def test_raw_bytes_by_key_group(
    tmp_path: Path, values: list[str], sizes: list[int], seed: int, parallelism: int, new: int
) -> None:
    def job(parallelism: int) -> Job:
        program = Program()
        source = program.source(Given(), parallelism=1)
        program.collect(program.function("process", RawCounts(), (source, by(str))))
        return Job(program, tmp_path, parallelism, workers=2, trouble=random.Random(seed))

    before = job(parallelism)
    before.work_through({1: [values]}, sizes)
    after = job(new).go_back(before.savepoint()).work_through({1: [values]}, sizes)
    seen = before.out.get("out", []) + after.out.get("out", [])
    counts = Counter([*values, *values])
    assert Counter(seen) == Counter((key, i) for key, count in counts.items() for i in range(1, count + 1))


# -- sources and sinks


class Lines(Given, CheckpointedFunction):
    """A source that numbers what it reads, over all splits and steps."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("line", Types.LONG()))
        self.line = sum(self.state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.line])

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        for batch in super().read_batches(split):
            numbered = []
            for record in batch:
                self.line += 1
                numbered.append((self.line, record))
            yield numbered


class Gathered(Committer):
    """Takes all pieces, and hands none out."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def sealed(self, pieces: list[Any], now: int, final: bool) -> None:
        self.pieces += pieces

    def due(self, at_checkpoint: bool) -> list[Any]:
        return []

    def snapshot(self) -> Any:
        return self.pieces

    def precommitter(self) -> Any:
        return str

    def make_durable(self, snapshot: Any) -> None: ...

    def publish(self, committables: list[Any], call: Any, recovering: bool) -> list[Any]:
        return []

    def restore(self, snapshot: Any, needed: list[Any]) -> None:
        self.pieces = snapshot


class Files(StagedSink, CheckpointedFunction):
    """A sink that puts four records in a file, across steps."""

    def committer(self) -> Committer:
        return Gathered()

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state(WAITING)
        self.waiting = list(self.state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(self.waiting)

    def stager(self, subtask: int, step: int, now: int) -> Any:
        return FileStager(self)


class FileStager(Stager):
    def __init__(self, sink: Files) -> None:
        self._sink = sink
        self._full: list[Any] = []

    def write(self, records: list[Any], timestamps: Any) -> None:
        for record in records:
            self._sink.waiting.append(record)
            if len(self._sink.waiting) == 4:
                self._full.append(tuple(self._sink.waiting))
                self._sink.waiting.clear()

    def finish(self) -> list[Any]:
        return self._full


@hypothesis
@given(numbers, cuts, seeds)
def test_sources_and_sinks_have_operator_state_too(
    tmp_path: Path, values: list[int], sizes: list[int], seed: int
) -> None:
    program = Program()
    source = program.source(Lines(), parallelism=1)
    program.add("sink", SinkSpec(Files()), source, parallelism=1)
    job = Job(program, tmp_path, 1, workers=2, trouble=random.Random(seed)).work_through({1: [values]}, sizes)
    lines = list(enumerate(values, 1))
    full = len(values) // 4 * 4
    assert job.staged == [tuple(lines[i : i + 4]) for i in range(0, full, 4)]
    assert held(job, "waiting") == [lines[full:]]


# -- what is stored


def test_equal_state_is_not_stored_again(tmp_path: Path) -> None:
    job = job_of(Batches(), tmp_path, limit=0)
    folder = Path(job.context.state_root)
    job.step({1: [[1, 2]]})
    files = sorted(path.name for path in folder.glob("*.state"))
    assert len(files) == 1
    (ack,) = (s for task in job.step({1: [[]]}) for s in task.subtasks if s.node == 2)
    assert ack.states is None
    assert ack.base_states == job.states[2, 0].version
    assert sorted(path.name for path in folder.glob("*.state")) == files
    job.step({1: [[3]]})
    assert len(list(folder.glob("*.state"))) == 1, "the one before is garbage"
    job.workers = [job.new_worker()]
    job.step({1: [[4, 5]]})
    assert job.out["out"] == [(1, 2, 3, 4, 5)]


# -- what is refused


class Asks(MapFunction):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_union_list_state(WAITING)

    def map(self, value: Any) -> Any:
        return value


class Twice(Batches):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        store.get_list_state(WAITING)
        store.get_union_list_state(WAITING)


class NoKeys(Batches):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        context.get_keyed_state_store().get_state(ValueStateDescriptor("x", Types.LONG()))


class Selector(KeySelector, CheckpointedFunction):
    def snapshot_state(self, context: Any) -> None: ...

    def initialize_state(self, context: Any) -> None: ...

    def get_key(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("function", "shape", "message"),
    [
        (Asks(), "map", r"asks its runtime context for operator state. .* inherit from CheckpointedFunction"),
        (Twice(), "flat_map", "'waiting' is already registered as a list state and is now asked for as a union list"),
        (NoKeys(), "flat_map", "only accessible by functions executed on a KeyedStream"),
    ],
)
def test_what_can_not_work_says_why(tmp_path: Path, function: Any, shape: str, message: str) -> None:
    with pytest.raises(JobExecutionError, match=message):
        job_of(function, tmp_path, shape=shape).step({1: [[1]]})


def test_key_selectors_have_no_operator_state(tmp_path: Path) -> None:
    program = Program()
    source = program.source(Given(), parallelism=1)
    program.collect(program.function("process", Totals(), (source, by(Selector()))))
    with pytest.raises(JobExecutionError, match=r"Selector after operator 'source' is a key selector or partitioner"):
        Job(program, tmp_path, 1).step({1: [[1]]})
