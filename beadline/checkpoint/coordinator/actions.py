"""What the checkpoint coordinator tells the outside to do, and why a checkpoint did not complete."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias


class CheckpointKind(Enum):
    """Who asked for it, and what it is for."""

    CHECKPOINT = "checkpoint"
    """For recovery: taken by the clock or by hand, kept as long as it is among the newest."""

    SAVEPOINT = "savepoint"
    """For people: it belongs to who asked for it, is no recovery point and commits nothing."""

    STOP_WITH_SAVEPOINT = "savepoint on stop"
    """A savepoint after which no step runs; what it holds is committed, then the job ends."""

    CANCEL_WITH_SAVEPOINT = "savepoint on cancel"
    """A savepoint after which no step runs; then the job is cancelled, and commits nothing more."""

    @property
    def is_savepoint(self) -> bool:
        return self is not CheckpointKind.CHECKPOINT

    @property
    def commits(self) -> bool:
        """Whether operators and sinks hear of its completion."""
        return self in (CheckpointKind.CHECKPOINT, CheckpointKind.STOP_WITH_SAVEPOINT)

    @property
    def ends_job(self) -> bool:
        """Whether no step runs after it, and the job ends when it is complete."""
        return self in (CheckpointKind.STOP_WITH_SAVEPOINT, CheckpointKind.CANCEL_WITH_SAVEPOINT)


@dataclass(frozen=True)
class Triggered:
    """A checkpoint has begun; ``request`` is what was given to ``trigger``, ``None`` if the clock asked for it."""

    id: int
    kind: CheckpointKind
    request: Any = None


@dataclass(frozen=True)
class Rejected:
    """A request was refused before it became a checkpoint."""

    request: Any
    reason: FailureReason


@dataclass(frozen=True)
class Take:
    """Write this sealed step, then tell ``written`` or ``failed``. ``in_flight``: the running step it has overtaken."""

    id: int
    step: int
    kind: CheckpointKind
    in_flight: int | None = None
    request: Any = None

    @property
    def unaligned(self) -> bool:
        """Whether the barrier overtook a running step."""
        return self.in_flight is not None


@dataclass(frozen=True)
class Complete:
    """It is complete: tell the caller that asked for it; unless it is a savepoint, it is the newest recovery point."""

    id: int
    step: int
    kind: CheckpointKind


@dataclass(frozen=True)
class NotifyComplete:
    """Tell operators, sinks and sources that it is complete, so that they commit."""

    id: int


@dataclass(frozen=True)
class NotifyAborted:
    """It will not complete: stop writing it, remove its files, tell the caller that asked for it and the operators."""

    id: int
    reason: FailureReason
    message: str = ""


@dataclass(frozen=True)
class Discard:
    """Delete these checkpoints: nothing needs them any more."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class FailJob:
    """Too many checkpoints have failed in a row: the job has to fail, and the restart strategy decides."""

    reason: str


Action: TypeAlias = Triggered | Rejected | Take | Complete | NotifyComplete | NotifyAborted | Discard | FailJob


class FailureReason(Enum):
    """Why a checkpoint failed, was given up, or was never begun. The names are Flink's."""

    CHECKPOINT_DECLINED = "The checkpoint was declined: an operator or a sink could not take its snapshot."
    CHECKPOINT_ASYNC_EXCEPTION = "State or staged output could not be written."
    IO_EXCEPTION = "The checkpoint storage could not be read or written."
    FINALIZE_CHECKPOINT_FAILURE = "The metadata of the checkpoint could not be published."
    CHECKPOINT_EXPIRED = "The checkpoint took longer than its timeout."
    CHECKPOINT_SUBSUMED = "A newer checkpoint completed first."
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
