"""What Spark calls in a worker. Pickled by reference: its closure is a small :class:`LevelCall`."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import xxhash
from pyspark import TaskContext

from beadline.runtime import worker
from beadline.runtime.messages import MergeRequest, MergeResult, StepHeader, TaskInput
from beadline.runtime.rows import DESCRIPTOR, DESCRIPTOR_SEQ, Row, read_rows
from beadline.runtime.task import Task
from beadline.state.run import (
    count_entries,
    decode_run,
    encode_run,
    merge_contents,
    without_expired,
    without_tombstones,
)


@dataclass(frozen=True)
class LevelCall:
    """The closure of one level of one step.

    :ivar shipment: the broadcast plan of the run
    :ivar inputs: for level 0, the pickled descriptors of all tasks of the step, or a broadcast of them if they are
        large
    """

    header: StepHeader
    level: int
    width: int
    shipment: Any
    inputs: Any = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark's daemon collects garbage after every task; collections in between only cost time.
        gc.disable()
        try:
            yield from self._work(batches)
        finally:
            gc.enable()

    def _work(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        header = self.header
        run = worker.enter_run(header.run, header.live_runs, self.shipment, header.state_root)
        if self.inputs is None:
            yield from Task(run, header, self.level, partition).work(read_rows(batches), None)
            return
        for _ in batches:  # the range that only made the partitions
            pass
        packed = self.inputs if isinstance(self.inputs, bytes) else self.inputs.value
        own: TaskInput | None = None
        deeper: list[Row] = []
        for level, number, data in pickle.loads(packed):
            if level == 0:
                if number == partition:
                    own = pickle.loads(data)
            elif number % self.width == partition:
                deeper.append(Row(number, level, 0, DESCRIPTOR_SEQ, DESCRIPTOR, data))
        task = Task(run, header, 0, partition)
        yield from task.work(iter(deeper), own)


def farewell(live: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Close and drop what this worker holds of runs that have ended."""
    worker.forget_all_but(live)
    yield from batches


def merge_in_worker(header: StepHeader, shipment: Any, merge: MergeRequest) -> MergeResult:
    """Merge some runs of one handle into one file. Reads and writes immutable files only; may run twice."""
    run = worker.enter_run(header.run, header.live_runs, shipment, header.state_root)
    content = merge_contents(decode_run(run.files.read(ref), ref.key_groups, repr(ref)) for ref in merge.runs)
    if merge.from_root:
        content = without_expired(without_tombstones(content), header.now)
    data = encode_run(content, merge.max_parallelism, by_key=True, codec=header.codec)
    last = merge.runs[-1].version
    name = f"{xxhash.xxh3_128_hexdigest(data)}-{last[:12]}.run"
    return MergeResult(merge, run.files.store(name, data, last, count_entries(content)))
