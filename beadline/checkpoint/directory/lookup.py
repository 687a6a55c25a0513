"""Finding and reading checkpoints and savepoints by their paths."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.ownership.lease import counts
from beadline.state.segments.files import base_name, entries_of, is_folder, join, local_path, parent, read_file, size_of

CHECKPOINT = re.compile(r"chk-(\d{1,18})")
SAVEPOINT = re.compile(r"savepoint-[0-9a-zA-Z]{1,6}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Listed:
    """A checkpoint that was found: the snapshot, or why it can't be read."""

    pointer: str
    checkpoint_id: int
    snapshot: Snapshot | None
    problem: str | None = None


def read_snapshot(pointer: str) -> Snapshot:
    """The snapshot at a path: the folder of a checkpoint or savepoint, or its ``_metadata``."""
    path = canonical(pointer)
    try:
        if is_folder(path):
            folder, path = path, join(path, metadata.METADATA)
            if size_of(path) is None:
                raise SnapshotError(f"{folder} is a directory and not a checkpoint or savepoint{_hint(folder)}")
        elif size_of(path) is None:
            raise SnapshotError(f"there is no checkpoint or savepoint at {pointer}: the path does not exist")
        data = read_file(path)
    except OSError as error:
        raise SnapshotError(f"can't read the checkpoint or savepoint at {pointer}: {error}") from error
    return metadata.decode(data, path)


def _hint(folder: str) -> str:
    nearby = [listed.pointer for listed in list_job(folder)]
    for entry in entries_of(folder):
        path = join(folder, entry.name)
        if entry.folder and SAVEPOINT.fullmatch(entry.name) and size_of(join(path, metadata.METADATA)) is not None:
            nearby.append(path)
    if nearby:
        return f": it has no {metadata.METADATA}. Did you mean {nearby[0]}?"
    if base_name(folder).startswith("."):
        return f": it has no {metadata.METADATA}, because it was never completed. You may delete it"
    return f": it has no {metadata.METADATA}. Name a directory like chk-17, or the file {metadata.METADATA} in it"


def list_job(job: str) -> list[Listed]:
    """The checkpoints in a job's folder that count, newest first."""
    return list(from_newest(job))


def from_newest(job: str) -> Iterator[Listed]:
    """The same, each read when it is asked for."""
    matches = (CHECKPOINT.fullmatch(entry.name) for entry in entries_of(job) if entry.folder)
    for number, name in sorted(((int(match[1]), match[0]) for match in matches if match), reverse=True):
        folder = join(job, name)
        if size_of(join(folder, metadata.METADATA)) is None:
            continue
        try:
            snapshot = read_snapshot(folder)
        except SnapshotError as error:
            if size_of(join(folder, metadata.METADATA)) is not None:  # else its job has removed it meanwhile
                yield Listed(folder, number, None, str(error))
            continue
        if counts(job, number, snapshot.epoch):
            yield Listed(folder, number, snapshot)


def folder_of(pointer: str) -> str:
    path = canonical(pointer)
    return parent(path) if base_name(path) == metadata.METADATA else path


def canonical(path: str) -> str:
    """One spelling for one file: references are compared as text."""
    local = local_path(path)
    return path.rstrip("/") if local is None else os.path.realpath(local)
