"""Disposing of a savepoint, or of a checkpoint that no job needs any more."""

from __future__ import annotations

from dataclasses import dataclass

from beadline.checkpoint.cleanup.leftovers import remove_job
from beadline.checkpoint.cleanup.removal import is_state_file, remove_claimed, remove_known
from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.directory.lookup import CHECKPOINT, folder_of, list_job, read_snapshot
from beadline.checkpoint.ownership.holder import holder_of
from beadline.state.segments.files import base_name, delete_file, join, parent, size_of


@dataclass(frozen=True)
class Disposed:
    """What was removed.

    :ivar folder: where it was
    :ivar files: how many files went
    :ivar bytes: how large they were
    :ivar is_gone: whether the folder is gone too; it stays if there is something else in it
    """

    folder: str
    files: int
    bytes: int
    is_gone: bool


def dispose_savepoint(path: str) -> Disposed:
    """Remove a savepoint or a retained checkpoint: what Beadline wrote there, and nothing else.

    1. read it: what can't be read is left alone
    2. refuse the checkpoint of a job that still runs
    3. remove ``_metadata``, so that nobody starts from an incomplete snapshot
    4. remove its files; of a checkpoint those that no other checkpoint of its job needs

    :param path: the folder, or the ``_metadata`` in it
    """
    snapshot = read_snapshot(path)
    folder = folder_of(path)
    try:
        if snapshot.kind is SnapshotKind.SAVEPOINT:
            files = [file for file in snapshot.files() if file.startswith(folder + "/")]
            count, size = _measure([*files, join(folder, metadata.METADATA)])
            return Disposed(folder, count, size, remove_known(folder))
        return _dispose_checkpoint(folder, snapshot)
    except OSError as error:
        raise SnapshotError(f"can't dispose of {folder}: {error}") from error


def _dispose_checkpoint(folder: str, snapshot: Snapshot) -> Disposed:
    job = parent(folder)
    if CHECKPOINT.fullmatch(base_name(folder)) is None:
        raise SnapshotError(
            f"{folder} is a checkpoint that was moved out of its job's folder, so that nobody knows whether other "
            "checkpoints need its files: remove it by hand"
        )
    holder = holder_of(job)
    if holder is not None:
        raise SnapshotError(
            f"{folder} belongs to a job that still runs (its driver: {holder}), which removes its checkpoints itself. "
            "Cancel the job first"
        )
    others = [entry for entry in list_job(job) if entry.pointer != folder]
    damaged = next((entry.problem for entry in others if entry.snapshot is None), None)
    if damaged is not None:
        raise SnapshotError(f"{folder} stays, because nobody knows which files it shares with another one: {damaged}")
    needed = {file for entry in others if entry.snapshot is not None for file in entry.snapshot.files()}
    shared = join(job, metadata.SHARED).partition("?")[0] + "/"
    files = [file for file in snapshot.files() - needed if file.startswith(shared) and is_state_file(file)]
    count, size = _measure([*files, join(folder, metadata.METADATA)])
    delete_file(join(folder, metadata.METADATA))
    for file in files:
        remove_claimed(file)
    is_gone = remove_known(folder)
    if not others:
        remove_job(job)
    return Disposed(folder, count, size, is_gone)


def _measure(files: list[str]) -> tuple[int, int]:
    sizes = [size for file in files if (size := size_of(file)) is not None]
    return len(sizes), sum(sizes)
