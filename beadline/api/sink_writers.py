"""Sinks of a writer and a committer, as Flink's Sink V2."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, NamedTuple

from beadline.api.sinks import SinkContext


class WriterContext(NamedTuple):
    """What a writer is told about itself.

    :ivar transaction_id: unique for each writer; those of one sink begin alike
    """

    subtask: int
    transaction_id: str

    def get_subtask_id(self) -> int:
        return self.subtask


class SinkWriter(ABC):
    """Writes the records of one subtask for one checkpoint, or step."""

    @abstractmethod
    def write(self, element: Any, context: SinkContext) -> None:
        """Write one record, perhaps to a buffer."""

    @abstractmethod
    def flush(self, end_of_input: bool) -> None:
        """Come back when everything that was written is safe, though perhaps invisible."""

    def prepare_commit(self) -> Collection[Any]:
        """What the committer needs to make it visible: any number of *committables*, plain data."""
        return []

    def close(self) -> None:
        """The writer is not needed any more. What was prepared must stay ready."""


class CommitRequest:
    """One committable, and what the committer says about it; if it says nothing, it is committed.

    :ivar tries: how often it was tried before
    """

    def __init__(self, committable: Any, tries: int = 0) -> None:
        self._committable = committable
        self.tries = tries
        self.verdict: str | None = None
        self.error: BaseException | None = None

    def get_committable(self) -> Any:
        return self._committable

    def get_number_of_retries(self) -> int:
        return self.tries

    def signal_already_committed(self) -> None:
        """It was committed before."""
        self.verdict = "committed"

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """It can't be committed, and the job is to go on without it. The reason is logged."""
        self.verdict, self.error = "given up", error

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """It could not be committed: the job fails."""
        self.verdict, self.error = "failed", error

    def signal_aborted(self) -> None:
        """Nothing of it is visible, and nothing ever will be: write the records again. Beyond Flink."""
        self.verdict = "aborted"

    def retry_later(self) -> None:
        """Try it again in a while."""
        self.verdict = "later"

    def update_and_retry_later(self, committable: Any) -> None:
        """The same, with another committable."""
        self._committable, self.verdict = committable, "later"


class Committer(ABC):
    """Makes visible what writers prepared. Committing twice must be the same as once."""

    @abstractmethod
    def commit(self, committables: Collection[CommitRequest]) -> None:
        """Commit all, and say of each what has become of it."""

    def close(self) -> None:
        """It is not needed any more."""


class WriterSink:
    """A sink that a program writes itself: ``stream.sink_to(sink)``.

    Without a committer records are written when a step is sealed, at least once. With one they are written before a
    checkpoint and become visible when it has completed, exactly once.
    """

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """A writer for one subtask and checkpoint."""
        raise NotImplementedError(f"{type(self).__name__} has no create_writer()")

    def create_committer(self) -> Committer | None:
        """What makes visible what the writers prepared; None if they make it visible themselves."""
        return None

    def list_open(self, prefix: str) -> Collection[tuple[str, Any]]:
        """Ids and committables of what writers prepared whose ``transaction_id`` begins with this, and is not
        finished."""
        return []

    def abort(self, committable: Any) -> None:
        """It must never become visible; it may be gone."""
