"""What the checkpoint coordinator is made of: the checkpoints that are open or to go back to, how far the execution is,
when the clock asks for the next one, and how many may fail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from beadline.checkpoint.coordinator.actions import CheckpointKind, FailJob, FailureReason
from beadline.checkpoint.settings import CheckpointSettings, Key
from beadline.errors import BeadlineError


@dataclass
class Pending:
    """An open checkpoint. It ``waits_for`` the running step, or has overtaken it, and then holds the sealed
    ``step``."""

    id: int
    kind: CheckpointKind
    request: Any
    triggered_at: int
    waits_for: int | None = None
    step: int | None = None
    in_flight: int | None = None

    def turns(self, settings: CheckpointSettings) -> bool:
        """Whether it waits for the running step, and will overtake that step when the alignment timeout is over."""
        return settings.unaligned and self.step is None and not self.kind.is_savepoint


@dataclass
class Steps:
    """How far the execution is.

    :ivar sealed: the last sealed step
    :ivar running: the step that runs
    :ivar source_finished: a source has come to its end while others go on
    :ivar final: the job's last step, once it is sealed
    :ivar final_wanted: the last step needs a checkpoint, which has not begun
    :ivar final_done: a checkpoint that holds the last step is complete
    :ivar stop_done: the savepoint to stop with is complete
    """

    sealed: int = 0
    running: int | None = None
    source_finished: bool = False
    final: int | None = None
    final_wanted: bool = False
    final_done: bool = False
    stop_done: bool = False

    def start(self, step: int, holds: bool) -> None:
        """:param holds: no step may start"""
        if self.running is not None or step <= self.sealed:
            raise BeadlineError(
                f"Step {step} can't start: step {self.running} runs and step {self.sealed} is the last sealed one."
            )
        if holds:
            raise BeadlineError(f"Step {step} can't start after the savepoint with which the job is to stop.")
        self.running = step

    def seal(self, step: int) -> None:
        if step != self.running:
            raise BeadlineError(f"Step {step} is sealed, but it is step {self.running} that runs.")
        self.running, self.sealed = None, step

    def closed_by_sources(self, settings: CheckpointSettings) -> bool:
        """Whether no more checkpoints are taken, because a source has come to its end."""
        return (self.source_finished or self.final is not None) and not settings.after_tasks_finish

    def completed(self, checkpoint: Pending) -> bool:
        """A checkpoint is complete: was it the last one of the job?"""
        if checkpoint.kind.commits and self.final is not None and checkpoint.step == self.final:
            self.final_done, self.final_wanted = True, False
        self.stop_done = self.stop_done or checkpoint.kind.ends_job
        return self.final_done or self.stop_done


@dataclass(frozen=True)
class CompletedCheckpoint:
    """A checkpoint to go back to, and the sealed step that it holds."""

    id: int
    step: int


class RetainedCheckpoints:
    """The newest completed checkpoints; those beyond, or that the job has gone back from, go when a newer one
    completes."""

    def __init__(self, number: int, checkpoints: Iterable[CompletedCheckpoint] = ()) -> None:
        self._number = number
        self._kept = sorted(checkpoints, key=lambda checkpoint: checkpoint.id)
        self._left_behind: list[int] = []

    @property
    def kept(self) -> tuple[CompletedCheckpoint, ...]:
        """Oldest first."""
        return tuple(self._kept)

    @property
    def latest(self) -> CompletedCheckpoint | None:
        return self._kept[-1] if self._kept else None

    def add(self, checkpoint: CompletedCheckpoint) -> tuple[int, ...]:
        """Keep a new one; returns the ids that nothing needs any more."""
        self._kept.append(checkpoint)
        surplus = [old.id for old in self._kept[: -self._number]]
        self._kept = self._kept[-self._number :]
        gone, self._left_behind = sorted(self._left_behind + surplus), []
        return tuple(gone)

    def go_back(self, id: int | None) -> None:
        """Those newer than ``id`` no longer count; if it is ``None``, none does."""
        newer = [checkpoint.id for checkpoint in self._kept if id is None or checkpoint.id > id]
        self._left_behind += newer
        self._kept = [checkpoint for checkpoint in self._kept if checkpoint.id not in newer]

    def clear(self) -> tuple[int, ...]:
        """Keep none; returns all ids."""
        gone = sorted(self._left_behind + [checkpoint.id for checkpoint in self._kept])
        self._kept, self._left_behind = [], []
        return tuple(gone)


class Schedule:
    """A checkpoint every ``period_ms``, None for never; later if the pause after the last one is not over. The first
    comes after a whole period: a job that fails at once has nothing to save, and equal runs are alike."""

    def __init__(self, period_ms: int | None, min_pause_ms: int) -> None:
        self._period = period_ms
        self._pause = min_pause_ms
        self._due: int | None = None
        self._last_end: int | None = None

    def start(self, now: int) -> None:
        self._due = None if self._period is None else now + self._period

    def stop(self) -> None:
        self._due = None

    def checkpoint_ended(self, now: int) -> None:
        """A checkpoint has ended, in whatever way: the pause begins, also after a failure, to spare the storage."""
        self._last_end = now

    def next_at(self) -> int | None:
        """When the next one may begin, if there is a place for it then."""
        if self._due is None or self._last_end is None:
            return self._due
        return max(self._due, self._last_end + self._pause)

    def began(self, now: int) -> None:
        """The one that was due has begun. Times stay on a grid; it moves if a whole period was missed."""
        if self._period is None or self._due is None:
            return
        following = self._due + self._period
        self._due = following if following > now else now + self._period


class FailureTolerance:
    """Counts the checkpoints that fail in a row, by the reasons that count; ``tolerable`` is None for any number."""

    def __init__(self, tolerable: int | None) -> None:
        self.in_row = 0
        self._tolerable = tolerable
        self._last_success = 0

    def succeeded(self, id: int) -> None:
        """A checkpoint or savepoint has completed."""
        self.in_row = 0
        self._last_success = max(self._last_success, id)

    def failed(self, id: int, kind: CheckpointKind, reason: FailureReason, message: str) -> FailJob | None:
        """A checkpoint has failed; gives what to do if it was one too many. One older than the last success does not
        count."""
        counts = reason.counts_for_savepoints if kind.is_savepoint else reason.counts
        if not counts or id < self._last_success:
            return None
        self.in_row += 1
        if self._tolerable is None or self.in_row <= self._tolerable:
            return None
        row = "1 checkpoint failed" if self.in_row == 1 else f"{self.in_row} checkpoints failed in a row"
        self.in_row = 0
        why = f"{reason.value} {message}".strip()
        return FailJob(
            f"{row}, and {Key.TOLERABLE_FAILURES} tolerates {self._tolerable}. Checkpoint {id} was the last: {why}"
        )
