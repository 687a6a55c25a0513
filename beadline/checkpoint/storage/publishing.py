"""Making a checkpoint or savepoint appear: complete, or not at all.

Its folder is made under another name, gets its ``_metadata`` last, and takes its own name in one rename. Object stores
have no rename: there the one put of ``_metadata`` makes it complete. A crash at any moment leaves at most a folder that
looks unfinished.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind, explained
from beadline.checkpoint.directory.lookup import canonical
from beadline.checkpoint.ownership.lease import counts
from beadline.checkpoint.settings import Key
from beadline.checkpoint.storage.durable import Bundle, DurableFiles
from beadline.state.segments import files

DEFAULT_INLINE_THRESHOLD = 20 << 10

# Puts a snapshot's state into a folder: gives the snapshot that refers to it there, and the number of bytes.
Fill = Callable[[Snapshot, Bundle], tuple[Snapshot, int]]

# How often a checkpoint tries to take its name from drivers that were fenced.
_TRIES = 3


@dataclass(frozen=True)
class Stored:
    """A checkpoint that has completed: where it is (what ``-s`` takes), the snapshot with every segment durable and
    with a checksum, and how many bytes are new with it, segments that tasks wrote since the last one included."""

    pointer: str
    snapshot: Snapshot
    written: int


def publish_checkpoint(folder: str, data: bytes, number: int, check: Callable[[], None]) -> None:
    """Make a checkpoint appear as ``chk-N``, never in place of another one; ``check`` looks at the lease just
    before."""
    if files.local_path(folder) is None:
        _refuse_if_taken(folder, number)
        check()
        files.make_folder(folder)
        files.write_file(files.join(folder, metadata.METADATA), data)
        return
    staged = _staged(folder)
    try:
        os.mkdir(staged)
        _finish(staged, data)
        for _ in range(_TRIES):
            check()
            try:
                os.rename(staged, folder)
                break
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                check()
                _refuse_if_taken(folder, number)
                # A driver that was fenced came in late with this number; it does not count.
                os.rename(folder, _staged(folder))
        else:
            raise SnapshotError(f"can't publish {folder}: others keep making the same folder")
    except BaseException:
        with contextlib.suppress(OSError):
            files.delete_folder(staged)
        raise


def _refuse_if_taken(folder: str, number: int) -> None:
    path = files.join(folder, metadata.METADATA)
    if files.size_of(path) is None:
        return
    with contextlib.suppress(SnapshotError):
        if not counts(files.parent(folder), number, metadata.decode(files.read_file(path), path).epoch):
            return
    raise SnapshotError(
        f"{folder} exists already. Checkpoints are never overwritten: a job that goes on in a folder numbers its "
        "checkpoints from above the highest one there"
    )


def savepoint_folder(directory: str, job_id: str) -> str:
    """A name for a savepoint in a directory that no other one has."""
    job = re.sub("[^0-9a-zA-Z]", "", job_id)[:6] or "0"
    return files.join(canonical(directory), f"savepoint-{job}-{uuid.uuid4().hex[:12]}")


def publish_savepoint(
    snapshot: Snapshot,
    folder: str,
    fill: Fill | None = None,
    inline_threshold: int = DEFAULT_INLINE_THRESHOLD,
    folder_mode: int | None = files.PRIVATE,
) -> Stored:
    """Make a savepoint appear as a folder that does not exist yet.

    1. make the folder under another name (on object stores: without ``_metadata``)
    2. fill it with the state, or with copies of the segments as they are, and make that durable
    3. write ``_metadata``, and publish by rename

    If anything fails, nothing is left.
    """
    local = files.local_path(folder)
    fill = fill or _copy_segments
    with explained(f"can't write the savepoint {folder}", Key.SAVEPOINT_DIRECTORY):
        files.make_folder(files.parent(folder))
        staged = folder if local is None else _staged(folder)
        files.make_folder(staged, folder_mode)
        try:
            moved, written = fill(snapshot, Bundle(staged, folder, inline_threshold))
            stored = replace(moved, kind=SnapshotKind.SAVEPOINT)
            data = metadata.encode(stored, folder)
            if local is None:
                files.write_file(files.join(folder, metadata.METADATA), data)
            else:
                _finish(staged, data)
                os.rename(staged, folder)
                staged = folder
                files.sync(files.parent(folder))
        except BaseException:
            with contextlib.suppress(OSError):
                files.delete_folder(staged)
            raise
    return Stored(folder, stored, written + len(data))


def _copy_segments(snapshot: Snapshot, bundle: Bundle) -> tuple[Snapshot, int]:
    return DurableFiles().bring(snapshot, bundle, lambda path: True)


def _staged(folder: str) -> str:
    return files.join(files.parent(folder), f".{files.base_name(folder)}.{uuid.uuid4().hex[:8]}")


def _finish(staged: str, data: bytes) -> None:
    """Put ``_metadata`` into a folder that is about to be renamed, and make both durable."""
    files.write_file(files.join(staged, metadata.METADATA), data, durable=True)
    files.sync(staged)
