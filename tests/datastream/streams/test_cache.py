"""cache(): computed once, read by later jobs, computed again after invalidate()."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import Types, WatermarkStrategy
from beadline.connectors.cache import Cache, CacheSink, CacheSource, Frame
from beadline.connectors.source import Position, StepSource
from beadline.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from beadline.datastream.functions import MapFunction, ProcessFunction
from beadline.datastream.output_tag import OutputTag
from beadline.datastream.streams.cached import resolve_caches
from beadline.errors import ConfigurationError, GraphError, JobExecutionError, SerializationError
from beadline.graph.specs import Node, SinkSpec, SourceSpec
from tests.timestamps import Itself

Batch = tuple[list[Any], list[int] | None]

# -- sink and source, without Spark


def kept(folder: Path, steps: list[dict[int, list[Batch]]]) -> Cache:
    """Run the sink as the engine does: one stager a subtask and step, then seal."""
    cache = Cache(lambda: str(folder))
    sink = CacheSink(cache)
    sink.prepare("run")
    shipped = pickle.loads(pickle.dumps(sink))
    committer = sink.committer()
    for number, step in enumerate(steps):
        pieces = []
        for subtask, batches in sorted(step.items()):
            stager = shipped.stager(subtask, number, 0)
            for records, times in batches:
                stager.write(records, times)
            pieces += stager.finish()
        committer.sealed(pieces, 0, number == len(steps) - 1)
        assert committer.due(at_checkpoint=True) == []
    committer.close(discard=True)
    return cache


def read_back(cache: Cache, rows: int) -> tuple[list[list[Any]], list[list[int | None]]]:
    """By subtask, the records and their timestamps, read in steps of about ``rows``."""
    frames = cache.frames()
    assert frames is not None
    source = CacheSource(frames)
    records: list[list[Any]] = [[] for _ in frames]
    times: list[list[int | None]] = [[] for _ in frames]
    position = source.initial()
    while not source.finished(position):
        position, splits = source.plan(position, rows, len(frames))
        worker_side = pickle.loads(pickle.dumps(source))
        for number, split in enumerate(splits):
            for batch, stamps in worker_side.read_batches(split):
                records[number % len(frames)] += batch
                times[number % len(frames)] += stamps or [None] * len(batch)
    return records, times


timed_batches = st.lists(
    st.lists(st.integers(0, 99), min_size=1, max_size=5).flatmap(
        lambda records: st.booleans().map(lambda timed: (records, [r * 10 for r in records] if timed else None))
    ),
    max_size=4,
)


@given(st.lists(st.fixed_dictionaries({0: timed_batches, 1: timed_batches}), min_size=1, max_size=4), st.integers(1, 9))
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[int, list[Batch]]], rows: int
) -> None:
    records, times = read_back(kept(tmp_path_factory.mktemp("cache"), steps), rows)
    for subtask in (0, 1):
        batches = [batch for step in steps for batch in step[subtask]]
        assert records[subtask] == [r for values, _ in batches for r in values]
        assert times[subtask] == [t for values, stamps in batches for t in stamps or [None] * len(values)]


def test_many_records_lie_in_files(tmp_path: Path) -> None:
    words = [f"word {i}" for i in range(20_000)]
    cache = kept(tmp_path, [{0: [(words[:15_000], None), (words[15_000:], None)]}])
    assert repr(cache) == "<Cache of 20000 records in 1 subtasks>"
    (written,) = tmp_path.iterdir()
    assert written.stat().st_size > 200_000
    assert read_back(cache, 6000)[0] == [words]
    cache.clear()
    assert not tmp_path.exists()
    assert cache.frames() is None


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    cache = kept(tmp_path, [{0: [([f"word {i}" for i in range(20_000)], None)]}])
    (written,) = tmp_path.iterdir()
    data = bytearray(written.read_bytes())
    data[len(data) // 2] ^= 1
    written.write_bytes(bytes(data))
    with pytest.raises(SerializationError, match="have changed since they were written"):
        read_back(cache, 10**6)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    frame = Frame(1, 0, None, str(tmp_path / "gone"), 0, 5)
    with pytest.raises(SerializationError, match=r"gone.*Was invalidate\(\) called"):
        frame.read()


def test_a_job_that_did_not_end_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    cache = Cache(lambda: str(folder))
    sink = CacheSink(cache)
    sink.prepare("run")
    committer = sink.committer()
    stager = sink.stager(0, 1, 0)
    stager.write([1], None)
    committer.sealed(stager.finish(), 0, False)
    committer.close(discard=True)
    assert cache.frames() is None
    assert not folder.exists()


def test_of_two_jobs_the_first_counts(tmp_path: Path) -> None:
    folders = iter([tmp_path / "one", tmp_path / "two"])
    cache = Cache(lambda: str(_made(next(folders))))
    committers = []
    for value in (1, 2):
        sink = CacheSink(cache)
        sink.prepare("run")
        stager = sink.stager(0, 1, 0)
        stager.write([value], None)
        committers.append((sink.committer(), stager.finish()))
    for committer, pieces in committers:
        committer.sealed(pieces, 0, True)
        committer.close(discard=True)
    assert read_back(cache, 9)[0] == [[1]]
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def staged(sink: CacheSink, records: list[int], subtask: int = 0) -> list[Any]:
    stager = sink.stager(subtask, 1, 0)
    stager.write(records, None)
    return stager.finish()


def test_a_job_that_goes_back_to_a_checkpoint_keeps_each_record_once(tmp_path: Path) -> None:
    cache = Cache(lambda: str(tmp_path))
    sink = CacheSink(cache)
    sink.prepare("run")
    committer = sink.committer()
    committer.sealed(staged(sink, [1, 2]), 0, False)
    snapshot = pickle.loads(pickle.dumps(committer.snapshot()))
    committer.sealed(staged(sink, [3]), 0, False)
    committer.restore(snapshot, [])
    committer.sealed(staged(sink, [3, 4]), 0, True)
    assert read_back(cache, 9)[0] == [[1, 2, 3, 4]]


def test_a_job_that_another_session_restores_completes_no_cache(tmp_path: Path) -> None:
    folders = iter([tmp_path / "one", tmp_path / "two"])
    cache = Cache(lambda: str(_made(next(folders))))
    before, after = CacheSink(cache), CacheSink(cache)
    before.prepare("run")
    after.prepare("other run")
    gone, committer = before.committer(), after.committer()
    gone.sealed(staged(before, [1, 2]), 0, False)
    committer.restore(gone.snapshot(), [])
    committer.restore(committer.snapshot(), [])
    committer.sealed(staged(after, [3]), 0, True)
    committer.close(discard=True)
    assert cache.frames() is None, "its first records lie where this session does not look"
    assert not (tmp_path / "two").exists()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


# -- the program of each job


class Endless(StepSource):
    def initial(self) -> Position:
        return {"next": 0}

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        return {"next": start["next"] + rows}, [start["next"]]

    def finished(self, position: Position) -> bool:
        return False

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        yield [split]


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


def kinds(nodes: list[Node]) -> list[str]:
    return [node.name for node in nodes]


def test_a_stream_that_never_ends_is_refused() -> None:
    env = environment()
    endless = env.from_source(Endless(), WatermarkStrategy.no_watermarks(), "endless")
    endless.cache().map(lambda v: v).print()
    with pytest.raises(ConfigurationError, match="the source 'endless' never ends"):
        env.execute()
    with pytest.raises(ConfigurationError, match="'endless' never ends, which batch mode does not allow"):
        env.set_runtime_mode(RuntimeExecutionMode.BATCH).execute()


def test_an_endless_stream_beside_the_cached_one_is_none_of_its_business() -> None:
    env = environment()
    env.from_source(Endless(), WatermarkStrategy.no_watermarks(), "endless").print()
    env.from_collection([1]).cache().print()
    assert "Cache: Writer" in kinds(resolve_caches(env._pending, env._next_number, batch=False))


def test_a_cached_stream_that_nothing_uses_is_not_computed() -> None:
    env = environment()
    stream = env.from_collection([1])
    stream.cache()
    stream.print()
    assert kinds(resolve_caches(env._pending, env._next_number, batch=False)) == [
        "Collection Source",
        "Print to Std. Out",
    ]


def test_behind_a_complete_cache_nothing_else_is_computed() -> None:
    env = environment()
    inner = env.from_collection([1]).map(lambda v: v).cache()
    outer = inner.map(lambda v: v).cache()
    env._pending.clear()
    outer.map(lambda v: v)
    assert outer._cache.complete(((), ()), "/nowhere")
    nodes = resolve_caches(env._pending, env._next_number, batch=False)
    assert kinds(nodes) == ["Map"]
    source = nodes[0].inputs[0].source
    assert isinstance(source.spec, SourceSpec)
    assert (source.parallelism, source.inputs) == (2, [])
    assert not any(isinstance(node.spec, SinkSpec) for node in nodes)


def test_a_cache_needs_no_uid_from_the_program() -> None:
    env = environment()
    env._configuration.set_boolean("pipeline.auto-generate-uids", False)
    stream = env.from_collection([1]).uid("source")
    stream.cache().map(lambda v: v).uid("map")
    uids = {node.name: node.uid for node in env._plan("job").nodes.values()}
    assert uids == {"Collection Source": "source", "Cache": "cache-2", "Map": "map", "Cache: Writer": "cache-2-writer"}


@pytest.mark.parametrize(
    "use",
    [
        lambda cached: cached.name("x"),
        lambda cached: cached.uid("x"),
        lambda cached: cached.set_parallelism(3),
        lambda cached: cached.disable_chaining(),
        lambda cached: cached.get_name(),
    ],
)
def test_settings_belong_before_the_cache(use: Any) -> None:
    with pytest.raises(GraphError, match="for CachedDataStream is not supported"):
        use(environment().from_collection([1]).cache())


def test_side_outputs_belong_before_the_cache() -> None:
    with pytest.raises(GraphError, match="no side output 'late'"):
        environment().from_collection([1]).cache().get_side_output(OutputTag("late", Types.INT()))


def test_keyed_streams_are_not_cached() -> None:
    with pytest.raises(GraphError, match="Cache for KeyedStream"):
        environment().from_collection([1]).key_by(lambda v: v).cache()


# -- on Spark


class Noted(MapFunction):
    """Leaves a mark for each call."""

    def __init__(self, path: str) -> None:
        self._path = path

    def map(self, value: Any) -> Any:
        with open(self._path, "a") as stream:
            stream.write("x")
        return value * 2


class Stamped(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp()


def test_later_jobs_read_what_the_first_computed(spark: Any, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    env = environment()
    computed = (
        env.from_sequence(1, 200)
        .map(Noted(str(marks)), Types.LONG())
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
        )
    )
    cached = computed.cache()
    doubled = [n * 2 for n in range(1, 201)]

    first = cached.map(lambda n: n, Types.LONG()).execute_and_collect(limit=1000)
    assert sorted(first) == doubled
    assert len(marks.read_text()) == 200

    second = cached.process(Stamped()).execute_and_collect(limit=1000)
    assert sorted(second) == [(n, n) for n in doubled], "timestamps are kept"
    total = cached.key_by(lambda n: 0).sum().execute_and_collect(limit=1000)
    assert max(total) == sum(doubled)
    assert len(marks.read_text()) == 200, "the map did not run again"

    folder = cached._cache._folder
    assert folder is not None
    assert Path(folder).exists()
    cached.invalidate()
    assert not Path(folder).exists()
    third = cached.filter(lambda n: n > 390).execute_and_collect(limit=1000)
    assert sorted(third) == [392, 394, 396, 398, 400]
    assert len(marks.read_text()) == 400, "computed anew"

    again = cached._cache._folder
    assert again is not None
    env.close()
    assert not Path(again).exists()


def test_a_failed_job_caches_nothing(spark: Any, tmp_path: Path) -> None:
    env = environment()
    cached = env.from_collection([1, 0]).cache()
    cached.map(lambda n: 1 // n).print()
    with pytest.raises(JobExecutionError):
        env.execute()
    assert cached._cache.frames() is None
    assert sorted(cached.map(lambda n: n).execute_and_collect(limit=9)) == [0, 1]
