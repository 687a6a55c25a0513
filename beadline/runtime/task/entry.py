"""What Spark calls in a worker. Pickled by reference: its closure is a small :class:`LevelCall`."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from beadline.runtime.exchange.rows import DESCRIPTOR, DESCRIPTOR_SEQ, WireRow, read_rows, write_rows
from beadline.runtime.functions import printed
from beadline.runtime.messages import StepHeader, TaskInput
from beadline.runtime.task.task import Task
from beadline.runtime.worker import worker
from beadline.runtime.worker.garbage import no_collection


@dataclass(frozen=True)
class LevelCall:
    """The closure of one level of one step.

    :ivar shipment: the broadcast plan of the execution
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
        execution = worker.enter_execution(header.context, self.shipment)
        if self.inputs is None:
            task = Task(execution, header, self.level, partition)
            with printed.gathered(task.printed):
                yield from write_rows(task.work(read_rows(batches), None))
            return
        for _ in batches:  # the range that only made the partitions
            pass
        packed = self.inputs if isinstance(self.inputs, bytes) else self.inputs.value
        own: TaskInput | None = None
        deeper: list[WireRow] = []
        for level, number, data in pickle.loads(packed):
            if level == 0:
                if number == partition:
                    own = pickle.loads(data)
            elif number % self.width == partition:
                deeper.append(WireRow(number, level, 0, DESCRIPTOR_SEQ, DESCRIPTOR, data))
        task = Task(execution, header, 0, partition)
        with printed.gathered(task.printed):
            yield from write_rows(task.work(iter(deeper), own))


def farewell(live: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Close and drop what this worker holds of executions that have ended."""
    worker.forget_all_but(live)
    yield from batches
