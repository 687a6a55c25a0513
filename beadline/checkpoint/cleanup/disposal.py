"""Snapshots that change hands: disposing of one that no job needs, claiming one, and what finished jobs have left.

A job that has finished leaves a note: one for each program, and only while it counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from beadline.checkpoint.cleanup.removal import PART_FILE, is_state_file, remove_claimed, remove_job, remove_known
from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.directory.jobs import CheckpointDirectory, Job, Trace, read_trace, trace_path, write_trace
from beadline.checkpoint.directory.lookup import CHECKPOINT, canonical, folder_of, list_job, read_snapshot
from beadline.checkpoint.ownership.holder import holder_of
from beadline.graph.program import Program
from beadline.state.segments.files import base_name, delete_file, join, parent, size_of


@dataclass(frozen=True)
class Disposed:
    """What was removed. The folder stays if there is something else in it."""

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


# -- claiming


def check_claimable(pointer: str, snapshot: Snapshot) -> None:
    """Refuse to claim the checkpoint of a job that still runs: it goes on using and removing its files."""
    if snapshot.kind is not SnapshotKind.CHECKPOINT:
        return
    folder = folder_of(pointer)
    holder = holder_of(parent(folder))
    if holder is not None:
        raise SnapshotError(
            f"{folder} can't be claimed: its job still runs (its driver: {holder}). Cancel that job first, or restore "
            "with execution.state-recovery.claim-mode NO_CLAIM"
        )


def claimable(files: Iterable[str], claimed: str | None = None) -> frozenset[str]:
    """The files that may be deleted when this job no longer needs them: those with names that Beadline makes; and of a
    folder that checkpoints of another job share, only those that none of them needs, ``claimed`` not counted."""
    by_job: dict[str, set[str]] = {}
    anothers = cache(_is_another_snapshot)
    for path in files:
        if is_state_file(path) and not (claimed is not None and anothers(_folder_of(path), claimed)):
            job, shared, _ = path.partition(f"/{metadata.SHARED}/")
            by_job.setdefault(job if shared else "", set()).add(path)
    own = by_job.pop("", set())
    for job, shared_files in by_job.items():
        others = [entry for entry in list_job(job) if entry.pointer != claimed]
        if all(entry.snapshot is not None for entry in others):
            own |= shared_files.difference(*(entry.snapshot.files() for entry in others if entry.snapshot is not None))
    return frozenset(own)


def _folder_of(path: str) -> str:
    """Of a file in a savepoint: the savepoint's."""
    return parent(parent(parent(path))) if PART_FILE.fullmatch(base_name(path)) else parent(path)


def _is_another_snapshot(folder: str, claimed: str) -> bool:
    """Whether a folder is a complete snapshot and not the one that is claimed, which may be a stranger's and name any
    file."""
    return canonical(folder) != claimed and size_of(join(folder, metadata.METADATA)) is not None


# -- what finished jobs leave


def leave_trace(directory: CheckpointDirectory, trace: Trace) -> None:
    """A job has finished: note it, and remove the notes of earlier runs of the same program."""
    write_trace(directory.job_folder(trace.job_id), trace)
    _drop_others(directory, trace.job_id, trace.job_name, trace.program)


def make_room(folder: str) -> None:
    """A new job takes the folder of a finished one, which may have died while it removed its checkpoints."""
    if read_trace(folder) is None:
        return
    try:
        _remove_checkpoints(folder)
    except OSError as error:
        raise SnapshotError(f"the job can't begin in {folder}, where another has finished: {error}") from error


def job_begins(directory: CheckpointDirectory, job_id: str, job_name: str, program: Program) -> None:
    """A driver has taken a job, which has not finished. The notes of earlier runs of its program no longer count."""
    path = trace_path(directory.job_folder(job_id))
    try:
        delete_file(path)
    except OSError as error:
        raise SnapshotError(f"the job can't begin, because {path} can't be removed: {error}") from error
    _drop_others(directory, job_id, job_name, program)


def _drop_others(directory: CheckpointDirectory, job_id: str, job_name: str, program: Program) -> None:
    """A job whose id the user chose is another one, whatever its program is."""
    with contextlib.suppress(OSError, SnapshotError):
        for folder, _ in directory.job_folders():
            trace = read_trace(folder)
            if trace is None or trace.job_id == job_id or trace.chosen_id:
                continue
            if not Job.that_finished(folder, trace).is_run_of(job_name, program):
                continue
            if trace.is_stopping and holder_of(folder) is not None:
                continue  # its driver is at it
            _remove_checkpoints(folder)
            delete_file(trace_path(folder))
            remove_job(folder)


def _remove_checkpoints(folder: str) -> None:
    """Remove the checkpoints of a job that has finished. What can't be read stays: somebody may repair it."""
    for listed in list_job(folder):
        if listed.snapshot is not None:
            remove_known(listed.pointer)
