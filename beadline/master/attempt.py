"""One attempt of a job: from a start or restore to its end or failure.

The loop belongs to the job master's thread. It starts a step whenever there is reason for one, and waits for events:
the step has ended, a checkpoint is written, a client asks for something, time has passed. What is not sealed never
happened.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty
from typing import Any

from beadline.checkpoint.actions import CheckpointKind, Take
from beadline.checkpoint.ends import End
from beadline.checkpoint.snapshot import Snapshot, SnapshotError
from beadline.connectors.source import StepSource
from beadline.errors import BeadlineError, JobExecutionError
from beadline.graph.plan import Plan, PlanNode
from beadline.graph.specs import TimestampsSpec
from beadline.master.clocks import ProcessingTime
from beadline.master.events import Event, NotWritten, Published, Request, StepEnded, Suspend, Wake, Written
from beadline.master.poison import PoisonWatch
from beadline.master.results import Results, show
from beadline.master.settings import JobSettings
from beadline.master.snapshots.checkpoints import Checkpoints
from beadline.master.snapshots.sinks import Sinks
from beadline.master.spark.liveness import Engine
from beadline.master.stepping import Stepper
from beadline.master.telling import folded, shortened, where_raised
from beadline.master.threads import Threads
from beadline.master.upgrade.comparison import generated_uids
from beadline.master.upgrade.compatibility import has_state
from beadline.master.upkeep.merging import Merger
from beadline.master.upkeep.pacing import Pacing
from beadline.master.upkeep.truth import Truth
from beadline.runtime.messages import StepHeader, TaskAck, TaskInput
from beadline.state.disks import FREE_SPACE, is_full

# So often a job that waits, for data or for a call to Spark, looks whether Spark is still there.
_ENGINE_SECONDS = 1.0
# Spark ends Python workers that idle for a minute, and their cached state with them.
_KEEP_ALIVE_SECONDS = 45.0
# Processing time may jump ahead, and make timers due that seemed to be hours away.
_LONGEST_NAP_SECONDS = 5.0


@dataclass
class Reader:
    """A source on the driver."""

    node: PlanNode
    source: StepSource
    finished: bool = False
    caught_up: bool = False


@dataclass(frozen=True)
class _Step:
    """A step that is under way."""

    header: StepHeader
    ends: dict[int, dict[str, Any]]
    started: float


@dataclass
class Outside:
    """What an attempt uses and does not own.

    :ivar stop_at_once: gives what the job is to end with now, if somebody said so
    """

    plan: Plan
    settings: JobSettings
    sinks: Sinks
    checkpoints: Checkpoints
    results: Results
    stepper: Stepper
    merger: Merger
    poison: PoisonWatch
    time: ProcessingTime
    inbox: Any
    stop_at_once: Callable[[], End | None]
    engine: Engine
    delete: Callable[[set[str]], None]


class Attempt:
    """Runs steps from a truth onwards.

    :ivar has_sealed: whether a step of it has been sealed
    :ivar skipped: where the sources would be behind the step that failed
    """

    def __init__(self, number: int, run: str, truth: Truth, readers: list[Reader], outside: Outside) -> None:
        self._number = number
        self._run = run
        self.truth = truth
        self._readers = readers
        self._out = outside
        self._plan = outside.plan
        self._checkpoints = outside.checkpoints
        self._pacing = Pacing(outside.settings.limits)
        self._steps = Threads(1, "beadline-step")
        self._running: _Step | None = None
        self._last_step = 0.0
        self._final_sealed = False
        self._draining = False
        self._after_last_step: Request | None = None
        self._suspending: Future[str] | None = None
        self.has_sealed = False
        self.skipped: dict[int, dict[str, Any]] = {}
        self._has_event_time = any(isinstance(node.spec, TimestampsSpec) for node in self._plan.nodes.values())
        outside.checkpoints.take = self._snapshot
        outside.checkpoints.commit_sources = self._commit_sources
        outside.checkpoints.drop_garbage = self._drop_garbage
        outside.results.attempt(run)

    def __repr__(self) -> str:
        return f"<Attempt {self._number} at step {self.truth.step}, {'running' if self._running else 'waiting'}>"

    # -- the loop

    def run(self) -> End:
        """Run until the job ends, and tell by what; raises what makes it fail."""
        self._out.stepper.begin()
        try:
            while (ended_by := self._ended_by()) is None:
                self._out.engine.check()
                patience = self._maybe_start()
                self._wait(min(patience, _ENGINE_SECONDS))
            return ended_by
        except OSError as error:
            if not is_full(error):
                raise
            raise JobExecutionError(f"the driver can't write a file: {error}. {FREE_SPACE}") from error
        finally:
            if self._running is not None:
                self._out.stepper.give_up()
            self._steps.shutdown(wait=self._out.engine.loss is None)
            if self._after_last_step is not None:
                self._out.inbox.put(self._after_last_step)  # there was no last step: the next attempt is asked again

    def _ended_by(self) -> End | None:
        at_once = self._out.stop_at_once()
        if at_once is not None:
            return at_once
        if self._suspending is not None and self._suspending.done() and self._running is None:
            problem = self._suspending.exception()
            if problem is not None:
                self._out.results.warn(f"no last checkpoint could be taken: {problem}")
            return End.SUSPENDED
        if self._checkpoints.stopped_with is not None and self._checkpoints.may_end:
            cancels = self._checkpoints.stopped_with is CheckpointKind.CANCEL_WITH_SAVEPOINT
            return End.CANCELLED if cancels else End.STOPPED
        if self._final_sealed and self._checkpoints.may_end:
            return End.FINISHED
        return None

    def _wait(self, patience: float) -> None:
        wakeup = self._checkpoints.seconds_to_wakeup()
        if wakeup is not None:
            patience = min(patience, max(0.0, wakeup))
        try:
            event: Event | None = self._out.inbox.get(timeout=max(0.001, patience))
        except Empty:
            event = None
        while event is not None:
            self._handle(event)
            try:
                event = self._out.inbox.get_nowait()
            except Empty:
                event = None
        self._checkpoints.tick()

    def _handle(self, event: Event) -> None:
        match event:
            case StepEnded():
                if event.attempt == self._number:
                    self._step_ended(event.outcome)
            case Written():
                self._checkpoints.written(event)
                if not event.savepoint:
                    self.truth.book.move_in(event.stored.snapshot.runs)
            case NotWritten():
                self._checkpoints.not_written(event)
            case Published():
                self._checkpoints.published(event)
            case Request():
                self._request(event)
            case Suspend():
                self._suspend()
            case Wake():
                pass

    def _request(self, request: Request) -> None:
        if not request.drain or self._draining or self._final_sealed:
            self._checkpoints.request(request)
            return
        # Event time runs to its end in a last step, which the savepoint then holds.
        self._draining = True
        self._after_last_step = request

    def _suspend(self) -> None:
        # A job that has read everything ends by itself, and needs no resuming.
        if self._suspending is None and not self._final_sealed:
            self._suspending = Future()
            self._checkpoints.last(Request(CheckpointKind.CHECKPOINT, self._suspending))

    # -- steps

    def _maybe_start(self) -> float:
        """Start a step if there is reason for one; gives the seconds to wait for the next look otherwise."""
        if self._running is not None or self._final_sealed or self._checkpoints.coordinator.holds:
            return 3600.0
        if self._suspending is not None:
            return 0.1
        ends, splits = self._next_ranges()
        final = all(reader.finished for reader in self._readers) or self._draining
        now = self._out.time()
        due = self.truth.next_timer
        idle = time.monotonic() - self._last_step
        has_data = any(splits.values())
        if has_data or final or (due is not None and due <= now) or idle >= _KEEP_ALIVE_SECONDS:
            self._start(ends, splits, now, final)
            return 3600.0
        poll = min(reader.source.poll_interval() for reader in self._readers if not reader.finished)
        poll = min(poll, _LONGEST_NAP_SECONDS)
        return poll if due is None else min(poll, max(0.001, (due - now) / 1000))

    def _next_ranges(self) -> tuple[dict[int, dict[str, Any]], dict[int, list[Any]]]:
        ends: dict[int, dict[str, Any]] = {}
        splits: dict[int, list[Any]] = {}
        active = [reader for reader in self._readers if not reader.finished] or self._readers
        rows = max(1, self._pacing.rows // len(active))
        for reader in self._readers:
            node = reader.node.id
            position = self.truth.positions[node]
            if reader.finished or self._draining:
                ends[node], splits[node] = position, []
                continue
            with _naming(reader, position):
                ends[node], splits[node] = reader.source.plan(position, rows, reader.node.parallelism)
                if reader.source.finished(ends[node]):
                    reader.finished = reader.caught_up = True
                elif self._has_event_time:
                    # Is there anything behind this range? If not, the watermark need not wait for more records.
                    reader.caught_up = reader.source.plan(ends[node], 1, 1)[0] == ends[node]
        return ends, splits

    def _start(self, ends: dict[int, dict[str, Any]], splits: dict[int, list[Any]], now: int, final: bool) -> None:
        step = self.truth.step + 1
        checkpoints = self._checkpoints
        header = self._out.stepper.header(
            self._run,
            step,
            now,
            final,
            attempt=self._number - 1,
            base=self.truth.step or None,
            completed=tuple(checkpoints.completed_steps),
            aborted=tuple(checkpoints.aborted_steps),
            poison=self._out.poison.poison,
        )
        checkpoints.completed_steps.clear()
        checkpoints.aborted_steps.clear()
        inputs = self._inputs(splits, final)
        self._running = _Step(header, ends, time.monotonic())
        checkpoints.step_started(step)
        if any(reader.finished for reader in self._readers) and not final:
            checkpoints.source_finished()
        outcome = self._steps.submit(self._out.stepper.run, header, inputs, self.truth.book)
        outcome.add_done_callback(lambda done: self._out.inbox.put(StepEnded(self._number, done)))

    def _inputs(self, splits: dict[int, list[Any]], final: bool) -> list[tuple[int, int, bytes]]:
        """The descriptors of all tasks of a step."""
        readers = {reader.node.id: reader for reader in self._readers}
        inputs = []
        for level in range(len(self._plan.levels)):
            for partition in range(self._plan.width(level)):
                subtasks = {}
                for node in self._plan.nodes_of(level, partition):
                    reader = readers.get(node.id)
                    subtasks[node.id] = self.truth.input_of(
                        node,
                        partition,
                        splits=tuple(splits[node.id][partition :: node.parallelism]) if reader else (),
                        ended=(reader.finished or final) if reader else False,
                        caught_up=all(readers[s].caught_up for s in self._sources_of(node)),
                    )
                inputs.append((level, partition, pickle.dumps(TaskInput(level, partition, subtasks), 5)))
        return inputs

    def _sources_of(self, node: PlanNode) -> set[int]:
        if node.is_source:
            return {node.id}
        return set().union(*(self._sources_of(self._plan.nodes[edge.source]) for edge in node.inputs))

    def _step_ended(self, outcome: Future[tuple[list[TaskAck], int]]) -> None:
        """Seal the step: make it the new truth, then show its results, then let checkpoints take it."""
        step, self._running = self._running, None
        assert step is not None
        self._last_step = time.monotonic()
        self.skipped = step.ends
        try:
            acks, tries = outcome.result()
        except JobExecutionError as error:
            show(error.printed)
            raise
        header, seconds = step.header, time.monotonic() - step.started
        subtasks = sorted((s for ack in acks for s in ack.subtasks), key=lambda s: (s.node, s.subtask))
        records = self.truth.seal(header.step, subtasks, step.ends)
        self._out.results.sealed(acks, subtasks)
        self._out.sinks.sealed(subtasks, header.now, header.final)
        touched = sum(s.touched for s in subtasks)
        self._pacing.sealed(records, seconds, touched, sum(ack.sent_bytes for ack in acks))
        self._out.results.report(acks, subtasks, header, seconds, tries, records, self.truth)
        self._final_sealed = header.final
        self.has_sealed = True
        self._merge()
        self._checkpoints.step_sealed(header.step, header.final)
        if header.final and self._after_last_step is not None:
            request, self._after_last_step = self._after_last_step, None
            self._checkpoints.request(request)

    def _merge(self) -> None:
        """Take in what was merged, and have more merged: before a checkpoint is taken, for it sets the allowance."""
        merger, book = self._out.merger, self.truth.book
        if merger.idle and not self._final_sealed and not self._checkpoints.savepoints.busy:
            book.take_merges(merger.results())
            self._drop_garbage()
            merger.submit(book.merges(self.truth.keys_by_subtask))

    def _drop_garbage(self, freed: frozenset[str] = frozenset()) -> None:
        book = self.truth.book
        book.own(freed)
        garbage = book.garbage(self._checkpoints.needed())
        try:
            self._out.delete(garbage)
        except (SnapshotError, OSError) as error:
            book.own(garbage)  # to be tried again
            self._out.results.warn(f"files that nobody needs stay for now: {error}")

    # -- checkpoints

    def _snapshot(self, take: Take) -> Snapshot:
        in_flight = self._running.ends if take.unaligned and self._running is not None else {}
        self._out.results.taken(take.id)
        sinks = self._out.sinks.take(take.id, take.kind.commits)
        snapshot = self.truth.snapshot(take, self._out.settings.clock(), sinks, in_flight)
        if not take.kind.is_savepoint:
            self.truth.book.checkpointed()
        generated = [(o.name, o.uid) for o in snapshot.operators if o.generated_uid and has_state(o)]
        if take.kind.is_savepoint and generated:
            self._out.results.warn(generated_uids(generated))
        return snapshot

    def _commit_sources(self, snapshot: Snapshot) -> None:
        self._out.results.completed(snapshot.checkpoint_id)
        for reader in self._readers:
            held = snapshot.operator(reader.node.uid)
            if held is not None and held.position is not None:
                reader.source.commit(held.position)


@contextmanager
def _naming(reader: Reader, position: dict[str, Any]) -> Iterator[None]:
    """What a source's code raises here, on the driver, is told like what raises in a worker."""
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
        )
        told.add_note("\n".join(where_raised(text)))
        raise told from error
