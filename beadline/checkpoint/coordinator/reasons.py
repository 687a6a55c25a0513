"""Why a checkpoint did not complete: one sentence each, the same wherever it is shown."""

from __future__ import annotations

from enum import Enum

__all__ = ["FailureReason"]


class FailureReason(Enum):
    """Why a checkpoint failed, was given up, or was never begun. The names are Flink's."""

    CHECKPOINT_DECLINED = "The checkpoint was declined: an operator or a sink could not take its snapshot."
    CHECKPOINT_ASYNC_EXCEPTION = "State or staged output could not be written."
    IO_EXCEPTION = "The checkpoint storage could not be read or written."
    FINALIZE_CHECKPOINT_FAILURE = "The metadata of the checkpoint could not be published."
    CHECKPOINT_EXPIRED = "The checkpoint took longer than its timeout."
    CHECKPOINT_SUBSUMED = "A newer checkpoint completed first."
    CHECKPOINT_COORDINATOR_SUSPEND = "Checkpoints are suspended."
    CHECKPOINT_COORDINATOR_SHUTDOWN = "The job has ended."
    JOB_FAILURE = "The job failed."
    NOT_ALL_REQUIRED_TASKS_RUNNING = "The job is not running, or a source of it has finished."
    TOO_MANY_CHECKPOINT_REQUESTS = "Too many checkpoints are waiting to be taken."

    @property
    def counts(self) -> bool:
        """Whether it counts against the number of checkpoints in a row that may fail."""
        return self in _COUNT

    @property
    def counts_for_savepoints(self) -> bool:
        """Whether it counts even if a savepoint failed: it happened in a task, so the job may have a problem."""
        return self in _COUNT_FOR_SAVEPOINTS


_COUNT_FOR_SAVEPOINTS = {FailureReason.CHECKPOINT_DECLINED, FailureReason.CHECKPOINT_ASYNC_EXCEPTION}
_COUNT = _COUNT_FOR_SAVEPOINTS | {
    FailureReason.IO_EXCEPTION,
    FailureReason.FINALIZE_CHECKPOINT_FAILURE,
    FailureReason.CHECKPOINT_EXPIRED,
}
