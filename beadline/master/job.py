"""The job master: runs a job in a thread of its own, from its start to its end, through failures and restarts.

An attempt runs steps (:mod:`beadline.master.attempt`). When it fails, the restart strategy decides; then the newest
completed checkpoint that can be read is restored, what it had pre-committed is published again, and a new attempt goes
on from there. What ended a job decides over its checkpoints: :class:`~beadline.checkpoint.ends.End` has the table.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from beadline.checkpoint.actions import CheckpointKind
from beadline.checkpoint.coordinator import CheckpointCoordinator
from beadline.checkpoint.ends import End, Fate
from beadline.checkpoint.lease import Fenced
from beadline.checkpoint.registry import SharedFiles
from beadline.checkpoint.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.statistics import CheckpointStats
from beadline.common.job_status import JobStatus
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.connectors.source import StepSource
from beadline.errors import (
    ConfigurationError,
    EngineLostError,
    EnvironmentSetupError,
    JobExecutionError,
    SerializationError,
    StateMismatchError,
    UnsupportedFeatureError,
)
from beadline.graph.plan import Plan
from beadline.graph.specs import SourceSpec
from beadline.master import last_words, living, stepping
from beadline.master.attempt import Attempt, Outside, Reader
from beadline.master.clocks import ProcessingTime
from beadline.master.events import Event, Request, Suspend, Wake
from beadline.master.guarantee import announce, guarantee_of
from beadline.master.poison import PoisonWatch
from beadline.master.progress import Listener
from beadline.master.results import Results
from beadline.master.settings import JobSettings
from beadline.master.shipping import shipment as shipping
from beadline.master.snapshots.beginning import Beginning
from beadline.master.snapshots.checkpoints import Checkpoints
from beadline.master.snapshots.home import Home
from beadline.master.snapshots.savepoints import CanonicalSavepoints
from beadline.master.snapshots.sinks import Sinks
from beadline.master.spark.session import Cluster, StepSubmitter
from beadline.master.stepping import Stepper
from beadline.master.upgrade.compatibility import Acceptance
from beadline.master.upgrade.migration import migrated
from beadline.master.upkeep.merging import Merger
from beadline.master.upkeep.truth import Truth
from beadline.state.files import RunFiles

_LOG = logging.getLogger("beadline")

# So long the end waits for calls to a Spark that is lost.
_LAST_CALLS_SECONDS = 5.0
# What a shell says of a process that SIGTERM has ended.
_TERMINATED = 128 + 15


@dataclass(frozen=True)
class FailedAttempt:
    """One entry of a job's history of failures."""

    attempt: int
    at: int
    error: BaseException
    restarted_from: str | None


class JobMaster:
    """Runs one job.

    :ivar end: what ended it, None while it runs
    :ivar kept: whether there are checkpoints that outlive it, when it has ended
    :ivar history: the attempts that failed, oldest first
    :ivar comparison: of the program with the snapshot that it starts from, None if it starts from nothing
    """

    def __init__(
        self,
        plan: Plan,
        cluster: Cluster,
        settings: JobSettings,
        on_collected: Callable[[str, list[Any]], None] | None = None,
        listeners: list[Listener] | None = None,
        beginning: Beginning | None = None,
    ) -> None:
        acceptance = self._acceptance = Acceptance(plan, settings.checkpoints.ignore_unclaimed_state)
        self.home = Home(settings.checkpoints, plan.job_name, acceptance, plan.program, beginning)
        self.comparison = acceptance.comparison
        plan = self.plan = acceptance.plan
        self.job_id = self.home.job_id
        self.status = JobStatus.CREATED
        self.error: BaseException | None = None
        self.end: End | None = None
        self.kept = False
        self.runtime_ms = 0
        self.history: list[FailedAttempt] = []
        self._cluster = cluster
        self._settings = settings
        self._exactly_once = settings.checkpoints.enabled and settings.checkpoints.exactly_once
        self._results = Results(plan, on_collected, listeners or [], self._exactly_once)
        self._inbox: SimpleQueue[Event] = SimpleQueue()
        self._asked: End | None = None  # what somebody wants it to end with
        self._at_once = threading.Event()
        self._hurry = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"beadline-{plan.job_name}", daemon=True)
        self._attempt: Attempt | None = None
        self._sources: dict[int, StepSource] = {}
        self._submitter: StepSubmitter | None = None
        self._checkpoints: Checkpoints  # from when the sources and sinks are prepared
        self.guarantee = guarantee_of(plan, settings)
        self._poison = PoisonWatch(settings.poison)
        self._time = ProcessingTime(settings.clock, settings.monotonic)
        self._began = False
        self._has_sealed = False

    def __repr__(self) -> str:
        return f"<Job '{self.plan.job_name}' {self.job_id} {self.status.name}: {self._attempt!r}>"

    # -- for the client

    def start(self) -> None:
        self.home.hold()
        living.jobs[self] = None
        self._thread.start()

    def cancel(self) -> None:
        """Stop at once; the running step is dropped."""
        if self._cluster.engine.ask() is None:
            self._stop_at_once(End.CANCELLED)
        else:
            self._inbox.put(Wake())  # whoever cancels then clears up after the loss, which ended the job before

    def suspend(self, at_once: bool = False) -> None:
        """Take a checkpoint, then end so that the job can be resumed.

        :param at_once: stop without that checkpoint
        """
        if self._asked is End.CANCELLED:
            return
        if at_once or not self.is_resumable:
            if not self._at_once.is_set():
                self._stop_at_once(End.SUSPENDED)
        elif self._asked is None:
            self._asked = End.SUSPENDED
            self._hurry.set()
            self._inbox.put(Suspend())

    def _stop_at_once(self, end: End) -> None:
        self._asked = end
        self._at_once.set()
        self._hurry.set()
        self._inbox.put(Wake())
        self._cluster.cancel(self._group)

    def trigger(
        self,
        kind: CheckpointKind,
        directory: str | None = None,
        drain: bool = False,
        format: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> Future[str]:
        """Ask for a checkpoint or savepoint; the future gives its path."""
        answer: Future[str] = Future()
        if self._done.is_set():
            answer.set_exception(ConfigurationError(f"job '{self.plan.job_name}' has ended: {self.status.name}"))
        else:
            self._inbox.put(Request(kind, answer, directory, drain, format))
            if self._done.is_set():  # the job ended meanwhile, and nobody looks into its inbox any more
                self._refuse_requests()
        return answer

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if it came."""
        return self._done.wait(timeout)

    @property
    def is_resumable(self) -> bool:
        """Whether its checkpoints outlive it, if its process is told to end."""
        return self._settings.checkpoints.enabled and self.home.storage.survives_driver

    @property
    def exit_code(self) -> int:
        """Of a program that was told to end: 0 if the job has ended in good order."""
        if self.end is End.SUSPENDED:
            return 0 if self.kept and not self._at_once.is_set() else _TERMINATED
        return 0 if self.error is None else 1

    @property
    def savepoint_directory(self) -> str | None:
        return self._settings.checkpoints.savepoint_directory

    @property
    def last_checkpoint(self) -> str | None:
        """Where the newest completed checkpoint is."""
        return self._checkpoints.newest if hasattr(self, "_checkpoints") else None

    @property
    def metrics(self) -> Any:
        return self._results.metrics

    @property
    def checkpoint_statistics(self) -> list[CheckpointStats]:
        """The newest checkpoints, newest first."""
        return list(self._checkpoints.coordinator.statistics) if hasattr(self, "_checkpoints") else []

    @property
    def _group(self) -> str:
        return f"beadline-{self.job_id}"

    # -- the life of a job

    def _run(self) -> None:
        """From the start to the end.

        1. run it
        2. find out what ended it
        3. keep or remove what is left, as that says
        4. tell whoever waits
        """
        started = time.monotonic()
        self.status = JobStatus.RUNNING
        error: BaseException | None = None
        try:
            end = self._execute()
        except BaseException as raised:
            end, error = self._judge(raised)
        try:
            self.kept = self._clean_up(end)
        except BaseException as problem:
            end, error = (End.FAILED, problem) if error is None else (end, error)
        self.runtime_ms = int((time.monotonic() - started) * 1000)
        try:
            self._end(end, error)
        finally:
            self.home.let_go()
            living.jobs.pop(self, None)
            self._done.set()
            self._refuse_requests()
            if hasattr(self, "_checkpoints"):
                self._checkpoints.answer_the_end(self.status)

    def _end(self, end: End, error: BaseException | None) -> None:
        newest = self.last_checkpoint if self.kept else None
        resume = last_words.how_to_resume(newest, newest == self.home.claimed) if newest is not None else None
        if end is End.ENGINE_LOST:
            error = last_words.engine_lost(self.plan.job_name, str(error), resume, self.is_resumable)
        nothing_left = end is End.SUSPENDED and not self.kept
        self.end, self.error, self.status = end, error, JobStatus.CANCELED if nothing_left else end.status
        last_words.say(self.plan.job_name, end, resume, self.is_resumable)

    def _execute(self) -> End:
        for warning in [*self._cluster.warnings(), *self._settings.checkpoints.warnings]:
            self._results.warn(warning)
        announce(self.plan.job_name, self.job_id, self.guarantee)
        shipping.ship_modules(self._cluster, self._settings.dependencies)
        self._sinks = Sinks(self.plan, self._cluster, self._group, self.home.storage, self._exactly_once)
        sources = self._sources = self._prepare_sources()
        self._checkpoints = self._make_checkpoints()
        # The plan is shipped once; sinks and sources have been prepared before, because they are part of it.
        shipment = self._cluster.broadcast(shipping.make_shipment(self.plan, self._cluster.surroundings))
        submitter = self._submitter = StepSubmitter(self._cluster, self.plan, shipment, self._group)
        return self._run_attempts(sources, submitter)

    # -- the end

    def _judge(self, error: BaseException) -> tuple[End, BaseException | None]:
        """What ended the job, of which this error is all that is known."""
        if isinstance(error, Fenced):
            return End.FENCED, error
        if self._asked is not None and self._at_once.is_set():
            return self._asked, None
        loss = self._cluster.engine.ask()
        if loss is not None and self._asked is End.SUSPENDED:
            _LOG.warning("no last checkpoint could be taken: %s", loss)
            return End.SUSPENDED, None
        if loss is not None:
            return End.ENGINE_LOST, EngineLostError(loss)
        # The program or its set-up is wrong, not the checkpoints that it was to go on from.
        at_once = isinstance(error, StateMismatchError) or not self._has_sealed
        resumed = bool(self.home.completed)
        return (End.FAILED if self._began and not (resumed and at_once) else End.NEVER_BEGAN), error

    def _clean_up(self, end: End) -> bool:
        """Keep what a later run can resume from, remove the rest. True if there is something to resume from."""
        for source in self._sources.values():
            try:
                source.stop()
            except Exception as error:
                _LOG.warning("a source could not be stopped: %s", stepping.first_line(error))
        if self._submitter is not None:
            self._submitter.close()
            self._cluster.say_farewell(tuple(stepping.live_runs))
        if not self._began or end.checkpoints is Fate.UNTOUCHED:
            if hasattr(self, "_checkpoints"):
                self._checkpoints.abandon()
            if end is not End.FENCED:
                self.home.leave()
            return bool(self.home.completed)
        if end.status is JobStatus.FINISHED:
            self.home.note_finish(self._settings.clock())
        lost = self._cluster.engine.loss is not None
        resumable = self._checkpoints.close(end, _LAST_CALLS_SECONDS if lost else None)
        self._sinks.close(discard=not resumable)
        if resumable and not lost:  # else tasks may still write; the next run removes what is left
            self.home.drop_orphans(set())
        self.home.drop_claimed(self._checkpoints.needed())
        self.home.close(resumable)
        return resumable

    def _prepare_sources(self) -> dict[int, StepSource]:
        sources = {}
        for node in self.plan.nodes.values():
            if isinstance(node.spec, SourceSpec):
                source: StepSource = node.spec.source
                source.prepare(self._settings.batch)
                if self._settings.batch and not source.bounded:
                    raise ConfigurationError(
                        f"source '{node.name}' never ends, which batch mode does not allow; use "
                        "RuntimeExecutionMode.STREAMING"
                    )
                sources[node.id] = source
        if not sources:
            raise ConfigurationError("the program has no source")
        return sources

    def _make_checkpoints(self) -> Checkpoints:
        home = self.home
        coordinator = CheckpointCoordinator(
            self._settings.checkpoints,
            next_id=home.next_id,
            completed=home.recovery_points(),
            wall=lambda at: self._settings.clock() - self._settings.monotonic() + at,
        )
        registry = SharedFiles([home.owned_folder()] if home.owned_folder() else [])
        registry.claim(home.claimed_files)
        made = Checkpoints(
            coordinator,
            home.storage,
            registry,
            self._sinks,
            CanonicalSavepoints(self._cluster, self._group),
            self._settings.monotonic,
            self._inbox.put,
        )
        for stored in home.completed:
            made.adopt(stored, claimed=stored.pointer == home.claimed)
        return made

    # -- attempts

    def _run_attempts(self, sources: dict[int, StepSource], submitter: StepSubmitter) -> End:
        initial = {node: source.initial() for node, source in sources.items()}
        sinks_at_start = self._sinks.at_start()
        number = 1
        stepper = self._make_stepper(submitter, number)
        truth: Truth | None = self._new_truth(stepper.files, initial)
        assert truth is not None
        if self.home.start is not None:
            self._restore(truth, self.home.start, stepper)
            _LOG.info("restored from %s", self.home.pointer)
            self._checkpoints.restored(self.home.start.checkpoint_id, truth.step)
        else:
            self._checkpoints.started(0)
        self._began = True
        while True:
            try:
                if truth is None:  # going back is part of the attempt: it may fail, and be tried again, like the rest
                    stepper = self._make_stepper(submitter, number)
                    truth = self._go_back(stepper, initial, sinks_at_start)
                if number > 1:
                    self.status = JobStatus.RUNNING
                    self._settings.restart.running(self._settings.monotonic())
                return self._run_attempt(number, truth, sources, stepper, submitter)
            except (Fenced, EngineLostError):
                raise
            except Exception as error:
                if self._asked is not None and self._at_once.is_set():
                    return self._asked
                if self._cluster.engine.ask() is not None:
                    raise  # no restart helps
                failed = self._attempt
                if self._asked is not End.SUSPENDED:
                    self._decide(number, error)
                stepper.quiet()
                number += 1
                if self._asked is not None and self._at_once.is_set():
                    return self._asked
                if self._asked is End.SUSPENDED:
                    _LOG.warning("no last checkpoint could be taken: %s", stepping.first_line(error))
                    return End.SUSPENDED
                if not self._settings.checkpoints.enabled:
                    # Nothing is replayed: go on behind the step that failed, with the state before it.
                    assert failed is not None
                    assert truth is not None
                    truth.positions.update(failed.skipped)
                    self._checkpoints.restored(None, truth.step)
                else:
                    truth = None

    def _run_attempt(
        self, number: int, truth: Truth, sources: dict[int, StepSource], stepper: Stepper, submitter: StepSubmitter
    ) -> End:
        run = f"{self.job_id}-{number}"
        stepping.live_runs[run] = None
        merger = Merger(self._cluster, submitter, lambda: stepper.header(run, truth.step, stepper.sealed_at, False))
        self._checkpoints.savepoints.worker = lambda: submitter.exporter(
            stepper.header(run, truth.step, stepper.sealed_at, False)
        )
        outside = Outside(
            self.plan,
            self._settings,
            self._sinks,
            self._checkpoints,
            self._results,
            stepper,
            merger,
            self._poison,
            self._time,
            self._inbox,
            lambda: self._asked if self._at_once.is_set() else None,
            self._cluster.engine,
            self.home.delete,
        )
        readers = [
            Reader(self.plan.nodes[node], source, source.finished(truth.positions[node]))
            for node, source in sources.items()
        ]
        attempt = self._attempt = Attempt(number, run, truth, readers, outside)
        try:
            return attempt.run()
        finally:
            self._has_sealed = self._has_sealed or attempt.has_sealed
            merger.close()
            stepping.live_runs.pop(run, None)

    def _make_stepper(self, submitter: StepSubmitter, number: int) -> Stepper:
        files = RunFiles(self.home.state_folder(number, self._cluster.one_machine))
        return Stepper(
            self.plan,
            self._cluster,
            submitter,
            files,
            self._settings.checkpoints.inline_threshold,
            "lz4" if self._settings.checkpoints.compression else None,
            self._at_once.is_set,
            self._results.warn,
            self._settings.backend,
        )

    def _new_truth(self, files: RunFiles, initial: dict[int, dict[str, Any]]) -> Truth:
        truth = Truth(self.job_id, self.plan, files)
        truth.positions.update(initial)
        return truth

    # -- failure

    def _decide(self, number: int, error: Exception) -> None:
        """Ask the restart strategy; raises the error again if the job is not to be restarted."""
        self._checkpoints.job_failed()
        if self._is_lasting(number, error):
            self.history.append(FailedAttempt(number, self._settings.clock(), error, None))
            raise error
        times = self._poison.failed(error)
        decision = self._settings.restart.failed(self._settings.monotonic())
        latest = self._checkpoints.coordinator.completed
        start = f"checkpoint {latest[-1].id}" if latest else "the beginning"
        if not self._settings.checkpoints.enabled:
            start = "behind the step that failed"
        self.history.append(FailedAttempt(number, self._settings.clock(), error, start if decision.restart else None))
        if not decision.restart:
            if decision.why:
                repeated = self._poison.told(error, times, again=True)
                error.add_note(f"The job is not restarted: {decision.why}{repeated}")
            raise error
        self.status = JobStatus.RESTARTING
        _LOG.warning(
            "attempt %d failed: %s%s. The job goes on from %s in %d ms",
            number,
            stepping.first_line(error).rstrip("."),
            self._poison.told(error, times),
            start,
            decision.delay_ms,
        )
        self._hurry.wait(decision.delay_ms / 1000)

    def _is_lasting(self, number: int, error: Exception) -> bool:
        """Whether a restart can't help. What a set-up lacks is known for sure only before the first step is sealed: if
        it has worked once, a machine or a file system that is away for a while may look the same."""
        if isinstance(error, StateMismatchError | SerializationError | UnsupportedFeatureError):
            return True
        worked = number > 1 or self._has_sealed
        if isinstance(error, EnvironmentSetupError | ConfigurationError):
            return not worked
        if not isinstance(error, JobExecutionError) or not error.lasting:
            return False
        return not worked and (error.culprit is None or not self._poison.leaves_out)

    def _go_back(self, stepper: Stepper, initial: dict[int, dict[str, Any]], sinks_at_start: dict[str, Any]) -> Truth:
        """The truth of the newest checkpoint that can be read; the beginning if there is none."""
        self._checkpoints.quiet()
        for id, pointer in sorted(self._checkpoints.pointers.items(), reverse=True):
            snapshot = self._readable(id, pointer)
            if snapshot is not None:
                truth = self._new_truth(stepper.files, initial)
                self._restore(truth, snapshot, stepper)
                self._checkpoints.restored(id, truth.step)
                return truth
        if self._checkpoints.pointers:
            raise SnapshotError(f"none of the {len(self._checkpoints.pointers)} retained checkpoints can be read")
        truth = self._new_truth(stepper.files, initial)
        if self.home.start is not None:
            self._restore(truth, self.home.start, stepper)
        else:
            if len(self._sinks):
                self._checkpoints.leave_behind(0)
            self._sinks.restore(sinks_at_start)
        self._checkpoints.restored(None, truth.step)
        return truth

    def _readable(self, id: int, pointer: str) -> Snapshot | None:
        try:
            snapshot = self.home.read(pointer)
            problems = self.home.storage.verify(snapshot)
        except SnapshotError as error:
            problems, snapshot = [error], None  # type: ignore[list-item]
        if not problems:
            return snapshot
        _LOG.warning("checkpoint %d can't be restored, the one before it is tried: %s", id, problems[0])
        return None

    def _restore(self, truth: Truth, snapshot: Snapshot, stepper: Stepper) -> None:
        settings = self._settings.checkpoints
        header = stepper.header(f"{self.job_id}-migration", snapshot.step, self._time(), False)
        snapshot = migrated(snapshot, self._acceptance.migrations(snapshot), partial(stepper.migrate, header))
        truth.restore(
            snapshot,
            stepper.files,
            settings.inline_threshold,
            settings.ignore_unclaimed_state,
            skip_in_flight=snapshot.checkpoint_id == settings.ignored_in_flight,
        )
        truth.book.own(path for path in truth.book.live_files() if self._checkpoints.registry.owns(path))
        self.home.storage.check()
        if len(self._sinks):
            self._checkpoints.leave_behind(snapshot.checkpoint_id)
        self._sinks.restore(snapshot.committables())
        self.home.drop_orphans(set(truth.book.live_files()) | set(self._checkpoints.needed()))

    def _refuse_requests(self) -> None:
        """Nobody will answer what still waits."""
        with contextlib.suppress(Empty):
            while True:
                event = self._inbox.get_nowait()
                if isinstance(event, Request) and not event.answer.done():
                    event.answer.set_exception(ConfigurationError(f"the job has ended: {self.status.name}"))
