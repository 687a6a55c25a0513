"""A job at work: what follows from each event, and the one place that carries out actions.

Everything here happens in the job master's thread. Events come from its inbox (:meth:`Running.handle`); what the
checkpoint coordinator decides on them is a list of actions (:meth:`Running.do`). The order in which a step is sealed,
a snapshot taken, a checkpoint completed, is the order of the calls below.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from beadline.checkpoint.coordinator.actions import (
    Action,
    CheckpointKind,
    Complete,
    Discard,
    FailJob,
    NotifyAborted,
    NotifyComplete,
    Rejected,
    Take,
    Triggered,
)
from beadline.checkpoint.ends import End
from beadline.errors import BeadlineError, JobExecutionError
from beadline.master import life
from beadline.master.definition import Job, ProcessingTime
from beadline.master.events import (
    Event,
    Look,
    NotWritten,
    Prepared,
    Published,
    Request,
    StepEnded,
    StepPublished,
    Suspend,
    Wake,
    Written,
)
from beadline.master.execution import Execution, Planned, Positions, Reader, Sealed
from beadline.master.failures import PoisonWatch
from beadline.master.life import State
from beadline.master.reporting.chronicle import Chronicle
from beadline.master.reporting.news import CheckpointChanged, NewsStream
from beadline.master.reporting.results import Results
from beadline.master.reporting.telling import first_line
from beadline.master.snapshots.checkpoints import Checkpoints
from beadline.master.snapshots.records import Records
from beadline.master.snapshots.sinks import Sinks
from beadline.master.snapshots.waiting import Grace, Patience
from beadline.master.snapshots.writing import CanonicalSavepoints
from beadline.master.stepping import Stepper
from beadline.master.upgrade.comparison import generated_uids
from beadline.master.upgrade.compatibility import has_state
from beadline.master.upkeep.short_tasks import Merger, drop_garbage
from beadline.master.upkeep.truth import Truth
from beadline.master.upkeep.views import Views
from beadline.runtime.messages import RunContext, StepHeader
from beadline.runtime.short_tasks.exporting import export_in_worker
from beadline.runtime.short_tasks.merging import merge_in_worker
from beadline.state.segments.files import SegmentFiles

_LOG = logging.getLogger("beadline")

# Only an event changes anything.
_UNTIL_EVENT = 3600.0


class Running:
    """A job whose sources and sinks are prepared, and whose program is with the workers."""

    def __init__(
        self,
        job: Job,
        results: Results,
        news: NewsStream,
        chronicle: Chronicle,
        post: Callable[[Event], None],
        cancelled: Callable[[], bool],
        grace: Grace,
    ) -> None:
        self._job = job
        self._grace = grace
        self._results = results
        self._news, self._chronicle = news, chronicle
        self._post = post
        self.poison = PoisonWatch(job.settings.poison)
        self.processing_time = ProcessingTime(job.settings.clock, job.settings.monotonic)
        home, plan = job.home, job.plan
        job.check_sinks()
        records = Records()
        self.sinks = Sinks(job, records)
        self.sinks_at_start = self.sinks.at_start()
        self._sources = job.prepared_sources()
        self._initial: Positions = {node: source.initial() for node, source in self._sources.items()}
        savepoints = CanonicalSavepoints(job.engine, job.group)
        self.now = job.settings.monotonic
        self._coordinator = job.coordinator(chronicle)
        self.checkpoints = Checkpoints(self._coordinator, home, records, self.sinks, savepoints, self.now, post)
        # The plan is shipped once; sinks and sources have been prepared before, because they are part of it.
        try:
            self._deployment = job.engine.deploy(plan, job.settings.dependencies, job.group)
        except BaseException:
            self.stop_sources()
            raise
        self.stepper = Stepper(plan, job.engine, self._deployment, cancelled, results.warn)
        self._merger = Merger(job.engine, f"{job.group}-merge", self._merging)
        self.files = SegmentFiles("")  # of the present execution
        self.views = Views(time.monotonic)
        self.execution: Execution | None = None
        self.has_sealed = False
        self._unreported: Sealed | None = None  # while its output is on its way out
        self._after_last_step: Request | None = None
        self._suspending: Future[str] | None = None
        self._last_output: Patience | None = None

    def __repr__(self) -> str:
        return f"<Running {self.execution!r}, {self.checkpoints!r}>"

    # -- beginning, and going on

    def new_truth(self, number: int) -> Truth:
        """The truth of the very beginning, for an execution whose state goes to a folder of its own."""
        self.stepper.begin()
        self.files = SegmentFiles(self._job.home.storage.state_folder(number, self._job.engine.one_machine))
        truth = Truth(self._job.home.job_id, self._job.plan, self.files)
        truth.positions.update(self._initial)
        return truth

    def execute(self, number: int, truth: Truth) -> None:
        """From here on steps are run from that truth."""
        readers = [
            Reader(self._job.plan.nodes[node], source, source.finished(truth.positions[node]))
            for node, source in self._sources.items()
        ]
        name = f"{self._job.home.job_id}-{number}"
        self.execution = Execution(number, name, self._job.plan, truth, readers, self._job.settings.limits)
        self._suspending = self._unreported = None
        self._merger = Merger(self._job.engine, f"{self._job.group}-merge", self._merging)
        self._results.execution_begins(truth.step)
        self.stepper.begin()

    def context(self, name: str, number: int) -> RunContext:
        """What workers must know to work for an execution."""
        settings = self._job.settings
        return RunContext(
            name,
            life.executions(),
            self.files.root,
            settings.checkpoints.inline_threshold,
            number - 1,
            "lz4" if settings.checkpoints.compression else None,
            settings.backend,
        )

    @property
    def _current(self) -> Execution:
        assert self.execution is not None
        return self.execution

    def _now_context(self) -> RunContext:
        return self.context(self._current.name, self._current.number)

    def _merging(self) -> Callable[[Any], Any]:
        return self._deployment.bind(merge_in_worker, self._now_context(), self.stepper.sealed_at)

    def _exporting(self) -> Callable[[Any], Any]:
        return self._deployment.bind(export_in_worker, self._now_context(), self.stepper.sealed_at)

    # -- the loop

    @property
    def state(self) -> State:
        """Where an execution stands."""
        if self._suspending is not None:
            return State.SUSPENDING
        if self._after_last_step is not None or self._coordinator.is_stopping:
            return State.STOPPING
        return State.FINISHING if self._current.final_sealed else State.RUNNING

    def over(self) -> End | None:
        """What has ended the job, if anything has."""
        execution = self._current
        if self._suspending is not None and self._suspending.done() and not execution.is_running:
            problem = self._suspending.exception()
            if self.checkpoints.is_publishing and not self._is_given_up(problem is None):
                return None
            if problem is not None:
                self._results.warn(f"no last checkpoint could be taken: {problem}")
            return End.SUSPENDED
        if self.checkpoints.stopped_with is not None and self.checkpoints.may_end:
            cancels = self.checkpoints.stopped_with is CheckpointKind.CANCEL_WITH_SAVEPOINT
            return End.CANCELLED if cancels else End.STOPPED
        if execution.final_sealed and self.checkpoints.may_end:
            return End.FINISHED
        if self._suspending is None and self.checkpoints.is_publishing and self._grace.is_over:
            return End.SUSPENDED  # it was to end by itself
        return None

    def has_begun(self) -> bool:
        """Whether it is known where all sources begin."""
        return self._current.has_begun()

    def _is_given_up(self, taken: bool) -> bool:
        """Whether the end does not wait any longer until all output is visible. If a last checkpoint was taken, that
        may take as long again."""
        if self._last_output is None:
            self._last_output = self.checkpoints.patience()
            self._grace.begin(again=taken)
        self._last_output.look()
        return self._grace.is_over

    def advance(self) -> float:
        """Start a step if there is reason for one; gives the seconds to wait for an event until the next look."""
        self.checkpoints.step_output.look()
        patience, now = self._maybe_start(), self.now()
        wakeup = self._coordinator.next_wakeup(now)
        return patience if wakeup is None else min(patience, (wakeup - now) / 1000)

    def _maybe_start(self) -> float:
        execution = self._current
        if execution.is_running or execution.final_sealed or self._coordinator.holds:
            return _UNTIL_EVENT
        if self.checkpoints.step_output.is_under_way:
            return _UNTIL_EVENT
        if self._suspending is not None:
            return 0.1
        if not self._coordinator.is_closed and self.sinks.are_full():
            return _UNTIL_EVENT  # until a checkpoint is complete
        planned = execution.next_step(self.processing_time(), self._job.engine.keep_alive)
        if not isinstance(planned, Planned):
            return planned
        completed, aborted = self.checkpoints.news()
        step, base, poison = execution.truth.step + 1, execution.truth.step or None, self.poison.poison
        header = StepHeader(self._now_context(), step, planned.now, planned.final, base, completed, aborted, poison)
        execution.begin_step(planned, header)
        self.do(self._coordinator.step_started(step, self.now()))
        if execution.has_finished_source and not planned.final:
            self.do(self._coordinator.source_finished(self.now()))
        execution.run_step(planned, self.stepper, self._post)
        return _UNTIL_EVENT

    def handle(self, event: Event) -> None:
        """What follows from an event."""
        match event:
            case StepEnded():
                if event.execution == self._current.number:
                    self._step_ended(event)
            case Prepared():
                self.checkpoints.prepared(event)
            case Written():
                self.do(self.checkpoints.written(event))
                # The files of one that came too late are gone by now.
                if not event.savepoint and self.execution is not None and self.checkpoints.has(event.id):
                    self.execution.truth.book.move_in(event.stored.snapshot.segments)
            case NotWritten():
                self.do(self.checkpoints.not_written(event))
            case Published():
                self.checkpoints.published(event)
                self._tell_of(event.id, "published")
            case StepPublished():
                self.checkpoints.step_published(event)
                self._report()
            case Request():
                self._request(event)
            case Look():
                if not event.answer.cancelled():
                    event.give(self.views.open(self._current.look(self._job.settings.clock()), event.seconds))
            case Suspend():
                self._suspend()
            case Wake():
                pass

    def tick(self) -> None:
        """Time has passed."""
        self.do(self._coordinator.tick(self.now()))

    def _request(self, request: Request) -> None:
        execution = self._current
        if not request.drain or execution.draining or execution.final_sealed:
            self._ask_for(request)
            return
        # Event time runs to its end in a last step, which the savepoint then holds.
        execution.draining = True
        self._after_last_step = request

    def _ask_for(self, request: Request) -> None:
        self.do(self._coordinator.trigger(self.now(), request.kind, request))

    def _suspend(self) -> None:
        # A job that has read everything, or has its savepoint to stop with, ends by itself, and needs no resuming.
        ends = self._current.final_sealed or self.checkpoints.stopped_with is not None
        if self._suspending is None and not ends:
            self._suspending = Future()
            self._coordinator.wind_down(self.now())
            self._ask_for(Request(CheckpointKind.CHECKPOINT, self._suspending))

    def _step_ended(self, event: StepEnded) -> None:
        """Seal the step.

        1. make it the new truth
        2. show its results
        3. hand its output to the sinks, and have published what waits for no checkpoint
        4. report it, when that is visible
        5. have state merged: before a checkpoint is taken, for it sets the allowance
        6. let checkpoints take it
        """
        execution = self._current
        sealed = execution.seal(event.outcome)
        header, subtasks = sealed.header, sealed.subtasks
        self._results.sealed(sealed.acks, subtasks)
        self.sinks.sealed(subtasks, header.now, header.final)
        self.checkpoints.step_output.publish(header.step, header.final)
        self._unreported = sealed
        self._report()
        self._merge(execution)
        self.do(self._coordinator.step_sealed(header.step, self.now(), header.final))
        if header.final and self._after_last_step is not None:
            request, self._after_last_step = self._after_last_step, None
            self._ask_for(request)

    def _report(self) -> None:
        """Tell watchers of the sealed step, once its output is not on its way any more."""
        sealed = self._unreported
        if sealed is None or self.checkpoints.step_output.is_under_way:
            return
        self._unreported = None
        self.has_sealed = True
        self._results.report(sealed, self._current.truth, self._job.settings.clock())

    def _merge(self, execution: Execution) -> None:
        book = execution.truth.book
        if self._merger.idle and not execution.final_sealed and not self.checkpoints.savepoints.busy:
            book.take_merges(self._merger.results())
            self._drop_garbage(frozenset())
            self._merger.submit(book.merges(execution.truth.keys_by_subtask))

    def _drop_garbage(self, freed: frozenset[str]) -> None:
        if self.execution is None:
            return  # nothing runs yet, or it did not begin: what is left are orphans
        book, needed = self.execution.truth.book, self.checkpoints.registry.files() | self.views.files()
        problem = drop_garbage(book, needed, self._job.home.delete, freed)
        if problem is not None:
            self._results.warn(problem)

    # -- actions

    def do(self, actions: list[Action]) -> None:
        """Carry out what the checkpoint coordinator has decided, in its order. If one of the actions fails, the others
        are carried out all the same, for the coordinator takes them for done: a checkpoint that it has begun has a
        record, and who asked for it an answer."""
        problem: Exception | None = None
        for action in actions:
            try:
                self._do(action)
            except Exception as error:
                problem = problem or error
        if problem is not None:
            raise problem

    def _do(self, action: Action) -> None:
        match action:
            case Triggered():
                self.checkpoints.triggered(action)
                self._tell_of(action.id, "triggered")
            case Rejected():
                if isinstance(action.request, Request):
                    what = action.request.kind.value
                    action.request.fail(BeadlineError(f"no {what} was taken: {action.reason.value}"))
            case Take():
                self._take(action)
            case Complete():
                self.checkpoints.complete(action)
                self._tell_of(action.id, "completed")
            case NotifyComplete():
                snapshot = self.checkpoints.completed(action.id)
                self._results.completed(action.id)
                if self.execution is not None:
                    self.execution.commit_sources(snapshot)
                self.checkpoints.publish(action.id)
            case NotifyAborted():
                self.checkpoints.aborted(action)
                self._tell_of(action.id, "failed")
            case Discard():
                for id in action.ids:
                    self._drop_garbage(self.checkpoints.discard(id))
            case FailJob():
                raise JobExecutionError(action.reason)

    def _take(self, take: Take) -> None:
        execution = self._current
        self._results.taken(take.id)
        sinks = self.sinks.take(take.id, take.kind.commits, take.kind.ends_job)
        snapshot = execution.snapshot(take, self._job.settings.clock(), sinks)
        if not take.kind.is_savepoint:
            execution.truth.book.checkpointed()
        generated = [(o.name, o.uid) for o in snapshot.operators if o.generated_uid and has_state(o)]
        if take.kind.is_savepoint and generated:
            self._results.warn(generated_uids(generated))
        self.checkpoints.taken(take, snapshot, self._exporting)
        self._tell_of(take.id, "taken")

    def _tell_of(self, id: int, phase: str) -> None:
        stats = self._coordinator.statistics.get(id)
        if stats is not None:
            self._news.tell(CheckpointChanged.of(stats, self._job.settings.clock(), phase))
            self._chronicle.heard_of(stats, self._coordinator.statistics)

    # -- the end of an execution, and of the job

    def leave_execution(self) -> None:
        """The steps of the present execution are not needed any more."""
        self.checkpoints.step_output.leave()
        self._unreported = None
        execution = self.execution
        if execution is None:
            return
        if execution.is_running:
            self.stepper.give_up()
        execution.close(wait=self._job.engine.loss is None)
        if self._after_last_step is not None:
            # There was no last step: the next execution is asked again.
            self._post(self._after_last_step)
            self._after_last_step = None
        self._merger.close()

    def let_go(self) -> None:
        """No execution comes after the last one: workers close what they hold."""
        self._deployment.end(life.executions())

    def stop_sources(self) -> None:
        """No execution comes after the last one."""
        for source in self._sources.values():
            try:
                source.stop()
            except Exception as error:
                _LOG.warning("a source could not be stopped: %s", first_line(error))
