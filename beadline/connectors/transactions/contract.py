"""What a system outside must be able to do for a sink.

In a step records become *rows*, which are staged in the job's folder. What happens to them then depends on the system:

- with :class:`Transactions`, the rows of a checkpoint are written in one transaction for each subtask before the
  checkpoint is written, which holds the transaction's handle. When it has completed the transaction is committed. A
  transaction that was aborted meanwhile loses nothing: its rows are still staged, and are written in a new one.
- with a :class:`Log`, the rows are appended when the checkpoint has completed, and again if nobody knows whether they
  were.

Rows are plain data: what :func:`beadline.state.codec.loads` reads. Objects of both kinds are picklable, and are used on
the driver and in tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple

#: Records and their timestamps, if they have any, as rows.
Encoder = Callable[[list[Any], list[int] | None], list[Any]]


class Fate(Enum):
    """What has become of a transaction that was pre-committed."""

    COMMITTED = "committed"
    #: Nothing of it is visible, and nothing ever will be.
    ABORTED = "aborted"


class Transactions(ABC):
    """A system whose transactions any process can finish."""

    def check(self) -> None:
        """Called on the driver before the first step: raise if the system can't keep the promise."""

    @abstractmethod
    def write(self, id: str, batches: Iterator[list[Any]]) -> Any:
        """Write rows in a new transaction, and pre-commit it: durable, invisible, and any process can commit it.

        Each attempt has an id of its own, and gets at least one row. If it fails, it aborts as well as it can.

        :returns: what :meth:`commit` needs, as plain data
        """

    @abstractmethod
    def commit(self, handle: Any) -> Fate:
        """Commit, unless that was done before. What may pass is tried again for a while, and is an OSError then.

        :raises beadline.errors.TransactionUnknownError: nobody can tell any more whether it was committed
        """

    def recover(self, handle: Any) -> Fate:
        """The same, for a transaction of a job that has gone back to a checkpoint, or of an earlier driver."""
        return self.commit(handle)

    @abstractmethod
    def abort(self, handle: Any) -> None:
        """It must never become visible; if it is gone, nothing happens."""

    def list_open(self, prefix: str) -> list[str]:
        """The ids that begin with this of transactions that are not finished."""
        return []

    def abort_open(self, id: str) -> None:
        """Abort a transaction whose handle nobody has. Its writer may still be alive, and must not go on."""


class Entry(NamedTuple):
    """Names what is appended to a log.

    :ivar writer: the sink of this job, the same whenever the job is resumed
    :ivar subtask: of the sink
    :ivar number: grows from entry to entry of a subtask, and always means the same rows
    """

    writer: str
    subtask: int
    number: int


class Log(ABC):
    """A system that is only appended to.

    :ivar exactly_once: whether appending an entry again changes nothing, because that is idempotent or the system
        remembers the entries. It is then appended to when a checkpoint has completed, otherwise when a step is sealed
    """

    exactly_once: bool = False

    def check(self) -> None:
        """Called on the driver before the first step: raise if the system can't be written to."""

    @abstractmethod
    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        """Write rows, and come back when they are safe. Entries of a subtask come in order, also when they come
        again."""
