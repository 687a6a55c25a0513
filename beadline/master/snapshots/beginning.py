"""What a job starts from and under which id: found before anything is made and before another driver is fenced."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from beadline.checkpoint.contents.metadata import METADATA
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.directory.jobs import CheckpointDirectory, Job, choose, job_in, listing, refuse_finished
from beadline.checkpoint.directory.lookup import canonical, read_snapshot
from beadline.checkpoint.directory.trace import time_text
from beadline.checkpoint.ownership.holder import Pause, holder_of
from beadline.checkpoint.ownership.lease import Claim, newest_claim
from beadline.checkpoint.settings import JOB_ID, CheckpointSettings, Storage
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.checkpoint.storage.memory import MemoryJobStorage
from beadline.checkpoint.storage.storage import JobStorage
from beadline.errors import ConfigurationError
from beadline.graph.program import Program
from beadline.state.segments.files import is_folder, join, size_of

LATEST = "latest"


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
    job = _in_folder(directory, settings.job_id, pointer) if directory is not None and pointer is not None else None
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
    refuse_finished(job)
    snapshot, newest = job.snapshot, job.newest
    assert newest is not None
    holder = holder_of(job.folder, pause=pause)
    if holder is not None:
        raise SnapshotError(
            f"'latest' is a checkpoint of job '{job.name}' ({job.job_id}), which still runs: {holder}. Stop that "
            f"driver first; or take the job from it by naming the folder: -s {job.folder}"
        )
    return Beginning(job.job_id, newest.pointer, snapshot, True, True, job.folder, claim)


def _with_id(directory: CheckpointDirectory, job_id: str) -> Job:
    job = job_in(directory.job_folder(job_id), job_id)
    if job is not None:
        return job
    none = f"'latest' found no checkpoint of job '{job_id}' ({JOB_ID}) in {directory.path}"
    others = sorted(directory.jobs(), key=lambda job: job.time, reverse=True)
    if not others:
        raise SnapshotError(
            f"{none}: it never took one there, or it was cancelled or failed and kept none. Start it without -s"
        )
    raise SnapshotError(
        f"{none}. Other jobs are there:\n{listing(others)}\n"
        "If one of them is meant, name its id, or its checkpoint with -s PATH; else start the program without -s"
    )


def _in_folder(directory: CheckpointDirectory, job_id: str | None, pointer: str) -> Job | None:
    """The job whose folder was named. A single checkpoint of a living job would be gone before the new driver has
    started."""
    folder = canonical(pointer)
    if not is_folder(folder) or size_of(join(folder, METADATA)) is not None:
        return None
    job = job_in(folder)
    if job is None or directory.job_folder(job.job_id) != folder or job_id not in (None, job.job_id):
        return None
    refuse_finished(job)
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
        what, other = f"job id '{job_id}' is taken", f"another {JOB_ID}"
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
        return MemoryJobStorage(job_id, settings.max_state_size)
    return FileJobStorage(directory, job_id, settings.inline_threshold)
