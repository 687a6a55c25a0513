"""Removing what Beadline wrote, and nothing else: it is known by its names."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import SnapshotError, explained
from beadline.checkpoint.directory.lookup import CHECKPOINT, canonical, read_snapshot
from beadline.checkpoint.ownership.lease import counts, files_of, is_lease_file, is_old_beat, newest_claim
from beadline.state.segments import files

STAGED = re.compile(r"\.(chk-\d{1,18}|savepoint-[0-9a-zA-Z]{1,6}-[0-9a-f]{12})\.[0-9a-f]{8}")
# What is being written has a dot before and a random part after.
_SEGMENT = files.SEGMENT_NAME
_DRAFT = r"\.draft\.[0-9a-f]{12}"
SEGMENT_FILE = re.compile(rf"{_SEGMENT}|\.{_SEGMENT}\.[0-9a-f]{{8}}|{_DRAFT}")
# The same for the Parquet files of a canonical savepoint.
_PART = files.PART_NAME
PART_FILE = re.compile(rf"{_PART}|\.{_PART}\.[0-9a-f]{{8}}|{_DRAFT}")
TEMPORARY = re.compile(
    r"\.(lease-\d{1,9}(-[0-9a-f]{8})?|(fence|beat|driver)-\d{1,9}|ended|history(-\w{1,18})?|_metadata)\.[0-9a-f]{8}"
)
EPOCH = re.compile(r"\d{1,9}")
#: Tells people what has happened to the job.
HISTORY = "history"
PAGE = re.compile(rf"{HISTORY}-(events|\d{{1,16}})")
#: Sinks stage there: ``output/.staging-<sink>/<epoch>/<piece>``.
OUTPUT = "output"
_SINK = re.compile(r"\.staging-[0-9a-f]{32}")
_PIECE = re.compile(r"[0-9a-f]{32}|\.[0-9a-f]{32}\.[0-9a-f]{8}")


def is_state_file(path: str) -> bool:
    """Whether a file has a name that Beadline gives to files of state."""
    name = files.base_name(path)
    return bool(SEGMENT_FILE.fullmatch(name) or PART_FILE.fullmatch(name))


def remove_known(folder: str) -> bool:
    """Remove a checkpoint's or savepoint's own files, ``_metadata`` first, and the folder; False if that is not
    empty."""
    files.delete_file(files.join(folder, metadata.METADATA))
    for entry in files.entries_of(folder):
        path = files.join(folder, entry.name)
        if entry.folder:
            _remove_operator(path)
        elif SEGMENT_FILE.fullmatch(entry.name) or TEMPORARY.fullmatch(entry.name):
            files.delete_file(path)
    return remove_if_empty(folder)


def _remove_operator(folder: str) -> None:
    """The Parquet files below ``<operator>/<state>/``."""
    touched = False
    for state in files.entries_of(folder):
        if not state.folder:
            continue
        path = files.join(folder, state.name)
        parts = [entry.name for entry in files.entries_of(path) if not entry.folder and PART_FILE.fullmatch(entry.name)]
        for name in parts:
            files.delete_file(files.join(path, name))
        if parts:
            touched = True
            remove_if_empty(path)
    if touched:
        remove_if_empty(folder)


def remove_metadata(folder: str) -> None:
    """Nobody can go on from a claimed snapshot any more. Its files stay as long as somebody needs them."""
    files.delete_file(files.join(folder, metadata.METADATA))
    remove_if_empty(folder)


def remove_claimed(path: str) -> None:
    """Remove a file of a claimed snapshot, and the folders of the snapshot that are empty then; ``shared`` folders stay
    with their job. If a crash has left the ``_metadata`` of a claimed savepoint, that goes first."""
    if _is_shared(files.parent(path)):
        files.delete_file(path)
        return
    folders = [files.parent(path)]
    if PART_FILE.fullmatch(files.base_name(path)):
        folders += [files.parent(folders[0]), files.parent(files.parent(folders[0]))]
    files.delete_file(files.join(folders[-1], metadata.METADATA))
    files.delete_file(path)
    for folder in folders:
        if not remove_if_empty(folder):
            return


def _is_shared(folder: str) -> bool:
    name = files.base_name(folder)
    if EPOCH.fullmatch(name):
        name = files.base_name(files.parent(folder))
    return name == metadata.SHARED


def remove_if_empty(folder: str) -> bool:
    """Remove a folder; False if there is something in it."""
    if files.entries_of(folder):
        return False
    local = files.local_path(folder)
    if local is None:
        files.delete_folder(folder)
        return True
    try:
        os.rmdir(local)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


# -- what is left in a job's folder and not needed: after a crash, and when the job has ended


def orphans_in(job: str, referenced: Iterable[str], epoch: int) -> list[str]:
    """What crashed or fenced drivers left in a job's folder: segments that neither a completed checkpoint nor
    ``referenced`` names, half-written files, checkpoints that are unfinished or don't count. Only names that Beadline
    makes are looked at."""
    needed = {canonical(path) for path in referenced}
    found, all_known = [], True
    for entry in files.entries_of(job):
        path = files.join(job, entry.name)
        number = CHECKPOINT.fullmatch(entry.name)
        if number is None:
            if STAGED.fullmatch(entry.name) if entry.folder else _is_outdated(entry.name, epoch):
                found.append(path)
            continue
        if files.size_of(files.join(path, metadata.METADATA)) is None:
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
        found += [path for path in _segments_in(files.join(job, metadata.SHARED)) if path not in needed]
    return found


def _is_outdated(name: str, epoch: int) -> bool:
    return is_old_beat(name, epoch) or TEMPORARY.fullmatch(name) is not None


def _segments_in(shared: str) -> Iterator[str]:
    for entry in files.entries_of(shared):
        path = files.join(shared, entry.name)
        if entry.folder and EPOCH.fullmatch(entry.name):
            yield from _segments_in(path)
        elif not entry.folder and SEGMENT_FILE.fullmatch(entry.name):
            yield path


def remove_job(job: str, comes_again: bool = False) -> bool:
    """Remove the folder of a job that has ended and kept no checkpoint; False if there is something left in it. If
    another job may use it, the last lease and its fence stay: no epoch is taken twice, and a driver of this job that
    wakes up late finds itself fenced."""
    if any(CHECKPOINT.fullmatch(entry.name) for entry in files.entries_of(job)):
        return False
    with explained(f"can't remove {job}"):
        shared = files.join(job, metadata.SHARED)
        for path in _segments_in(shared):
            files.delete_file(path)
        for entry in files.entries_of(shared):
            remove_if_empty(files.join(shared, entry.name))
        remove_if_empty(shared)
        _remove_output(files.join(job, OUTPUT))
        last = newest_claim(job) if comes_again else None
        kept = files_of(last.epoch) if last is not None else None
        for entry in files.entries_of(job):
            if kept is not None and kept.fullmatch(entry.name):
                continue
            if (
                entry.name == HISTORY
                or PAGE.fullmatch(entry.name)
                or is_lease_file(entry.name)
                or TEMPORARY.fullmatch(entry.name)
            ):
                files.delete_file(files.join(job, entry.name))
            elif STAGED.fullmatch(entry.name):
                remove_known(files.join(job, entry.name))
        return remove_if_empty(job)


def _remove_output(output: str) -> None:
    """What sinks had staged, and nobody will publish."""
    for sink in files.entries_of(output):
        if not (sink.folder and _SINK.fullmatch(sink.name)):
            continue
        staged = files.join(output, sink.name)
        for epoch in files.entries_of(staged):
            folder = files.join(staged, epoch.name)
            for piece in files.entries_of(folder):
                if _PIECE.fullmatch(piece.name):
                    files.delete_file(files.join(folder, piece.name))
            remove_if_empty(folder)
        remove_if_empty(staged)
    remove_if_empty(output)
