"""The threads that work for checkpoints while steps run: they make output ready, write, and publish.

They read data that does not change. What they have made is the result of their future, and each end is an event in the
job master's inbox; they change nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.coordinator.actions import Take
from beadline.checkpoint.settings import CheckpointSettings, ClaimMode
from beadline.checkpoint.storage.publishing import Stored
from beadline.checkpoint.storage.storage import JobStorage
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.master.events import Event, NotWritten, Prepared, Published, Request, Written
from beadline.master.snapshots.records import Phase, Record
from beadline.master.snapshots.savepoints import CanonicalSavepoints, Exporter
from beadline.master.snapshots.sinks import Sinks
from beadline.master.threads import Threads

# As many savepoints as are written at once.
_SAVEPOINTS = 4


class Writing:
    """Moves records from phase to phase, as far as threads do it.

    :param savepoints: writes those in the canonical format
    :param post: puts an event into the job master's inbox
    """

    def __init__(
        self,
        settings: CheckpointSettings,
        storage: JobStorage,
        sinks: Sinks,
        savepoints: CanonicalSavepoints,
        post: Callable[[Event], None],
    ) -> None:
        # What the job started from is not its own, and may be deleted once there is a checkpoint.
        self._copy_foreign = settings.claim_mode is ClaimMode.NO_CLAIM
        self._storage = storage
        self._sinks = sinks
        self._savepoints = savepoints
        self._post = post
        self._writers = Threads(settings.max_concurrent + 1, "beadline-checkpoint")
        self._savers = Threads(_SAVEPOINTS, "beadline-savepoint")
        self._publisher = Threads(1, "beadline-publish")

    def begin(self, record: Record, take: Take, snapshot: Snapshot, exporter: Exporter) -> None:
        """Make a snapshot durable: first a checkpoint's output is made ready, if there are sinks."""
        if take.kind.is_savepoint:
            assert record.request is not None
            record.phase = Phase.WRITING
            self._run(record, self._savers, self._save, take, snapshot, record.request, exporter)
        elif len(self._sinks):
            record.phase = Phase.PREPARING
            self._run(record, self._writers, self._sinks.precommitted, snapshot)
        else:
            self.write(record, snapshot)

    def write(self, record: Record, snapshot: Snapshot) -> None:
        """Make everything durable, then the metadata."""
        record.phase = Phase.WRITING
        self._run(record, self._writers, self._storage.write, snapshot, self._copy_foreign)

    def _save(self, take: Take, snapshot: Snapshot, request: Request, exporter: Exporter) -> Stored:
        """Write a savepoint, however long that takes: no checkpoint waits for it."""
        assert request.directory is not None
        canonical = request.format is SavepointFormatType.CANONICAL
        fill = self._savepoints.filler(take, exporter) if canonical else None
        portable = self._sinks.portable(snapshot, take.kind.commits)
        return self._storage.write_savepoint(portable, request.directory, fill)

    def publish(self, record: Record, ready: list[tuple[str, Any]]) -> None:
        """Make output visible."""
        record.phase = Phase.PUBLISHING
        publishing = self._publisher.submit(self._sinks.publish, ready)
        publishing.add_done_callback(lambda done: self._post(Published(record.id, done.exception())))

    def _run(self, record: Record, threads: Threads, work: Callable[..., Any], *args: Any) -> None:
        savepoint = record.kind.is_savepoint

        def report(done: Future[Any]) -> None:
            error = done.exception()
            if error is not None:
                self._post(NotWritten(record.id, error, savepoint))
            elif isinstance(done.result(), Stored):
                self._post(Written(record.id, done.result(), savepoint))
            else:
                self._post(Prepared(record.id, done.result()))

        record.work = threads.submit(work, *args)
        record.work.add_done_callback(report)

    def wait_for_publishing(self) -> None:
        """Come back when nothing is being published."""
        self._publisher.submit(int).result()

    def end(self, patience: float | None) -> None:
        """Wait until all threads are done.

        :param patience: seconds to wait at most for threads that talk to the engine
        """
        self._writers.shutdown(wait=True)
        for threads in (self._savers, self._publisher):
            threads.end(patience)

    def abandon(self) -> None:
        """Wait for nothing."""
        for threads in (self._writers, self._savers, self._publisher):
            threads.shutdown(wait=False)
