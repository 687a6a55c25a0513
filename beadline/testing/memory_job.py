"""A job in this process: tasks, rows, seals and state are the real ones, only Spark's part is played here.

Level 0 of the plan holds nothing but inputs. What is pushed into them goes through the writers that a source would
have, so keys are selected, checked and routed as in a job.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import xxhash

from beadline.checkpoint import metadata
from beadline.checkpoint.actions import CheckpointKind, Take
from beadline.checkpoint.snapshot import Snapshot, SnapshotKind
from beadline.errors import BeadlineError
from beadline.graph.plan import Plan
from beadline.graph.specs import CollectSpec, Spec
from beadline.master.shipping import shipment as shipping
from beadline.master.upkeep import seal
from beadline.master.upkeep.truth import Truth
from beadline.runtime import worker
from beadline.runtime.failure import Failure, UserCodeError
from beadline.runtime.merging import merge_in_worker
from beadline.runtime.messages import RunContext, StepHeader, SubtaskAck, TaskAck, TaskInput
from beadline.runtime.rows import ACK, BARRIER, DRIVER, Row
from beadline.runtime.surroundings import Packed, Surroundings
from beadline.runtime.task import Task
from beadline.runtime.worker import WorkerRun
from beadline.runtime.writer import ChannelWriter, make_writer
from beadline.state.backend_settings import BackendSettings
from beadline.state.files import RunFiles, delete_file, read_run
from beadline.state.version import RunRef, checksum_of

_INLINE_LIMIT = 20 << 10
_JOB = "harness"

# A node of level 0, and what it sends: ``(records, timestamps)``, a watermark, or idleness.
Sent = tuple[int, Any]


class InputSpec(Spec):
    """A node that the test pushes records into."""


class _Shipped:
    """What a broadcast is to a worker."""

    def __init__(self, value: Packed) -> None:
        self.value = value


class MemoryJob:
    """Runs a plan step by step, each step sealed when it returns.

    :ivar truth: what holds after the last sealed step
    :ivar warnings: what a job would warn of
    """

    def __init__(self, plan: Plan, folder: str, attempt: int = 0, backend: BackendSettings | None = None) -> None:
        self.plan = plan
        self.files = RunFiles(folder)
        self.truth = Truth(_JOB, plan, self.files)
        self.warnings: list[str] = []
        self._attempt = attempt
        self._backend = _within(folder, backend or BackendSettings())
        self._run = f"{_JOB}-{attempt}"
        self._shipment = shipping.make_shipment(plan, Surroundings())
        self._worker = self._new_worker()
        self._writers = {
            node: [make_writer(edge, plan.nodes[node], plan.nodes[edge.target], 0) for edge in plan.nodes[node].outputs]
            for node in plan.levels[0]
        }

    def _new_worker(self) -> WorkerRun:
        return WorkerRun(self._run, self._shipment, self.files.root)

    def enter(self) -> None:
        """Let state hold classes of this job's modules, and of no others."""
        self._worker.enter()

    def lose_worker(self) -> None:
        """Let go of every function and store; the next step makes them anew from what was sealed."""
        for store in self._worker.stores.values():
            store.close()
        self._worker = self._new_worker()

    def close(self) -> None:
        self._worker.close()

    # -- steps

    def step(
        self,
        sent: Iterable[Sent],
        now: int,
        final: bool = False,
        completed: tuple[int, ...] = (),
        aborted: tuple[int, ...] = (),
    ) -> dict[str, list[Any]]:
        """Run a step and seal it; gives what each collector got.

        1. the inputs send their records and a barrier behind them
        2. the tasks of each level run, one after the other
        3. the acknowledgements are checked as the job master does it; user code that failed raises here
        4. the truth moves on, and runs of state that have become many are merged
        """
        header = self._header(now, final, completed, aborted)
        self.enter()
        rows, acks = self._inputs(header, sent)
        for level in range(1, len(self.plan.levels)):
            for partition in range(self.plan.width(level)):
                mine = [row for row in rows if row.target == level and row.dest == partition]
                mine.sort(key=lambda row: (row.seq, row.channel))
                task = Task(self._worker, header, level, partition)
                made = [row for rows in task.work(iter(mine), self._start(level, partition, final)) for row in rows]
                acks += [pickle.loads(row.payload) for row in made if row.target == DRIVER and row.kind == ACK]
                rows += [row for row in made if row.target != DRIVER]
        seal.check(self.plan, acks, self.truth.book.handles, self.truth.book.states)
        subtasks = sorted((s for ack in acks for s in ack.subtasks), key=lambda s: (s.node, s.subtask))
        self.truth.seal(header.step, subtasks, {})
        self._merge(header)
        return self._collected(subtasks)

    def _header(
        self, now: int, final: bool, completed: tuple[int, ...] = (), aborted: tuple[int, ...] = ()
    ) -> StepHeader:
        context = RunContext(
            self._run, (self._run,), self.files.root, _INLINE_LIMIT, self._attempt, None, self._backend
        )
        return StepHeader(context, self.truth.step + 1, now, final, self.truth.step or None, completed, aborted)

    def _inputs(self, header: StepHeader, sent: Iterable[Sent]) -> tuple[list[Row], list[TaskAck]]:
        """The rows and the acknowledgement of level 0."""
        rows: list[Row] = []
        writers = [writer for own in self._writers.values() for writer in own]
        for writer in writers:
            writer.begin(header.step, rows.append)
        try:
            for node, segment in sent:
                for writer in self._writers[node]:
                    if segment.__class__ is tuple:
                        writer.records(*segment)
                    else:
                        writer.control(segment)
            ends = [(writer, writer.finish()) for writer in writers]
        except (UserCodeError, BeadlineError) as error:
            raise seal.job_error(Failure.of(error, "the harness's input", 0)) from error
        digest = xxhash.xxh3_128_hexdigest(repr([end for _, end in ends]).encode())
        for writer, end in ends:
            rows += _barriers(writer, end, digest)
        return rows, [TaskAck(0, 0, digest)]

    def _start(self, level: int, partition: int, final: bool) -> TaskInput:
        nodes = self.plan.nodes_of(level, partition)
        # Nothing more waits to be read: watermarks need not wait for more records.
        starts = {node.id: self.truth.input_of(node, partition, ended=final, caught_up=True) for node in nodes}
        return TaskInput(level, partition, starts)

    def _collected(self, subtasks: list[SubtaskAck]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for ack in subtasks:
            self.warnings += ack.warnings
            self.warnings += [f"{name} is a field that changed and is in no snapshot" for name in ack.changed_fields]
            spec = self.plan.nodes[ack.node].spec
            if isinstance(spec, CollectSpec):
                found.setdefault(spec.collector, []).extend(ack.collected)
        return found

    def _merge(self, header: StepHeader) -> None:
        book = self.truth.book
        requests = book.merges()
        if not requests:
            return
        book.take_merges(
            [merge_in_worker(_Shipped(self._shipment), header.context, header.now, request) for request in requests]
        )
        worker.forget_all_but(())
        for path in book.garbage():
            delete_file(path)

    # -- snapshots

    def snapshot(self, checkpoint_id: int, now: int) -> bytes:
        """The last sealed step in the form of a savepoint's metadata, with all state inside."""
        take = Take(checkpoint_id, self.truth.step, CheckpointKind.SAVEPOINT)
        snapshot = self.truth.snapshot(take, now, {}, {}).with_runs(_inline)
        return metadata.encode(replace(snapshot, kind=SnapshotKind.SAVEPOINT), _JOB)

    def restore(self, data: bytes) -> Snapshot:
        """Start from a snapshot, of whatever parallelism."""
        snapshot = metadata.decode(data, f"{_JOB}/{metadata.METADATA}")
        self.truth.restore(snapshot, self.files, _INLINE_LIMIT, ignore_unclaimed=False, skip_in_flight=False)
        return snapshot


def _barriers(writer: ChannelWriter, ends: list[tuple[int, int, int, str]], digest: str) -> Iterable[Row]:
    for destination, seq, count, channel_digest in ends:
        payload = pickle.dumps((count, channel_digest, 0, 0, digest, False), 5)
        yield Row(destination, writer.target.level, writer.edge.channel(0), seq, BARRIER, payload)


def _inline(run: RunRef) -> RunRef:
    data = read_run(run)
    return replace(run, inline=data, path=None, offset=0, checksum=checksum_of(data))


def _within(folder: str, backend: BackendSettings) -> BackendSettings:
    """Local files of the backend go where those of the job go."""
    return replace(backend, rocks=replace(backend.rocks, directories=backend.rocks.directories or (folder,)))
