"""The contract of a sink that stages.

In a step a sink only stages: each subtask writes where nobody looks and reports its pieces in the acknowledgement.
When the step is sealed the driver hands the pieces to the sink's committer. What the committer finds complete becomes
a *committable*: plain data (numbers, text, bytes, lists, dicts) that is stored in the checkpoint and published when the
checkpoint has completed, and again on restore. Publishing is idempotent.
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
    """Lives on the driver. ``publish`` tasks run wherever the master sends them."""

    @abstractmethod
    def sealed(self, pieces: list[Any], now: int, final: bool) -> None:
        """Take the pieces of a sealed step."""

    @abstractmethod
    def due(self, at_checkpoint: bool) -> list[Any]:
        """The committables that are complete now, each handed out once. ``at_checkpoint``: one is being taken."""

    @abstractmethod
    def snapshot(self) -> Any:
        """What has been taken and not handed out, as plain data."""

    @abstractmethod
    def restore(self, snapshot: Any, committables: list[Any]) -> None:
        """Go back to a snapshot; ``committables`` are those of the same checkpoint. What was handed out later is
        undone: its records will come again. Called before anything is staged or published."""

    @abstractmethod
    def make_durable(self, snapshot: Any, committables: list[Any]) -> None:
        """Whatever these refer to must survive a crash of the machine from now on. Runs beside the steps."""

    @abstractmethod
    def publisher(self) -> Callable[[Any], None]:
        """A picklable function that publishes one committable, once or twice with the same result.

        It leaves what was staged alone: the job may have to go back to a checkpoint that needs it."""

    def portable(self, snapshot: Any, committables: list[Any]) -> tuple[Any, list[Any]]:
        """The same for a savepoint, which outlives what is staged: with all data in it. Runs beside the steps."""
        return snapshot, committables

    def tidy(self, needed: list[tuple[Any, list[Any]]], idle: bool) -> None:
        """Remove what was handed out and nobody needs any more.

        :param needed: snapshots and committables that the job may go back to or has not published; a snapshot may be
            None
        :param idle: nothing is being staged, so whatever is neither needed nor taken goes
        """

    def close(self, discard: bool) -> None:
        """The job has ended. ``discard``: nobody will go on from here, remove what is staged."""


class StagedSink(ABC):
    """What the engine asks of a sink."""

    def prepare(self, run: str, epoch: int = 0) -> None:
        """Called on the driver before the first step, and before the plan is shipped.

        :param run: names the sink of this job, the same whenever the job is resumed
        :param epoch: counts the drivers of the job. One that was fenced may not know it yet: what those of later epochs
            wrote must be safe from it
        """

    @abstractmethod
    def stager(self, subtask: int, step: int, now: int) -> Stager:
        """A stager for one subtask and step."""

    @abstractmethod
    def committer(self) -> Committer:
        """The committer of this run."""

    def guarantee(self) -> str:
        """What the sink can give at best, if checkpoints are on: ``exactly-once`` or ``at-least-once``."""
        return "exactly-once"
