"""The jobs of a checkpoint directory, and which of them is an earlier run of a program.

A job that has finished leaves a trace, a small file that says so. Without it nobody could tell it from a job that never
ran: both have no checkpoints. The file is written before the checkpoints are removed, when all output is visible, so
that a crash in between leaves one or the other. It counts unless a later driver has taken the job.

A job that stops with a savepoint leaves it earlier: when the savepoint is complete, and before any of its output is
visible. Systems outside take nothing back, so from then on nobody may go on from an older checkpoint. If the job fails
all the same, and goes on, its next checkpoint makes that trace void: the job removes it, or says so in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from beadline.checkpoint.contents.metadata import program_from_json, program_to_json
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, explained
from beadline.checkpoint.directory.lookup import Listed, canonical, from_newest, list_job
from beadline.checkpoint.ownership.holder import last_holder
from beadline.checkpoint.ownership.lease import claims_in
from beadline.common.secrets import masked_arguments
from beadline.errors import JobFinishedError
from beadline.graph.program import DEFAULT_JOB_NAME, Program
from beadline.state.segments.files import delete_file, entries_of, join, read_file, sync, write_file

_SHOWN = 5
_LONGEST_PROGRAM = 120
ENDED = "ended"
_FINISHED, _STOPPING, _VOID = "FINISHED", "STOPPING", "VOID"


@dataclass(frozen=True)
class Job:
    """A job that has left something in the directory: ``newest`` is its newest checkpoint that can be read, or the
    newest if none can; None if it has finished. ``time`` is of that, in milliseconds. ``savepoint``: what it was
    stopped with, if it was; ``is_over``: all its output is visible."""

    folder: str
    job_id: str
    name: str
    program: Program
    time: int
    newest: Listed | None = None
    savepoint: str = ""
    is_over: bool = True

    @classmethod
    def that_finished(cls, folder: str, trace: Trace) -> Job:
        savepoint, is_over = trace.savepoint, not trace.is_stopping
        return cls(folder, trace.job_id, trace.job_name, trace.program, trace.time, None, savepoint, is_over)

    @property
    def has_finished(self) -> bool:
        return self.newest is None

    @property
    def snapshot(self) -> Snapshot:
        """Its newest checkpoint."""
        if self.newest is None or self.newest.snapshot is None:
            problem = "" if self.newest is None else f": {self.newest.problem}"
            raise SnapshotError(f"none of the checkpoints in {self.folder} can be read{problem}")
        return self.newest.snapshot

    def is_run_of(self, name: str, program: Program) -> bool:
        """Whether this is a job of a program: one of a name that somebody chose, with the same script or the same
        graph. The default name says nothing: then script, arguments and graph must all be the same. An earlier version
        may have kept a secret among the arguments that is masked now."""
        if self.name != name:
            return False
        same_script = bool(program.script) and program.script == self.program.script
        same_graph = bool(program.graph) and program.graph == self.program.graph
        if name == DEFAULT_JOB_NAME:
            return same_script and same_graph and program.arguments == masked_arguments(self.program.arguments)
        return same_script or same_graph

    def line(self) -> str:
        """All that a person needs to choose it."""
        if self.newest is not None and self.newest.snapshot is None:
            return f"{self.job_id}: {self.newest.pointer} can't be read"
        where = "" if self.newest is None else f"{self.newest.pointer} of "
        program = str(self.program)
        if len(program) > _LONGEST_PROGRAM:
            program = f"{program[:_LONGEST_PROGRAM]}…"
        return f"{self.job_id}: '{self.name}', {program}: {where}{time_text(self.time)}, {self._standing()}"

    def _standing(self) -> str:
        if self.has_finished:
            return f"stopped with {self.savepoint}" if self.savepoint else "finished"
        holder = last_holder(self.folder)
        if holder is None or holder.ended:
            return "ended"
        alive = holder.is_alive()
        if alive is None:
            return f"last run elsewhere by {holder}"
        return f"runs: {holder}" if alive else "its driver is dead"


def job_in(folder: str, job_id: str | None = None) -> Job | None:
    """The job of a folder, of that id if one is given; None if it has neither finished nor a checkpoint."""
    trace = read_trace(folder)
    if trace is not None:
        return Job.that_finished(folder, trace) if job_id in (None, trace.job_id) else None
    damaged: Listed | None = None
    for listed in from_newest(folder):
        snapshot = listed.snapshot
        if snapshot is None:
            damaged = damaged or listed
        elif job_id in (None, snapshot.job_id):
            return Job(folder, snapshot.job_id, snapshot.job_name, snapshot.program, snapshot.timestamp, listed)
    return Job(folder, job_id or "?", "?", Program(), 0, damaged) if damaged is not None else None


def choose(jobs: Iterable[Job], name: str, program: Program, directory: str) -> Job:
    """The one job that a program means by ``latest``; if there is none or more than one, the error lists them."""
    jobs = sorted(jobs, key=lambda job: job.time, reverse=True)
    own = [job for job in jobs if job.is_run_of(name, program)]
    if len(own) == 1:
        return own[0]
    who = f"'{name}', {program}"
    if own:
        raise SnapshotError(
            f"'latest' could mean any of {len(own)} jobs of this program ({who}) in {directory}:\n{listing(own)}\n"
            "Name the one to go on from with -s PATH. Remove those that nobody needs with 'beadline savepoint dispose "
            "PATH', or give each job an id of its own with -D beadline.job-id=…"
        )
    none = f"'latest' found no checkpoint of this program ({who}) in {directory}"
    if not jobs:
        raise SnapshotError(
            f"{none}: it never took one there, or it was cancelled or failed and kept none. Start it without -s"
        )
    rule = (
        "the job has no name of its own, so script, arguments and graph must be the same"
        if name == DEFAULT_JOB_NAME
        else "the name and the script or the graph must be the same"
    )
    raise SnapshotError(
        f"{none} ({rule}). Other jobs are there:\n{listing(jobs)}\n"
        "If one of them is meant, name its checkpoint with -s PATH, or its id with -D beadline.job-id=…; else start "
        "the program without -s"
    )


def listing(jobs: Sequence[Job]) -> str:
    """One line for each of the first few."""
    lines = [f"  {job.line()}" for job in jobs[:_SHOWN]]
    if len(jobs) > _SHOWN:
        lines.append(f"  … and {len(jobs) - _SHOWN} more")
    return "\n".join(lines)


def refuse_finished(job: Job) -> None:
    """A job that has finished has nothing to go on from; one that was stopped has its savepoint."""
    if not job.has_finished:
        return
    who, again = f"job '{job.name}' ({job.job_id})", "Start it without -s to run it again"
    if not job.is_over:
        raise SnapshotError(
            f"{who} was stopped with a savepoint at {time_text(job.time)}, and ended before all output was known to be "
            f"visible. Go on from the savepoint with -s {job.savepoint}: that publishes the rest. From an "
            "older checkpoint, output that is visible already would come a second time"
        )
    if job.savepoint:
        raise JobFinishedError(
            f"{who} was stopped with a savepoint at {time_text(job.time)}: go on from there with -s {job.savepoint}. "
            f"{again} from its beginning"
        )
    raise JobFinishedError(
        f"{who} finished at {time_text(job.time)}: there is nothing to go on from. {again}; if it was stopped with a "
        "savepoint, name that with -s PATH"
    )


class CheckpointDirectory:
    """Where jobs keep their checkpoints: a local path or any URI that ``pyarrow.fs`` knows. Without ``create_subdir``
    jobs have no folders of their own, and only one job can use the directory."""

    def __init__(self, path: str, create_subdir: bool = True) -> None:
        self.path = canonical(path)
        self._create_subdir = create_subdir

    def job_folder(self, job_id: str) -> str:
        """The folder of a job; its lease is there too."""
        return join(self.path, job_id) if self._create_subdir else self.path

    def job_folders(self) -> list[tuple[str, str | None]]:
        """Where jobs may be, with their ids where the folder tells."""
        if not self._create_subdir:
            return [(self.path, None)]
        entries = (entry for entry in entries_of(self.path) if entry.folder)
        return [(join(self.path, entry.name), entry.name) for entry in entries]

    def jobs(self) -> list[Job]:
        """The jobs in the directory that have a checkpoint or have finished."""
        with explained(f"can't look for jobs in {self.path}"):
            found = [job_in(folder, job_id) for folder, job_id in self.job_folders()]
        return [job for job in found if job is not None]

    def completed(self, job_id: str) -> list[Listed]:
        """The completed checkpoints of a job that count, newest first."""
        found = list_job(self.job_folder(job_id))
        return [listed for listed in found if listed.snapshot is None or listed.snapshot.job_id == job_id]


@dataclass(frozen=True)
class Trace:
    """A job that has finished: when, in milliseconds, in which epoch, and whether the user chose its id.

    :ivar savepoint: what it was stopped with, if it was
    :ivar checkpoint: the number of that, until all output is known to be visible: a newer checkpoint makes it void
    """

    job_id: str
    job_name: str
    program: Program
    time: int
    epoch: int
    chosen_id: bool = False
    savepoint: str = ""
    checkpoint: int | None = None

    @property
    def is_stopping(self) -> bool:
        return self.checkpoint is not None


def trace_path(folder: str) -> str:
    return join(folder, ENDED)


def write_trace(folder: str, trace: Trace) -> None:
    """Leave a trace in a job's folder that outlives a power cut. Only the holder of its lease may."""
    written = {
        "job_id": trace.job_id,
        "job_name": trace.job_name,
        "status": _STOPPING if trace.is_stopping else _FINISHED,
        "time": trace.time,
        "at": time_text(trace.time),
        "epoch": trace.epoch,
        "chosen_id": trace.chosen_id,
        "savepoint": trace.savepoint,
        "checkpoint": trace.checkpoint,
        "program": program_to_json(trace.program),
    }
    write_file(trace_path(folder), json.dumps(written, indent=1).encode() + b"\n", durable=True)
    sync(folder)


def drop_trace(folder: str) -> None:
    """The job has not finished after all."""
    delete_file(trace_path(folder))
    sync(folder)


def void_trace(folder: str) -> None:
    """The same for one that can't be removed now: what it says counts no longer."""
    write_file(trace_path(folder), json.dumps({"status": _VOID}).encode() + b"\n", durable=True)
    sync(folder)


def read_trace(folder: str, before: int | None = None) -> Trace | None:
    """The trace in a job's folder; None if the job has not finished, has gone on since, or a later driver has taken it.

    :param before: whose epoch does not count, nor those after it
    """
    try:
        read: dict[str, Any] = json.loads(read_file(trace_path(folder)))
        if read.get("status") == _VOID:
            return None
        checkpoint = read.get("checkpoint")
        trace = Trace(
            str(read["job_id"]),
            str(read["job_name"]),
            program_from_json(read["program"]),
            int(read["time"]),
            int(read["epoch"]),
            bool(read["chosen_id"]),
            str(read.get("savepoint") or ""),
            int(checkpoint) if checkpoint is not None else None,
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, SnapshotError):
        return None  # nothing that Beadline wrote
    except OSError as error:
        raise SnapshotError(f"can't tell whether the job in {folder} has finished: {error}") from error
    epochs = (claim.epoch for claim in claims_in(folder))
    if max((epoch for epoch in epochs if before is None or epoch < before), default=0) > trace.epoch:
        return None
    newest = next(from_newest(folder), None) if trace.checkpoint is not None else None
    return None if newest is not None and newest.checkpoint_id > (trace.checkpoint or 0) else trace


def time_text(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
