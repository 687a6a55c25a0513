"""Sinks of a writer and a committer."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

from beadline.api.sink_writers import CommitRequest, Committer, SinkWriter, WriterContext, WriterSink
from beadline.connectors.sink import StagedSink
from beadline.connectors.transactions import Entry, Fate, Log, LogSink, TransactionalSink, Transactions
from beadline.connectors.user_sinks.calling import as_rows, copy_of, values_of
from beadline.errors import JobExecutionError

_LOG = logging.getLogger("beadline")

# While a committer asks for another try: after these seconds, then always after the last.
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
_TRIES = 30


def writer_sink(sink: WriterSink) -> StagedSink:
    """What the engine makes of a sink that was handed to ``sink_to``."""
    if copy_of(sink).create_committer() is None:
        return LogSink(WriterLog(sink), as_rows)
    return TransactionalSink(WriterTransactions(sink), as_rows, "beadline")


def _write(writer: SinkWriter, batches: Iterator[list[Any]]) -> None:
    for value, context in values_of(batches):
        writer.write(value, context)
    writer.flush(end_of_input=False)


class WriterLog(Log):
    """Writers that make visible what they write."""

    def __init__(self, sink: WriterSink) -> None:
        self._sink = sink

    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        writer = copy_of(self._sink).create_writer(WriterContext(entry.subtask, f"{entry.writer}-{entry.number}"))
        try:
            _write(writer, batches)
        finally:
            writer.close()


class WriterTransactions(Transactions):
    """A handle is the list of what a writer prepared, as it is."""

    def __init__(self, sink: WriterSink) -> None:
        self._sink = sink

    def write(self, id: str, batches: Iterator[list[Any]]) -> Any:
        writer = copy_of(self._sink).create_writer(WriterContext(int(id.split("-")[-3]), id))
        try:
            _write(writer, batches)
            return list(writer.prepare_commit())
        finally:
            writer.close()

    def commit(self, handle: Any) -> Fate:
        """If one committable was aborted, all of them must be written again, so the others must not be visible: a
        writer that may lose one should prepare one only."""
        committer = copy_of(self._sink).create_committer()
        assert committer is not None
        try:
            return self._commit(committer, [CommitRequest(committable) for committable in handle])
        finally:
            committer.close()

    def _commit(self, committer: Committer, requests: list[CommitRequest]) -> Fate:
        fate, total = Fate.COMMITTED, len(requests)
        for attempt in range(_TRIES):
            committer.commit(requests)
            again = []
            for request in requests:
                if request.verdict == "failed":
                    raise JobExecutionError(f"a committer failed: {request.error}") from request.error
                if request.verdict == "given up":
                    _LOG.error("output was given up by its committer: %s", request.error)
                elif request.verdict == "aborted":
                    fate = Fate.ABORTED
                elif request.verdict == "later":
                    again.append(CommitRequest(request.get_committable(), request.tries + 1))
            if fate is Fate.ABORTED and total > 1:
                raise JobExecutionError("one of several committables was aborted: it can't be written again alone")
            if not again:
                return fate
            requests = again
            time.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])
        raise OSError(f"{len(requests)} committables could not be committed in {_TRIES} tries")

    def abort(self, handle: Any) -> None:
        sink = copy_of(self._sink)
        for committable in handle:
            sink.abort(committable)

    def list_open(self, prefix: str) -> list[str]:
        return list(dict.fromkeys(id for id, _ in copy_of(self._sink).list_open(prefix)))

    def abort_open(self, id: str) -> None:
        sink = copy_of(self._sink)
        for found, committable in sink.list_open(id):
            if found == id:
                sink.abort(committable)
