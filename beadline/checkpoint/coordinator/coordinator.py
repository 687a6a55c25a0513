"""When checkpoints are taken, and how each ends: a state machine without threads, clock or I/O.

Events come in with the time in milliseconds, by a clock that nobody sets. A list of actions goes out, to be done in its
order. The life of a checkpoint:

1. *triggered*: by the clock, by hand, or because the input has ended
2. *taken*: it has a sealed step. Aligned: the step that ran at the trigger, once sealed; if none ran, the last sealed
   one, because then all that was read is sealed. Unaligned: the last sealed one, at once or after the alignment timeout
3. *written*: the outside has made it durable
4. *completed*: older ones that are still open are subsumed, those beyond the number to retain are discarded
5. *notified*: operators and sinks commit

or, from 1 or 2, *aborted*: declined, failed, expired, subsumed, or swept away by a failure or the end of the job.

Only the job master's thread calls it. Threads that write a checkpoint report to the inbox of that thread, so a
checkpoint may be given up while it is still written, and appear all the same: ``written`` then answers with
``Discard``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from beadline.checkpoint.coordinator.actions import (
    Action,
    CheckpointKind,
    Complete,
    Discard,
    FailureReason,
    NotifyAborted,
    NotifyComplete,
    Rejected,
    Take,
    Triggered,
)
from beadline.checkpoint.coordinator.parts import (
    CompletedCheckpoint,
    FailureTolerance,
    Pending,
    RetainedCheckpoints,
    Schedule,
    Steps,
)
from beadline.checkpoint.coordinator.statistics import CheckpointStatistics, CheckpointStats
from beadline.checkpoint.ends import End
from beadline.checkpoint.settings import CheckpointSettings
from beadline.errors import BeadlineError

_MAX_WAITING = 1000


class CheckpointCoordinator:
    """Decides on checkpoints. ``completed`` ones of an earlier run are now this job's own; ``wall`` and ``earlier`` are
    for people."""

    def __init__(
        self,
        settings: CheckpointSettings,
        *,
        next_id: int = 1,
        completed: Iterable[CompletedCheckpoint] = (),
        wall: Callable[[int], int] = int,
        earlier: Iterable[CheckpointStats] = (),
    ) -> None:
        self.settings = settings
        self.statistics = CheckpointStatistics(wall, settings.history, earlier)
        self._next_id = next_id
        self._pending: dict[int, Pending] = {}
        self._waiting: list[Any] = []
        self._retained = RetainedCheckpoints(settings.retained, completed)
        self._schedule = Schedule(settings.period_ms, settings.min_pause_ms)
        self._tolerance = FailureTolerance(settings.tolerable_failures)
        self._given_up: set[int] = set()
        self._active = False
        self._stopped = False
        self._now = 0
        self._steps = Steps()
        latest = self._retained.latest
        if latest is not None and latest.id >= next_id:
            raise BeadlineError(f"The next checkpoint can't have the id {next_id}: {latest.id} is already in use.")

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else "active" if self._active else "paused"
        latest = self._retained.latest
        return (
            f"<CheckpointCoordinator {state}: next {self._next_id}, pending {self.pending}, "
            f"latest {latest.id if latest else None}, {self._tolerance.in_row} failed in a row>"
        )

    # -- what holds now

    @property
    def pending(self) -> tuple[int, ...]:
        """The ids of the checkpoints that have begun and not ended."""
        return tuple(sorted(self._pending))

    @property
    def completed(self) -> tuple[CompletedCheckpoint, ...]:
        """The checkpoints that the job can go back to, oldest first; savepoints are not among them."""
        return self._retained.kept

    @property
    def holds(self) -> bool:
        """Whether no step may start, because the savepoint that the job stops with has been taken."""
        return self._steps.stop_done or any(p.step is not None and p.kind.ends_job for p in self._open)

    @property
    def may_end(self) -> bool:
        """Whether the last step is sealed, or the savepoint to stop with complete, and nothing is left to wait for."""
        steps = self._steps
        if self._pending or not self._active:
            return False
        return steps.stop_done or steps.final_done or (steps.final is not None and not self.settings.takes_final)

    def is_pending(self, id: int) -> bool:
        """Whether it may still complete."""
        return id in self._pending

    @property
    def is_closed(self) -> bool:
        """Whether no further checkpoint comes, because a source has ended."""
        return self._steps.closed_by_sources(self.settings)

    def next_wakeup(self, now: int) -> int | None:
        """When :meth:`tick` has something to do, if nothing else happens before; ``None`` for never."""
        times = [p.triggered_at + self.settings.timeout_ms for p in self._checkpoints]
        times += [p.triggered_at + self.settings.aligned_timeout_ms for p in self._open if p.turns(self.settings)]
        due = self._schedule.next_at()
        if due is not None and self._may_begin():
            times.append(due)
        return max(now, min(times)) if times else None

    # -- events: the job

    def start(self, now: int, step: int = 0) -> list[Action]:
        """The job runs, from ``step``, which is as good as sealed. The first checkpoint comes after an interval."""
        self._check_open()
        self._tell(now)
        return self._begin_run(step)

    def job_failed(self, now: int) -> list[Action]:
        """Give up all that is open, and take no checkpoints until :meth:`restored`."""
        self._tell(now)
        return self._pause(FailureReason.JOB_FAILURE)

    def restored(self, id: int | None, now: int, step: int) -> list[Action]:
        """The job runs again, from that checkpoint and its step, or from the beginning if there is none.

        1. newer completed checkpoints no longer count; the next one to complete discards them
        2. ids continue after the highest that was ever used
        3. the clock starts over
        """
        self._check_open()
        self._tell(now)
        actions = self._pause(FailureReason.JOB_FAILURE)
        if id is None or any(own.id == id for own in self.completed):
            self._retained.go_back(id)
        if id is not None:
            self._next_id = max(self._next_id, id + 1)
        return actions + self._begin_run(step)

    def wind_down(self, now: int) -> None:
        """The job is about to end: the clock takes no more checkpoints, but they can still be asked for."""
        self._tell(now)
        self._schedule.stop()

    def stop(self, now: int, end: End) -> list[Action]:
        """The job is over; its checkpoints are kept or discarded, as its end and their retention say."""
        if self._stopped:
            return []
        self._tell(now)
        actions = self._pause(FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        self._stopped = True
        if not self.settings.retention.keeps(end):
            actions += self._discard(self._retained.clear())
        return actions

    def source_finished(self, now: int) -> list[Action]:
        """A source has ended while others go on; some jobs take no checkpoints from here on."""
        self._tell(now)
        self._steps.source_finished = True
        return self._settle() if self._active else []

    # -- events: steps

    def step_started(self, step: int, now: int) -> list[Action]:
        """A step runs. Tries of the same step are one: tell it once."""
        if not self._active:
            return []
        self._steps.start(step, self.holds)
        self._tell(now)
        return self._settle()

    def step_sealed(self, step: int, now: int, final: bool = False) -> list[Action]:
        """The running step is sealed; checkpoints that waited for it take it. A final step, the job's last, calls for a
        checkpoint of its own, which waits for no pause: without it, the output since the last one would never be
        committed."""
        if not self._active:
            return []
        self._steps.seal(step)
        self._tell(now)
        actions: list[Action] = []
        actions += [self._take(p) for p in self._open if p.waits_for == step and p.step is None]
        if final:
            self._steps.final = step
            is_pending = any(p.step == step and p.kind.commits for p in self._open)
            self._steps.final_wanted = self.settings.takes_final and not is_pending
        return actions + self._settle()

    # -- events: checkpoints

    def tick(self, now: int) -> list[Action]:
        """Time has passed."""
        self._tell(now)
        return self._settle()

    def trigger(self, now: int, kind: CheckpointKind = CheckpointKind.CHECKPOINT, request: Any = None) -> list[Action]:
        """Somebody asks for a checkpoint or a savepoint. A checkpoint waits until fewer than the allowed number are
        open, but for no pause; a savepoint waits for neither, takes nobody's place, and has no timeout: large state
        takes long. The answer is ``Triggered`` with this ``request``, at once or later, or ``Rejected``."""
        self._tell(now)
        if not self._active or self._steps.closed_by_sources(self.settings) or self.is_stopping:
            return [Rejected(request, FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING), *self._settle()]
        if kind.is_savepoint:
            return self._begin(kind, request) + self._settle()
        if len(self._waiting) >= _MAX_WAITING:
            return [Rejected(request, FailureReason.TOO_MANY_CHECKPOINT_REQUESTS), *self._settle()]
        self._waiting.append(request)
        return self._settle()

    def written(
        self, id: int, now: int, size: int = 0, full_size: int | None = None, path: str | None = None, **details: Any
    ) -> list[Action]:
        """The checkpoint is durable.

        1. complete it; it is the newest to go back to, unless it is a savepoint
        2. abort older checkpoints that are still open; savepoints go on
        3. notify, so that sinks commit
        4. discard those beyond the number to retain
        """
        self._check_taken(id)
        self._tell(now)
        pending = self._pending.pop(id, None)
        if pending is None or pending.step is None:
            too_late = id in self._given_up
            self._given_up.discard(id)
            return [*([Discard((id,))] if too_late else []), *self._settle()]
        self._schedule.checkpoint_ended(self._now)
        self._tolerance.succeeded(id)
        self.statistics.complete(id, self._now, size, full_size, path, **details)
        actions: list[Action] = [Complete(id, pending.step, pending.kind)]
        if self._steps.completed(pending):
            self._schedule.stop()
        if pending.kind.commits:
            older = [p for p in self._checkpoints if p.id < id]
            actions += [self._abort(p, FailureReason.CHECKPOINT_SUBSUMED) for p in older]
            actions.append(NotifyComplete(id))
        if not pending.kind.is_savepoint:
            actions += self._discard(self._retained.add(CompletedCheckpoint(id, pending.step)))
        return actions + self._settle()

    def failed(self, id: int, reason: FailureReason, now: int, message: str = "") -> list[Action]:
        """The checkpoint can't be taken or written."""
        self._check_given(id)
        self._tell(now)
        pending = self._pending.get(id)
        actions = self._fail(pending, reason, message) if pending is not None else []
        self._given_up.discard(id)
        return actions + self._settle()

    # -- inside

    def _tell(self, now: int) -> None:
        self._now = max(self._now, now)

    def _begin_run(self, step: int) -> list[Action]:
        self._active = True
        self._steps = Steps(step)
        self._schedule.start(self._now)
        return self._settle()

    def _settle(self) -> list[Action]:
        """What the time and the free places allow: expire, turn unaligned, begin what waits or is due."""
        actions: list[Action] = []
        for pending in self._checkpoints:
            if self._now >= pending.triggered_at + self.settings.timeout_ms and pending.id in self._pending:
                actions += self._fail(pending, FailureReason.CHECKPOINT_EXPIRED, f"{self.settings.timeout_ms} ms")
        for pending in self._open:
            if pending.turns(self.settings) and self._now >= pending.triggered_at + self.settings.aligned_timeout_ms:
                pending.in_flight = self._steps.running
                actions.append(self._take(pending))
        if self._steps.closed_by_sources(self.settings) or self._steps.stop_done:
            actions += self._reject_waiting(FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING)
        while self._may_begin():
            due = self._schedule.next_at()
            if self._steps.final_wanted:
                self._steps.final_wanted = False
                actions += self._begin(CheckpointKind.CHECKPOINT, None)
            elif self._waiting:
                actions += self._begin(CheckpointKind.CHECKPOINT, self._waiting.pop(0))
            elif due is not None and self._now >= due:
                self._schedule.began(self._now)
                actions += self._begin(CheckpointKind.CHECKPOINT, None)
            else:
                break
        return actions

    def _begin(self, kind: CheckpointKind, request: Any) -> list[Action]:
        pending = Pending(self._next_id, kind, request, self._now)
        self._next_id += 1
        self._pending[pending.id] = pending
        self.statistics.begin(pending.id, kind, self._now)
        actions: list[Action] = [Triggered(pending.id, kind, request)]
        overtakes = self.settings.unaligned and not self.settings.aligned_timeout_ms and not kind.is_savepoint
        if self._steps.running is not None and not overtakes:
            pending.waits_for = self._steps.running
            return actions
        pending.in_flight = self._steps.running
        return [*actions, self._take(pending)]

    def _take(self, pending: Pending) -> Action:
        pending.step = self._steps.sealed
        self.statistics.take(pending.id, pending.step, pending.in_flight, self._now)
        return Take(pending.id, pending.step, pending.kind, pending.in_flight, pending.request)

    def _fail(self, pending: Pending, reason: FailureReason, message: str) -> list[Action]:
        """Abort it, and count it if it counts; one too many fails the job."""
        actions: list[Action] = [self._abort(pending, reason, message)]
        fail_job = self._tolerance.failed(pending.id, pending.kind, reason, message)
        if fail_job is not None:
            actions += [*self._pause(FailureReason.JOB_FAILURE), fail_job]
        return actions

    def _abort(self, pending: Pending, reason: FailureReason, message: str = "") -> Action:
        self._pending.pop(pending.id)
        if pending.step is not None:
            self._given_up.add(pending.id)
        self._schedule.checkpoint_ended(self._now)
        self.statistics.fail(pending.id, self._now, reason, message)
        return NotifyAborted(pending.id, reason, message)

    def _pause(self, reason: FailureReason) -> list[Action]:
        actions: list[Action] = [self._abort(pending, reason) for pending in self._open]
        self._active = False
        self._steps.running = None
        self._schedule.stop()
        return actions + self._reject_waiting(reason)

    def _reject_waiting(self, reason: FailureReason) -> list[Action]:
        waiting, self._waiting = self._waiting, []
        return [Rejected(request, reason) for request in waiting]

    def _discard(self, ids: tuple[int, ...]) -> list[Action]:
        if not ids:
            return []
        self.statistics.discard(ids)
        return [Discard(ids)]

    # -- questions

    @property
    def _open(self) -> list[Pending]:
        return list(self._pending.values())

    @property
    def _checkpoints(self) -> list[Pending]:
        """Those open ones that are no savepoints."""
        return [pending for pending in self._open if not pending.kind.is_savepoint]

    def _may_begin(self) -> bool:
        """Whether there is a place for one more checkpoint that is no savepoint."""
        if not self._active or self.is_stopping or self._steps.closed_by_sources(self.settings):
            return False
        return len(self._checkpoints) < self.settings.max_concurrent

    @property
    def is_stopping(self) -> bool:
        """Whether the job is to stop with a savepoint that has been asked for."""
        return self._steps.stop_done or any(p.kind.ends_job for p in self._open)

    def _check_open(self) -> None:
        if self._stopped:
            raise BeadlineError("The job is over: its checkpoint coordinator can't be started again.")

    def _check_given(self, id: int) -> None:
        if id >= self._next_id:
            raise BeadlineError(f"There is no checkpoint {id}; the next one will be {self._next_id}.")

    def _check_taken(self, id: int) -> None:
        self._check_given(id)
        pending = self._pending.get(id)
        if pending is not None and pending.step is None:
            raise BeadlineError(f"Checkpoint {id} can't be written: step {pending.waits_for} still runs.")
