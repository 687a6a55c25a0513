"""A job that drives a checkpoint coordinator, and a referee that judges every action by the rules.

The referee knows nothing of the coordinator's inside. It keeps the history of each checkpoint and says, for every
event, which actions are allowed, and afterwards what must not have been left undone.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from beadline.checkpoint.coordinator.actions import (
    Action,
    CheckpointKind,
    Complete,
    Discard,
    FailJob,
    FailureReason,
    NotifyAborted,
    NotifyComplete,
    Rejected,
    Take,
    Triggered,
)
from beadline.checkpoint.coordinator.coordinator import CheckpointCoordinator
from beadline.checkpoint.coordinator.statistics import CheckpointStatus
from beadline.checkpoint.ends import End
from beadline.checkpoint.settings import CheckpointSettings

COUNTED = {"CHECKPOINT_DECLINED", "CHECKPOINT_ASYNC_EXCEPTION", "IO_EXCEPTION", "FINALIZE_CHECKPOINT_FAILURE"}
COUNTED |= {"CHECKPOINT_EXPIRED"}
COMMIT = {"CHECKPOINT", "STOP_WITH_SAVEPOINT"}
ENDS_JOB = {CheckpointKind.STOP_WITH_SAVEPOINT, CheckpointKind.CANCEL_WITH_SAVEPOINT}
COUNTED_FOR_SAVEPOINTS = {"CHECKPOINT_DECLINED", "CHECKPOINT_ASYNC_EXCEPTION"}


@dataclass
class History:
    """All that happened to one checkpoint."""

    kind: CheckpointKind
    at: int
    ran: int | None
    sealed: int
    take: Take | None = None
    end: str | None = None

    @property
    def savepoint(self) -> bool:
        return self.kind is not CheckpointKind.CHECKPOINT


@dataclass
class World:
    """A job. Its methods are what can happen; each one asks the coordinator and judges the answer."""

    settings: CheckpointSettings
    now: int = 0
    active: bool = False
    step: int = 0
    sealed: int = 0
    running: int | None = None
    final: int | None = None
    final_owed: bool = False
    over: bool = False
    source_finished: bool = False
    stop_saved: bool = False
    grid: int | None = None
    last_end: int | None = None
    in_row: int = 0
    last_success: int = 0
    known: dict[int, History] = field(default_factory=dict)
    requests: dict[int, str] = field(default_factory=dict)
    kept: list[tuple[int, int]] = field(default_factory=list)
    left_behind: list[int] = field(default_factory=list)
    notified: list[int] = field(default_factory=list)
    unwritten: set[int] = field(default_factory=set)
    story: list[tuple[int, str, list[Action]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.coordinator = CheckpointCoordinator(self.settings)

    # -- what can happen

    def start(self) -> None:
        self._event("start", self.coordinator.start(self.now), starts=0)

    def pass_time(self, ms: int) -> None:
        self.now += ms
        self._event("tick", self.coordinator.tick(self.now))

    def sleep_until_woken(self) -> None:
        """The clock is asked exactly when the coordinator wanted to be, and not a moment before."""
        at = self.coordinator.next_wakeup(self.now)
        if at is None:
            return
        assert at >= self.now
        if at > self.now:
            early = copy.deepcopy(self.coordinator)
            assert early.tick(at - 1) == [], "there was something to do before the time it named"
        self.now = at
        actions = self.coordinator.tick(at)
        assert actions, "nothing to do at the time it named"
        self._event("tick", actions)

    def start_step(self) -> None:
        if self.active and self.running is None and self.final is None and not self.coordinator.holds:
            self.step += 1
            actions = self.coordinator.step_started(self.step, self.now)
            self.running = self.step
            self._event(f"step {self.step} starts", actions)

    def seal_step(self, final: bool) -> None:
        if self.running is None:
            return
        step, self.running, self.sealed = self.running, None, self.running
        actions = self.coordinator.step_sealed(step, self.now, final)
        self.final = step if final else None
        self._event(f"step {step} sealed, final: {final}", actions, sealed=step)

    def finish_source(self) -> None:
        if self.active:
            self.source_finished = True
            self._event("source finished", self.coordinator.source_finished(self.now))

    def ask(self, kind: CheckpointKind) -> None:
        request = len(self.requests)
        self.requests[request] = "waiting"
        self._event(f"ask for {kind.name}", self.coordinator.trigger(self.now, kind, request))

    def write(self, pick: int) -> None:
        ids = sorted(self.unwritten)
        if ids:
            id = ids[pick % len(ids)]
            self.unwritten.discard(id)
            was_open = self.known[id].end is None
            actions = self.coordinator.written(id, self.now, size=id)
            if not was_open:
                assert actions[0] == Discard((id,)), "what came too late must be removed"
                actions = actions[1:]
            self._event(f"{id} written", actions, written=id if was_open else None)

    def fail(self, pick: int, reason: FailureReason) -> None:
        ids = [id for id, history in self.known.items() if history.end is None]
        if ids:
            id = ids[pick % len(ids)]
            self.unwritten.discard(id)
            self._event(f"{id} fails", self.coordinator.failed(id, reason, self.now), failed=(id, reason))

    def crash(self) -> None:
        if self.active:
            self.running = None
            self._event("crash", self.coordinator.job_failed(self.now), sweeps=FailureReason.JOB_FAILURE)

    def restore(self, pick: int) -> None:
        """Back to one of the completed checkpoints, mostly the newest, or to the beginning."""
        if self.active or self.over:
            return
        newest_first = self.kept[::-1]
        id, step = newest_first[pick % len(newest_first)] if newest_first and pick < 8 else (None, 0)
        actions = self.coordinator.restored(id, self.now, step)
        self.left_behind += [other for other, _ in self.kept if id is None or other > id]
        self.kept = [(other, at) for other, at in self.kept if id is not None and other <= id]
        self._event(f"restored {id}", actions, starts=step)

    def stop(self, end: End) -> None:
        gone = [] if self.settings.retention.keeps(end) else sorted([*self.left_behind, *(i for i, _ in self.kept)])
        actions = self.coordinator.stop(self.now, end)
        self.over = True
        if gone:
            self.kept, self.left_behind = [], []
        self._event("stop", actions, sweeps=FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, discards=gone)
        assert all(history.end for history in self.known.values()), "something never ended"
        assert "waiting" not in self.requests.values(), "somebody waits in vain"
        statistics = self.coordinator.statistics
        completed = sum(history.end == "completed" for history in self.known.values())
        assert (statistics.triggered, statistics.completed) == (len(self.known), completed)
        assert statistics.failed == len(self.known) - completed
        for stats in statistics:
            assert (stats.status is CheckpointStatus.COMPLETED) == (self.known[stats.id].end == "completed")

    # -- the rules

    def _event(
        self,
        name: str,
        actions: list[Action],
        *,
        starts: int | None = None,
        sealed: int | None = None,
        written: int | None = None,
        failed: tuple[int, FailureReason] | None = None,
        sweeps: FailureReason | None = None,
        discards: list[int] | None = None,
    ) -> None:
        self.story.append((self.now, name, actions))
        if sweeps is not None:
            self.active, self.grid = False, None
        if starts is not None:
            self._begin_run(starts)
        fails_job = any(isinstance(action, FailJob) for action in actions)
        for place, action in enumerate(actions):
            if sealed is not None and not isinstance(action, Take):
                self._owe_final(sealed)
                sealed = None
            if isinstance(action, Triggered):
                self._judge_trigger(action)
            elif isinstance(action, Rejected):
                assert self.requests[action.request] == "waiting"
                self.requests[action.request] = "rejected"
            elif isinstance(action, Take):
                self._judge_take(action, sealed)
            elif isinstance(action, Complete):
                assert action.id == written, "only what is written completes"
                discards = self._complete(action)
            elif isinstance(action, NotifyComplete):
                assert self.known[action.id].end == "completed"
                assert self.known[action.id].kind.name in COMMIT, "a savepoint commits nothing"
                assert not self.notified or action.id > self.notified[-1], "in order, and once"
                self.notified.append(action.id)
            elif isinstance(action, NotifyAborted):
                self._judge_abort(action, written, failed, FailureReason.JOB_FAILURE if fails_job else sweeps)
            elif isinstance(action, Discard):
                assert list(action.ids) == discards, "exactly those that nothing needs"
                discards = None
            else:
                assert self.in_row > (self.settings.tolerable_failures or 0)
                assert place == len(actions) - 1
                self.in_row, self.active, self.running, self.grid = 0, False, None, None
        if sealed is not None:
            self._owe_final(sealed)
        assert not discards, f"{discards} should have been discarded"
        if written is not None:
            history = self.known[written]
            assert history.end == "completed", "what is written in time completes"
            assert (written in self.notified) == (history.kind.name in COMMIT)
        assert failed is None or self.known[failed[0]].end is not None
        self._judge_what_is_left()

    def _begin_run(self, step: int) -> None:
        self.active, self.running, self.final, self.final_owed = True, None, None, False
        self.sealed = self.step = step
        self.source_finished = self.stop_saved = False
        period = self.settings.interval_ms
        self.grid = None if period is None else self.now + max(period, self.settings.min_pause_ms)

    def _owe_final(self, sealed: int) -> None:
        """The takes of those who waited for the step are through: is a checkpoint of the final step still missing?"""
        if sealed == self.final and self.settings.interval_ms is not None and self.settings.after_tasks_finish:
            self.final_owed = not any(history.end is None for history in self._of_final_step())

    def _judge_trigger(self, action: Triggered) -> None:
        assert self.active
        assert action.id == len(self.known) + 1, "ids go up by one"
        assert not self._closed()
        open_ones = self._open()
        if action.request is not None:
            assert self.requests[action.request] == "waiting"
            self.requests[action.request] = "triggered"
        if action.kind is CheckpointKind.CHECKPOINT:
            assert sum(not history.savepoint for history in open_ones.values()) < self.settings.max_concurrent
            assert not self._stopping()
            if action.request is None and self.final_owed:
                self.final_owed = False
            elif action.request is None:
                assert self.grid is not None
                assert self.now >= self.grid, "not before it is due"
                assert self.last_end is None or self.now - self.last_end >= self.settings.min_pause_ms
                period = max(self.settings.interval_ms or 0, self.settings.min_pause_ms)
                on_grid = self.grid + period
                self.grid = on_grid if on_grid > self.now else self.now + period
        self.known[action.id] = History(action.kind, self.now, self.running, self.sealed)

    def _judge_take(self, action: Take, sealed: int | None) -> None:
        history = self.known[action.id]
        assert history.end is None
        assert history.take is None
        waited = self.now - history.at
        if history.ran is None:
            assert (action.step, action.in_flight) == (history.sealed, None), "all that was read is sealed"
        elif action.in_flight is not None:
            assert self.settings.unaligned
            assert not history.savepoint
            assert waited >= self.settings.aligned_timeout_ms
            assert (action.step, action.in_flight) == (history.sealed, history.ran)
        else:
            assert action.step == history.ran == sealed, "the step that ran"
        history.take = action
        self.unwritten.add(action.id)

    def _complete(self, action: Complete) -> list[int]:
        """Note it; returns what has to be discarded."""
        history = self.known[action.id]
        assert history.end is None
        assert history.take is not None
        assert action.step == history.take.step
        history.end = "completed"
        self.last_end, self.in_row = self.now, 0
        self.last_success = max(self.last_success, action.id)
        if history.kind in ENDS_JOB:
            self.stop_saved, self.grid = True, None
        if history.kind.name in COMMIT and action.step == self.final:
            self.grid, self.final_owed = None, False
        if history.savepoint:
            return []
        self.kept.append((action.id, action.step))
        gone = sorted([*self.left_behind, *(id for id, _ in self.kept[: -self.settings.retained])])
        self.kept, self.left_behind = self.kept[-self.settings.retained :], []
        return gone

    def _judge_abort(
        self,
        action: NotifyAborted,
        written: int | None,
        failed: tuple[int, FailureReason] | None,
        sweeps: FailureReason | None,
    ) -> None:
        history = self.known[action.id]
        assert history.end is None, "one end only"
        if failed == (action.id, action.reason):
            pass
        elif action.reason is FailureReason.CHECKPOINT_SUBSUMED:
            assert written is not None
            assert action.id < written
            assert not history.savepoint
            assert self.known[written].kind.name in COMMIT
        elif action.reason is FailureReason.CHECKPOINT_EXPIRED:
            assert self.now - history.at >= self.settings.timeout_ms
            assert not history.savepoint, "savepoints take as long as they take"
        else:
            assert action.reason is sweeps
        history.end = action.reason.name
        self.last_end = self.now
        counted = COUNTED_FOR_SAVEPOINTS if history.savepoint else COUNTED
        if action.reason.name in counted and action.id > self.last_success:
            self.in_row += 1

    def _judge_what_is_left(self) -> None:
        """Nothing is left undone that could be done now."""
        open_ones = self._open()
        assert self.coordinator.pending == tuple(open_ones)
        assert [(c.id, c.step) for c in self.coordinator.completed] == self.kept
        if not self.active:
            assert not open_ones
            assert "waiting" not in self.requests.values()
            return
        saved = (
            any(history.end == "completed" for history in self._of_final_step()) or self.settings.interval_ms is None
        )
        ended = self.final is not None and (saved or not self.settings.after_tasks_finish)
        assert self.coordinator.may_end == (not open_ones and (ended or self.stop_saved))
        assert self.settings.tolerable_failures is None or self.in_row <= self.settings.tolerable_failures
        for history in open_ones.values():
            assert history.savepoint or self.now - history.at < self.settings.timeout_ms
            if history.take is None:
                assert self.running == history.ran is not None
                in_time = self.now - history.at < self.settings.aligned_timeout_ms
                assert history.savepoint or not self.settings.unaligned or in_time
        assert not (self.stop_saved or self._closed()) or "waiting" not in self.requests.values(), "it waits in vain"
        newest = max((id for id, h in self.known.items() if h.end == "completed" and h.kind.commits), default=0)
        assert all(id > newest or h.savepoint for id, h in open_ones.items()), "older ones are subsumed"
        places = self.settings.max_concurrent - sum(not history.savepoint for history in open_ones.values())
        if places > 0 and not self._stopping() and not self._closed():
            assert "waiting" not in self.requests.values(), "there is a place"
            assert not self.final_owed, "the final step has no checkpoint"
            pause_over = self.last_end is None or self.now - self.last_end >= self.settings.min_pause_ms
            assert self.grid is None or self.now < self.grid or not pause_over, "one is due"

    def _open(self) -> dict[int, History]:
        return {id: history for id, history in self.known.items() if history.end is None}

    def _closed(self) -> bool:
        return not self.settings.after_tasks_finish and (self.source_finished or self.final is not None)

    def _stopping(self) -> bool:
        return self.stop_saved or any(history.kind in ENDS_JOB for history in self._open().values())

    def _of_final_step(self) -> list[History]:
        return [
            history
            for history in self.known.values()
            if history.take is not None and history.take.step == self.final and history.kind.commits
        ]


def tell(world: World) -> str:
    """The whole story, for the message of a failed test."""
    return "\n".join([repr(world.settings), *(f"{now}: {event} -> {actions}" for now, event, actions in world.story)])
