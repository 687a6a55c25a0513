"""Jobs on rough ground: the shipped job master over an engine with several workers, on which tasks run twice or end in
the middle, workers are lost, steps are run again before they are sealed, and rows are meddled with on request."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.settings import CheckpointSettings
from beadline.graph.plan import Plan
from beadline.graph.specs import CollectSpec, SourceSpec
from beadline.master.definition import JobSettings
from beadline.master.engines.engine import Descriptor
from beadline.master.engines.local import LocalDeployment, Shipped
from beadline.master.execution import Planned
from beadline.master.upkeep.handles import StateBook
from beadline.runtime.exchange.rows import WireRow
from beadline.runtime.messages import RunContext, StepHeader, TaskAck, TaskInput
from beadline.runtime.task.task import Task
from beadline.runtime.worker.worker import WorkerExecution
from beadline.state.backend_settings import BackendSettings, RocksSettings
from beadline.state.operator.handles import OperatorStateHandle
from beadline.state.segments.version import KeyedStateHandle
from beadline.testing.rounds import PushSource
from beadline.testing.stepwise import StepDeployment, StepEngine, SteppedJob
from tests.graph.programs import Program

Meddle = Callable[[int, int, list[WireRow]], list[WireRow]]
Records = dict[int, list[list[Any]]]
Place = tuple[int, int]


def default_backend() -> BackendSettings:
    """The heap, unless the environment says otherwise: these tests hold for every backend."""
    if os.environ.get("BEADLINE_TEST_BACKEND") != "rocksdb":
        return BackendSettings()
    return BackendSettings("rocksdb", RocksSettings(directories=(tempfile.gettempdir(),)))


class Given(PushSource):
    """A source whose splits are the records themselves."""

    bounded = True
    timed = False

    def __init__(self, batch: int = 3) -> None:
        self._batch = batch

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        for start in range(0, len(split), self._batch):
            yield pickle.loads(pickle.dumps(list(split[start : start + self._batch])))


class RoughEngine(StepEngine):
    """Several workers, and what can happen to them.

    :ivar workers: of which one is chosen for each task
    :ivar meddle: gets level, partition and rows of each task from level 1 on
    """

    deployed: RoughDeployment

    def __init__(self, workers: int, trouble: random.Random | None) -> None:
        super().__init__()
        self.trouble = trouble
        self.chance = trouble or random.Random(0)
        self.meddle: Meddle | None = None
        self.workers: list[WorkerExecution] = []
        self._count = workers

    def deployment(self, plan: Plan, shipped: Shipped, group: str) -> RoughDeployment:
        super().deployment(plan, shipped, group)
        self.deployed = RoughDeployment(self, plan, shipped, group)
        return self.deployed

    def new_worker(self, context: RunContext) -> WorkerExecution:
        return WorkerExecution(context.execution, self.shipped.value, context.state_root)

    def ready(self, context: RunContext) -> None:
        """Have workers for an execution."""
        if not self.workers or self.workers[0].execution != context.execution:
            self.close()
            self.workers = [self.new_worker(context) for _ in range(self._count)]

    def enter(self, context: RunContext, shipped: Shipped) -> WorkerExecution:
        self.ready(context)
        chosen = self.chance.choice(self.workers)
        chosen.enter()
        return chosen

    def close(self) -> None:
        for each in self.workers:
            each.close()


class RoughDeployment(StepDeployment):
    """Runs steps and tasks again, as Spark does after it lost a worker."""

    _engine: RoughEngine

    def run_step(self, header: StepHeader, inputs: list[Descriptor]) -> list[TaskAck]:
        trouble = self._engine.trouble
        while True:
            acks = super().run_step(header, inputs)
            if trouble is None or trouble.random() < 0.7:
                return acks
            if trouble.random() < 0.3:  # a worker died over it
                workers = self._engine.workers
                workers[trouble.randrange(len(workers))] = self._engine.new_worker(header.context)

    def exchanged(self, level: int, width: int, rows: list[WireRow]) -> list[list[WireRow]]:
        if level == 0:
            return super().exchanged(level, width, rows)
        self._engine.chance.shuffle(rows)
        dealt = super().exchanged(level, width, rows)
        meddle = self._engine.meddle
        return dealt if meddle is None else [meddle(level, partition, mine) for partition, mine in enumerate(dealt)]

    def run_task(self, header: StepHeader, place: Place, rows: list[WireRow], own: TaskInput | None) -> list[WireRow]:
        trouble = self._engine.trouble
        if trouble is not None and trouble.random() < 0.2:
            if trouble.random() < 0.3:  # an attempt that ended in the middle
                chunks = Task(self._engine.enter(header.context, self._engine.shipped), header, *place).work(
                    iter(rows), own
                )
                next(chunks, None)
                chunks.close()
            else:
                super().run_task(header, place, rows, own)
        return super().run_task(header, place, rows, own)

    def end(self, live: tuple[str, ...]) -> None:
        super().end(live)
        self._engine.close()


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
        self._plan = program if isinstance(program, Plan) else program.plan(parallelism)
        self._folder = folder
        self._rough = workers, trouble
        checkpoints = CheckpointSettings(inline_threshold=inline_limit)
        self._settings = JobSettings(checkpoints=checkpoints, backend=backend or default_backend())
        self._start()
        self.out: dict[str, list[Any]] = {}
        self.lines: list[str] = []
        self.staged: list[Any] = []
        self.timers: dict[Place, int] = {}
        self.changed_fields: list[str] = []
        self.watermarks: dict[Place, int | None] = {}
        self.warnings: list[str] = []

    def _start(self, restore: str | None = None) -> None:
        self.engine = RoughEngine(*self._rough)
        self._job = SteppedJob(_with_own_sources(self._plan), self._settings, restore, engine=self.engine)
        self.plan = self._job.plan
        self.engine.ready(self.context)

    # -- what it works with

    @property
    def context(self) -> RunContext:
        return self._running._now_context()

    @property
    def _running(self) -> Any:
        return self._job._master.running

    @property
    def workers(self) -> list[WorkerExecution]:
        return self.engine.workers

    @workers.setter
    def workers(self, workers: list[WorkerExecution]) -> None:
        self.engine.workers = workers

    def new_worker(self) -> WorkerExecution:
        return self.engine.new_worker(self.context)

    @property
    def book(self) -> StateBook:
        return self._job.truth.book

    @property
    def handles(self) -> dict[Place, KeyedStateHandle]:
        """The versions of keyed state, also when the job has ended."""
        found = {place: self._job.handle(*place) for place in self.book.handles}
        return {place: handle for place, handle in found.items() if handle is not None}

    @property
    def states(self) -> dict[Place, OperatorStateHandle]:
        """The versions of operator state, also when the job has ended."""
        last = self._job._rounds.last
        if last is None:
            return self.book.states
        nodes = {node.uid: node.id for node in self.plan.nodes.values()}
        return {
            (nodes[each.uid], subtask): handle
            for each in last.operators
            for subtask, handle in enumerate(each.operator_state)
            if handle is not None
        }

    # -- steps

    def step(
        self,
        given: Records | None = None,
        now: int = 0,
        ended: tuple[int, ...] = (),
        final: bool = False,
        caught_up: bool = False,
        meddle: Meddle | None = None,
        news: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    ) -> list[TaskAck]:
        """Run a step and seal it. ``given``: records by source node and subtask; ``ended``: sources that end;
        ``news``: checkpoints that functions hear of, those that completed and those that were given up."""
        self.engine.meddle = meddle
        try:
            acks = self._job.step(given, now, None if final else ended, not caught_up, news)
        finally:
            self.engine.meddle = None
        self._note(acks)
        return acks

    def attempt(self, given: Records, meddle: Meddle | None = None) -> list[TaskAck]:
        """Run the tasks of the next step once; nobody seals it."""
        self.engine.meddle = meddle
        try:
            return LocalDeployment.run_step(self.engine.deployed, *self.next(given))
        finally:
            self.engine.meddle = None

    def next(self, given: Records) -> tuple[StepHeader, list[Descriptor]]:
        """What the job master would give the engine for a step."""
        truth = self._job.truth
        splits = {node: given.get(node) or [()] for node in truth.positions}
        planned = Planned(truth.positions, splits, self._job._now, False)
        header = StepHeader(self.context, truth.step + 1, planned.now, base=truth.step or None)
        return header, self._running.execution._inputs(planned)

    def _note(self, acks: list[TaskAck]) -> None:
        for task in acks:
            self.lines += [line for _, text in task.printed for line in text.splitlines()]
        for ack in sorted((s for task in acks for s in task.subtasks), key=lambda s: (s.node, s.subtask)):
            place = (ack.node, ack.subtask)
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

    # -- going back, and going on elsewhere

    def savepoint(self) -> str:
        """The path of a savepoint of the last sealed step, also when the job has ended."""
        folder = tempfile.mkdtemp(dir=self._folder)
        taken = self._job.snapshot(folder)
        Path(folder, metadata.METADATA).write_bytes(metadata.encode(taken, folder))
        return folder

    def go_back(self, savepoint: str) -> Job:
        """Go on from a savepoint, of this job or of another of the same nodes with whatever parallelism."""
        self._job.close()
        self._start(savepoint)
        return self

    # -- whole jobs

    def work_through(self, given: Records, cuts: list[int] | None = None, clock: Iterator[int] | None = None) -> Job:
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


def _with_own_sources(plan: Plan) -> Plan:
    """Several jobs may run one program, and each pushes into sources of its own."""
    nodes = {
        node.id: replace(node, spec=replace(node.spec, source=copy.copy(node.spec.source)))
        if isinstance(node.spec, SourceSpec)
        else node
        for node in plan.nodes.values()
    }
    return replace(plan, nodes=nodes)
