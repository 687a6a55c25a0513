from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """How often a record may be reflected in the state after a failure."""

    EXACTLY_ONCE = 0
    """As if no failure had happened: every record counts once."""

    AT_LEAST_ONCE = 1
    """No record is lost, some may count twice."""
