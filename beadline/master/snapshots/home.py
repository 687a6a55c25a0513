"""Where a job lives: its id, where its checkpoints and segments of state go, and what it starts from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Set

from beadline.checkpoint.cleanup.disposal import check_claimable, claimable
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.coordinator.parts import CompletedCheckpoint
from beadline.checkpoint.directory.lookup import Listed, folder_of, read_snapshot
from beadline.checkpoint.directory.trace import Trace
from beadline.checkpoint.settings import CheckpointSettings, ClaimMode
from beadline.checkpoint.storage.publishing import Stored
from beadline.errors import BeadlineError
from beadline.graph.program import Program
from beadline.master.snapshots.beginning import Beginning, find_beginning, storage_of

_LOG = logging.getLogger("beadline")

Accept = Callable[[str, Snapshot], None]


class Home:
    """The place of one job, over all its executions and drivers.

    A job that is resumed from one of its own checkpoints goes on in its folder, under its id: its former driver is
    fenced. From a savepoint, or a checkpoint elsewhere, a new job begins. What it started from stays untouched, unless
    it was told to claim it: then that is its first checkpoint.

    :param accept: looks at what the job would start from, and raises if it can't
    :param program: whose job it is
    :param beginning: what :func:`~.beginning.find_beginning` has found, if it was asked already
    :ivar storage: its checkpoints and state, and the right to write them
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
        """Go on in the job's own folder, whose lease is held.

        Listed again: the former driver may have completed one more before it was fenced.
        """
        listed = self.storage.completed()
        if self._newest:
            self.pointer, self.start = self._newest_good(listed)
        elif self.start is not None and self.pointer is not None:
            self._check(self.pointer, self.start)
        self.completed = [Stored(e.pointer, e.snapshot, 0) for e in reversed(listed) if e.snapshot is not None]
        # Checkpoints name files elsewhere only if an earlier run has claimed them.
        files = {path for stored in self.completed for path in stored.snapshot.files()}
        self.claimed_files = claimable(path for path in files if not self._is_in_own_folder(path))

    def __repr__(self) -> str:
        return f"<Home of job {self.job_id} in {self.storage!r}>"

    @property
    def next_id(self) -> int:
        """The number of the next checkpoint: above all that were ever used in the folder."""
        used = self.start.checkpoint_id if self.start is not None else 0
        return max(used, self.storage.highest_number()) + 1

    def recovery_points(self) -> list[CompletedCheckpoint]:
        return [CompletedCheckpoint(s.snapshot.checkpoint_id, s.snapshot.step) for s in self.completed]

    # -- what to start from

    def _newest_good(self, listed: list[Listed]) -> tuple[str, Snapshot]:
        for entry in listed:
            if entry.snapshot is None:
                _LOG.warning("%s can't be used, so the one before it is tried: %s", entry.pointer, entry.problem)
                continue
            problems = self.storage.verify(entry.snapshot)
            if not problems:
                return entry.pointer, entry.snapshot
            _LOG.warning("%s can't be used, so the one before it is tried: %s", entry.pointer, problems[0])
        raise SnapshotError(f"none of the {len(listed)} checkpoints in {self._settings.directory} can be read")

    def _check(self, pointer: str, snapshot: Snapshot) -> None:
        problems = self.storage.verify(snapshot)
        if problems:
            more = f", and {len(problems) - 1} more problems" if len(problems) > 1 else ""
            raise SnapshotError(f"{pointer} can't be restored: {problems[0]}{more}")

    def _is_in_own_folder(self, path: str) -> bool:
        folder = self.owned_folder().partition("?")[0]
        return bool(folder) and path.startswith(folder + "/")

    def read(self, pointer: str) -> Snapshot:
        """A checkpoint of the job, or the snapshot that it has claimed."""
        return read_snapshot(pointer) if pointer == self.claimed else self.storage.read(pointer)

    # -- segments of state

    def state_folder(self, attempt: int, one_machine: bool) -> str:
        """Where the segments of an execution go: a folder that all executors reach."""
        return self.storage.state_folder(attempt, one_machine)

    def owned_folder(self) -> str:
        """Files below it may be deleted when nobody needs them."""
        return self.storage.owned_folder()

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

    def hold(self) -> None:
        """From now on others can see that the job's driver is alive."""
        self.storage.show_life()

    def let_go(self) -> None:
        """The driver has ended, however it did."""
        self.storage.let_go()

    def note_finish(self, now: int) -> None:
        """The job has finished and all its output is visible. Call it before anything is removed: a crash in between
        must not look as if the job had never run."""
        if not self._settings.enabled:
            return  # without checkpoints nobody resumes it
        chosen = self._settings.job_id is not None
        trace = Trace(self.job_id, self._job_name, self._program, now, self.storage.epoch, chosen)
        try:
            self.storage.leave_trace(trace)
        except (BeadlineError, OSError) as error:
            _LOG.warning("the job has finished, but could not record that: %s", error)

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
