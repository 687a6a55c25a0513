"""Checkpoints of a running job: carries out what the coordinator decides.

The coordinator and the registry are only touched by the job master's thread. Writing a checkpoint and publishing its
output happen beside the steps, in threads that read immutable data and report to the master's inbox.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from beadline.checkpoint.actions import (
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
from beadline.checkpoint.coordinator import CheckpointCoordinator
from beadline.checkpoint.disposal import dispose_savepoint
from beadline.checkpoint.ends import End
from beadline.checkpoint.lease import Fenced
from beadline.checkpoint.publishing import Stored
from beadline.checkpoint.reasons import FailureReason
from beadline.checkpoint.registry import SharedFiles
from beadline.checkpoint.settings import ClaimMode
from beadline.checkpoint.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.storage import JobStorage
from beadline.common.job_status import JobStatus
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.errors import BeadlineError, EngineLostError, JobExecutionError
from beadline.master.events import Event, NotWritten, Published, Request, Written
from beadline.master.snapshots.savepoints import CanonicalSavepoints
from beadline.master.snapshots.sinks import Sinks
from beadline.master.stepping import first_line
from beadline.master.threads import Threads

_LOG = logging.getLogger("beadline")

# As many savepoints as are written at once.
_SAVEPOINTS = 4


class Checkpoints:
    """The checkpoints of one job, over all its attempts.

    :param savepoints: writes those in the canonical format
    :param post: puts an event into the master's inbox
    :ivar take: gives the snapshot of the last sealed step
    :ivar commit_sources: tells the sources up to where a completed checkpoint goes
    :ivar drop_garbage: deletes files that neither checkpoints nor the running job need; gets those that a checkpoint
        just let go of
    :ivar completed_steps: steps of checkpoints that completed since functions were last told
    """

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        storage: JobStorage,
        registry: SharedFiles,
        sinks: Sinks,
        savepoints: CanonicalSavepoints,
        clock: Callable[[], int],
        post: Callable[[Event], None],
    ) -> None:
        self.coordinator = coordinator
        self.storage = storage
        self.registry = registry
        self._sinks = sinks
        self.savepoints = savepoints
        self._clock = clock
        self._post = post
        self.take: Callable[[Take], Snapshot]
        self.drop_garbage: Callable[[frozenset[str]], None] = lambda freed: None
        self.commit_sources: Callable[[Snapshot], None] = lambda snapshot: None
        self._writers = Threads(coordinator.settings.max_concurrent + 1, "beadline-checkpoint")
        self._publisher = Threads(1, "beadline-publish")
        self._requests: dict[int, Request] = {}
        self._stored: dict[int, Stored] = {}
        self._taken: dict[int, Snapshot] = {}
        # What threads are writing, even if it was given up: it may appear, and must then be whole.
        self._writing: dict[int, Snapshot] = {}
        self._written: dict[int, Stored] = {}
        self._saved: dict[int, Stored] = {}
        self._threads: dict[int, Future[None]] = {}
        self._publishing: set[int] = set()
        self._savers = Threads(_SAVEPOINTS, "beadline-savepoint")
        self._claimed: int | None = None
        self._over = False
        self._ending: tuple[Request, str] | None = None
        sinks.retained = self._sink_data
        self.completed_steps: list[int] = []
        self.aborted_steps: list[int] = []
        self.stopped_with: CheckpointKind | None = None

    def __repr__(self) -> str:
        return f"<Checkpoints {self.coordinator!r} in {self.storage!r}>"

    # -- what happens to the job

    def started(self, step: int) -> None:
        self._do(self.coordinator.start(self._clock(), step))

    def restored(self, id: int | None, step: int) -> None:
        self._do(self.coordinator.restored(id, self._clock(), step))

    def job_failed(self) -> None:
        self._do(self.coordinator.job_failed(self._clock()))
        self.stopped_with = None
        self._answer_the_end("the job failed before it ended, and may go on")
        self.completed_steps.clear()
        self.aborted_steps.clear()

    def step_started(self, step: int) -> None:
        self._do(self.coordinator.step_started(step, self._clock()))

    def step_sealed(self, step: int, final: bool) -> None:
        self._do(self.coordinator.step_sealed(step, self._clock(), final))

    def source_finished(self) -> None:
        self._do(self.coordinator.source_finished(self._clock()))

    def tick(self) -> None:
        self._do(self.coordinator.tick(self._clock()))

    def request(self, request: Request) -> None:
        self._do(self.coordinator.trigger(self._clock(), request.kind, request))

    def seconds_to_wakeup(self) -> float | None:
        """How long the coordinator has nothing to do."""
        now = self._clock()
        at = self.coordinator.next_wakeup(now)
        return None if at is None else (at - now) / 1000

    @property
    def may_end(self) -> bool:
        """Whether the last checkpoint is complete and its output visible."""
        return self.coordinator.may_end and not self._publishing

    @property
    def pointers(self) -> dict[int, str]:
        """Where the retained checkpoints are, by id."""
        return {c.id: self._stored[c.id].pointer for c in self.coordinator.completed if c.id in self._stored}

    @property
    def newest(self) -> str | None:
        """Where the newest one is that somebody could go on from, also if the job has not heard of it yet."""
        known = {**self.pointers, **{id: stored.pointer for id, stored in list(self._written.items())}}
        return known[max(known)] if known else None

    def last(self, request: Request) -> None:
        """Take one more, after which the job is to end."""
        self.coordinator.wind_down(self._clock())
        self.request(request)

    def adopt(self, stored: Stored, claimed: bool = False) -> None:
        """A checkpoint of an earlier run that is now this job's own, or the snapshot that it has claimed."""
        id = stored.snapshot.checkpoint_id
        self._stored[id] = stored
        self.registry.register(id, stored.snapshot.files())
        if claimed:
            self._claimed = id

    # -- what the threads report

    def written(self, event: Written) -> None:
        self._writing.pop(event.id, None)
        self._threads.pop(event.id, None)
        self._written.pop(event.id, None)
        self._saved.pop(event.id, None)
        self._stored[event.id] = event.stored
        self.registry.register(event.id, event.stored.snapshot.files())
        size, full = event.stored.written, event.stored.snapshot.size
        self._do(self.coordinator.written(event.id, self._clock(), size, full, event.stored.pointer))

    def not_written(self, event: NotWritten) -> None:
        if isinstance(event.error, Fenced):
            raise event.error
        self._writing.pop(event.id, None)
        self._threads.pop(event.id, None)
        if event.id not in self._taken:
            self.registry.release(event.id)
        if self.coordinator.is_pending(event.id):
            _LOG.warning("checkpoint %d failed: %s", event.id, first_line(event.error))
        # Savepoints are written beside the job: if one fails, that says nothing of how the job is.
        reason = (
            FailureReason.IO_EXCEPTION
            if isinstance(event.error, SnapshotError | OSError) or event.savepoint
            else FailureReason.CHECKPOINT_ASYNC_EXCEPTION
        )
        self._do(self.coordinator.failed(event.id, reason, self._clock(), first_line(event.error)))

    def published(self, event: Published) -> None:
        if event.id not in self._publishing:
            return  # of an attempt that failed; restoring has published it again
        self._publishing.discard(event.id)
        if isinstance(event.error, EngineLostError):
            raise event.error
        if event.error is not None:
            raise JobExecutionError(
                f"the output of checkpoint {event.id} could not be published: {first_line(event.error)}"
            ) from event.error
        self._sinks.published(event.id)

    # -- actions

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Triggered():
                    if action.request is not None:
                        self._requests[action.id] = action.request
                case Rejected():
                    if isinstance(action.request, Request):
                        _fail(action.request.answer, f"no {action.request.kind.value} was taken: {action.reason.value}")
                case Take():
                    self._take(action)
                case Complete():
                    self._complete(action)
                case NotifyComplete():
                    self._notify(action.id)
                case NotifyAborted():
                    self._aborted(action)
                case Discard():
                    for id in action.ids:
                        self._discard(id)
                case FailJob():
                    raise JobExecutionError(action.reason)

    def _take(self, take: Take) -> None:
        snapshot = self.take(take)
        self._taken[take.id] = self._writing[take.id] = snapshot
        self.registry.register(take.id, snapshot.files())
        if take.kind.is_savepoint:
            request = self._requests[take.id]
            self._threads[take.id] = self._savers.submit(self._write_savepoint, take, snapshot, request)
        else:
            self._threads[take.id] = self._writers.submit(self._write, take, snapshot)

    def _write(self, take: Take, snapshot: Snapshot) -> None:
        """In a thread: pre-commit output and make everything durable, then the metadata."""
        try:
            # Also if it is given up meanwhile, what it names must stay for as long as it may appear.
            self._writing[take.id] = snapshot = self._sinks.precommitted(snapshot)
            stored = self._write_checkpoint(snapshot)
            self._written[take.id] = stored
            self._post(Written(take.id, stored))
        except Exception as error:
            self._post(NotWritten(take.id, error))

    def _write_savepoint(self, take: Take, snapshot: Snapshot, request: Request) -> None:
        """In another thread, for as long as there is state: no checkpoint waits behind it."""
        try:
            assert request.directory is not None
            fill = None
            if request.format is SavepointFormatType.CANONICAL:
                fill = self.savepoints.filler(take)
            portable = self._sinks.portable(snapshot, take.kind.commits)
            stored = self.storage.write_savepoint(portable, request.directory, fill)
            self._saved[take.id] = stored
            self._post(Written(take.id, stored, savepoint=True))
        except Exception as error:
            self._post(NotWritten(take.id, error, savepoint=True))

    def _write_checkpoint(self, snapshot: Snapshot) -> Stored:
        # What the job started from belongs to somebody else, who may delete it once there is a checkpoint.
        copy = self.coordinator.settings.claim_mode is ClaimMode.NO_CLAIM
        return self.storage.write(snapshot, copy_foreign=copy)

    def _complete(self, action: Complete) -> None:
        request = self._requests.pop(action.id, None)
        pointer = self._stored[action.id].pointer
        if action.kind.ends_job:
            self.stopped_with = action.kind
            if request is not None:
                self._ending = (request, pointer)
        elif request is not None and not request.answer.done():
            request.answer.set_result(pointer)
        if action.kind.is_savepoint:
            # It holds copies of all it needs, and belongs to the user.
            self.registry.release(action.id)
            self._stored.pop(action.id)
        if not action.kind.commits:
            self._taken.pop(action.id, None)

    def _notify(self, id: int) -> None:
        snapshot = self._taken.pop(id)
        for older in [taken for taken in self._taken if taken < id]:
            if not self.coordinator.is_pending(older):
                del self._taken[older]
        self.completed_steps.append(snapshot.step)
        self.commit_sources(snapshot)
        ready = self._sinks.completed(id)
        if ready:
            self._publishing.add(id)
            self._publisher.submit(self._publish, id, ready)

    def _publish(self, id: int, ready: list[tuple[str, Any]]) -> None:
        try:
            self._sinks.publish(ready)
            self._post(Published(id))
        except Exception as error:
            self._post(Published(id, error))

    def _aborted(self, action: NotifyAborted) -> None:
        snapshot = self._taken.pop(action.id, None)
        if snapshot is not None:
            self.aborted_steps.append(snapshot.step)
        request = self._requests.pop(action.id, None)
        if request is not None and request.kind.is_savepoint:
            self.savepoints.cancel(action.id)
        if request is not None:
            _fail(request.answer, f"the {request.kind.value} failed: {action.reason.value} {action.message}".strip())
        if action.reason.counts:
            _LOG.warning("checkpoint %d was given up: %s %s", action.id, action.reason.value, action.message)
        if action.id not in self._stored and action.id not in self._writing:
            self.registry.release(action.id)

    def _discard(self, id: int) -> None:
        """Remove a checkpoint; what only it needed is garbage. What can't be removed now is an orphan later."""
        if id == self._claimed and self._over:
            return  # no newer one has replaced it: it stays for whoever starts again
        stored = self._stored.pop(id, None)
        if stored is not None:
            discard: Callable[[str], object] = self.storage.discard
            if id == self._claimed:
                discard = self.storage.discard_claimed
            elif stored.snapshot.kind is SnapshotKind.SAVEPOINT:
                discard = dispose_savepoint  # it was written too late, and who asked for it was told that it failed
            with contextlib.suppress(SnapshotError):
                discard(stored.pointer)
        self.drop_garbage(self.registry.release(id))
        self._sinks.tidy()

    def leave_behind(self, id: int) -> None:
        """The job goes back to a checkpoint and takes back later output: nobody may go on from newer ones, also not
        from those that were given up and are still written.

        1. wait for those that are being written
        2. remove all newer ones; one that stays would name output that is taken back
        3. look at the lease: who takes over from now on finds none of them
        """
        for writing in list(self._threads.values()):
            writing.result()
        for newer, stored in list(self._written.items()):
            if newer > id:
                self._stored.setdefault(newer, stored)
                del self._written[newer]
        for newer in [number for number in self._stored if number > id]:
            if self._stored[newer].snapshot.kind is SnapshotKind.CHECKPOINT and newer != self._claimed:
                self.storage.discard(self._stored[newer].pointer)
            self._discard(newer)
        self.storage.check()

    def _sink_data(self) -> list[dict[str, Any]]:
        """What the checkpoints that the job may go back to hold of the sinks."""
        snapshots = [stored.snapshot for stored in self._stored.values()]
        snapshots += [*self._taken.values(), *self._writing.values()]
        return [snapshot.committables() for snapshot in snapshots]

    def needed(self) -> frozenset[str]:
        """The files that checkpoints need."""
        return self.registry.files()

    def quiet(self) -> None:
        """Wait until nothing is being published."""
        self._publisher.submit(int).result()
        self._publishing.clear()

    # -- the end

    def close(self, end: End, patience: float | None = None) -> bool:
        """The job is over. True if a checkpoint is left from which it can be resumed.

        :param patience: seconds to wait at most for threads that talk to Spark
        """
        for id in self._threads:
            self.savepoints.cancel(id)  # what is not complete by now is not wanted any more
        self._writers.shutdown(wait=True)
        for threads in (self._savers, self._publisher):
            threads.end(patience)
        self._over = True
        self._do(self.coordinator.stop(self._clock(), end))
        for stored in self._saved.values():  # who asked for it has just been told that it failed
            with contextlib.suppress(SnapshotError):
                dispose_savepoint(stored.pointer)
        if self.coordinator.settings.retention.keeps(end):
            return bool(self.coordinator.completed or self._written) and self.storage.survives_driver
        for stored in self._written.values():  # appeared after the last look into the inbox
            with contextlib.suppress(SnapshotError):
                self.storage.discard(stored.pointer)
        self._written.clear()
        return False

    def abandon(self) -> None:
        """The checkpoints are not this run's to delete: answer those who wait, and touch nothing."""
        self._do(self.coordinator.job_failed(self._clock()))
        for threads in (self._writers, self._savers, self._publisher):
            threads.shutdown(wait=False)

    def answer_the_end(self, status: JobStatus) -> None:
        """Who asked for a savepoint to end the job with hears of it when the job has ended."""
        self._answer_the_end("" if status in (JobStatus.FINISHED, JobStatus.CANCELED) else f"the job is {status.name}")

    def _answer_the_end(self, problem: str) -> None:
        ending, self._ending = self._ending, None
        if ending is None:
            return
        request, pointer = ending
        if problem:
            _fail(request.answer, f"the savepoint was written to {pointer}, but {problem}")
        elif not request.answer.done():
            request.answer.set_result(pointer)


def _fail(answer: Future[str], text: str) -> None:
    if not answer.done():
        answer.set_exception(BeadlineError(text))
