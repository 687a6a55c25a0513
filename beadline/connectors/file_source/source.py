"""Reading files in steps: the part that all formats share.

A split is a list of ranges of files. What a range counts in is the format's matter: bytes where records can be found
from anywhere in the file, rows where the file says how many it has. A range owns the records that *start* in it, so it
can be cut anywhere, and every record is read once.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO

from beadline.connectors.file_source.listing import PUT_BACK, FileRange, check_same, checked_path, listed
from beadline.connectors.file_source.opening import opened
from beadline.connectors.source import Backlog, Position, StepSource, Unreadable
from beadline.errors import InputError
from beadline.state.segments.files import local_path


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """While many records are made, there is no garbage among them: looking for it takes longer than making them.
    Spark's workers don't collect in tasks anyway."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class FilesSource(StepSource):
    """Reads files and folders; with ``monitor_seconds`` it goes on looking for new files.

    :cvar unit: what ranges count
    """

    unit = "byte"

    def __init__(self, paths: list[str], monitor_seconds: float | None = None, may_split: bool = True) -> None:
        self._paths = [checked_path(path) for path in paths]
        self._may_split = may_split
        self._monitor = monitor_seconds
        self.bounded = monitor_seconds is None
        self._units_per_row = 100.0
        self._listed_at = 0.0

    # -- what a format says

    @abstractmethod
    def _read(self, stream: BinaryIO, given: FileRange) -> Iterator[list[Any] | Unreadable]:
        """The records that start in a range. Runs in tasks."""

    def _splittable(self, path: str) -> bool:
        """Whether several tasks or steps can share a file."""
        return self._may_split

    def _length(self, path: str, size: int) -> int:
        """Where the file ends, in the units of its ranges."""
        return size

    def _cut(self, path: str, start: int, end: int, length: int) -> int:
        """Where a range that should end at ``end`` can end. ``start`` is where the one before it ended."""
        return end

    def _measure(self, path: str, size: int) -> float | None:
        """Units per record in the beginning of a file; None if it does not tell."""
        return None

    # -- on the driver

    def prepare(self, batch: bool) -> None:
        if batch:
            self._monitor, self.bounded = None, True

    def initial(self) -> Position:
        files = self._list(known=frozenset())
        return {"files": files, "file": 0, "byte": 0}

    def _list(self, known: frozenset[str]) -> list[list[Any]]:
        self._listed_at = time.monotonic()
        found = listed(self._paths, known)
        for path, size, _ in found:
            if size and self._splittable(path):
                self._units_per_row = self._measure(path, size) or self._units_per_row
                break
        return found

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        files, number, at = start["files"], start["file"], start["byte"]
        if number >= len(files) and self._monitor is not None:
            files = self._with_new_files(files)
        budget = max(1, int(rows * self._units_per_row))
        ranges: list[FileRange] = []
        while number < len(files) and budget > 0:
            path, size, *mark = files[number]  # checkpoints of earlier versions have no marks
            length = self._length(path, size) if size else 0
            end = length
            if self._splittable(path) and at + budget < length:
                end = self._cut(path, at, at + budget, length)
            if end > at:
                ranges.append(FileRange(path, at, end, size, *mark))
                budget -= end - at
            at = end
            if at >= length:
                number, at = number + 1, 0
        return {"files": files, "file": number, "byte": at}, self._splits(ranges, parallelism)

    def _with_new_files(self, known: list[list[Any]]) -> list[list[Any]]:
        assert self._monitor is not None
        if time.monotonic() - self._listed_at < self._monitor:
            return known
        return known + self._list(frozenset(entry[0] for entry in known))

    def _splits(self, ranges: list[FileRange], parallelism: int) -> list[Any]:
        total = sum(given.end - given.start for given in ranges)
        share = max(1, -(-total // parallelism))
        splits: list[list[FileRange]] = [[]]
        room = share
        for given in ranges:
            start = given.start
            while start < given.end:
                stop = given.end
                if self._splittable(given.path) and start + room < given.end:
                    stop = min(given.end, self._cut(given.path, start, start + room, given.end))
                path = given.path
                if local_path(path) is not None:
                    path = os.path.abspath(path)  # workers may have another working directory
                splits[-1].append(FileRange(path, start, stop, given.size, given.mark, self.unit))
                room -= stop - start
                start = stop
                if room <= 0 and len(splits) < parallelism:
                    splits.append([])
                    room = share
                elif room <= 0:
                    room = total  # the last one takes the rest
        return [tuple(split) for split in splits if split]

    def finished(self, position: Position) -> bool:
        return self.bounded and bool(position["file"] >= len(position["files"]))

    def backlog(self, position: Position) -> Backlog:
        """In bytes. A file whose ranges count something else counts as a whole until it has been read."""
        left = sum(entry[1] for entry in position["files"][position["file"] :])
        return Backlog(bytes=left - (position["byte"] if self.unit == "byte" else 0))

    def poll_interval(self) -> float:
        return 0.1 if self._monitor is None else min(1.0, max(0.05, self._monitor))

    # -- in tasks

    def read_batches(self, split: Any) -> Iterator[list[Any] | Unreadable]:
        for given in split:
            try:
                with opened(given.path) as stream:
                    check_same(stream, given)
                    yield from self._read(stream, given)
                    check_same(stream, given)
            except FileNotFoundError as error:
                raise InputError(
                    f"{given.path} is gone; it had {given.size} bytes when it was listed, and is still to be read from "
                    f"{given.unit} {given.start} on. {PUT_BACK}"
                ) from error
            except OSError as error:
                raise InputError(f"can't read {given.path} from {given.unit} {given.start} on: {error}") from error
