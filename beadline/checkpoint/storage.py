"""Where checkpoints are kept.

On a file system a job's folder looks as in Flink::

    <directory>/<job id>/
        shared/<epoch>/…     runs of state, named by content; checkpoints share them
        chk-17/_metadata     a completed checkpoint: what it holds and which runs it needs
        lease-…, fence-…     which driver the job belongs to, see beadline.checkpoint.lease
        beat-…               whether that driver is alive, see beadline.checkpoint.holder
        ended                the job has finished, see beadline.checkpoint.trace: nothing else is left then

A checkpoint completes in this order: everything it needs is durable; then its folder, made under another name, appears
as ``chk-N`` in one rename. A crash at any moment leaves the old checkpoints and at most files that look unfinished.

Runs too large for ``_metadata`` go to ``shared`` and not to ``chk-N``, because the restored job goes on from them: they
must outlive the checkpoint that wrote them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from beadline.checkpoint import metadata
from beadline.checkpoint.durable import Bundle, DurableFiles
from beadline.checkpoint.jobs import Job, job_in
from beadline.checkpoint.lease import Fenced, Lease, counts, files_of, is_lease_file, is_old_beat, newest_claim
from beadline.checkpoint.lookup import CHECKPOINT, Listed, canonical, folder_of, list_job, read_snapshot
from beadline.checkpoint.removal import (
    EPOCH,
    RUN_FILE,
    STAGED,
    TEMPORARY,
    remove_claimed,
    remove_if_empty,
    remove_known,
    remove_metadata,
)
from beadline.checkpoint.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.verify import Problem, verify
from beadline.state.files import (
    base_name,
    delete_file,
    delete_folder,
    entries_of,
    join,
    local_path,
    make_folder,
    parent,
    read_file,
    size_of,
    sync,
    write_file,
)

__all__ = [
    "CheckpointStorage",
    "FileSystemCheckpointStorage",
    "Listed",
    "Stored",
    "publish_savepoint",
    "read_snapshot",
]

DEFAULT_INLINE_THRESHOLD = 20 << 10

# Puts a snapshot's state into a folder: gives the snapshot that refers to it there, and the number of bytes.
Fill = Callable[[Snapshot, Bundle], tuple[Snapshot, int]]


@dataclass(frozen=True)
class Stored:
    """A checkpoint that has completed.

    :ivar pointer: where it is; what ``-s`` takes
    :ivar snapshot: as it was stored: every run durable, with a checksum
    :ivar written: how many bytes are new with it, runs that tasks wrote since the last one included
    """

    pointer: str
    snapshot: Snapshot
    written: int


class CheckpointStorage(ABC):
    """What the coordinator asks of a place for checkpoints.

    :ivar survives_driver: whether a new driver can resume from it
    """

    survives_driver: bool

    @abstractmethod
    def write(self, snapshot: Snapshot, lease: Lease | None = None) -> Stored:
        """Make a checkpoint complete, or raise and leave nothing that looks complete."""

    @abstractmethod
    def read(self, pointer: str) -> Snapshot:
        """The snapshot behind a pointer."""

    @abstractmethod
    def completed(self, job_id: str) -> list[Listed]:
        """The completed checkpoints of a job that count, newest first."""

    @abstractmethod
    def discard(self, pointer: str) -> None:
        """Remove a checkpoint. Its shared files are the registry's affair."""

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Remove files that the registry gave out, or what :meth:`orphans` found."""

    def discard_claimed(self, pointer: str) -> None:
        """A snapshot that the job has claimed is subsumed. Its files are the registry's affair."""
        if not self._is_fenced():
            with _explained(f"can't remove {pointer}"):
                remove_metadata(folder_of(pointer))

    def delete_claimed(self, paths: Iterable[str]) -> None:
        """Remove files of a claimed snapshot that nobody needs any more, and its folders when they are empty."""
        if not self._is_fenced():
            for path in paths:
                with _explained(f"can't remove {path}"):
                    remove_claimed(path)

    def _is_fenced(self) -> bool:
        """Whether another driver has the job, so that nothing may be removed."""
        return False

    def verify(self, snapshot: Snapshot) -> list[Problem]:
        """What is wrong with a snapshot's files."""
        return verify(snapshot)


class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints below a directory: a local path or any URI that ``pyarrow.fs`` knows.

    :param inline_threshold: runs up to this size stay in ``_metadata``
    :param create_subdir: whether each job has a folder of its own; without it only one job can use the directory
    """

    survives_driver = True

    def __init__(
        self, directory: str, inline_threshold: int = DEFAULT_INLINE_THRESHOLD, create_subdir: bool = True
    ) -> None:
        self.directory = canonical(directory)
        self._inline_threshold = inline_threshold
        self._create_subdir = create_subdir
        self._files = DurableFiles()
        self._lease: Lease | None = None
        self._writing: set[object] = set()

    def __repr__(self) -> str:
        return f"<FileSystemCheckpointStorage {self.directory}>"

    # -- folders

    def job_folder(self, job_id: str) -> str:
        """The folder of a job; its lease is there too."""
        return join(self.directory, job_id) if self._create_subdir else self.directory

    def shared_folder(self, job_id: str, epoch: int = 0) -> str:
        """Where the runs of a job go. A driver writes to the folder of its epoch only."""
        shared = join(self.job_folder(job_id), metadata.SHARED)
        return join(shared, str(epoch)) if epoch else shared

    def prepare(self, job_id: str, epoch: int = 0) -> str:
        """Make the folders of a job, and give the one for its runs."""
        folder = self.shared_folder(job_id, epoch)
        with _explained(f"can't use {self.directory} for checkpoints"):
            make_folder(folder)
        return folder

    # -- writing

    def write(self, snapshot: Snapshot, lease: Lease | None = None, copy_foreign: bool = False) -> Stored:
        """Make a checkpoint complete.

        1. look at the lease
        2. make runs durable: sync those that tasks wrote, write those that are inline and large
        3. write ``_metadata`` under another name
        4. look at the lease, then publish by rename (on object stores: by one put)
        5. look at the lease again: only now has the checkpoint completed

        :param copy_foreign: copy runs of other folders to this job's, so that the snapshot it was restored from can go
        :raises Fenced: another driver took over; delete and commit nothing
        """
        if lease is not None:
            self.hold(lease)
        writing = object()
        self._writing.add(writing)
        try:
            return self._write(snapshot, lease, copy_foreign)
        finally:
            self._writing.discard(writing)

    def _write(self, snapshot: Snapshot, lease: Lease | None, copy_foreign: bool) -> Stored:
        epoch = lease.epoch if lease else snapshot.epoch
        number = snapshot.checkpoint_id
        job = self.job_folder(snapshot.job_id)
        folder = join(job, f"chk-{number}")
        with _explained(f"can't write checkpoint {number} to {folder}"):
            if lease is not None:
                lease.check()
            shared = self.prepare(snapshot.job_id, epoch)
            own = join(job, metadata.SHARED).partition("?")[0] + "/"
            bundle = Bundle(shared, shared, self._inline_threshold)
            moved, written = self._files.bring(snapshot, bundle, lambda path: copy_foreign and not path.startswith(own))
            stored = replace(moved, epoch=epoch, kind=SnapshotKind.CHECKPOINT)
            data = metadata.encode(stored, folder)
            self._publish(folder, data, number, epoch, lease)
        if lease is not None:
            lease.check_after_publishing()
        return Stored(folder, stored, written + len(data))

    def write_savepoint(self, snapshot: Snapshot, directory: str | None = None, fill: Fill | None = None) -> Stored:
        """Write a savepoint: a folder that holds all it needs, and can be moved and copied.

        :param directory: where to put the folder; the checkpoint directory if not said
        :param fill: puts the state into the folder; if not said, the runs are copied as they are
        """
        target = canonical(directory or self.directory)
        job = re.sub("[^0-9a-zA-Z]", "", snapshot.job_id)[:6] or "0"
        folder = join(target, f"savepoint-{job}-{uuid.uuid4().hex[:12]}")
        return publish_savepoint(snapshot, folder, fill or _copy_runs, self._inline_threshold)

    def _publish(self, folder: str, data: bytes, number: int, epoch: int, lease: Lease | None) -> None:
        job = parent(folder)
        if local_path(job) is None:
            self._refuse_if_taken(folder, number)
            if lease is not None:
                lease.check()
            make_folder(folder)
            write_file(join(folder, metadata.METADATA), data)
            return
        staged = _staged(folder)
        try:
            os.mkdir(staged)
            _finish(staged, data)
            for _ in range(3):
                if lease is not None:
                    lease.check()
                try:
                    os.rename(staged, folder)
                    break
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    if lease is not None:
                        lease.check()
                    self._refuse_if_taken(folder, number)
                    # A driver that was fenced came in late with this number; it does not count.
                    os.rename(folder, _staged(folder))
            else:
                raise SnapshotError(f"can't publish {folder}: others keep making the same folder")
        except BaseException:
            with contextlib.suppress(OSError):
                delete_folder(staged)
            raise
        try:
            sync(job)
        except OSError:
            self.discard(folder)
            raise

    def _refuse_if_taken(self, folder: str, number: int) -> None:
        path = join(folder, metadata.METADATA)
        if size_of(path) is None:
            return
        with contextlib.suppress(SnapshotError):
            if not counts(parent(folder), number, metadata.decode(read_file(path), path).epoch):
                return
        raise SnapshotError(
            f"{folder} exists already. Checkpoints are never overwritten: a job that goes on in a folder numbers its "
            "checkpoints from above the highest one there"
        )

    # -- reading

    def read(self, pointer: str) -> Snapshot:
        """The snapshot at a path: the folder of a checkpoint or savepoint, or its ``_metadata``."""
        snapshot = read_snapshot(pointer)
        self._files.know(snapshot)
        return snapshot

    def completed(self, job_id: str) -> list[Listed]:
        found = list_job(self.job_folder(job_id))
        return [listed for listed in found if listed.snapshot is None or listed.snapshot.job_id == job_id]

    def highest_number(self, job_id: str) -> int:
        """The highest number that any checkpoint of the job has used, finished or not. New ones begin above it."""
        numbers = [
            int(match[1])
            for entry in entries_of(self.job_folder(job_id))
            if (match := re.match(r"\.?chk-(\d{1,18})(\.[0-9a-f]{8})?$", entry.name))
        ]
        return max(numbers, default=0)

    def jobs(self) -> list[Job]:
        """The jobs in the directory that have a checkpoint or have finished."""
        with _explained(f"can't look for jobs in {self.directory}"):
            found = [job_in(folder, job_id) for folder, job_id in self.job_folders()]
        return [job for job in found if job is not None]

    def job_folders(self) -> list[tuple[str, str | None]]:
        """Where jobs may be, with their ids where the folder tells."""
        if not self._create_subdir:
            return [(self.directory, None)]
        entries = (entry for entry in entries_of(self.directory) if entry.folder)
        return [(join(self.directory, entry.name), entry.name) for entry in entries]

    # -- removing

    def hold(self, lease: Lease) -> None:
        """From now on nothing is removed unless this lease is held: what a fenced driver thinks nobody needs, the new
        owner may need. :meth:`write` does this too."""
        self._lease = lease

    def _is_fenced(self) -> bool:
        try:
            if self._lease is not None:
                self._lease.check()
        except (Fenced, OSError):
            return True
        return False

    def discard(self, pointer: str) -> None:
        """Remove a checkpoint or savepoint: first its ``_metadata``, so that it never looks complete and is not; then
        what it wrote beside it; then the folder, if nothing else is in it."""
        folder = folder_of(pointer)
        name = base_name(folder)
        if not (CHECKPOINT.fullmatch(name) or size_of(join(folder, metadata.METADATA)) is not None):
            raise SnapshotError(f"{folder} is neither a checkpoint nor a savepoint, so it is not removed")
        if self._is_fenced():
            return
        with _explained(f"can't remove {folder}"):
            remove_known(folder)

    def delete(self, paths: Iterable[str]) -> None:
        if self._is_fenced():
            return
        for path in paths:
            self._files.forget(path)
            with _explained(f"can't remove {path}"):
                if CHECKPOINT.fullmatch(base_name(path)) or STAGED.fullmatch(base_name(path)):
                    remove_known(path)
                else:
                    delete_file(path)

    def orphans(self, job_id: str, referenced: Iterable[str] = ()) -> list[str]:
        """What crashed or fenced drivers left in a job's folder: runs that no completed checkpoint needs, files half
        written, checkpoints that are unfinished or don't count.

        Only names that Beadline makes are looked at. Call it with the lease held and no step under way: runs of a step
        that is not sealed are needed by nobody yet. While a checkpoint is being written nothing is an orphan.

        :param referenced: files that are needed beyond those of the completed checkpoints
        """
        if self._writing:
            return []
        job = self.job_folder(job_id)
        needed = {canonical(path) for path in referenced}
        found, all_known = [], True
        for entry in entries_of(job):
            path = join(job, entry.name)
            number = CHECKPOINT.fullmatch(entry.name)
            if number is None:
                if STAGED.fullmatch(entry.name) if entry.folder else self._is_outdated(entry.name):
                    found.append(path)
                continue
            if size_of(join(path, metadata.METADATA)) is None:
                found.append(path)
                continue
            try:
                snapshot = read_snapshot(path)
            except SnapshotError:
                all_known = False  # somebody may repair it: keep whatever it may need
                continue
            if counts(job, int(number[1]), snapshot.epoch):
                needed |= snapshot.files()
            else:
                found.append(path)
        if all_known:
            found += [path for path in self._runs_in(join(job, metadata.SHARED)) if path not in needed]
        return found

    def _is_outdated(self, name: str) -> bool:
        if self._lease is not None and is_old_beat(name, self._lease.epoch):
            return True
        return TEMPORARY.fullmatch(name) is not None

    def _runs_in(self, shared: str) -> Iterator[str]:
        for entry in entries_of(shared):
            path = join(shared, entry.name)
            if entry.folder and EPOCH.fullmatch(entry.name):
                yield from self._runs_in(path)
            elif not entry.folder and RUN_FILE.fullmatch(entry.name):
                yield path

    def remove_job(self, job_id: str, comes_again: bool = False) -> bool:
        """Remove the folder of a job that has ended and kept no checkpoint; False if there is something left in it, or
        another driver has it.

        :param comes_again: another job may use the folder: the last lease and its fence stay, so that no epoch is taken
            twice, and a driver of this job that wakes up late finds itself fenced
        """
        job = self.job_folder(job_id)
        if self._is_fenced() or any(CHECKPOINT.fullmatch(entry.name) for entry in entries_of(job)):
            return False
        with _explained(f"can't remove {job}"):
            shared = join(job, metadata.SHARED)
            for path in self._runs_in(shared):
                self._files.forget(path)
                delete_file(path)
            for entry in entries_of(shared):
                remove_if_empty(join(shared, entry.name))
            remove_if_empty(shared)
            last = newest_claim(job) if comes_again else None
            kept = files_of(last.epoch) if last is not None else None
            for entry in entries_of(job):
                if kept is not None and kept.fullmatch(entry.name):
                    continue
                if is_lease_file(entry.name) or TEMPORARY.fullmatch(entry.name):
                    delete_file(join(job, entry.name))
                elif STAGED.fullmatch(entry.name):
                    remove_known(join(job, entry.name))
            return remove_if_empty(job)


def publish_savepoint(
    snapshot: Snapshot, folder: str, fill: Fill, inline_threshold: int = DEFAULT_INLINE_THRESHOLD
) -> Stored:
    """Make a savepoint appear as a folder that does not exist yet.

    1. make the folder under another name (on object stores: without ``_metadata``)
    2. put the state into it, and make that durable
    3. write ``_metadata``, and publish by rename

    If anything fails, nothing is left.
    """
    local = local_path(folder)
    with _explained(f"can't write the savepoint {folder}"):
        make_folder(parent(folder))
        staged = folder if local is None else _staged(folder)
        make_folder(staged)
        try:
            moved, written = fill(snapshot, Bundle(staged, folder, inline_threshold))
            stored = replace(moved, kind=SnapshotKind.SAVEPOINT)
            data = metadata.encode(stored, folder)
            if local is None:
                write_file(join(folder, metadata.METADATA), data)
            else:
                _finish(staged, data)
                os.rename(staged, folder)
                staged = folder
                sync(parent(folder))
        except BaseException:
            with contextlib.suppress(OSError):
                delete_folder(staged)
            raise
    return Stored(folder, stored, written + len(data))


def _copy_runs(snapshot: Snapshot, bundle: Bundle) -> tuple[Snapshot, int]:
    return DurableFiles().bring(snapshot, bundle, lambda path: True)


def _staged(folder: str) -> str:
    return join(parent(folder), f".{base_name(folder)}.{uuid.uuid4().hex[:8]}")


def _finish(staged: str, data: bytes) -> None:
    """Put ``_metadata`` into a folder that is about to be renamed, and make both durable."""
    write_file(join(staged, metadata.METADATA), data, durable=True)
    sync(staged)


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Errors of the file system in words that say what to do."""
    try:
        yield
    except OSError as error:
        advice = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            option = "execution.checkpointing.savepoint-dir" if "savepoint" in what else "execution.checkpointing.dir"
            advice = f". Free some space there, or choose another directory with {option}"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            advice = ". The directory must be one that this process can make and write"
        raise SnapshotError(f"{what}: {error}{advice}") from error
