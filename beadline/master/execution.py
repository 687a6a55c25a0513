"""One execution of a job: from a start or restore to its end or failure. What is not sealed never happened.

It decides when a step starts and what it reads, runs the step in a thread, and updates the truth when the step is
sealed. Everything but the step itself happens in the job master's thread.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.coordinator.actions import CheckpointKind, Take
from beadline.connectors.source import Backlog, StepSource
from beadline.errors import BeadlineError, JobExecutionError
from beadline.graph.plan import Plan, PlanNode
from beadline.graph.specs import SourceSpec, TimestampsSpec
from beadline.master.alignment import Alignment
from beadline.master.engines.engine import Descriptor
from beadline.master.engines.threads import Threads
from beadline.master.events import Event, StepEnded
from beadline.master.reporting.results import show
from beadline.master.reporting.telling import folded, shortened, where_raised
from beadline.master.stepping import Stepper
from beadline.master.upkeep.pacing import Limits, Pacing
from beadline.master.upkeep.rate import RateLimit
from beadline.master.upkeep.truth import Truth
from beadline.runtime.messages import StepHeader, SubtaskAck, TaskAck, TaskInput
from beadline.state.codec import dumps

# Processing time may jump ahead, and make timers due that seemed to be hours away.
_LONGEST_NAP_SECONDS = 5.0

Positions = dict[int, dict[str, Any]]


@dataclass
class Reader:
    """A source on the driver. ``waits``: nothing of it is planned, whatever there may be to read."""

    node: PlanNode
    source: StepSource
    finished: bool = False
    caught_up: bool = False
    waits: bool = False


@dataclass(frozen=True)
class Planned:
    """What the next step would read, and where each source is afterwards. ``final``: all input ends with it."""

    ends: Positions
    splits: dict[int, list[Any]]
    now: int
    final: bool


@dataclass(frozen=True)
class _Running:
    """A step that is under way."""

    header: StepHeader
    ends: Positions
    started: float


@dataclass(frozen=True)
class Sealed:
    """A step that has become the truth, how often it was run, and how many records sources have read in it."""

    header: StepHeader
    acks: list[TaskAck]
    subtasks: list[SubtaskAck]
    tries: int
    seconds: float
    records: int


class Execution:
    """Runs steps from a truth onwards.

    :ivar name: what workers know it by
    :ivar draining: event time runs to its end in the next step, which is the last
    :ivar skipped: where the sources would be after the step that failed
    """

    def __init__(self, number: int, name: str, plan: Plan, truth: Truth, readers: list[Reader], limits: Limits) -> None:
        self.number = number
        self.name = name
        self.truth = truth
        self.draining = False
        self.final_sealed = False
        self.skipped: Positions = {}
        self._plan = plan
        self._readers = readers
        self._pacing = Pacing(limits)
        self._alignment = Alignment(plan)
        self._rate = RateLimit(limits.per_second)
        self._thread = Threads(1, "beadline-step")
        self._running: _Running | None = None
        self._last_step = 0.0
        self._has_event_time = any(isinstance(node.spec, TimestampsSpec) for node in plan.nodes.values())

    def __repr__(self) -> str:
        return f"<Execution {self.number} at step {self.truth.step}, {'running' if self._running else 'waiting'}>"

    @property
    def is_running(self) -> bool:
        """Whether a step is under way."""
        return self._running is not None

    @property
    def has_finished_source(self) -> bool:
        return any(reader.finished for reader in self._readers)

    def backlogs(self) -> dict[int, Backlog]:
        """What waits in each source, by node, after the last sealed step. Any thread may ask."""
        found = {}
        for reader in self._readers:
            with contextlib.suppress(Exception):  # a number for people is no reason to fail, whatever a source does
                found[reader.node.id] = reader.source.backlog(self.truth.positions[reader.node.id])
        return found

    # -- starting steps

    def has_begun(self) -> bool:
        """Whether it is known where all sources begin; they are asked in turn until they know it."""
        for reader in self._readers:
            position = self.truth.positions[reader.node.id]
            with _naming(reader, position):
                if not reader.finished and not reader.source.begin(position):
                    return False
        return True

    def next_step(self, now: int, keep_alive: float) -> Planned | float:
        """What to run now, or the seconds until the next look. After ``keep_alive`` seconds workers need a step."""
        finished = {reader.node.id for reader in self._readers if reader.finished}
        self._alignment.compare(now, self.truth, finished)
        ends, splits = self._next_ranges()
        final = all(reader.finished for reader in self._readers) or self.draining
        due = self.truth.next_timer
        idle = time.monotonic() - self._last_step
        if any(splits.values()) or final or (due is not None and due <= now) or idle >= keep_alive:
            return Planned(ends, splits, now, final)
        poll = min(reader.source.poll_interval() for reader in self._readers if not reader.finished)
        naps = (poll, _LONGEST_NAP_SECONDS, self._alignment.wakes_in(now), self._rate.wakes_in)
        poll = max(0.001, min(nap for nap in naps if nap is not None))
        return poll if due is None else min(poll, max(0.001, (due - now) / 1000))

    def _next_ranges(self) -> tuple[Positions, dict[int, list[Any]]]:
        ends: Positions = {}
        splits: dict[int, list[Any]] = {}
        active = [reader for reader in self._readers if not reader.finished] or self._readers
        rows = max(1, self._pacing.rows // len(active))
        for reader in self._readers:
            node = reader.node.id
            position = self.truth.positions[node]
            allowed = self._rate.rows(node, self._alignment.rows(node, rows))
            reader.waits = allowed == 0
            if reader.finished or self.draining or reader.waits:
                ends[node], splits[node] = position, []
                continue
            with _naming(reader, position):
                if reader.source.holds_parts:
                    reader.source.hold(self._alignment.held(node))
                ends[node], splits[node] = reader.source.plan(position, allowed, reader.node.parallelism)
                if reader.source.parted:
                    parts = [*reader.source.parts(position), *reader.source.parts(ends[node])]
                    self.truth.parts.assign(reader.node, parts, splits[node])
                if reader.source.finished(ends[node]):
                    reader.finished = reader.caught_up = True
                elif self._has_event_time:
                    # Is there anything after this range? If not, the watermark need not wait for more records.
                    reader.caught_up = reader.source.plan(ends[node], 1, 1)[0] == ends[node]
        return ends, splits

    def begin_step(self, planned: Planned, header: StepHeader) -> None:
        """From now on a step is under way."""
        self._running = _Running(header, planned.ends, time.monotonic())

    def run_step(self, planned: Planned, stepper: Stepper, post: Callable[[Event], None]) -> None:
        """Run the step in a thread, which reports to the inbox."""
        assert self._running is not None
        outcome = self._thread.submit(stepper.run, self._running.header, self._inputs(planned), self.truth.book)
        outcome.add_done_callback(lambda done: post(StepEnded(self.number, done)))

    def _inputs(self, planned: Planned) -> list[Descriptor]:
        """The descriptors of all tasks of a step."""
        readers = {reader.node.id: reader for reader in self._readers}
        inputs = []
        for level in range(len(self._plan.levels)):
            for partition in range(self._plan.width(level)):
                subtasks = {}
                for node in self._plan.nodes_of(level, partition):
                    reader = readers.get(node.id)
                    feeding = readers[node.inputs[0].source] if _is_at_source(node) else None
                    subtasks[node.id] = self.truth.input_of(
                        node,
                        partition,
                        splits=self._splits(planned, node, partition) if reader else (),
                        waits=feeding is not None and feeding.waits,
                        waiting_parts=self._alignment.held(feeding.node.id) if feeding is not None else frozenset(),
                        ended=(reader.finished or planned.final) if reader else False,
                        caught_up=all(readers[s].caught_up for s in self._sources_of(node)),
                    )
                inputs.append((level, partition, dumps(TaskInput(level, partition, subtasks))))
        return inputs

    def _splits(self, planned: Planned, node: PlanNode, subtask: int) -> tuple[Any, ...]:
        splits = planned.splits[node.id]
        if isinstance(node.spec, SourceSpec) and node.spec.source.parted:
            return self.truth.parts.dealt(node.id, subtask, splits)
        return tuple(splits[subtask :: node.parallelism])

    def _sources_of(self, node: PlanNode) -> set[int]:
        if node.is_source:
            return {node.id}
        return set().union(*(self._sources_of(self._plan.nodes[edge.source]) for edge in node.inputs))

    # -- sealing them

    def seal(self, outcome: Future[tuple[list[TaskAck], int]]) -> Sealed:
        """The step has ended: make it the new truth, or raise the error it failed with."""
        step, self._running = self._running, None
        assert step is not None
        self._last_step = time.monotonic()
        self.skipped = step.ends
        try:
            acks, tries = outcome.result()
        except JobExecutionError as error:
            show([(False, error.printed)])
            raise
        seconds = time.monotonic() - step.started
        subtasks = sorted((s for ack in acks for s in ack.subtasks), key=lambda s: (s.node, s.subtask))
        records = self.truth.seal(step.header.step, subtasks, step.ends)
        self._alignment.sealed(subtasks)
        for ack in subtasks:
            if self._plan.nodes[ack.node].is_source:
                self._rate.spent(ack.node, ack.records_in)
        for reader in self._readers:
            if reader.source.parted:
                position = step.ends[reader.node.id]
                with _naming(reader, position):
                    self.truth.parts.keep(reader.node.id, reader.source.parts(position))
        self._pacing.sealed(records, seconds, sum(s.touched for s in subtasks), sum(ack.sent_bytes for ack in acks))
        self.final_sealed = step.header.final
        return Sealed(step.header, acks, subtasks, tries, seconds, records)

    # -- checkpoints

    def snapshot(self, take: Take, at: int, sinks: dict[str, Any]) -> Snapshot:
        """The last sealed step, with the sinks' part of it."""
        in_flight = self._running.ends if take.unaligned and self._running is not None else {}
        return self.truth.snapshot(take, at, sinks, in_flight)

    def look(self, at: int) -> Snapshot:
        """The last sealed step, for who only looks."""
        return self.truth.snapshot(Take(0, self.truth.step, CheckpointKind.CHECKPOINT), at, {}, {})

    def commit_sources(self, snapshot: Snapshot) -> None:
        """Tell the sources up to where a completed checkpoint goes."""
        for reader in self._readers:
            held = snapshot.operator(reader.node.uid)
            if held is not None and held.position is not None:
                reader.source.commit(held.position)

    # -- the end

    def close(self, wait: bool) -> None:
        self._thread.shutdown(wait=wait)


def _is_at_source(node: PlanNode) -> bool:
    return isinstance(node.spec, TimestampsSpec) and node.spec.at_source


@contextlib.contextmanager
def _naming(reader: Reader, position: dict[str, Any]) -> Iterator[None]:
    """An error in a source's code on the driver is reported as in a worker."""
    try:
        yield
    except BeadlineError:
        raise
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        told = JobExecutionError(
            f"source '{reader.node.name}' failed at position {shortened(str(position), 160)}: "
            f"{type(error).__name__}: {error}",
            operator=reader.node.name,
            user_traceback=folded(text),
            full_traceback=text,
            # A module that is missing on the driver is missing after a restart too.
            lasting=isinstance(error, ModuleNotFoundError),
            raised=type(error).__name__,
        )
        told.add_note("\n".join(where_raised(text)))
        raise told from error
