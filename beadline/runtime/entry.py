"""What Spark calls in a worker. Pickled by reference: its closure is a small :class:`LevelCall`."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from beadline.runtime import printed, worker
from beadline.runtime.garbage import no_collection
from beadline.runtime.messages import MergeRequest, MergeResult, RunContext, StepHeader, TaskInput
from beadline.runtime.rows import DESCRIPTOR, DESCRIPTOR_SEQ, Row, read_rows
from beadline.runtime.task import Task
from beadline.state.merging import merged
from beadline.state.run import RunWriter


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
        with no_collection():
            yield from self._work(batches)

    def _work(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        header = self.header
        printed.install()
        run = worker.enter_run(header.context, self.shipment)
        if self.inputs is None:
            task = Task(run, header, self.level, partition)
            with printed.gathered(task.printed):
                yield from task.work(read_rows(batches), None)
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
        with printed.gathered(task.printed):
            yield from task.work(iter(deeper), own)


def farewell(live: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Close and drop what this worker holds of runs that have ended."""
    worker.forget_all_but(live)
    yield from batches


def merge_in_worker(shipment: Any, context: RunContext, now: int, merge: MergeRequest) -> MergeResult:
    """Merge some runs of one handle into one file, some key groups at a time. Reads and writes immutable files only;
    may run twice."""
    run = worker.enter_run(context, shipment)
    with no_collection():
        return _merge(run, context, now, merge)


def _merge(run: worker.WorkerRun, context: RunContext, now: int, merge: MergeRequest) -> MergeResult:
    groups = range(merge.max_parallelism) if merge.groups is None else range(*merge.groups)
    over = now if merge.from_root else None
    with run.files.draft() as draft:
        writer = RunWriter(draft.write, merge.max_parallelism, by_key=True, codec=context.codec)
        parts = merged(merge.runs, run.files.read_range, groups, from_root=merge.from_root, now=over)
        for _, content in parts:
            writer.add(content)
        writer.finish()
        # A unique name: a checkpoint that no longer counts may have such a file too, and be about to delete it.
        made = draft.store(f"{draft.digest}-{uuid.uuid4().hex[:12]}.run", "", writer.entries)
        return MergeResult(merge, replace(made, groups=merge.groups))
