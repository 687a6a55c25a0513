"""The notes that jobs leave when they have finished: one for each program, and only while it counts."""

from __future__ import annotations

import contextlib

from beadline.checkpoint.cleanup.leftovers import remove_job
from beadline.checkpoint.cleanup.removal import remove_known
from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.directory import CheckpointDirectory
from beadline.checkpoint.directory.jobs import Job
from beadline.checkpoint.directory.lookup import list_job
from beadline.checkpoint.directory.trace import Trace, read_trace, trace_path, write_trace
from beadline.graph.program import Program
from beadline.state.segments.files import delete_file


def leave_trace(directory: CheckpointDirectory, trace: Trace) -> None:
    """A job has finished: note it, and remove the notes of earlier runs of the same program."""
    write_trace(directory.job_folder(trace.job_id), trace)
    _drop_others(directory, trace.job_id, trace.job_name, trace.program)


def make_room(folder: str) -> None:
    """A new job is about to take the folder of a finished one. If that one died while it cleaned up, it left
    checkpoints, and nobody may go on from them."""
    if read_trace(folder) is None:
        return
    try:
        _remove_checkpoints(folder)
    except OSError as error:
        raise SnapshotError(f"the job can't begin in {folder}, where another has finished: {error}") from error


def job_begins(directory: CheckpointDirectory, job_id: str, job_name: str, program: Program) -> None:
    """A driver has taken a job, which has therefore not finished. The notes of earlier
    runs of its program no longer count."""
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
            if Job.that_finished(folder, trace).is_run_of(job_name, program):
                _remove_checkpoints(folder)
                delete_file(trace_path(folder))
                remove_job(folder)


def _remove_checkpoints(folder: str) -> None:
    """Remove the checkpoints of a job that has finished. What can't be read stays: somebody may repair it."""
    for listed in list_job(folder):
        if listed.snapshot is not None:
            remove_known(listed.pointer)
