from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """What happens to the checkpoints when the job is cancelled or its program fails."""

    DELETE_ON_CANCELLATION = 0
    """They are deleted when the job is cancelled, and kept after a failure."""

    RETAIN_ON_CANCELLATION = 1
    """They are kept, to start another run from; deleting them is up to you."""

    NO_EXTERNALIZED_CHECKPOINTS = 2
    """They are deleted in both cases."""
