"""The completed checkpoints that a job can go back to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["CompletedCheckpoint", "RetainedCheckpoints"]


@dataclass(frozen=True)
class CompletedCheckpoint:
    """A checkpoint to go back to, and the sealed step that it holds."""

    id: int
    step: int


class RetainedCheckpoints:
    """The newest completed checkpoints, and those that no longer count because the job went back further.

    None is discarded before a newer checkpoint has completed, or the job has ended.
    """

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

    def find(self, id: int | None) -> CompletedCheckpoint | None:
        return next((checkpoint for checkpoint in self._kept if checkpoint.id == id), None)

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
