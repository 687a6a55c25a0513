"""The job master: runs a job over an engine, in a thread of its own, from its start to its end.

Everything that happens reaches the thread as an event in its inbox; :mod:`beadline.master.life` has the states that it
goes through, and :mod:`beadline.master.running` what follows from each event while steps run. An error of whatever kind
ends the present execution; then the restart strategy decides (:mod:`beadline.master.failures`), and the newest
checkpoint that can be read is restored (:mod:`beadline.master.restoring`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.coordinator.statistics import CheckpointStats
from beadline.checkpoint.ends import End
from beadline.checkpoint.ownership.lease import Fenced
from beadline.common.job_status import JobStatus
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.errors import EngineLostError, JobExecutionError, StateMismatchError
from beadline.graph.plan import Plan
from beadline.master import life, restoring
from beadline.master.definition import Job, JobSettings
from beadline.master.ending import (
    await_output,
    clear_up,
    engine_lost,
    how_to_resume,
    say_last_words,
    without_last_checkpoint,
)
from beadline.master.engines.engine import Engine
from beadline.master.events import Inbox, Look, Request, Suspend, Wake
from beadline.master.failures import FailedAttempt, Failures
from beadline.master.life import Life, State
from beadline.master.reporting.chronicle import Chronicle
from beadline.master.reporting.guarantee import announce, guarantee_of
from beadline.master.reporting.news import ExecutionStarted, NewsStream, StatusChanged, Watcher
from beadline.master.reporting.results import Results
from beadline.master.reporting.telling import first_line
from beadline.master.running import Running
from beadline.master.snapshots.home import Beginning, Home
from beadline.master.snapshots.waiting import Grace, until_it_goes_on
from beadline.master.upgrade.compatibility import Acceptance
from beadline.master.upkeep.truth import Truth
from beadline.master.upkeep.views import View
from beadline.state.disks import FREE_SPACE, is_full

_LOG = logging.getLogger("beadline")

# How often a job that waits, for data or for a call to the engine, checks that the engine is still there.
_ENGINE_SECONDS = 1.0
# How often a job that is to go back looks whether threads are done.
_QUIET_LOOK_SECONDS = 0.02
# What a shell says of a process that SIGTERM has ended.
_TERMINATED = 128 + 15


class JobMaster:
    """Runs one job. ``kept``: checkpoints outlive it; ``comparison``: of the program with the snapshot it starts from;
    ``at_end`` is called when it has ended, before those who wait for it are told, and must not raise."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        settings: JobSettings,
        on_collected: Callable[[str, list[Any]], None] | None = None,
        watchers: Iterable[Watcher] = (),
        beginning: Beginning | None = None,
        at_end: Callable[[JobMaster], None] | None = None,
    ) -> None:
        acceptance = Acceptance(plan, settings.checkpoints.ignore_unclaimed_state)
        self.home = Home(settings.checkpoints, plan.job_name, acceptance, plan.program, beginning)
        self.comparison = acceptance.comparison
        self.plan = acceptance.plan
        self.job_id = self.home.job_id
        self.status = JobStatus.CREATED
        self.error: BaseException | None = None
        self.end: End | None = None
        self.kept = False
        self.unpublished = ""  # what of its output is not visible at its end, and why
        self.runtime_ms = 0
        self.started_at, self.ended_at = settings.clock(), 0
        self.guarantee = guarantee_of(self.plan, settings)
        self.job = Job(self.plan, engine, settings, self.home, acceptance)
        self._engine = engine
        self._settings = settings
        self._at_end = at_end
        self.chronicle = Chronicle(self.home.storage, settings.checkpoints.history)
        following = [follow(self) for follow in life.followers]
        self.news = NewsStream(self.home.storage, [self.chronicle.hear, *watchers, *following])
        self.results = Results(self.plan, on_collected, self.news, self.job.exactly_once)
        self._failures = Failures(settings, self.news)
        self._life = Life()
        self.running: Running | None = None  # from when it is prepared
        self.attempt = 1
        self._restart_at, self._began = 0.0, False
        self._patience = until_it_goes_on(str)
        self._inbox = Inbox()
        self._grace = Grace(settings.checkpoints.timeout_ms, settings.monotonic)
        self._asked: End | None = None  # the end that was asked for
        self._at_once = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"beadline-{plan.job_name}", daemon=True)

    def __repr__(self) -> str:
        return f"<Job '{self.plan.job_name}' {self.job_id} {self.status.name}: {self._life!r}, {self.running!r}>"

    # -- for the client

    def start(self) -> None:
        self.home.storage.show_life()
        life.jobs[self] = None
        self._thread.start()

    def cancel(self) -> None:
        """Stop at once; the running step is dropped."""
        if self._engine.ask() is None:
            self._stop_at_once(End.CANCELLED)
        else:
            self._inbox.put(Wake())  # the loss of the engine ends the job: let it notice

    def suspend(self, at_once: bool = False) -> None:
        """Take a checkpoint, unless ``at_once``, then end so that the job can be resumed."""
        if self._asked is End.CANCELLED:
            return
        if at_once or not self.is_resumable:
            if not self._at_once.is_set():
                self._stop_at_once(End.SUSPENDED)
        elif self._asked is None:
            self._asked = End.SUSPENDED
            self._grace.begin()
            self._inbox.put(Suspend())

    def _stop_at_once(self, end: End) -> None:
        self._asked = end
        self._grace.shorten()
        self._at_once.set()
        self._inbox.put(Wake())
        self._engine.cancel(self.job.group)

    def trigger(
        self,
        kind: CheckpointKind,
        directory: str | None = None,
        drain: bool = False,
        format: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> Future[str]:
        """Ask for a checkpoint or savepoint; the future gives its path."""
        return self._ask(Request(kind, Future(), directory, drain, format))

    def look(self, seconds: float) -> Future[View]:
        """Ask for the last sealed step; its files stay for so many seconds, or until its view is closed."""
        return self._ask(Look(Future(), seconds))

    def _ask(self, question: Request | Look) -> Future[Any]:
        self._inbox.put(question)
        if self._done.is_set():  # nobody looks into its inbox any more
            self._inbox.refuse(f"job '{self.plan.job_name}' has ended: {self.status.name}")
        return question.answer

    def wake(self) -> None:
        """Look for new input now, and not when it is time to poll."""
        self._inbox.put(Wake())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if it came."""
        return self._done.wait(timeout)

    @property
    def is_overdue(self) -> bool:
        """Whether it was told to end, and its thread has waited for something for much too long."""
        return self._grace.is_overdue and not self._done.is_set()

    @property
    def is_resumable(self) -> bool:
        """Whether its checkpoints outlive it, if its process is told to end."""
        return self._settings.checkpoints.enabled and self.home.storage.survives_driver

    @property
    def exit_code(self) -> int:
        """Of a program that was told to end: 0 if the job has ended in good order, with all its output."""
        if self.unpublished and not (self.end is End.SUSPENDED and self._at_once.is_set()):
            return 1
        if self.end is End.SUSPENDED:
            return 0 if self.kept and not self._at_once.is_set() else _TERMINATED
        return 0 if self.error is None else 1

    @property
    def state(self) -> State:
        return self._life.state

    @property
    def execution(self) -> str | None:
        """The name of its present execution, if one goes on."""
        execution = self.running.execution if self.running is not None and self._life.state.executes else None
        return execution.name if execution is not None else None

    @property
    def truth(self) -> Truth | None:
        """What holds after the last sealed step. It changes when a step is sealed, in the job's own thread."""
        execution = self.running.execution if self.running is not None else None
        return execution.truth if execution is not None else None

    @property
    def last_checkpoint(self) -> str | None:
        """Where the newest completed checkpoint is."""
        if self.running is not None:
            return self.running.checkpoints.newest
        return self.home.completed[-1].pointer if self.home.completed else None

    @property
    def metrics(self) -> Any:
        return self.results.metrics

    @property
    def checkpoint_statistics(self) -> list[CheckpointStats]:
        """The newest checkpoints, newest first."""
        return list(self.running.checkpoints.coordinator.statistics) if self.running is not None else []

    @property
    def history(self) -> list[FailedAttempt]:
        """The executions that failed, oldest first."""
        return self._failures.history

    # -- the life of a job

    def _run(self) -> None:
        """From the start to the end.

        1. run it, through failures and restarts, until something ends it
        2. keep or remove what is left, as that says
        3. tell those who wait
        """
        started = time.monotonic()
        self._life.to(State.PREPARING)
        end, error = self._live()
        self._life.to(State.ENDING)
        self._grace.begin()
        self.unpublished = await_output(self.job, self.running, end, self._grace)
        problem = self.unpublished if error is None else first_line(error)
        self._tell(end.status, f"{end.text}: {problem}" if problem else end.text)
        self.news.close()
        self.chronicle.close()
        try:
            fate = End.SUSPENDED if self.unpublished else end  # a later driver is to publish it
            self.kept = clear_up(self.job, self.running, fate, self._began, self._grace)
        except BaseException as failure:
            if error is None:
                end, error = End.FAILED, failure
            else:
                _LOG.warning("cleaning up after the job failed: %s", first_line(failure))
        self.runtime_ms = int((time.monotonic() - started) * 1000)
        self.ended_at = self._settings.clock()
        try:
            self._end(end, error)
        finally:
            self.home.storage.let_go()
            if self._at_end is not None:
                self._at_end(self)
            life.jobs.pop(self, None)
            self._life.to(State.ENDED)
            self._done.set()
            self._inbox.refuse(f"the job has ended: {self.status.name}")
            if self.running is not None:
                well = self.status in (JobStatus.FINISHED, JobStatus.CANCELED)
                self.running.checkpoints.answer_the_end("" if well else f"the job is {self.status.name}")

    def _become(self, status: JobStatus) -> None:
        if status is not self.status:
            self.status = status
            self._tell(status)

    def _tell(self, status: JobStatus, reason: str = "") -> None:
        self.news.tell(StatusChanged(self._settings.clock(), status.name, self._life.state.value, reason))

    def _live(self) -> tuple[End, BaseException | None]:
        """Go from state to state, until something ends the job: gives that, and the error if it was one."""
        while True:
            try:
                end = self._proceed()
                if end is not None:
                    return end, None
            except BaseException as error:
                try:
                    end = self._failed(error)
                except BaseException as lasting:
                    return self._judge(lasting)
                if end is not None:
                    return end, None

    def _proceed(self) -> End | None:
        """Do what the present state is for, once; gives the end, if it has come."""
        if self._at_once.is_set():
            return self._asked
        match self._life.state:
            case State.PREPARING:
                self._prepare()
                self._life.to(State.RESTORING)
            case State.RESTORING:
                self._restore()
                self._life.to(State.RUNNING)
            case State.RESTARTING:
                return self._wait_for_restart()
            case _:
                return self._execute()
        return None

    def _prepare(self) -> None:
        for warning in [*self._engine.warnings(), *self._settings.checkpoints.warnings]:
            self.results.warn(warning)
        announce(self.plan.job_name, self.job_id, self.guarantee)
        self.running = Running(
            self.job, self.results, self.news, self.chronicle, self._inbox.put, self._at_once.is_set, self._grace
        )

    def _restore(self) -> None:
        running = self.running
        assert running is not None
        restored: int | None = None
        if self.attempt == 1:
            restored = restoring.begin(self.job, running)
            self._began = True
        elif self._settings.checkpoints.enabled:
            restored = restoring.go_back(self.job, running, self.attempt)
        else:
            restoring.go_on(running, self.attempt)
        if self.attempt > 1:
            self._settings.restart.running(self._settings.monotonic())
        assert running.execution is not None
        step = running.execution.truth.step
        place = restoring.place_of(self.job, running, self.attempt, restored)
        self.news.tell(ExecutionStarted(self._settings.clock(), self.attempt, restored, step, *place))

    def _execute(self) -> End | None:
        running = self.running
        assert running is not None
        end = running.over()
        if end is not None:
            return end
        self._engine.check()
        if self.status is not JobStatus.RUNNING and running.has_begun():
            self._become(JobStatus.RUNNING)  # what arrives from now on is read
        event = self._inbox.next(min(running.advance(), _ENGINE_SECONDS))
        while event is not None:
            running.handle(event)
            self._life.to(running.state)
            event = self._inbox.next()
        running.tick()
        self._life.to(running.state)
        return None

    def _wait_for_restart(self) -> End | None:
        """Requests that come meanwhile are answered when the job runs again."""
        assert self.running is not None
        left = self._restart_at - time.monotonic()
        if left <= 0 and self.running.checkpoints.is_quiet:
            self._life.to(State.RESTORING)
            return None
        if left <= 0:
            self._patience.look()
        self._inbox.postpone(left if left > 0 else _QUIET_LOOK_SECONDS)
        if self._asked is End.SUSPENDED:
            return without_last_checkpoint(self.history[-1].error, self.running)
        return None

    # -- failure

    def _failed(self, error: BaseException) -> End | None:
        """The present execution has failed: restart it, or raise what ends the job."""
        running = self.running
        if running is not None:
            running.leave_execution()
        if running is None or not self._began or not isinstance(error, Exception):
            raise error
        if isinstance(error, Fenced | EngineLostError):
            raise error
        if self._at_once.is_set():
            return self._asked
        if self._engine.ask() is not None:
            raise error  # no restart helps
        if isinstance(error, OSError) and is_full(error):
            full = JobExecutionError(f"the driver can't write a file: {error}. {FREE_SPACE}")
            full.__cause__ = error
            error = full
        if self._asked is End.SUSPENDED:
            running.stepper.quiet()
            return without_last_checkpoint(error, running)
        running.do(running.checkpoints.job_failed())
        latest = restoring.newest(running)
        delay_ms = self._failures.delay_ms(self.attempt, error, running.poison, running.has_sealed, latest)
        self._life.to(State.RESTARTING)
        self._become(JobStatus.RESTARTING)
        self._restart_at = time.monotonic() + delay_ms / 1000
        self._patience = running.checkpoints.patience()
        running.stepper.quiet()
        self.attempt += 1
        return None

    # -- the end

    def _judge(self, error: BaseException) -> tuple[End, BaseException | None]:
        """What ended the job, to judge by this error."""
        if isinstance(error, Fenced):
            return End.FENCED, error
        if self._asked is not None and self._at_once.is_set():
            return self._asked, None
        loss = self._engine.ask()
        if loss is not None and self._asked is End.SUSPENDED:
            _LOG.warning("no last checkpoint could be taken: %s", loss)
            return End.SUSPENDED, None
        if loss is not None:
            return End.ENGINE_LOST, EngineLostError(loss)
        # The program or its set-up is wrong, not the checkpoints that it was to go on from.
        has_sealed = self.running is not None and self.running.has_sealed
        at_once = isinstance(error, StateMismatchError) or not has_sealed
        resumed = bool(self.home.completed)
        return (End.FAILED if self._began and not (resumed and at_once) else End.NEVER_BEGAN), error

    def _end(self, end: End, error: BaseException | None) -> None:
        newest = self.last_checkpoint if self.kept else None
        resume = how_to_resume(newest, newest == self.home.claimed, self.running)
        if end is End.ENGINE_LOST:
            error = engine_lost(self.plan.job_name, str(error), resume, self.is_resumable)
        nothing_left = end is End.SUSPENDED and resume is None
        self.end, self.error, self.status = end, error, JobStatus.CANCELED if nothing_left else end.status
        say_last_words(self.plan.job_name, end, resume, self.is_resumable, self.unpublished)
