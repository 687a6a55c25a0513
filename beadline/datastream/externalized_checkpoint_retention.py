"""What becomes of a job's checkpoints when it is cancelled."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """What becomes of the checkpoints when the job is cancelled. After a failure they are always kept."""

    DELETE_ON_CANCELLATION = 0
    """They are deleted."""

    RETAIN_ON_CANCELLATION = 1
    """They are kept, to start another run from; deleting them is up to you."""

    NO_EXTERNALIZED_CHECKPOINTS = 2
    """They serve the running job only and go with it, however it ends."""
