"""What is left in a job's folder and not needed: after a crash, and when the job has ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beadline.checkpoint.cleanup.removal import EPOCH, SEGMENT_FILE, STAGED, TEMPORARY, remove_if_empty, remove_known
from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.lookup import CHECKPOINT, canonical, read_snapshot
from beadline.checkpoint.disk_errors import explained
from beadline.checkpoint.ownership.lease import counts, files_of, is_lease_file, is_old_beat, newest_claim
from beadline.state.segments.files import delete_file, entries_of, join, size_of

#: Tells people what has happened to the job.
HISTORY = "history"


def orphans_in(job: str, referenced: Iterable[str], epoch: int) -> list[str]:
    """What crashed or fenced drivers left in a job's folder: segments that no completed checkpoint needs, half-written
    files, checkpoints that are unfinished or don't count.

    Only names that Beadline makes are looked at.

    :param referenced: files that are needed beyond those of the completed checkpoints
    :param epoch: of the driver that has the job
    """
    needed = {canonical(path) for path in referenced}
    found, all_known = [], True
    for entry in entries_of(job):
        path = join(job, entry.name)
        number = CHECKPOINT.fullmatch(entry.name)
        if number is None:
            if STAGED.fullmatch(entry.name) if entry.folder else _is_outdated(entry.name, epoch):
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
        found += [path for path in _segments_in(join(job, metadata.SHARED)) if path not in needed]
    return found


def _is_outdated(name: str, epoch: int) -> bool:
    return is_old_beat(name, epoch) or TEMPORARY.fullmatch(name) is not None


def _segments_in(shared: str) -> Iterator[str]:
    for entry in entries_of(shared):
        path = join(shared, entry.name)
        if entry.folder and EPOCH.fullmatch(entry.name):
            yield from _segments_in(path)
        elif not entry.folder and SEGMENT_FILE.fullmatch(entry.name):
            yield path


def remove_job(job: str, comes_again: bool = False) -> bool:
    """Remove the folder of a job that has ended and kept no checkpoint; False if there is something left in it.

    :param comes_again: another job may use the folder: the last lease and its fence stay, so that no epoch is taken
        twice, and a driver of this job that wakes up late finds itself fenced
    """
    if any(CHECKPOINT.fullmatch(entry.name) for entry in entries_of(job)):
        return False
    with explained(f"can't remove {job}"):
        shared = join(job, metadata.SHARED)
        for path in _segments_in(shared):
            delete_file(path)
        for entry in entries_of(shared):
            remove_if_empty(join(shared, entry.name))
        remove_if_empty(shared)
        last = newest_claim(job) if comes_again else None
        kept = files_of(last.epoch) if last is not None else None
        for entry in entries_of(job):
            if kept is not None and kept.fullmatch(entry.name):
                continue
            if entry.name == HISTORY or is_lease_file(entry.name) or TEMPORARY.fullmatch(entry.name):
                delete_file(join(job, entry.name))
            elif STAGED.fullmatch(entry.name):
                remove_known(join(job, entry.name))
        return remove_if_empty(job)
