"""A stream's records kept for later jobs: a sink writes them in the first job, a source reads them back.

Each subtask's records are kept in their order, with their timestamps, in frames of a few thousand. A frame is a pickle
with a digest; small ones stay with the driver, larger ones are files in a folder that the executors reach.
"""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, BinaryIO

import xxhash

from beadline.connectors.sink import Call, Committer, Former, Held, StagedSink, Stager
from beadline.connectors.source import BATCH, Position, StepSource
from beadline.errors import SerializationError
from beadline.state.codec import dumps, loads_trusted
from beadline.state.disks import naming

_INLINE = 1 << 14


@dataclass(frozen=True)
class Frame:
    """A pickled pair of records and timestamps: ``size`` bytes at ``offset`` of a file, or the bytes themselves."""

    count: int
    digest: int
    data: bytes | None = None
    path: str | None = None
    offset: int = 0
    size: int = 0

    def read(self) -> tuple[list[Any], list[int] | None]:
        data = self.data
        if data is None:
            assert self.path is not None
            try:
                with open(self.path, "rb") as stream:
                    stream.seek(self.offset)
                    data = stream.read(self.size)
            except FileNotFoundError:
                raise SerializationError(
                    f"{self.path}, where a cached stream was kept, is gone. Was invalidate() called, or the "
                    "environment closed, while a job was reading it?"
                ) from None
        if xxhash.xxh3_64_intdigest(data) != self.digest:
            raise SerializationError(
                f"the records of a cached stream in {self.path} have changed since they were written; call "
                "invalidate() on the stream and run the job again"
            )
        found: tuple[list[Any], list[int] | None] = loads_trusted(data)
        return found


Frames = tuple[tuple[Frame, ...], ...]


class Cache:
    """What is known of one cached stream. Lives on the driver, across jobs.

    :param make_folder: gives a new folder for the files of one run
    """

    def __init__(self, make_folder: Callable[[], str]) -> None:
        self.make_folder = make_folder
        self._lock = threading.Lock()
        self._frames: Frames | None = None
        self._folder: str | None = None

    def __repr__(self) -> str:
        frames = self._frames
        if frames is None:
            return "<Cache, empty>"
        return f"<Cache of {sum(f.count for own in frames for f in own)} records in {len(frames)} subtasks>"

    def frames(self) -> Frames | None:
        """By subtask; None until a job has completed them."""
        with self._lock:
            return self._frames

    def complete(self, frames: Frames, folder: str) -> bool:
        """Take the frames of a job that has read all of its input. False if another job was faster."""
        with self._lock:
            if self._frames is not None:
                return False
            self._frames, self._folder = frames, folder
            return True

    def clear(self) -> None:
        """Forget and delete what is kept; the next job that needs it computes it again."""
        with self._lock:
            folder, self._frames, self._folder = self._folder, None, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


class CacheSink(StagedSink):
    """Writes what the first job computes."""

    def __init__(self, cache: Cache) -> None:
        self._cache: Cache | None = cache
        self.folder = ""

    def __getstate__(self) -> dict[str, Any]:
        return {"_cache": None, "folder": self.folder}

    def prepare(
        self, run: str, epoch: int = 0, folder: str = "", driver: str = "", former: Sequence[Former] = ()
    ) -> None:
        assert self._cache is not None
        self.folder = self._cache.make_folder()

    def stager(self, subtask: int, step: int, now: int) -> Stager:
        return _CacheStager(self.folder, subtask)

    def committer(self) -> Committer:
        assert self._cache is not None
        return _CacheCommitter(self._cache, self.folder)


class _CacheStager(Stager):
    def __init__(self, folder: str, subtask: int) -> None:
        self._folder = folder
        self._subtask = subtask
        self._records: list[Any] = []
        self._times: list[int] = []
        self._timed = False
        self._inline = 0
        self._frames: list[Frame] = []
        self._file: BinaryIO | None = None

    def write(self, records: list[Any], timestamps: list[int] | None) -> None:
        if self._timed != (timestamps is not None):
            self._flush()
            self._timed = timestamps is not None
        self._records += records
        self._times += timestamps or ()
        if len(self._records) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        if not self._records:
            return
        records, times, self._records, self._times = self._records, self._times, [], []
        data = dumps((records, times if self._timed else None))
        digest = xxhash.xxh3_64_intdigest(data)
        if self._inline + len(data) <= _INLINE:
            self._inline += len(data)
            self._frames.append(Frame(len(records), digest, data))
            return
        if self._file is None:
            # A name of its own for each attempt: a lost attempt's file is never read.
            self._file = open(os.path.join(self._folder, uuid.uuid4().hex), "xb")  # noqa: SIM115
        offset = self._file.tell()
        with naming(self._file.name):
            self._file.write(data)
        self._frames.append(Frame(len(records), digest, None, self._file.name, offset, len(data)))

    def finish(self) -> list[Any]:
        self._flush()
        if self._file is not None:
            with naming(self._file.name):
                self._file.close()
        # Also without records, so that the number of subtasks is known.
        return [(self._subtask, self._frames)]


class _CacheCommitter(Committer):
    """Gathers frames until the job has read all of its input. Nothing is published: the files stay where they are.

    A cache belongs to its session. A job that another session restores goes on without completing it, and a job that
    needs the stream then computes it again.
    """

    def __init__(self, cache: Cache, folder: str) -> None:
        self._cache = cache
        self._folder = folder
        self._frames: dict[int, list[Frame]] = {}
        self._whole = True
        self._accepted = False

    def sealed(self, pieces: list[Any], now: int, final: bool) -> None:
        for subtask, frames in pieces:
            self._frames.setdefault(subtask, []).extend(frames)
        if final and self._whole:
            ordered = tuple(tuple(self._frames[subtask]) for subtask in sorted(self._frames))
            self._accepted = self._cache.complete(ordered, self._folder)

    def due(self, at_checkpoint: bool) -> list[Any]:
        return []

    def snapshot(self) -> Any:
        frames = [[subtask, [list(astuple(frame)) for frame in own]] for subtask, own in self._frames.items()]
        return {"folder": self._folder, "frames": frames if self._whole else None}

    def restore(self, snapshot: Any, needed: list[Held], epoch: int | None = None) -> None:
        self._whole = snapshot["frames"] is not None and snapshot["folder"] == self._folder
        found = snapshot["frames"] if self._whole else []
        self._frames = {subtask: [Frame(*fields) for fields in own] for subtask, own in found}

    def precommitter(self) -> Callable[[Any], Any]:
        raise AssertionError("nothing is published")

    def make_durable(self, snapshot: Any) -> None:
        """Nothing to do: after a crash the session is gone, and the cache with it."""

    def publish(self, committables: list[Any], call: Call, recovering: bool) -> list[Any]:
        raise AssertionError("nothing is published")

    def close(self, discard: bool) -> None:
        if not self._accepted:
            shutil.rmtree(self._folder, ignore_errors=True)


class CacheSource(StepSource):
    """Reads what an earlier job computed: each subtask reads what the subtask of its number wrote."""

    bounded = True
    timed = True

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def __getstate__(self) -> dict[str, Any]:
        return {"_frames": ()}  # tasks get theirs as splits

    def initial(self) -> Position:
        return {"frames": [0] * len(self._frames)}

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        share = max(1, rows // len(self._frames))
        ends, splits = [], []
        for own, first in zip(self._frames, start["frames"], strict=True):
            end, count = first, 0
            while end < len(own) and count < share:
                count += own[end].count
                end += 1
            ends.append(end)
            splits.append(own[first:end])
        # One split per subtask, in their order, since splits are dealt out in turn.
        return {"frames": ends}, splits if any(splits) else []

    def finished(self, position: Position) -> bool:
        return all(end >= len(own) for own, end in zip(self._frames, position["frames"], strict=True))

    def read_batches(self, split: Any) -> Iterator[Any]:
        for frame in split:
            yield frame.read()
