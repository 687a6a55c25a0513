from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """How a program is run, and with that when its operators emit."""

    STREAMING = 0
    """Step by step, with checkpoints; rolling aggregates emit at every element."""

    BATCH = 1
    """Bounded input only; rolling aggregates emit once per key, at the end."""

    AUTOMATIC = 2
    """BATCH if all sources are bounded, else STREAMING."""
