"""Sink functions, write-ahead sinks and two-phase commit sinks."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from beadline.api.sinks import GenericWriteAheadSink, SinkFunction, TransactionAborted, TwoPhaseCommitSinkFunction
from beadline.connectors.sink import StagedSink
from beadline.connectors.transactions import Entry, Fate, Log, LogSink, TransactionalSink, Transactions
from beadline.connectors.user_sinks.calling import as_rows, copy_of, opened, values_of
from beadline.errors import UnsupportedFeatureError

_LOG = logging.getLogger("beadline")


def function_sink(function: Any) -> StagedSink:
    """What the engine makes of a function that was handed to ``add_sink``."""
    if isinstance(function, TwoPhaseCommitSinkFunction):
        return TransactionalSink(FunctionTransactions(function), as_rows, "beadline")
    if isinstance(function, GenericWriteAheadSink):
        return LogSink(WriteAheadLog(function), as_rows)
    if isinstance(function, SinkFunction):
        return LogSink(FunctionLog(function), as_rows)
    raise UnsupportedFeatureError(
        f"add_sink() can't write to {type(function).__name__}. It takes a SinkFunction, GenericWriteAheadSink or "
        "TwoPhaseCommitSinkFunction of beadline.datastream.functions, and PyFlink's sinks such as FlinkKafkaProducer, "
        "JdbcSink and StreamingFileSink"
    )


class FunctionLog(Log):
    """Calls a sink function for each record."""

    def __init__(self, function: SinkFunction) -> None:
        self._function = function

    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        function = copy_of(self._function)
        with opened(function, entry.subtask):
            for value, context in values_of(batches):
                function.invoke(value, context)
            function.finish()


class WriteAheadLog(Log):
    """Sends the values of an entry, unless the committer knows that it was done."""

    exactly_once = True

    def __init__(self, sink: GenericWriteAheadSink) -> None:
        self._sink = sink

    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        sink = copy_of(self._sink)
        committer = sink.committer
        committer.set_job_id(entry.writer)
        committer.set_operator_id(type(sink).__name__)
        committer.create_resource()
        committer.open()
        try:
            if committer.is_checkpoint_committed(entry.subtask, entry.number):
                return
            with opened(sink, entry.subtask):
                values = [value for value, _ in values_of(batches)]
                if not sink.send_values(values, entry.number, int(time.time() * 1000)):
                    raise OSError(f"{type(sink).__name__}.send_values() did not send {len(values)} values")
            committer.commit_checkpoint(entry.subtask, entry.number)
        finally:
            committer.close()


class FunctionTransactions(Transactions):
    """A handle is ``{"transaction": …, "id": …, "began": milliseconds since 1970, "subtask": …}``."""

    def __init__(self, function: TwoPhaseCommitSinkFunction) -> None:
        self._function = function

    def write(self, id: str, batches: Iterator[list[Any]]) -> Any:
        function = copy_of(self._function)
        function.transaction_id = id
        subtask = _subtask_of(id)
        began = _now()
        with opened(function, subtask):
            transaction = function.begin_transaction()
            try:
                for value, context in values_of(batches):
                    function.invoke(transaction, value, context)
                function.pre_commit(transaction)
            except BaseException:
                function.abort(transaction)
                raise
        return {"transaction": transaction, "id": id, "began": began, "subtask": subtask}

    def commit(self, handle: Any) -> Fate:
        function = copy_of(self._function)
        self._warn(handle)
        with opened(function, handle["subtask"]):
            try:
                function.commit(handle["transaction"])
            except TransactionAborted:
                return Fate.ABORTED
        return Fate.COMMITTED

    def recover(self, handle: Any) -> Fate:
        function = copy_of(self._function)
        self._warn(handle)
        with opened(function, handle["subtask"]):
            try:
                function.recover_and_commit(handle["transaction"])
            except TransactionAborted:
                return Fate.ABORTED
            except Exception as error:
                timeout = function._timeout_ms
                if not function._ignores_timed_out or timeout is None or _now() - handle["began"] <= timeout:
                    raise
                _LOG.error(
                    "transaction %s is older than its timeout of %d ms and can't be committed (%s): its records are "
                    "given up, as ignore_failures_after_transaction_timeout() says",
                    handle["id"],
                    timeout,
                    error,
                )
        return Fate.COMMITTED

    def _warn(self, handle: Any) -> None:
        timeout, ratio = self._function._timeout_ms, self._function._warns_at
        age = _now() - handle["began"]
        if timeout is not None and ratio is not None and age >= timeout * ratio:
            _LOG.warning("transaction %s is %d ms old; its timeout is %d ms", handle["id"], age, timeout)

    def abort(self, handle: Any) -> None:
        function = copy_of(self._function)
        with opened(function, handle["subtask"]):
            function.abort(handle["transaction"])

    def list_open(self, prefix: str) -> list[str]:
        function = copy_of(self._function)
        with opened(function, 0):
            return [id for id, _ in function.list_open(prefix)]

    def abort_open(self, id: str) -> None:
        function = copy_of(self._function)
        with opened(function, _subtask_of(id)):
            for found, transaction in function.list_open(id):
                if found == id:
                    function.recover_and_abort(transaction)


def _subtask_of(id: str) -> int:
    """Ids end with ``-<subtask>-<number>-<attempt>``."""
    return int(id.split("-")[-3])


def _now() -> int:
    return int(time.time() * 1000)
