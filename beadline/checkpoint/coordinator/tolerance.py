"""How many checkpoints may fail in a row before the job does."""

from __future__ import annotations

from beadline.checkpoint.coordinator.actions import CheckpointKind, FailJob
from beadline.checkpoint.coordinator.reasons import FailureReason
from beadline.checkpoint.settings import TOLERABLE_FAILURES

__all__ = ["FailureTolerance"]


class FailureTolerance:
    """Counts the checkpoints that fail in a row, by the reasons that count; a success starts over.

    :param tolerable: how many may fail; ``None`` for any number
    """

    def __init__(self, tolerable: int | None) -> None:
        self.in_row = 0
        self._tolerable = tolerable
        self._last_success = 0

    def succeeded(self, id: int) -> None:
        """A checkpoint or savepoint has completed."""
        self.in_row = 0
        self._last_success = max(self._last_success, id)

    def failed(self, id: int, kind: CheckpointKind, reason: FailureReason, message: str) -> FailJob | None:
        """A checkpoint has failed; gives what to do if it was one too many. After that the count starts over.

        A failure of a checkpoint older than the last success does not count.
        """
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
            f"{row}, and {TOLERABLE_FAILURES} tolerates {self._tolerable}. Checkpoint {id} was the last: {why}"
        )
