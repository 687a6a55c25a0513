"""Sinks that a program writes itself.

In a step a sink sees nothing: records are staged. What is called when, and in which process, is up to Beadline, so an
object of these classes must be picklable, and may find itself opened, used and closed several times.

- :class:`SinkFunction`: records go outside one by one when a step is sealed, at least once
- :class:`GenericWriteAheadSink`: together, when a checkpoint has completed; exactly once if its committer remembers
- :class:`TwoPhaseCommitSinkFunction`: in a transaction, which a completed checkpoint commits, exactly once

A fourth way, a writer and a committer of their own, is in :mod:`beadline.api.sink_writers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from beadline.api.function import Function
from beadline.errors import BeadlineError, UnsupportedFeatureError


class SinkContext(NamedTuple):
    """What is known of a record.

    :ivar record_timestamp: its event time, None if it has none
    """

    record_timestamp: int | None

    def timestamp(self) -> int | None:
        return self.record_timestamp


class SinkFunction(Function):
    """Hands each record outside: ``stream.add_sink(function)``. After a failure some records come again.

    The function is opened, gets the records of one subtask in order, and is closed, for each step. In PyFlink the class
    only wraps a Java sink, which can't run here: ``SinkFunction(java_sink)`` raises.
    """

    def __init__(self, sink_func: Any = None) -> None:
        if sink_func is not None:
            raise UnsupportedFeatureError(
                f"SinkFunction({sink_func!r}) wraps a Java object and can't run here. Write with stream.sink_to() and "
                "FileSink, KafkaSink or PostgresSink, or let a class of yours extend SinkFunction and have invoke()"
            )

    def invoke(self, value: Any, context: SinkContext) -> None:
        """Write one record; it may still be buffered until :meth:`finish`."""
        raise NotImplementedError(f"{type(self).__name__} has no invoke()")

    def finish(self) -> None:
        """All records were handed over: come back when they are safe."""


class TransactionAborted(BeadlineError):
    """To be raised by ``commit`` and ``recover_and_commit``: nothing of the transaction is visible, and nothing
    ever will be. Its records are written again, in a new one."""


class TwoPhaseCommitSinkFunction(Function):
    """Writes the records of a checkpoint in a transaction that any process can finish.

    1. before a checkpoint is written: :meth:`begin_transaction`, :meth:`invoke` for each record of a subtask,
       :meth:`pre_commit`
    2. the checkpoint holds the transaction, as whatever plain data ``begin_transaction`` returned
    3. when it has completed: :meth:`commit`
    4. after a failure: :meth:`recover_and_commit` for the transactions of the checkpoint that the job goes back to,
       :meth:`recover_and_abort` for all others that :meth:`list_open` finds

    Committing twice must be the same as once: after a failure nobody knows whether it was done.

    :ivar transaction_id: unique for each transaction, set before it begins. Ids of one sink begin alike, for
        :meth:`list_open`
    """

    transaction_id: str = ""
    _timeout_ms: int | None = None
    _ignores_timed_out = False
    _warns_at: float | None = None

    @abstractmethod
    def begin_transaction(self) -> Any:
        """Begin a transaction, and give what names it: plain data."""

    @abstractmethod
    def invoke(self, transaction: Any, value: Any, context: SinkContext) -> None:
        """Write one record in a transaction."""

    @abstractmethod
    def pre_commit(self, transaction: Any) -> None:
        """From now on the transaction can be committed by any process, and nothing can go wrong with that."""

    @abstractmethod
    def commit(self, transaction: Any) -> None:
        """Make the transaction visible, if it is not.

        :raises TransactionAborted: that is not possible any more
        """

    @abstractmethod
    def abort(self, transaction: Any) -> None:
        """The transaction must never become visible; it may be gone."""

    def recover_and_commit(self, transaction: Any) -> None:
        """Commit, after a failure."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: Any) -> None:
        """Abort, after a failure."""
        self.abort(transaction)

    def list_open(self, prefix: str) -> list[Any]:
        """The transactions that are not finished, and whose :attr:`transaction_id` begins with this.

        :returns: pairs of id and transaction
        """
        return []

    def set_transaction_timeout(self, transaction_timeout: int) -> TwoPhaseCommitSinkFunction:
        """After how many milliseconds the system outside aborts a transaction."""
        self._timeout_ms = transaction_timeout
        return self

    def ignore_failures_after_transaction_timeout(self) -> TwoPhaseCommitSinkFunction:
        """If a transaction can't be committed after a failure, and is older than the timeout, its records are given up
        with an error in the log, and the job goes on."""
        self._ignores_timed_out = True
        return self

    def enable_transaction_timeout_warnings(self, warning_ratio: float) -> TwoPhaseCommitSinkFunction:
        """Warn when a transaction has come to this part of its timeout."""
        if not 0 <= warning_ratio <= 1:
            raise ValueError(f"warning_ratio must be between 0 and 1, got {warning_ratio}")
        self._warns_at = warning_ratio
        return self


class CheckpointCommitter(ABC):
    """Remembers, outside, what a write-ahead sink has sent."""

    _job_id = ""
    _operator_id = ""

    def set_job_id(self, id: str) -> None:
        """Called before :meth:`create_resource`; the same whenever the job is resumed."""
        self._job_id = id

    def set_operator_id(self, id: str) -> None:
        self._operator_id = id

    def open(self) -> None:
        """Called before the first question."""

    def close(self) -> None:
        """Called after the last one."""

    def create_resource(self) -> None:
        """Make the table, or whatever keeps the memory, if it is not there."""

    @abstractmethod
    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        """Remember that the values of a checkpoint were sent. Ids of a subtask grow."""

    @abstractmethod
    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        """Whether these or later ones were sent."""


class GenericWriteAheadSink(Function):
    """Sends the values of a checkpoint when it has completed, and asks its committer whether that was done before.

    If a failure falls between sending and remembering, the values are sent twice: make the sending idempotent, or let
    both happen in one act of the system outside.
    """

    def __init__(self, committer: CheckpointCommitter) -> None:
        self.committer = committer

    @abstractmethod
    def send_values(self, values: list[Any], checkpoint_id: int, timestamp: int) -> bool:
        """Send the values of one subtask, and say whether that worked; if not, it is tried again."""
