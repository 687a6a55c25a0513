"""What dead drivers have left in a checkpoint directory, and nobody can use: found, measured, removed.

A driver that goes on with a job removes what the one before it has left. Jobs that nobody goes on with keep it for
ever: segments that no checkpoint names, half-written files, unfinished checkpoints. Removing them is safe if

- no driver has the job. This is looked at once more before anything is removed: what was found before a driver came is
  nothing that it needs, for it goes on from a checkpoint, and its own files have names of their own;
- no checkpoint names them. Those of all jobs in the directory count, because a job may have claimed another's files.
  If one of them can't be read, nobody knows what it names, and segments stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from beadline.checkpoint.cleanup.removal import STAGED, orphans_in, remove_job, remove_known
from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import explained
from beadline.checkpoint.directory.jobs import read_trace
from beadline.checkpoint.directory.lookup import CHECKPOINT, Listed, canonical, list_job
from beadline.checkpoint.ownership.holder import Holder, holder_of, last_holder
from beadline.checkpoint.ownership.lease import is_lease_file
from beadline.state.segments import files

_RANDOM_ID = re.compile(r"[0-9a-f]{32}")

FindHolder = Callable[[str], Holder | None]


@dataclass(frozen=True)
class Leftover:
    """A file, or the folder of an unfinished checkpoint, that nobody can use."""

    path: str
    bytes: int


@dataclass(frozen=True)
class Leftovers:
    """What can be removed of one job.

    :ivar checkpoints: how many checkpoints it has
    :ivar whole: it has none and has not finished, so that nothing of it is needed
    :ivar kept: why nothing, or not all, can be removed; empty if all can
    """

    folder: str
    checkpoints: int
    found: tuple[Leftover, ...]
    whole: bool = False
    kept: str = ""

    @property
    def bytes(self) -> int:
        return sum(leftover.bytes for leftover in self.found)


def job_folders(path: str) -> list[str]:
    """The folders of jobs at a path: itself, or those in it."""
    folder = canonical(path)
    if _is_job(folder):
        return [folder]
    with explained(f"can't look for jobs in {folder}"):
        inside = [files.join(folder, entry.name) for entry in files.entries_of(folder) if entry.folder]
        return [each for each in inside if _is_job(each)]


def _is_job(folder: str) -> bool:
    return any(
        CHECKPOINT.fullmatch(entry.name) if entry.folder else is_lease_file(entry.name)
        for entry in files.entries_of(folder)
    )


def leftovers_in(path: str, referenced: Iterable[str] = (), holder: FindHolder = holder_of) -> list[Leftovers]:
    """What can be removed of each job at a path.

    :param referenced: files that are needed besides those that checkpoints in the directory name
    """
    jobs = job_folders(path)
    if not jobs:
        return []
    with explained(f"can't look for jobs in {path}"):
        neighbours = {each: list_job(each) for each in {*jobs, *job_folders(files.parent(jobs[0]))}}
        needed = set(referenced)
        damaged: Listed | None = None
        for listed in (listed for found in neighbours.values() for listed in found):
            if listed.snapshot is None:
                damaged = listed
            else:
                needed |= listed.snapshot.files()
        return [_of_job(job, neighbours[job], needed, damaged, holder) for job in jobs]


def _of_job(
    job: str, listed: list[Listed], needed: set[str], damaged: Listed | None, find_holder: FindHolder
) -> Leftovers:
    alive = find_holder(job)
    if alive is not None:
        return Leftovers(job, len(listed), (), kept=f"the job runs: {alive}")
    last = last_holder(job)
    paths = orphans_in(job, needed, last.epoch if last is not None else 0)
    kept = ""
    if damaged is not None:
        shared = files.join(job, metadata.SHARED).partition("?")[0] + "/"
        paths = [path for path in paths if not path.startswith(shared)]
        kept = f"its segments stay, because nobody knows which of them {damaged.pointer} names: {damaged.problem}"
    # A checkpoint folder that is not among the listed ones is unfinished or fenced, and in the paths.
    whole = not listed and not kept and read_trace(job) is None and not any(path in needed for path in _all(job))
    return Leftovers(job, len(listed), tuple(Leftover(path, _size(path)) for path in paths), whole, kept)


def _all(job: str) -> Iterable[str]:
    """Files of the job that others may have claimed."""
    shared = files.join(job, metadata.SHARED)
    for entry in files.entries_of(shared):
        path = files.join(shared, entry.name)
        yield from (files.join(path, inner.name) for inner in files.entries_of(path)) if entry.folder else (path,)


def _size(path: str) -> int:
    if not _is_snapshot(path):
        return files.size_of(path) or 0
    return sum(files.size_of(files.join(path, entry.name)) or 0 for entry in files.entries_of(path))


def _is_snapshot(path: str) -> bool:
    name = files.base_name(path)
    return bool(CHECKPOINT.fullmatch(name) or STAGED.fullmatch(name))


def remove(leftovers: Leftovers, holder: FindHolder = holder_of) -> bool:
    """Remove what was found; False if a driver has taken the job meanwhile."""
    job = leftovers.folder
    if holder(job) is not None:
        return False
    with explained(f"can't remove what is left in {job}"):
        for leftover in leftovers.found:
            if _is_snapshot(leftover.path):
                remove_known(leftover.path)
            else:
                files.delete_file(leftover.path)
        if leftovers.whole:
            # Only a random id never comes again.
            remove_job(job, comes_again=_RANDOM_ID.fullmatch(files.base_name(job)) is None)
    return True
