"""What the job master's thread is told: everything that happens reaches it through one inbox, in its order."""

from __future__ import annotations

import contextlib
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.coordinator.statistics import OperatorSizes
from beadline.checkpoint.storage.publishing import Stored
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.errors import BeadlineError, ConfigurationError
from beadline.master.upkeep.views import View

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class StepEnded:
    """A step of an execution has ended: ``outcome`` has its acknowledgements, or the error it failed with."""

    execution: int
    outcome: Future[Any]


@dataclass(frozen=True)
class Prepared:
    """The sinks have made their output for a checkpoint ready: this is what to write."""

    id: int
    snapshot: Snapshot


@dataclass(frozen=True)
class Written:
    """A checkpoint is durable; ``operators``: what it holds of each, for people."""

    id: int
    stored: Stored
    savepoint: bool = False
    operators: tuple[OperatorSizes, ...] = ()


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
class StepPublished:
    """The output of a sealed step that waits for no checkpoint is visible, or could not be made so.

    :ivar number: of the publication
    :ivar published: the outputs with what was published of them
    """

    number: int
    published: list[tuple[Any, Any]]
    error: BaseException | None = None


class Question(Generic[Answer]):
    """What a client waits for an answer to."""

    answer: Future[Answer]

    def give(self, answer: Answer) -> None:
        """Answer it, unless it was answered before."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: BeadlineError) -> None:
        """Answer with a failure, unless it was answered before."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(frozen=True)
class Request(Question[str]):
    """A client asks for a checkpoint or savepoint; ``answer`` gets its path. ``drain``: event time ends first."""

    kind: CheckpointKind
    answer: Future[str]
    directory: str | None = None
    drain: bool = False
    format: SavepointFormatType = SavepointFormatType.CANONICAL


@dataclass(frozen=True)
class Look(Question[View]):
    """A client wants to look at the last sealed step; its files stay for so many seconds."""

    answer: Future[View]
    seconds: float


@dataclass(frozen=True)
class Suspend:
    """Take a last checkpoint, then end in a way that can be resumed."""


@dataclass(frozen=True)
class Wake:
    """Look around: something was set from outside."""


Event: TypeAlias = (
    StepEnded | Prepared | Written | NotWritten | Published | StepPublished | Request | Look | Suspend | Wake
)


class Inbox:
    """Any thread puts events in; the job master's thread takes them out."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._postponed: deque[Event] = deque()

    def put(self, event: Event) -> None:
        self._events.put(event)

    def next(self, patience: float | None = None) -> Event | None:
        """What has happened; waits for it so many seconds, None for not at all."""
        if self._postponed:
            return self._postponed.popleft()
        with contextlib.suppress(Empty):
            if patience is None:
                return self._events.get_nowait()
            return self._events.get(timeout=max(0.001, patience))
        return None

    def postpone(self, patience: float) -> None:
        """Wait a while for an event, and leave it for later."""
        with contextlib.suppress(Empty):
            self._postponed.append(self._events.get(timeout=patience))

    def refuse(self, why: str) -> None:
        """Refuse what clients still wait for: nobody will answer them."""
        while (event := self.next()) is not None:
            if isinstance(event, Question):
                event.fail(ConfigurationError(why))
