"""What the checkpoint coordinator keeps in mind: the checkpoints that are open, and how far the execution is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.settings import CheckpointSettings
from beadline.errors import BeadlineError

__all__ = ["OpenCheckpoints", "Pending", "Steps"]


@dataclass
class Pending:
    """A checkpoint that has begun and not ended.

    :ivar waits_for: the step that ran when it was triggered
    :ivar step: the sealed step that it holds, once it is taken
    :ivar in_flight: the step that it has overtaken
    """

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
class OpenCheckpoints:
    """Those that have begun and not ended, by number."""

    _open: dict[int, Pending] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Pending]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, id: int) -> bool:
        return id in self._open

    def get(self, id: int) -> Pending | None:
        return self._open.get(id)

    def add(self, pending: Pending) -> None:
        self._open[pending.id] = pending

    def pop(self, id: int) -> Pending | None:
        return self._open.pop(id, None)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(sorted(self._open))

    @property
    def checkpoints(self) -> list[Pending]:
        """Those that are no savepoints."""
        return [pending for pending in self if not pending.kind.is_savepoint]

    @property
    def last_ones(self) -> list[Pending]:
        """Savepoints with which the job is to stop."""
        return [pending for pending in self if pending.kind.ends_job]


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
