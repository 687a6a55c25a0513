"""Where a job lives: its id, where its checkpoints and segments of state go, and what it starts from."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from beadline.checkpoint.cleanup.disposal import check_claimable, claimable
from beadline.checkpoint.contents.metadata import METADATA
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.directory.jobs import (
    CheckpointDirectory,
    Job,
    Trace,
    choose,
    job_in,
    listing,
    refuse_finished,
    time_text,
)
from beadline.checkpoint.directory.lookup import Listed, canonical, folder_of, read_snapshot
from beadline.checkpoint.ownership.holder import Pause, holder_of
from beadline.checkpoint.ownership.lease import Claim, newest_claim
from beadline.checkpoint.settings import CheckpointSettings, ClaimMode, Key, Storage
from beadline.checkpoint.storage.durable import verify
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.checkpoint.storage.memory import MemoryJobStorage
from beadline.checkpoint.storage.publishing import Stored
from beadline.checkpoint.storage.storage import JobStorage
from beadline.errors import BeadlineError, ConfigurationError
from beadline.graph.program import Program
from beadline.state.segments.files import is_folder, join, size_of

_LOG = logging.getLogger("beadline")

Accept = Callable[[str, Snapshot], None]
LATEST = "latest"


class Home:
    """The place of one job, over all its executions and drivers.

    A job that is resumed from one of its own checkpoints goes on in its folder, under its id: its former driver is
    fenced. From a savepoint, or a checkpoint elsewhere, a new job begins. What it started from stays untouched, unless
    it was told to claim it: then that is its first checkpoint.

    :param accept: looks at what the job would start from, and raises if it can't
    :param beginning: what :func:`find_beginning` has found, if it was asked already
    :ivar start: what the job starts from; None for the beginning
    :ivar completed: checkpoints of its own that are already there, oldest first
    :ivar claimed: where the snapshot that the job has claimed is
    :ivar claimed_files: files elsewhere that are the job's own by that
    """

    def __init__(
        self,
        settings: CheckpointSettings,
        job_name: str,
        accept: Accept | None = None,
        program: Program | None = None,
        beginning: Beginning | None = None,
    ) -> None:
        self._settings = settings
        self._job_name = job_name
        self._program = program or Program()
        self.completed: list[Stored] = []
        self.claimed: str | None = None
        self.claimed_files: frozenset[str] = frozenset()
        if beginning is None or not beginning.holds:
            beginning = find_beginning(settings, job_name, self._program)
        self._newest = beginning.newest
        self.job_id, self.pointer, self.start = beginning.job_id, beginning.pointer, beginning.snapshot
        self.storage = storage_of(settings, self.job_id)
        if self.start is not None and self.pointer is not None and accept is not None:
            accept(self.pointer, self.start)  # before anything is made, and before another driver is fenced
        if not beginning.own:
            self._begin_elsewhere()
        self.storage.acquire(is_new=not beginning.own)
        try:
            if beginning.own:
                self._continue()
                if accept is not None and (self.pointer, self.start) != (beginning.pointer, beginning.snapshot):
                    assert self.pointer is not None
                    assert self.start is not None
                    accept(self.pointer, self.start)
            self.storage.begin(job_name, self._program)
            if beginning.own and self.start is not None:
                self.start = self.start.as_own()
        except BaseException:
            self.leave()
            raise

    def _begin_elsewhere(self) -> None:
        """Check what a new job starts from, before anything is made."""
        if self.start is None or self.pointer is None:
            return
        self._check(self.pointer, self.start)
        if self._settings.claim_mode is ClaimMode.CLAIM:
            check_claimable(self.pointer, self.start)
            self.claimed = folder_of(self.pointer)
            self.claimed_files = claimable(self.start.files(), self.claimed)
            self.completed = [Stored(self.claimed, self.start, 0)]

    def _continue(self) -> None:
        """Go on in the job's own folder, whose lease is held. What is there is listed again: the former driver may have
        completed one more before it was fenced."""
        listed = self.storage.completed()
        if self._newest:
            self.storage.refuse_if_stopped()
            self.pointer, self.start = self._newest_good(listed)
        elif self.start is not None and self.pointer is not None:
            self._check(self.pointer, self.start)
        self.completed = [Stored(e.pointer, e.snapshot, 0) for e in reversed(listed) if e.snapshot is not None]
        # Checkpoints name files elsewhere only if an earlier run has claimed them.
        files = {path for stored in self.completed for path in stored.snapshot.files()}
        self.claimed_files = claimable(path for path in files if not self._is_in_own_folder(path))

    @property
    def next_id(self) -> int:
        """The number of the next checkpoint: above all that were ever used in the folder."""
        used = self.start.checkpoint_id if self.start is not None else 0
        return max(used, self.storage.highest_number()) + 1

    # -- what to start from

    def _newest_good(self, listed: list[Listed]) -> tuple[str, Snapshot]:
        for entry in listed:
            problems = [entry.problem] if entry.snapshot is None else verify(entry.snapshot)
            if entry.snapshot is not None and not problems:
                return entry.pointer, entry.snapshot
            _LOG.warning("%s can't be used, so the one before it is tried: %s", entry.pointer, problems[0])
        raise SnapshotError(f"none of the {len(listed)} checkpoints in {self._settings.directory} can be read")

    def _check(self, pointer: str, snapshot: Snapshot) -> None:
        problems = verify(snapshot)
        if problems:
            more = f", and {len(problems) - 1} more problems" if len(problems) > 1 else ""
            raise SnapshotError(f"{pointer} can't be restored: {problems[0]}{more}")

    def _is_in_own_folder(self, path: str) -> bool:
        folder = self.storage.owned_folder().partition("?")[0]
        return bool(folder) and path.startswith(folder + "/")

    def read(self, pointer: str) -> Snapshot:
        """A checkpoint of the job, or the snapshot that it has claimed. What lies in the job's own folder was written
        by the job: nobody else puts anything there."""
        return read_snapshot(pointer) if pointer == self.claimed else self.storage.read(pointer).as_own()

    # -- removing

    def drop_orphans(self, needed: set[str]) -> None:
        """Remove what failed attempts have left. No step may be under way."""
        try:
            self.storage.delete(self.storage.orphans(needed))
        except (SnapshotError, OSError) as error:
            _LOG.warning("unneeded files could not be deleted yet: %s", error)

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files that nobody needs, of the job's own folder or claimed; never any other."""
        paths = set(paths)
        self.storage.delete(path for path in paths - self.claimed_files if self._is_in_own_folder(path))
        self.storage.delete_claimed(paths & self.claimed_files)

    def drop_claimed(self, needed: Set[str]) -> None:
        """The job has ended: of what it claimed, only what a checkpoint needs stays."""
        try:
            self.storage.delete_claimed(self.claimed_files - needed)
        except (SnapshotError, OSError) as error:
            _LOG.warning("unneeded files could not be deleted: %s", error)

    # -- the end

    def note_stop(self, stored: Stored) -> None:
        """The savepoint that the job stops with is complete. Call it before any of its output is visible: from then on
        nobody may go on from an older checkpoint.

        :raises SnapshotError: it could not be noted, so that the job must not stop
        """
        saved = stored.snapshot
        try:
            self._leave(self.storage.note_stop, saved.timestamp, stored.pointer, saved.checkpoint_id)
        except OSError as error:
            raise SnapshotError(
                f"the job can't note in its folder that it stops with {stored.pointer}: {error}"
            ) from error

    def forget_stop(self) -> bool:
        """The job goes on after all; gives whether nobody will be sent to the savepoint."""
        try:
            self.storage.forget_stop()
        except (BeadlineError, OSError) as error:
            _LOG.warning("the job goes on, but could not remove the note that it was stopped: %s", error)
            return False
        return True

    def note_finish(self, now: int, savepoint: str = "") -> None:
        """The job has finished and all its output is visible. Call it before anything is removed: a crash in between
        must not look as if the job had never run."""
        try:
            self._leave(self.storage.leave_trace, now, savepoint)
        except (BeadlineError, OSError) as error:
            _LOG.warning("the job has finished, but could not record that: %s", error)

    def _leave(self, leave: Callable[[Trace], None], now: int, savepoint: str, checkpoint: int | None = None) -> None:
        if self._settings.enabled:  # without checkpoints nobody resumes it
            chosen, epoch = self._settings.job_id is not None, self.storage.epoch
            leave(Trace(self.job_id, self._job_name, self._program, now, epoch, chosen, savepoint, checkpoint))

    def leave(self) -> None:
        """The job did not begin. What it was to start from stays as it is."""
        self.close(resumable=any(stored.pointer != self.claimed for stored in self.completed))

    def close(self, resumable: bool) -> None:
        """The job has ended. If nobody can resume it, nothing of it stays but the note that it has finished."""
        self.storage.release()
        if resumable:
            return
        # Only a random id never comes again.
        again = self._settings.job_id is not None or not self._settings.create_subdirectory
        try:
            self.storage.remove(comes_again=again)
        except (SnapshotError, OSError) as error:
            _LOG.warning("the job has ended, but its folder could not be removed: %s", error)


# -- what a job starts from, found before anything is made and before another driver is fenced


@dataclass(frozen=True)
class Beginning:
    """Where a job begins.

    :ivar pointer: what it starts from, with the snapshot; None for the beginning
    :ivar own: it goes on in its own folder, from a checkpoint of its own
    :ivar newest: start from the newest good checkpoint there, even if that is newer than the one that was found
    :ivar watched: the folder that no other driver may take meanwhile; empty if that does not matter
    :ivar claim: the newest lease there
    """

    job_id: str
    pointer: str | None = None
    snapshot: Snapshot | None = None
    own: bool = False
    newest: bool = False
    watched: str = ""
    claim: Claim | None = None

    @property
    def holds(self) -> bool:
        """Whether it is still as it was found. Starting Spark takes some seconds, and others start drivers too."""
        return not self.watched or newest_claim(self.watched) == self.claim


def find_beginning(
    settings: CheckpointSettings, job_name: str, program: Program, pause: Pause = time.sleep
) -> Beginning:
    """Find out where a job begins, or refuse to start it.

    - from ``latest``: the newest checkpoint of the job with the chosen id, or else of the one job in the directory that
      is a run of this program; not if its driver is alive
    - from a checkpoint that was named: if it is in the folder that its job would use now, that job goes on, and
      the driver that has it is fenced; the same from a job's folder, which stands for the newest checkpoint in it
    - from anything else, or nothing: a new job begins, in a folder that no other job has
    """
    directory = _directory_of(settings)
    pointer = settings.restore_path or None
    if pointer == LATEST:
        if directory is None:
            raise ConfigurationError(
                "'latest' looks for checkpoints in execution.checkpointing.dir, which is not set: set it, or name the "
                "path of a checkpoint"
            )
        return _latest(directory, settings.job_id, job_name, program, pause)
    job = _in_folder(directory, settings.job_id, pointer, pause) if directory is not None and pointer else None
    if job is not None and job.newest is not None:
        return Beginning(job.job_id, job.newest.pointer, job.snapshot, own=True, newest=True)
    snapshot = read_snapshot(pointer) if pointer is not None else None
    if directory is None:
        return Beginning(settings.job_id or uuid.uuid4().hex, pointer, snapshot)
    if snapshot is not None and settings.job_id in (None, snapshot.job_id) and _is_in_use(directory, snapshot):
        return Beginning(snapshot.job_id, pointer, snapshot, own=True)
    if settings.job_id is None and settings.create_subdirectory:
        return Beginning(uuid.uuid4().hex, pointer, snapshot)
    return _new_in_known_folder(directory, settings.job_id, pointer, snapshot, pause)


def _latest(
    directory: CheckpointDirectory, job_id: str | None, job_name: str, program: Program, pause: Pause
) -> Beginning:
    if job_id is None:
        job = choose(directory.jobs(), job_name, program, directory.path)
    else:
        job = _with_id(directory, job_id)
    claim = newest_claim(job.folder)
    _refuse_stopped(job, pause)
    snapshot, newest = job.snapshot, job.newest
    assert newest is not None
    holder = holder_of(job.folder, pause=pause)
    if holder is not None:
        raise SnapshotError(
            f"'latest' is a checkpoint of job '{job.name}' ({job.job_id}), which still runs: {holder}. Stop that "
            f"driver first; or take the job from it by naming the folder: -s {job.folder}"
        )
    return Beginning(job.job_id, newest.pointer, snapshot, True, True, job.folder, claim)


def _refuse_stopped(job: Job, pause: Pause) -> None:
    """Refuse a job that has finished, or was stopped; its driver may be at that."""
    holder = None if job.is_over else holder_of(job.folder, pause=pause)
    if holder is not None:
        raise SnapshotError(
            f"job '{job.name}' ({job.job_id}) is about to stop with {job.savepoint}, and still runs: {holder}. Wait "
            f"for it, or stop that driver first; then go on with -s {job.savepoint}"
        )
    refuse_finished(job)


def _with_id(directory: CheckpointDirectory, job_id: str) -> Job:
    job = job_in(directory.job_folder(job_id), job_id)
    if job is not None:
        return job
    none = f"'latest' found no checkpoint of job '{job_id}' ({Key.JOB_ID}) in {directory.path}"
    others = sorted(directory.jobs(), key=lambda job: job.time, reverse=True)
    if not others:
        raise SnapshotError(
            f"{none}: it never took one there, or it was cancelled or failed and kept none. Start it without -s"
        )
    raise SnapshotError(
        f"{none}. Other jobs are there:\n{listing(others)}\n"
        "If one of them is meant, name its id, or its checkpoint with -s PATH; else start the program without -s"
    )


def _in_folder(directory: CheckpointDirectory, job_id: str | None, pointer: str, pause: Pause) -> Job | None:
    """The job whose folder was named. A checkpoint of a living job would be gone before the new driver has started."""
    folder = canonical(pointer)
    if not is_folder(folder) or size_of(join(folder, METADATA)) is not None:
        return None
    job = job_in(folder)
    if job is None or directory.job_folder(job.job_id) != folder or job_id not in (None, job.job_id):
        return None
    _refuse_stopped(job, pause)
    return job


def _is_in_use(directory: CheckpointDirectory, snapshot: Snapshot) -> bool:
    """Whether the snapshot is a checkpoint in the folder that its job would use now."""
    if snapshot.kind is not SnapshotKind.CHECKPOINT:
        return False
    listed = directory.completed(snapshot.job_id)
    return any(e.checkpoint_id == snapshot.checkpoint_id and e.snapshot == snapshot for e in listed)


def _new_in_known_folder(
    directory: CheckpointDirectory,
    job_id: str | None,
    pointer: str | None,
    snapshot: Snapshot | None,
    pause: Pause,
) -> Beginning:
    """A new job in a folder that another may have: one folder, one job."""
    made = job_id or uuid.uuid4().hex
    folder = directory.job_folder(made)
    claim = newest_claim(folder)
    there = job_in(folder)
    if there is not None and there.has_finished:
        there = None
    holder = holder_of(folder, pause=pause) if there is None else None
    if there is None and holder is None:
        return Beginning(made, pointer, snapshot, watched=folder, claim=claim)
    if job_id is not None:
        what, other = f"job id '{job_id}' is taken", f"another {Key.JOB_ID}"
    else:
        what = f"{folder} is for one job, because execution.checkpointing.create-subdir is false"
        other = "another execution.checkpointing.dir"
    if there is None:
        raise SnapshotError(f"{what}, and a driver runs there: {holder}. Stop that driver first, or choose {other}")
    assert there.newest is not None
    raise SnapshotError(
        f"{what}, and there is a checkpoint already: {there.newest.pointer} of job '{there.name}' ({there.program}), "
        f"{time_text(there.time)}. Go on from it with -s latest, or choose {other}; to begin again from nothing, "
        f"remove {folder} first"
    )


def _directory_of(settings: CheckpointSettings) -> CheckpointDirectory | None:
    """Where jobs keep their checkpoints; None if that is each driver's memory."""
    if settings.storage is not Storage.FILESYSTEM:
        return None
    assert settings.directory is not None
    return CheckpointDirectory(settings.directory, settings.create_subdirectory)


def storage_of(settings: CheckpointSettings, job_id: str) -> JobStorage:
    """The place of a job, of the kind that its settings choose."""
    directory = _directory_of(settings)
    if directory is None:
        return MemoryJobStorage(job_id, settings.max_state_size, settings.folder_mode)
    return FileJobStorage(directory, job_id, settings.inline_threshold, settings.folder_mode)
