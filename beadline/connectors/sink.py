"""The contract of a sink that stages.

In a step a sink only stages: each subtask writes where nobody looks and reports its pieces in the acknowledgement.
When the step is sealed the driver hands the pieces to the sink's committer, which decides what to publish and when.
Publishing is idempotent: it may be asked for twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class Stager(ABC):
    """Takes the records of one sink subtask in one step. Runs in tasks."""

    @abstractmethod
    def write(self, records: list[Any], timestamps: list[int] | None) -> None:
        """Stage records; nothing may become visible."""

    @abstractmethod
    def finish(self) -> list[Any]:
        """The pieces that were staged, as plain data."""


class Committer(ABC):
    """Lives on the driver for one run. ``publish`` tasks run wherever the master sends them."""

    @abstractmethod
    def sealed(self, pieces: list[Any], now: int, final: bool) -> list[Any]:
        """Take the pieces of a sealed step; gives the publications that are due."""

    @abstractmethod
    def publisher(self) -> Callable[[Any], None]:
        """A picklable function that carries out one publication, once or twice with the same result."""

    def close(self) -> None:
        """Remove what was staged and never published."""


class StagedSink(ABC):
    """What the engine asks of a sink."""

    def prepare(self, run: str) -> None:
        """Called on the driver before the first step, and before the plan is shipped."""

    @abstractmethod
    def stager(self, subtask: int, step: int, now: int) -> Stager:
        """A stager for one subtask and step."""

    @abstractmethod
    def committer(self) -> Committer:
        """The committer of this run."""
