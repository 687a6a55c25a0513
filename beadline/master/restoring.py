"""Beginning a job, and going back to its newest checkpoint that can be read. No step is under way meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.storage.durable import verify
from beadline.master.definition import Job
from beadline.master.running import Running
from beadline.master.upgrade.migration import migrated
from beadline.master.upkeep.truth import Truth

_LOG = logging.getLogger("beadline")

# Before each look at a checkpoint, in seconds.
_PAUSES = (0.0, 0.1, 0.4)


def begin(job: Job, running: Running) -> int | None:
    """The first execution: from what the job was told to start from, if anything. Gives that checkpoint's number."""
    truth = running.new_truth(1)
    start = job.home.start
    if start is None:
        running.do(running.checkpoints.coordinator.start(running.now()))
    else:
        assert job.home.pointer is not None
        _restore(job, running, truth, start, job.home.pointer)
        _LOG.info("restored from %s", job.home.pointer)
        running.do(running.checkpoints.coordinator.restored(start.checkpoint_id, running.now(), truth.step))
    running.execute(1, truth)
    return start.checkpoint_id if start is not None else None


def go_on(running: Running, number: int) -> None:
    """Without checkpoints nothing is replayed: go on after the step that failed, with the state before it."""
    failed = running.execution
    assert failed is not None
    running.checkpoints.quiet()
    running.sinks.go_on()
    failed.truth.positions.update(failed.skipped)
    running.do(running.checkpoints.coordinator.restored(None, running.now(), failed.truth.step))
    running.execute(number, failed.truth)


def go_back(job: Job, running: Running, number: int) -> int | None:
    """The next execution, from the newest checkpoint that can be read; from the beginning if there is none."""
    truth, failed = running.new_truth(number), running.execution
    running.checkpoints.quiet()
    id = _restore_newest(job, running, truth)
    running.do(running.checkpoints.coordinator.restored(id, running.now(), truth.step))
    running.execute(number, truth)
    if failed is not None and failed.final_sealed and failed.truth.step == truth.step and running.execution is not None:
        running.execution.draining = True  # event time is at its end: whatever came now would be late
    return id


def newest(running: Running) -> int | None:
    """The number of what a job that fails now goes back to; None for the beginning."""
    stop = running.checkpoints.stop_point
    if stop is not None:
        return stop[0]
    return max((each.id for each in running.checkpoints.coordinator.completed), default=None)


def place_of(job: Job, running: Running, number: int, id: int | None) -> tuple[str | None, bool]:
    """Where the checkpoint is that an execution was restored from, and whether it is a savepoint."""
    if id is None:
        return None, False
    start = job.home.start
    if number == 1 and start is not None:
        return job.home.pointer, start.kind is SnapshotKind.SAVEPOINT
    stop = running.checkpoints.stop_point
    if stop is not None and stop[0] == id:
        return stop[1], True
    return running.checkpoints.pointers.get(id), False


def _restore_newest(job: Job, running: Running, truth: Truth) -> int | None:
    """A savepoint that the job was to stop with comes before checkpoints: it may have published."""
    stop = running.checkpoints.stop_point
    if stop is not None and (snapshot := _readable(read_snapshot, *stop)) is not None:
        running.checkpoints.depend_on_savepoint()
        _restore(job, running, truth, snapshot, stop[1])
        return stop[0]
    pointers = running.checkpoints.pointers
    for id, pointer in sorted(pointers.items(), reverse=True):
        snapshot = _readable(job.home.read, id, pointer)
        if snapshot is not None:
            _restore(job, running, truth, snapshot, pointer)
            return id
    if pointers:
        raise SnapshotError(f"none of the {len(pointers)} retained checkpoints can be read")
    if job.home.start is not None and job.home.pointer is not None:
        _restore(job, running, truth, job.home.start, job.home.pointer)
    else:
        if len(running.sinks):
            running.checkpoints.leave_behind(0)
        running.sinks.restore(running.sinks_at_start)
    return None


def _readable(read: Callable[[str], Snapshot], id: int, pointer: str) -> Snapshot | None:
    """A checkpoint whose files are all right. Storage that is away for a moment is no damage: systems outside take
    nothing back, so the job looks several times before it goes back further."""
    problem: object = None
    for pause in _PAUSES:
        time.sleep(pause)
        try:
            snapshot = read(pointer)
            problem = next(iter(verify(snapshot)), None)
            if problem is None:
                return snapshot
        except SnapshotError as error:
            problem = error
    _LOG.warning("checkpoint %d can't be restored, so the one before it is tried: %s", id, problem)
    return None


def _restore(job: Job, running: Running, truth: Truth, snapshot: Snapshot, pointer: str) -> None:
    """Bring state and sinks to a snapshot.

    1. look whether the sinks may follow what it names: it may be a stranger's
    2. rewrite state whose type has changed, into files of this execution
    3. make the snapshot the truth
    4. look at the lease: another driver may have the job by now
    5. remove newer checkpoints, which name output that is about to be taken back
    6. take back what sinks have staged since, and publish what the snapshot had pre-committed
    7. remove files that nobody needs
    """
    running.sinks.check(snapshot.committables(), pointer)
    settings = job.settings.checkpoints
    context = running.context(f"{job.home.job_id}-migration", 1)
    migrate = partial(running.stepper.migrate, context, running.processing_time())
    snapshot = migrated(snapshot, job.acceptance.migrations(snapshot), migrate)
    truth.restore(
        snapshot,
        running.files,
        settings.inline_threshold,
        settings.ignore_unclaimed_state,
        skip_in_flight=snapshot.checkpoint_id == settings.ignored_in_flight,
    )
    live = truth.book.live_files() | running.views.files()  # what somebody looks at stays until that ends
    truth.book.own(path for path in live if running.checkpoints.registry.owns(path))
    job.home.storage.check()
    if len(running.sinks):
        truth.book.own(running.checkpoints.leave_behind(snapshot.checkpoint_id))
    own = job.home.storage.lineage.has_taken(snapshot)
    running.sinks.restore(snapshot.committables(), snapshot.epoch if own else None)
    job.home.drop_orphans(live | running.checkpoints.registry.files())
