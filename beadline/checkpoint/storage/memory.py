"""A job's place in the driver's memory: for small state and for trying things out. It is gone with the driver."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.directory.lookup import Listed
from beadline.checkpoint.settings import Key
from beadline.checkpoint.storage.publishing import Stored
from beadline.checkpoint.storage.storage import JobStorage
from beadline.errors import ConfigurationError, VersionError
from beadline.state.segments.files import PRIVATE, delete_file, join, read_segment
from beadline.state.segments.version import SegmentRef, checksum_of

DEFAULT_MAX_STATE_SIZE = 5 << 20

_POINTER = re.compile(r"memory:(?P<job>.+)/chk-(?P<number>\d+)")


class MemoryJobStorage(JobStorage):
    """Keeps all of a checkpoint in the driver, its segments included. There is no other driver, and no lease to
    check."""

    survives_driver = False

    def __init__(
        self, job_id: str, max_state_size: int = DEFAULT_MAX_STATE_SIZE, folder_mode: int | None = PRIVATE
    ) -> None:
        super().__init__(job_id, folder_mode=folder_mode)
        self._max_state_size = max_state_size
        self._kept: dict[int, bytes] = {}
        self._read: dict[tuple[str, int, int], bytes] = {}
        self._temporary: str | None = None
        self._output: str | None = None

    def __repr__(self) -> str:
        return f"<MemoryJobStorage of {self.job_id}: {sum(map(len, self._kept.values()))} bytes>"

    def release(self) -> None:
        for folder in (self._temporary, self._output):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self, comes_again: bool = False) -> bool:
        return not self._kept

    # -- state

    def state_folder(self, attempt: int, one_machine: bool) -> str:
        _check_reach(one_machine)
        if self._temporary is None:
            self._temporary = tempfile.mkdtemp(prefix="beadline-state-")
        # Checkpoints in memory hold all they need: nothing goes back to the files of an earlier execution.
        for older in Path(self._temporary).iterdir():
            shutil.rmtree(older, ignore_errors=True)
        folder = join(self._temporary, str(attempt))
        Path(folder).mkdir(exist_ok=True)
        return folder

    def owned_folder(self) -> str:
        return self._temporary or ""

    def output_folder(self, one_machine: bool) -> str:
        _check_reach(one_machine)
        if self._output is None:
            self._output = tempfile.mkdtemp(prefix="beadline-output-")
        return self._output

    # -- writing

    def write(self, snapshot: Snapshot, copy_foreign: bool = False) -> Stored:
        """Keep a checkpoint.

        1. refuse state that is too large
        2. take the content of all segments into memory, whoever they belong to
        3. keep it in the form that a file would have
        """
        self._check_size(snapshot)
        fresh: dict[tuple[str, int, int], bytes] = {}
        stored = snapshot.with_segments(lambda segment: self._inline(segment, fresh))
        stored = replace(stored, kind=SnapshotKind.CHECKPOINT, lineage=self.lineage.name)
        pointer = self._pointer(snapshot.checkpoint_id)
        data = metadata.encode(stored, pointer)
        self._kept[snapshot.checkpoint_id] = data
        self._read = fresh
        return Stored(pointer, stored, len(data))

    def _check_size(self, snapshot: Snapshot) -> None:
        for operator in snapshot.operators:
            for subtask in range(operator.parallelism):
                size = operator.subtask_size(subtask)
                if size > self._max_state_size:
                    raise SnapshotError(
                        f"the state of operator '{operator.name}', subtask {subtask}, has {size} bytes, and "
                        f"checkpoints in the driver's memory take at most {self._max_state_size} per subtask "
                        f"({Key.MAX_STATE_SIZE}). Keep checkpoints in files: set execution.checkpointing.dir"
                    )

    def _inline(self, segment: SegmentRef, fresh: dict[tuple[str, int, int], bytes]) -> SegmentRef:
        if segment.path is None:
            return segment
        key = (segment.path, segment.offset, segment.size)
        data = self._read.get(key)
        if data is None:
            try:
                data = read_segment(segment)
            except VersionError as error:
                raise SnapshotError(f"can't take a checkpoint: {error}") from error
        fresh[key] = data
        return replace(segment, inline=data, path=None, offset=0, checksum=checksum_of(data))

    # -- reading

    def _pointer(self, number: int) -> str:
        return f"memory:{self.job_id}/chk-{number}"

    def _number(self, pointer: str) -> int | None:
        match = _POINTER.fullmatch(pointer)
        return int(match["number"]) if match is not None and match["job"] == self.job_id else None

    def read(self, pointer: str) -> Snapshot:
        number = self._number(pointer)
        data = self._kept.get(number) if number is not None else None
        if data is None:
            raise SnapshotError(f"there is no checkpoint {pointer} in this driver's memory")
        return metadata.decode(data, f"{pointer}/{metadata.METADATA}")

    def completed(self) -> list[Listed]:
        pointers = {number: self._pointer(number) for number in sorted(self._kept, reverse=True)}
        return [Listed(pointer, number, self.read(pointer)) for number, pointer in pointers.items()]

    def highest_number(self) -> int:
        return max(self._kept, default=0)

    # -- removing

    def discard(self, pointer: str) -> None:
        number = self._number(pointer)
        if number is None:
            raise SnapshotError(f"{pointer} is not a checkpoint in this driver's memory, so it is not removed")
        self._kept.pop(number, None)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            delete_file(path)

    def orphans(self, referenced: Iterable[str] = ()) -> list[str]:
        return []


def _check_reach(one_machine: bool) -> None:
    if not one_machine:
        raise ConfigurationError(
            "the job runs on a cluster and has no folder for its state that all executors reach: "
            "set execution.checkpointing.dir to one (hdfs://, s3:// or a shared mount)"
        )
