"""The job master: runs a job in a thread of its own, from its start to its end, through failures and restarts.

An attempt runs steps (:mod:`beadline.master.attempt`). When it fails, the restart strategy decides; then the newest
completed checkpoint that can be read is restored, what it had pre-committed is published again, and a new attempt goes
on from there.
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
from beadline.checkpoint.lease import Fenced
from beadline.checkpoint.registry import SharedFiles
from beadline.checkpoint.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.statistics import CheckpointStats
from beadline.common.job_status import JobStatus
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.connectors.source import StepSource
from beadline.errors import ConfigurationError, StateMismatchError
from beadline.graph.plan import Plan
from beadline.graph.specs import SourceSpec
from beadline.master import shipping, stepping
from beadline.master.attempt import Attempt, Outside, Reader
from beadline.master.checkpoints import Checkpoints
from beadline.master.compatibility import Acceptance
from beadline.master.events import Event, Request, Suspend, Wake
from beadline.master.guarantee import guarantee_of
from beadline.master.home import Home
from beadline.master.merging import Merger
from beadline.master.migration import migrated
from beadline.master.poison import PoisonWatch
from beadline.master.progress import Listener
from beadline.master.results import Results
from beadline.master.savepoints import CanonicalSavepoints
from beadline.master.settings import JobSettings
from beadline.master.sinks import Sinks
from beadline.master.spark import Cluster, StepSubmitter
from beadline.master.stepping import Stepper
from beadline.master.truth import Truth
from beadline.state.files import RunFiles

_LOG = logging.getLogger("beadline")

_ENDS = {
    "finished": JobStatus.FINISHED,
    "stopped": JobStatus.FINISHED,
    "cancelled": JobStatus.CANCELED,
    "suspended": JobStatus.SUSPENDED,
}


@dataclass(frozen=True)
class FailedAttempt:
    """One entry of a job's history of failures."""

    attempt: int
    at: int
    error: BaseException
    restarted_from: str | None


class JobMaster:
    """Runs one job.

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
    ) -> None:
        acceptance = self._acceptance = Acceptance(plan, settings.checkpoints.ignore_unclaimed_state)
        self.home = Home(settings.checkpoints, plan.job_name, acceptance)
        self.comparison = acceptance.comparison
        plan = self.plan = acceptance.plan
        self.job_id = self.home.job_id
        self.status = JobStatus.CREATED
        self.error: BaseException | None = None
        self.runtime_ms = 0
        self.history: list[FailedAttempt] = []
        self._cluster = cluster
        self._settings = settings
        self._exactly_once = settings.checkpoints.enabled and settings.checkpoints.exactly_once
        self._results = Results(plan, on_collected, listeners or [], self._exactly_once)
        self._inbox: SimpleQueue[Event] = SimpleQueue()
        self._cancelled = threading.Event()
        self._suspended = threading.Event()
        self._hurry = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"beadline-{plan.job_name}", daemon=True)
        self._attempt: Attempt | None = None
        self.guarantee = guarantee_of(plan, settings)
        self._poison = PoisonWatch(settings.poison)
        self._began = False

    def __repr__(self) -> str:
        return f"<Job '{self.plan.job_name}' {self.job_id} {self.status.name}: {self._attempt!r}>"

    # -- for the client

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Stop at once; the running step is dropped."""
        self._cancelled.set()
        self._hurry.set()
        self._inbox.put(Wake())
        self._cluster.cancel(self._group)

    def suspend(self) -> None:
        """Take a checkpoint, then end so that the job can be resumed."""
        self._suspended.set()
        self._hurry.set()
        self._inbox.put(Suspend())

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
        """Whether its checkpoints outlive it when it is cancelled."""
        keeps = self._settings.checkpoints.retention.keeps(JobStatus.CANCELED)
        return self._settings.checkpoints.enabled and keeps and self.home.storage.survives_driver

    @property
    def savepoint_directory(self) -> str | None:
        return self._settings.checkpoints.savepoint_directory

    @property
    def last_checkpoint(self) -> str | None:
        """Where the newest completed checkpoint is."""
        pointers = self._checkpoints.pointers if hasattr(self, "_checkpoints") else {}
        return pointers[max(pointers)] if pointers else None

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
        started = time.monotonic()
        try:
            self.status = JobStatus.RUNNING
            self.status = _ENDS[self._execute()]
        except BaseException as error:
            self.status = JobStatus.CANCELED if self._cancelled.is_set() else JobStatus.FAILED
            self.error = None if self._cancelled.is_set() else error
        finally:
            self.runtime_ms = int((time.monotonic() - started) * 1000)
            if not self._began:
                self.home.leave()
            self._done.set()
            self._refuse_requests()
            if hasattr(self, "_checkpoints"):
                self._checkpoints.answer_the_end(self.status)

    def _execute(self) -> str:
        for warning in [*self._cluster.warnings(), *self._settings.checkpoints.warnings]:
            self._results.warn(warning)
        _LOG.info("job '%s' %s: %s", self.plan.job_name, self.job_id, self.guarantee)
        shipping.ship_modules(self._cluster, self._settings.dependencies)
        epoch = self.home.lease.epoch if self.home.lease is not None else 0
        self._sinks = Sinks(
            self.plan, self._cluster, self._group, self.job_id, self._exactly_once, self._check_lease, epoch
        )
        sources = self._prepare_sources()
        self._checkpoints = self._make_checkpoints()
        # The plan is shipped once; sinks and sources have been prepared before, because they are part of it.
        shipment = self._cluster.broadcast(shipping.make_shipment(self.plan, self._cluster.surroundings))
        submitter = StepSubmitter(self._cluster, self.plan, shipment, self._group)
        status = JobStatus.FAILED
        fenced = untouched = False
        try:
            ended_by = self._run_attempts(sources, submitter)
            status = _ENDS[ended_by]
            return ended_by
        except Fenced:
            fenced = True
            raise
        except StateMismatchError:
            # The program is wrong, not the checkpoints that it was to go on from.
            untouched = bool(self.home.completed)
            raise
        finally:
            if self._cancelled.is_set():
                status = JobStatus.CANCELED
            for source in sources.values():
                source.stop()
            submitter.close()
            self._cluster.say_farewell(tuple(stepping.live_runs))
            if fenced or untouched or not self._began:
                self._checkpoints.abandon()
                if untouched:
                    self.home.leave()
            else:
                self._clean_up(status)

    def _clean_up(self, status: JobStatus) -> None:
        """Keep what a later run can resume from, remove the rest."""
        resumable = self._checkpoints.close(status)
        self._sinks.close(discard=not resumable)
        if resumable:
            self.home.drop_orphans(set())
        self.home.drop_claimed(self._checkpoints.needed())
        self.home.close(resumable)

    def _check_lease(self) -> None:
        """Without a checkpoint nothing but this look keeps a driver that lost its job from publishing."""
        if self.home.lease is not None:
            with contextlib.suppress(OSError):
                self.home.lease.check()

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
            self._settings.checkpoints, next_id=home.next_id, completed=home.recovery_points()
        )
        registry = SharedFiles([home.owned_folder()] if home.owned_folder() else [])
        registry.claim(home.claimed_files)
        made = Checkpoints(
            coordinator,
            home.storage,
            home.lease,
            registry,
            self._sinks,
            CanonicalSavepoints(self._cluster, self._group),
            self._settings.clock,
            self._inbox.put,
        )
        for stored in home.completed:
            made.adopt(stored, claimed=stored.pointer == home.claimed)
        return made

    # -- attempts

    def _run_attempts(self, sources: dict[int, StepSource], submitter: StepSubmitter) -> str:
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
                    self._settings.restart.running(self._settings.clock())
                return self._run_attempt(number, truth, sources, stepper, submitter)
            except Fenced:
                raise
            except Exception as error:
                if self._cancelled.is_set():
                    return "cancelled"
                failed = self._attempt
                if not self._suspended.is_set():
                    self._decide(number, error)
                stepper.quiet()
                number += 1
                if self._cancelled.is_set():
                    return "cancelled"
                if self._suspended.is_set():
                    _LOG.warning("no last checkpoint could be taken: %s", stepping.first_line(error))
                    return "suspended"
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
    ) -> str:
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
            self._inbox,
            self._cancelled.is_set,
            self.home.delete,
        )
        readers = [
            Reader(self.plan.nodes[node], source, source.finished(truth.positions[node]))
            for node, source in sources.items()
        ]
        attempt = self._attempt = Attempt(number, run, truth, readers, outside)
        try:
            attempt.run()
            return attempt.ended_by
        finally:
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
            self._cancelled.is_set,
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
        if isinstance(error, StateMismatchError):
            raise error  # it would come the same way every time
        self._poison.failed(error)
        now = self._settings.clock()
        decision = self._settings.restart.failed(now)
        latest = self._checkpoints.coordinator.completed
        start = f"checkpoint {latest[-1].id}" if latest else "the beginning"
        if not self._settings.checkpoints.enabled:
            start = "behind the step that failed"
        self.history.append(FailedAttempt(number, now, error, start if decision.restart else None))
        if not decision.restart:
            if decision.why:
                error.add_note(f"The job is not restarted: {decision.why}")
            raise error
        self.status = JobStatus.RESTARTING
        _LOG.warning(
            "attempt %d failed: %s. The job goes on from %s in %d ms",
            number,
            stepping.first_line(error),
            start,
            decision.delay_ms,
        )
        self._hurry.wait(decision.delay_ms / 1000)

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
        header = stepper.header(f"{self.job_id}-migration", snapshot.step, self._settings.clock(), False)
        snapshot = migrated(snapshot, self._acceptance.migrations(snapshot), partial(stepper.migrate, header))
        truth.restore(
            snapshot,
            stepper.files,
            settings.inline_threshold,
            settings.ignore_unclaimed_state,
            skip_in_flight=snapshot.checkpoint_id == settings.ignored_in_flight,
        )
        truth.book.own(path for path in truth.book.live_files() if self._checkpoints.registry.owns(path))
        if self.home.lease is not None:
            self.home.lease.check()
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
