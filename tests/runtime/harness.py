"""A job in memory: the tasks, rows, seals and state files are the real ones, Spark's part is played here.

Every exchange sends a row to partition ``dest % width`` and sorts by (seq, channel). Tasks land on any worker; some
are run twice, as Spark does after it lost a worker; some steps are run again before they are sealed.
"""

from __future__ import annotations

import itertools
import os
import pickle
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle

from beadline.connectors.source import Position, StepSource
from beadline.graph.plan import Plan
from beadline.graph.specs import CollectSpec
from beadline.master.upkeep import seal
from beadline.master.upkeep.handles import StateBook
from beadline.runtime import worker as worker_module
from beadline.runtime.merging import merge_in_worker
from beadline.runtime.messages import RunContext, StepHeader, SubtaskInput, TaskAck, TaskInput
from beadline.runtime.rows import ACK, DESCRIPTOR, DESCRIPTOR_SEQ, DRIVER, Row
from beadline.runtime.surroundings import Packed, Surroundings
from beadline.runtime.task import Task
from beadline.runtime.worker import Shipment, WorkerRun
from beadline.state.backend_settings import BackendSettings, RocksSettings
from beadline.state.files import RunFiles, delete_file
from beadline.state.operator_handles import redistribute_handles
from tests.graph.programs import Program

_numbers = itertools.count()
Meddle = Callable[[int, int, list[Row]], list[Row]]


def default_backend() -> BackendSettings:
    """The heap, unless the environment says otherwise: these tests hold for every backend."""
    if os.environ.get("BEADLINE_TEST_BACKEND") != "rocksdb":
        return BackendSettings()
    return BackendSettings("rocksdb", RocksSettings(directories=(tempfile.gettempdir(),)))


class Given(StepSource):
    """A source whose splits are the records themselves."""

    bounded = True

    def __init__(self, batch: int = 3) -> None:
        self._batch = batch

    def initial(self) -> Position:
        return {}

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        raise AssertionError("the harness plans")

    def finished(self, position: Position) -> bool:
        raise AssertionError("the harness plans")

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        for start in range(0, len(split), self._batch):
            yield pickle.loads(pickle.dumps(list(split[start : start + self._batch])))


class Job:
    """Runs a plan step by step.

    :ivar out: what each collector got, in order
    :ivar lines: what was printed
    :ivar timers: when subtasks want a step next
    """

    def __init__(
        self,
        program: Program | Plan,
        folder: Path,
        parallelism: int = 2,
        workers: int = 1,
        trouble: random.Random | None = None,
        inline_limit: int = 20 << 10,
        backend: BackendSettings | None = None,
    ) -> None:
        self.plan = program if isinstance(program, Plan) else program.plan(parallelism)
        self.run = f"run-{next(_numbers)}"
        self.folder = folder
        self.book = StateBook(self.run, self.plan, RunFiles(str(folder)))
        shipment = Shipment(self.plan, {}, ("tests",), frozenset())
        self._packed = Packed(Surroundings(), cloudpickle.dumps(shipment))
        self.workers = [self._new_worker() for _ in range(workers)]
        self._trouble = trouble
        self._chance = trouble or random.Random(0)
        self._inline_limit = inline_limit
        self._backend = backend or default_backend()
        self._locals: dict[tuple[int, int], bytes] = {}
        self._step = 0
        self._news: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self.out: dict[str, list[Any]] = {}
        self.lines: list[str] = []
        self.staged: list[Any] = []
        self.timers: dict[tuple[int, int], int] = {}
        self.changed_fields: list[str] = []
        self.watermarks: dict[tuple[int, int], int | None] = {}
        self.warnings: list[str] = []
        self._restored: int | None = None

    def _new_worker(self) -> WorkerRun:
        return WorkerRun(self.run, self._packed, str(self.folder))

    # -- steps

    def step(
        self,
        given: dict[int, list[list[Any]]] | None = None,
        now: int = 0,
        ended: tuple[int, ...] = (),
        final: bool = False,
        caught_up: bool = False,
        meddle: Meddle | None = None,
        completed: tuple[int, ...] = (),
        aborted: tuple[int, ...] = (),
    ) -> list[TaskAck]:
        """Run a step and seal it. ``given``: records by source node and subtask; ``ended``: sources that end;
        ``completed`` and ``aborted``: checkpoints that functions hear of."""
        self._step += 1
        self._news = completed, aborted
        while True:
            acks = self.attempt(given or {}, now, ended, final, caught_up, meddle)
            if self._trouble is None or self._trouble.random() < 0.7:
                break
            if self._trouble.random() < 0.3:  # a worker died over it
                self.workers[self._trouble.randrange(len(self.workers))] = self._new_worker()
        seal.check(self.plan, acks, self.book.handles, self.book.states)
        self._seal(acks)
        if self._trouble is not None:
            self._merge(self._header(now, False))
        return acks

    def attempt(
        self,
        given: dict[int, list[list[Any]]],
        now: int = 0,
        ended: tuple[int, ...] = (),
        final: bool = False,
        caught_up: bool = False,
        meddle: Meddle | None = None,
    ) -> list[TaskAck]:
        """Run the tasks of a step once. ``meddle`` gets level, partition and rows of each task from level 1 on."""
        header = self._header(now, final)
        rows: list[Row] = []
        for level in range(len(self.plan.levels)):
            width = self.plan.width(level)
            incoming: list[list[Row]] = [[] for _ in range(width)]
            if level == 0:
                for deeper in range(1, len(self.plan.levels)):
                    for number in range(self.plan.width(deeper)):
                        data = pickle.dumps(self._input(deeper, number, given, ended, final, caught_up))
                        incoming[number % width].append(Row(number, deeper, 0, DESCRIPTOR_SEQ, DESCRIPTOR, data))
            else:
                self._chance.shuffle(rows)
                for row in rows:
                    incoming[row.dest % width].append(row)
                for partition, mine in enumerate(incoming):
                    mine.sort(key=lambda row: (row.seq, row.channel))
                    if meddle is not None:
                        incoming[partition] = meddle(level, partition, mine)
            rows = []
            for partition, mine in enumerate(incoming):
                own = self._input(level, partition, given, ended, final, caught_up) if level == 0 else None
                rows += self._task(header, level, partition, mine, own)
        return [pickle.loads(row.payload) for row in rows if row.target == DRIVER and row.kind == ACK]

    def _task(self, header: StepHeader, level: int, partition: int, mine: list[Row], own: Any) -> list[Row]:
        again = self._trouble is not None and self._trouble.random() < 0.2
        result: list[Row] = []
        for _ in range(2 if again else 1):
            worker = self._chance.choice(self.workers)
            worker.enter()
            chunks = Task(worker, header, level, partition).work(iter(mine), own)
            if again and self._chance.random() < 0.3:
                next(chunks, None)  # an attempt that ended in the middle
                chunks.close()
            else:
                result = [row for rows in chunks for row in rows]
        if not result:
            worker.enter()
            chunks = Task(worker, header, level, partition).work(iter(mine), own)
            result = [row for rows in chunks for row in rows]
        return result

    def _header(self, now: int, final: bool) -> StepHeader:
        completed, aborted = self._news
        context = RunContext(self.run, (self.run,), str(self.folder), self._inline_limit, backend=self._backend)
        return StepHeader(context, self._step, now, final, self._step - 1 or self._restored, completed, aborted)

    def _input(
        self,
        level: int,
        partition: int,
        given: dict[int, list[list[Any]]],
        ended: tuple[int, ...],
        final: bool,
        caught_up: bool,
    ) -> TaskInput:
        subtasks = {}
        for node in self.plan.nodes_of(level, partition):
            records = given.get(node.id, [])
            subtasks[node.id] = SubtaskInput(
                handle=self.book.handles.get((node.id, partition)),
                local=self._locals.get((node.id, partition)),
                states=self.book.states_for(node.id, partition),
                splits=(records[partition],) if partition < len(records) and records[partition] else (),
                ended=final or node.id in ended,
                caught_up=caught_up or final,
            )
        return TaskInput(level, partition, subtasks)

    def _seal(self, acks: list[TaskAck]) -> None:
        subtasks = sorted((s for ack in acks for s in ack.subtasks), key=lambda s: (s.node, s.subtask))
        self.book.advance(((s.node, s.subtask), s.delta) for s in subtasks if s.delta is not None)
        self.book.advance_states(((s.node, s.subtask), s.states) for s in subtasks if s.states is not None)
        for task in acks:
            self.lines += [line for _, text in task.printed for line in text.splitlines()]
        for ack in subtasks:
            place = (ack.node, ack.subtask)
            if ack.local is not None:
                self._locals[place] = ack.local
            self.timers.pop(place, None)
            if ack.next_timer is not None:
                self.timers[place] = ack.next_timer
            self.staged += ack.staged
            self.changed_fields += ack.changed_fields
            self.warnings += ack.warnings
            self.watermarks[place] = ack.watermark
            spec = self.plan.nodes[ack.node].spec
            if isinstance(spec, CollectSpec):
                self.out.setdefault(spec.collector, []).extend(ack.collected)

    def _merge(self, header: StepHeader) -> None:
        shipped = type("Shipped", (), {"value": self._packed})
        results = [merge_in_worker(shipped, header.context, header.now, request) for request in self.book.merges()]
        self.book.take_merges(results)
        self.drop_garbage()
        worker_module.forget_all_but(())

    def drop_garbage(self) -> int:
        """Delete the files that no handle names any more."""
        garbage = self.book.garbage()
        for path in garbage:
            delete_file(path)
        return len(garbage)

    # -- going back, and going on elsewhere

    def version(self) -> tuple[Any, ...]:
        """What the last sealed step left; :meth:`go_back` continues from it."""
        return dict(self.book.handles), dict(self.book.states), dict(self._locals), dict(self.timers)

    def go_back(self, version: tuple[Any, ...]) -> None:
        self.book.handles, self.book.states, self._locals, self.timers = (dict(part) for part in version)

    def take_states(self, other: Job) -> Job:
        """Start from the operator state of another job of the same nodes, dealt out to this job's parallelism."""
        self._restored = other._step
        for node in {node for node, _ in other.book.states}:
            handles = [other.book.states.get((node, i)) for i in range(other.plan.nodes[node].parallelism)]
            mine = self.plan.nodes[node]
            files = RunFiles(str(self.folder))
            dealt = redistribute_handles(handles, mine.parallelism, mine.max_parallelism, files, self._inline_limit)
            self.book.advance_states(((node, subtask), handle) for subtask, handle in enumerate(dealt))
        return self

    # -- whole jobs

    def work_through(
        self, given: dict[int, list[list[Any]]], cuts: list[int] | None = None, clock: Iterator[int] | None = None
    ) -> Job:
        """Read everything, in steps of so many records a subtask (the last size repeats), then end."""
        sizes = itertools.chain(cuts or [], itertools.repeat((cuts or [10**9])[-1] or 1))
        clock = clock or itertools.repeat(0)
        left = {node: [list(records) for records in subtasks] for node, subtasks in given.items()}
        while any(records for subtasks in left.values() for records in subtasks):
            size = next(sizes)
            now = {node: [records[:size] for records in subtasks] for node, subtasks in left.items()}
            left = {node: [records[size:] for records in subtasks] for node, subtasks in left.items()}
            self.step(now, now=next(clock))
        self.step(now=next(clock), final=True)
        return self
