"""What the job master's thread is told: everything that happens reaches it through one inbox."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.storage.publishing import Stored
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.errors import BeadlineError


@dataclass(frozen=True)
class StepEnded:
    """A step has ended: ``outcome`` has its acknowledgements, or the error it failed with.

    :ivar execution: the number of the execution whose step it was
    """

    execution: int
    outcome: Future[Any]


@dataclass(frozen=True)
class Prepared:
    """The sinks have made their output for a checkpoint ready: this is what to write."""

    id: int
    snapshot: Snapshot


@dataclass(frozen=True)
class Written:
    """A checkpoint is durable."""

    id: int
    stored: Stored
    savepoint: bool = False


@dataclass(frozen=True)
class NotWritten:
    """A checkpoint could not be made durable."""

    id: int
    error: BaseException
    savepoint: bool = False


@dataclass(frozen=True)
class Published:
    """The output of a completed checkpoint is visible, or could not be made so."""

    id: int
    error: BaseException | None = None


@dataclass(frozen=True)
class Request:
    """A client asks for a checkpoint or a savepoint; ``answer`` gets its path.

    :ivar drain: of a stop with a savepoint: let event time run to its end first
    :ivar format: of a savepoint
    """

    kind: CheckpointKind
    answer: Future[str]
    directory: str | None = None
    drain: bool = False
    format: SavepointFormatType = SavepointFormatType.CANONICAL

    def give(self, path: str) -> None:
        """Answer with the path, unless it was answered before."""
        if not self.answer.done():
            self.answer.set_result(path)

    def fail(self, error: BeadlineError) -> None:
        """Answer with a failure, unless it was answered before."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(frozen=True)
class Suspend:
    """Take a last checkpoint, then end in a way that can be resumed."""


@dataclass(frozen=True)
class Wake:
    """Look around: something was set from outside."""


Event: TypeAlias = StepEnded | Prepared | Written | NotWritten | Published | Request | Suspend | Wake
