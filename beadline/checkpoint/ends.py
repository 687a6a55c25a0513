"""What can end a job, and what that means for its checkpoints: the one table of it."""

from __future__ import annotations

from enum import Enum

from beadline.common.job_status import JobStatus


class Fate(Enum):
    """What happens to a job's checkpoints when it ends."""

    DELETED = "deleted"
    """Nobody needs them any more."""

    AS_RETENTION_SAYS = "as the retention says"
    """The job's own program or its user ended it: the option decides."""

    KEPT = "kept"
    """Something outside the program ended it, so that it has to go on some time. No option deletes them."""

    UNTOUCHED = "untouched"
    """They are not this run's to delete: it never began, or another driver has the job."""


class End(Enum):
    """Why a job does not run any more, what its client sees, and what happens to its checkpoints. A driver that is
    killed is not among them: it decides nothing, and leaves all that is there."""

    FINISHED = "finished", JobStatus.FINISHED, Fate.DELETED
    """It came to the end of its input."""

    STOPPED = "stopped", JobStatus.FINISHED, Fate.DELETED
    """It was stopped with a savepoint, which belongs to the user."""

    CANCELLED = "cancelled", JobStatus.CANCELED, Fate.AS_RETENTION_SAYS
    """Its client cancelled it, or closed the iterator over its results."""

    FAILED = "failed", JobStatus.FAILED, Fate.AS_RETENTION_SAYS
    """Its program failed, and the restart strategy gave up."""

    SUSPENDED = "suspended", JobStatus.SUSPENDED, Fate.KEPT
    """Its process was told to end: a signal, or the end of the program around it."""

    ENGINE_LOST = "engine lost", JobStatus.FAILED, Fate.KEPT
    """The JVM died, or its SparkContext was stopped."""

    NEVER_BEGAN = "never began", JobStatus.FAILED, Fate.UNTOUCHED
    """It could not start, its program does not fit the snapshot that it was to go on from, or it was resumed and failed
    before it had sealed a step."""

    FENCED = "fenced", JobStatus.FAILED, Fate.UNTOUCHED
    """Another driver has taken over the job."""

    def __init__(self, text: str, status: JobStatus, checkpoints: Fate) -> None:
        self.text = text
        self.status = status
        self.checkpoints = checkpoints

    def __repr__(self) -> str:
        return f"<End {self.text}: checkpoints are {self.checkpoints.value}>"
