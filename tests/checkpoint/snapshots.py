"""Snapshots made by hand, with real segment files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.checkpoint.directory.jobs import CheckpointDirectory, job_in
from beadline.checkpoint.ownership.lease import Lease
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.state.description import StateDescription
from beadline.state.operator.handles import OperatorStateHandle, StateRef
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.segment import TableChanges, encode_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, checksum_of, next_version, root_version

JOB = "a1b2c3d4"


def segment_bytes(number: int, keys: int = 50) -> bytes:
    """A real segment: ``keys`` values that depend on the number."""
    return encode_segment(
        {"count": TableChanges("value", False, {f"k{i}": number * 1000 + i for i in range(keys)})}, 128
    )


def make_snapshot(
    number: int,
    folder: str,
    job_id: str = JOB,
    job_name: str = "necklace",
    segments: int = 2,
    inline: bytes | None = b"inline segment",
    with_checksum: bool = True,
    **changes: Any,
) -> Snapshot:
    """Two subtasks of a counter with state of the numbers ``1..number``, a source and a sink."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    files = SegmentFiles(folder)
    handles = []
    for subtask in range(2):
        handle = KeyedStateHandle(root_version(job_id, "counter", range(subtask * 64, subtask * 64 + 64)))
        for position in range(max(1, number - segments + 1), number + 1):
            data = segment_bytes(position * 2 + subtask)
            version = next_version(handle.root, data)  # the same in every snapshot, so that they share files
            path = f"{folder}/{version}.run"
            if not os.path.exists(path):
                files.write(f"{version}.run", data)
            checksum = checksum_of(data) if with_checksum else None
            handle = handle.plus(SegmentRef(version, 50, len(data), path=path, checksum=checksum))
        if inline is not None:
            data = inline + bytes([subtask])
            handle = handle.plus(SegmentRef(next_version(handle.version, data), 1, len(data), inline=data))
        handles.append(handle)
    operators = (
        OperatorSnapshot("source", "numbers", 1, 128, position={"offset": number * 100}, finished=False),
        OperatorSnapshot(
            "counter",
            "count",
            2,
            128,
            keyed=tuple(handles),
            locals=(b"\x80\x05K\x01.", None),
            operator_state=(
                None,
                OperatorStateHandle({"s": StateRef("list", (SegmentRef("v", 1, 3, inline=b"abc"),))}),
            ),
            next_timers=(None, 17),
            state_descriptions=(StateDescription("count", "value", "LONG"),),
        ),
        OperatorSnapshot("sink", "files", 1, 128, committables=[("part", number, b"\x00\xff")]),
    )
    settings: dict[str, Any] = {"step": number * 10, "timestamp": 1_700_000_000_000 + number, "operators": operators}
    return Snapshot(number, job_id, job_name, **{**settings, **changes})


def all_files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder and what is in it."""
    return {
        os.path.relpath(os.path.join(top, name), folder): Path(top, name).read_bytes()
        for top, _, names in os.walk(folder)
        for name in names
    }


def place_in(directory: Path | str, job_id: str = JOB, create_subdir: bool = True, **more: int) -> FileJobStorage:
    """The place of a job in a directory, which nobody has taken."""
    return FileJobStorage(CheckpointDirectory(str(directory), create_subdir), job_id, **more)


def take_over(directory: Path | str, owner: str, job_id: str = JOB, **more: int) -> FileJobStorage:
    """The place of a job, which a driver has taken from whoever had it."""
    storage = place_in(directory, job_id, **more)
    storage.hold(Lease.acquire(storage.folder, owner))
    return storage


def latest(storage: FileJobStorage) -> str:
    """Where the newest checkpoint of a job is that can be read."""
    job = job_in(storage.folder, storage.job_id)
    assert job is not None
    assert job.newest is not None
    return job.newest.pointer
