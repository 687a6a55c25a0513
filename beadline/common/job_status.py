from __future__ import annotations

from enum import Enum

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """Where a job stands."""

    #: Accepted; nothing runs yet.
    CREATED = 0
    #: Reading and writing.
    RUNNING = 1
    #: Failed for good; what runs is being stopped.
    FAILING = 2
    #: Failed for good.
    FAILED = 3
    #: Being cancelled.
    CANCELLING = 4
    #: Cancelled.
    CANCELED = 5
    #: Came to the end of its input, or was stopped with a savepoint.
    FINISHED = 6
    #: Failed, and going back to the last checkpoint.
    RESTARTING = 7
    #: Stopped here, and may be continued by another master.
    SUSPENDED = 8
    #: Finding out what still runs.
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Whether the job is over, everywhere and for good."""
        return self in _OVER

    def is_terminal_state(self) -> bool:
        """Whether this master does no more for the job; another one may, if it is only suspended."""
        return self in _OVER or self is JobStatus.SUSPENDED


_OVER = frozenset({JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED})
