"""Checkpoints in the driver's memory: for small state and for trying things out. They are gone with the driver."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from beadline.checkpoint import metadata
from beadline.checkpoint.lease import Lease
from beadline.checkpoint.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.storage import CheckpointStorage, Listed, Stored
from beadline.errors import VersionError
from beadline.state.files import delete_file, read_run
from beadline.state.version import RunRef, checksum_of

DEFAULT_MAX_STATE_SIZE = 5 << 20
MAX_STATE_SIZE_OPTION = "beadline.checkpointing.jobmanager.max-state-size"

_POINTER = re.compile(r"memory:(?P<job>.+)/chk-(?P<number>\d+)")


class MemoryCheckpointStorage(CheckpointStorage):
    """Keeps all of a checkpoint in the driver, the content of its run files included.

    :param max_state_size: how many bytes the state of one subtask may have
    """

    survives_driver = False

    def __init__(self, max_state_size: int = DEFAULT_MAX_STATE_SIZE) -> None:
        self._max_state_size = max_state_size
        self._kept: dict[str, dict[int, bytes]] = {}
        self._read: dict[tuple[str, int, int], bytes] = {}

    def __repr__(self) -> str:
        size = sum(len(data) for job in self._kept.values() for data in job.values())
        return f"<MemoryCheckpointStorage: {size} bytes>"

    def write(self, snapshot: Snapshot, lease: Lease | None = None) -> Stored:
        """Keep a checkpoint.

        1. refuse state that is too large
        2. take the content of all runs into memory
        3. keep it in the form that a file would have
        """
        self._check_size(snapshot)
        fresh: dict[tuple[str, int, int], bytes] = {}
        stored = snapshot.with_runs(lambda run: self._inline(run, fresh))
        stored = replace(stored, kind=SnapshotKind.CHECKPOINT)
        pointer = f"memory:{snapshot.job_id}/chk-{snapshot.checkpoint_id}"
        data = metadata.encode(stored, pointer)
        self._kept.setdefault(snapshot.job_id, {})[snapshot.checkpoint_id] = data
        self._read = fresh
        return Stored(pointer, stored, len(data))

    def _check_size(self, snapshot: Snapshot) -> None:
        for operator in snapshot.operators:
            for subtask in range(operator.parallelism):
                size = operator.subtask_size(subtask)
                if size > self._max_state_size:
                    raise SnapshotError(
                        f"the state of operator '{operator.name}', subtask {subtask}, has {size} bytes, and "
                        f"checkpoints in the driver's memory take at most {self._max_state_size} a subtask "
                        f"({MAX_STATE_SIZE_OPTION}). Keep checkpoints in files: set execution.checkpointing.dir"
                    )

    def _inline(self, run: RunRef, fresh: dict[tuple[str, int, int], bytes]) -> RunRef:
        if run.path is None:
            return run
        key = (run.path, run.offset, run.size)
        data = self._read.get(key)
        if data is None:
            try:
                data = read_run(run)
            except VersionError as error:
                raise SnapshotError(f"can't take a checkpoint: {error}") from error
        fresh[key] = data
        return replace(run, inline=data, path=None, offset=0, checksum=checksum_of(data))

    def read(self, pointer: str) -> Snapshot:
        match = _POINTER.fullmatch(pointer)
        data = self._kept.get(match["job"], {}).get(int(match["number"])) if match else None
        if data is None:
            raise SnapshotError(f"there is no checkpoint {pointer} in this driver's memory")
        return metadata.decode(data, f"{pointer}/{metadata.METADATA}")

    def completed(self, job_id: str) -> list[Listed]:
        pointers = {number: f"memory:{job_id}/chk-{number}" for number in self._kept.get(job_id, {})}
        return [Listed(pointers[n], n, self.read(pointers[n])) for n in sorted(pointers, reverse=True)]

    def discard(self, pointer: str) -> None:
        match = _POINTER.fullmatch(pointer)
        if match is None:
            raise SnapshotError(f"{pointer} is not a checkpoint in this driver's memory, so it is not removed")
        self._kept.get(match["job"], {}).pop(int(match["number"]), None)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            delete_file(path)
