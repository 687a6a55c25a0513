"""Whole jobs with RocksDB: the same results as on the heap, whatever is lost; and what merges of segments leave out."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.api.process import KeyedProcessFunction
from beadline.api.runtime_context import RuntimeContext
from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.api.state_ttl import StateTtlConfig
from beadline.common.time import Time
from beadline.common.typeinfo import Types
from beadline.errors import JobExecutionError
from beadline.runtime.messages import MergeRequest
from beadline.runtime.short_tasks.merging import merge_in_worker
from beadline.state.backend_settings import BackendSettings, RocksSettings
from beadline.state.rocks.folders import BASE
from beadline.state.segments.segment import TableChanges, encode_segment
from beadline.state.segments.version import SegmentRef, next_version
from tests.graph.programs import Program, by
from tests.runtime.harness import Given, Job


@pytest.fixture
def rocksdb() -> Iterator[BackendSettings]:
    pytest.importorskip("rocksdict")
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    yield BackendSettings("rocksdb", RocksSettings(directories=(folder,)))
    shutil.rmtree(folder)


def key(record: Any) -> Any:
    return record[0]


class Everything(KeyedProcessFunction):
    """State of every kind, and timers in both domains."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.times = runtime_context.get_map_state(MapStateDescriptor("times", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        name, number = value
        self.total.update((self.total.value() or 0) + number)
        self.seen.add(number)
        self.times.put(number, (self.times.get(number) or 0) + 1)
        if number == 9:
            self.seen.clear()
            self.times.remove(3)
        ctx.timer_service().register_event_time_timer(number)
        if number == 7:
            ctx.timer_service().delete_event_time_timer(8)
        yield name, self.total.value(), tuple(self.seen.get()), tuple(sorted(self.times.items()))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), "timer", timestamp, self.total.value()


def by_key(results: list[Any]) -> dict[Any, list[Any]]:
    grouped = defaultdict(list)
    for result in results:
        grouped[result[0]].append(result)
    return dict(grouped)


@pytest.mark.parametrize("seed", range(4))
def test_a_job_in_a_sea_of_trouble(tmp_path: Path, rocksdb: BackendSettings, seed: int) -> None:
    program = Program()
    program.collect(program.function("process", Everything(), (program.source(Given(), parallelism=1), by(key))))
    chance = random.Random(seed)
    records = [(chance.choice("abcdefgh"), chance.randrange(10)) for _ in range(80)]
    calm = Job(program, tmp_path).work_through({1: [records]}, [99])
    trouble = random.Random(seed)
    rough = Job(program, tmp_path, 3, 2, trouble, 0 if seed % 2 else 20 << 10, rocksdb)
    rough.work_through({1: [records]}, [1, 4])
    assert by_key(rough.out["out"]) == by_key(calm.out["out"])


def test_a_worker_that_forgets_an_execution_takes_its_files_along(tmp_path: Path, rocksdb: BackendSettings) -> None:
    program = Program()
    program.collect(program.function("process", Everything(), (program.source(Given(), parallelism=1), by(key))))
    job = Job(program, tmp_path, 2, backend=rocksdb)
    job.step({1: [[(name, 1) for name in "abcdefgh"]]})
    root = Path(rocksdb.rocks.directories[0]) / BASE / job.context.execution
    assert sorted(path.name.split("-")[1] for path in root.glob("worker-*/*")) == ["0", "1"]
    for worker in job.workers:
        worker.close()
    assert not root.exists()


class Fleeting(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        state = ValueStateDescriptor("v", Types.LONG())
        state.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
        self.value = runtime_context.get_state(state)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.value.update(value[1])
        yield value


@pytest.mark.parametrize("from_root", [True, False])
def test_merging_segments_leaves_out_what_is_over_by_then(tmp_path: Path, from_root: bool) -> None:
    program = Program()
    program.collect(program.function("process", Fleeting(), (program.source(Given(), parallelism=1), by(key))))
    job = Job(program, tmp_path, 1)
    for now in (1000, 1050, 1090):
        job.step({1: [[(f"{now}-{number}", number) for number in range(10)]]}, now=now)
    ((node, subtask), handle) = next(iter(job.handles.items()))
    request = MergeRequest(node, subtask, 128, handle.segments, from_root)
    result = merge_in_worker(job.engine.shipped, job.context, 1155, request)
    # What lies below may still hold an older value, which only a tombstone or the value itself can hide.
    assert result.segment.entries == (10 if from_root else 30)


# -- what fails before the first record of a step


class Alarm(KeyedProcessFunction):
    """Its timer is due in a later step, and fails."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_processing_time_timer(20)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        raise ValueError(f"woken at {timestamp}")


def alarmed(folder: Path) -> Job:
    program = Program()
    program.collect(program.function("process", Alarm(), (program.source(Given()), by(key))))
    job = Job(program, folder)
    job.step({1: [[("a", 1)]]}, now=10)
    return job


def test_a_processing_time_timer_that_fails_is_a_failure_of_its_function(tmp_path: Path) -> None:
    job = alarmed(tmp_path)
    with pytest.raises(JobExecutionError, match="woken at 20"):
        job.step(now=30)


def test_state_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    job = alarmed(tmp_path)
    (place,) = (place for place, handle in job.handles.items() if handle.segments)
    handle = job.handles[place]
    data = encode_segment({"strange": TableChanges("value", False, {"a": tmp_path})}, 128)
    job.book.handles[place] = handle.plus(SegmentRef(next_version(handle.version, data), 1, len(data), inline=data))
    job.workers = [job.new_worker() for _ in job.workers]
    with pytest.raises(JobExecutionError, match=r"state refers to pathlib\.\w*Path"):
        job.step(now=15)
