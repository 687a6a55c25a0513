"""When a task may start, by the state of its inputs."""

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """A name that Flink's batch scheduler had; kept for programs that import it."""

    #: One input with data is enough.
    ANY = 0

    #: All inputs must have data.
    ALL = 1
