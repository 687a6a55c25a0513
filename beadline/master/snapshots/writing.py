"""The threads that work for checkpoints while steps run: they make output ready, write, and publish.

They read data that does not change. What they have made is the result of their future, and each end is an event in the
job master's inbox; they change nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from beadline.checkpoint.contents import canonical
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.coordinator.actions import Take
from beadline.checkpoint.settings import CheckpointSettings, ClaimMode
from beadline.checkpoint.storage.durable import Bundle
from beadline.checkpoint.storage.publishing import Fill, Stored
from beadline.checkpoint.storage.storage import JobStorage
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.master.engines.engine import Engine
from beadline.master.engines.threads import Threads
from beadline.master.events import Event, NotWritten, Prepared, Published, Request, StepPublished, Written
from beadline.master.reporting.telling import first_line
from beadline.master.snapshots.outputs import Output
from beadline.master.snapshots.records import Phase, Record
from beadline.master.snapshots.sinks import Sinks
from beadline.master.snapshots.sizes import StateSizes
from beadline.master.snapshots.waiting import Grace, patiently
from beadline.master.upkeep.short_tasks import GivenUp, ShortTasks
from beadline.runtime.short_tasks.exporting import Export, Exported

# As many savepoints as are written at once.
_SAVEPOINTS = 4
Task = tuple[Export, ...]
#: Gives what exports a task's share in a worker of the execution that runs.
Exporter = Callable[[], Callable[[Task], list[Exported]]]


class Writing:
    """Moves records from phase to phase, as far as threads do it, and posts to the job master's inbox."""

    def __init__(
        self,
        settings: CheckpointSettings,
        storage: JobStorage,
        sinks: Sinks,
        savepoints: CanonicalSavepoints,
        post: Callable[[Event], None],
    ) -> None:
        # What the job started from is not its own, and may be deleted once there is a checkpoint.
        self.copy_foreign = settings.claim_mode is ClaimMode.NO_CLAIM
        self._storage = storage
        self._sinks = sinks
        self._savepoints = savepoints
        self._post = post
        self._writers = Threads(settings.max_concurrent + 1, "beadline-checkpoint")
        self._sizes = StateSizes()
        self._savers = Threads(_SAVEPOINTS, "beadline-savepoint")
        self._publisher = Threads(1, "beadline-publish")
        # A thread of its own: steps wait for it, and need not wait for the systems of checkpoints' output.
        self._step_publisher = Threads(1, "beadline-publish-step")
        # Until the job master knows that they are visible: what they publish, by checkpoint or number.
        self._publications: dict[Any, tuple[str, Future[Any]]] = {}
        self._under_way: dict[Future[Any], str] = {}

    @property
    def _threads(self) -> tuple[Threads, ...]:
        return self._writers, self._savers, self._publisher, self._step_publisher

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
        self._run(record, self._writers, self._storage.write, snapshot, self.copy_foreign)

    def _save(self, take: Take, snapshot: Snapshot, request: Request, exporter: Exporter) -> Stored:
        """Write a savepoint, however long that takes: no checkpoint waits for it.

        If it names output that is ready, it looks at the lease when sinks have promised to keep that: a driver that
        takes the job from now on finds the promise, and one that has it already may have given the output up.
        """
        assert request.directory is not None
        canonical = request.format is SavepointFormatType.CANONICAL
        fill = self._savepoints.filler(take, exporter) if canonical else None
        portable = self._sinks.portable(snapshot, take.kind.commits)
        if any(held.get("committables") for held in portable.committables().values()):
            self._storage.check()
        return self._storage.write_savepoint(portable, request.directory, fill)

    def publish(self, record: Record, ready: list[tuple[str, Any]]) -> None:
        """Make output visible."""
        record.phase = Phase.PUBLISHING
        publishing = self._publisher.submit(self._sinks.publish, ready)
        self._publication(record, publishing, f"checkpoint {record.id}")

        def report(done: Future[Any]) -> None:
            if not done.cancelled():
                self._post(Published(record.id, done.exception()))

        publishing.add_done_callback(report)

    def publish_step(self, number: int, step: int, outputs: list[Output]) -> None:
        """Make output of a sealed step visible that waits for no checkpoint."""
        publishing = self._step_publisher.submit(self._sinks.publish_at_once, outputs)
        self._publication(number, publishing, f"step {step}")

        def report(done: Future[Any]) -> None:
            if done.cancelled():
                return
            error = done.exception()
            self._post(StepPublished(number, [] if error is not None else done.result(), error))

        publishing.add_done_callback(report)

    def _publication(self, key: Record | int, publishing: Future[Any], what: str) -> None:
        self._publications[key] = what, publishing
        self._noted(publishing, f"publish {what}")

    def is_visible(self, key: Record | int) -> None:
        """The job master has heard that the output of a checkpoint, or the publication of this number, is visible."""
        self._publications.pop(key, None)

    @property
    def is_publishing(self) -> bool:
        """Whether something is being published."""
        return any(not publishing.done() for _, publishing in list(self._publications.values()))

    def wait_for_publishing(self, grace: Grace | None = None) -> None:
        """Come back when nothing is being published, or when the grace is over."""
        patiently([publishing for _, publishing in self._publications.values()], self.what, grace)

    def forget_publications(self) -> None:
        """The job has failed, and goes back if it can: what could not be published comes again then."""
        self._publications = {key: each for key, each in self._publications.items() if not each[1].done()}

    @property
    def unpublished(self) -> list[str]:
        """What could not be published, or is not yet, for people."""
        found = []
        for what, publishing in self._publications.values():
            if not publishing.done():
                found.append(f"the output of {what} is not published, because the system outside does not answer")
            elif (error := publishing.exception()) is not None:
                found.append(f"the output of {what} could not be published: {first_line(error)}")
        return found

    def _run(self, record: Record, threads: Threads, work: Callable[..., Any], *args: Any) -> None:
        savepoint = record.kind.is_savepoint

        def report(done: Future[Any]) -> None:
            if done.cancelled():
                return
            error = done.exception()
            if error is not None:
                self._post(NotWritten(record.id, error, savepoint))
            elif isinstance(done.result(), Stored):
                stored: Stored = done.result()
                self._post(Written(record.id, stored, savepoint, self._sizes.of(stored.snapshot, savepoint)))
            else:
                self._post(Prepared(record.id, done.result()))

        what = "savepoint" if savepoint else "checkpoint"
        verb = "make ready the output of" if record.phase is Phase.PREPARING else "write"
        record.work = self._noted(threads.submit(work, *args), f"{verb} {what} {record.id}")
        record.work.add_done_callback(report)

    def _noted(self, work: Future[Any], what: str) -> Future[Any]:
        self._under_way[work] = what
        work.add_done_callback(lambda done: self._under_way.pop(done, None))
        return work

    def what(self) -> str:
        """What threads do now, for people."""
        return ", ".join(
            [*list(self._under_way.values()), *(f"in it: {what}" for what in list(self._sinks.calls.under_way))]
        )

    def wait_for(self, work: list[Future[Any]]) -> None:
        """Come back when all of it is done."""
        patiently(work, self.what)

    def end(self, patience: float | None, grace: Grace) -> bool:
        """Wait until all threads are done, or the grace is over; for those that talk to the engine ``patience`` seconds
        at most. Gives whether all are."""
        if patience is not None:
            self._writers.shutdown(wait=True)
            for threads in (self._savers, self._publisher, self._step_publisher):
                threads.end(patience)
            return True
        done = patiently(list(self._under_way), self.what, grace)
        for threads in self._threads:
            threads.shutdown(wait=done, cancel_futures=not done)
        return done

    def abandon(self) -> None:
        """Wait for nothing."""
        for threads in self._threads:
            threads.shutdown(wait=False)


class CanonicalSavepoints:
    """Writes the state of savepoints as Parquet, one or several at a time."""

    def __init__(self, engine: Engine, group: str) -> None:
        self._engine = engine
        self._group = f"{group}-savepoint"
        self._lock = threading.Lock()
        self._under_way: dict[int, ShortTasks[Task, list[Exported]]] = {}
        self._cancelled: set[int] = set()

    @property
    def busy(self) -> bool:
        """Whether one is being written; merging waits meanwhile, so that a slot stays free for the steps."""
        return bool(self._under_way)

    def filler(self, take: Take, exporter: Exporter) -> Fill:
        """Puts the state of a savepoint into its folder. Runs in a thread of the savepoint's own."""
        return partial(self._fill, take, exporter)

    def cancel(self, id: int) -> None:
        """The savepoint is not needed any more; if it has not begun, it does not begin."""
        with self._lock:
            self._cancelled.add(id)
            tasks = self._under_way.get(id)
        if tasks is not None:
            tasks.stop()

    def _fill(self, take: Take, exporter: Exporter, snapshot: Snapshot, bundle: Bundle) -> tuple[Snapshot, int]:
        """Put a snapshot's state into a savepoint's folder.

        1. cut it into tasks
        2. let workers write the files, and make them durable
        3. refer to the files that they name; all other files come from failed tries, and are removed
        """
        planned = canonical.tasks_of(snapshot, bundle.folder)
        # A job that is to end runs no steps that would need a slot.
        slots = self._engine.slots if take.kind.ends_job else max(1, self._engine.slots - 1)
        tasks: ShortTasks[Task, list[Exported]] = ShortTasks(
            self._engine, f"{self._group}-{take.id}", f"write savepoint {take.id}", slots, exporter
        )
        with self._lock:
            if take.id in self._cancelled:
                raise SnapshotError("the savepoint was given up")
            self._under_way[take.id] = tasks
        try:
            results = tasks.run(planned, until_quiet=True)
        except GivenUp as error:
            raise SnapshotError("the savepoint was given up") from error
        except Exception as error:
            raise SnapshotError(f"state can't be written to the savepoint: {first_line(error)}") from error
        finally:
            with self._lock:
                del self._under_way[take.id]
        exports = [export for task in planned for export in task]
        exported = [each for share in results for each in share]
        made = canonical.take_in(snapshot, exports, exported, bundle.published)
        canonical.settle(bundle.folder, made)
        return made, sum({segment.path: segment.size for segment in made.segments if segment.path is not None}.values())
