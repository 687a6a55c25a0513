"""Lines of text files.

A split is a range of bytes; it owns the lines that *start* in it, so ranges can be cut anywhere and every line is
read once. Compressed files and charsets in which a line feed is more than one byte are read whole.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
import os
import time
from collections.abc import Iterator
from typing import Any

from beadline.connectors.source import BATCH, Position, StepSource
from beadline.errors import ConfigurationError

_BLOCK = 1 << 20
_SAMPLE = 1 << 16
_DECOMPRESS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_SPLITTABLE = ("utf-8", "utf8", "us-ascii", "ascii", "latin-1", "iso-8859-1", "windows-1252")


class TextFileSource(StepSource):
    """Reads files and folders line by line; with ``monitor_seconds`` it goes on looking for new files."""

    def __init__(
        self,
        paths: list[str],
        charset: str = "UTF-8",
        monitor_seconds: float | None = None,
        may_split: bool = True,
    ) -> None:
        self._paths = [path.removeprefix("file://") for path in paths]
        self._charset = charset
        self._may_split = may_split
        self._monitor = monitor_seconds
        self.bounded = monitor_seconds is None
        self._bytes_per_row = 100.0
        self._listed_at = 0.0

    def prepare(self, batch: bool) -> None:
        if batch:
            self._monitor, self.bounded = None, True

    def initial(self) -> Position:
        files = self._list()
        self._sample(files)
        return {"files": files, "file": 0, "byte": 0}

    def _list(self) -> list[list[Any]]:
        """Files by name; hidden ones and those whose name starts with an underscore are left out, as in Flink."""
        self._listed_at = time.monotonic()
        found: list[str] = []
        for path in self._paths:
            if os.path.isdir(path):
                for folder, folders, names in os.walk(path):
                    folders[:] = sorted(f for f in folders if not f.startswith((".", "_")))
                    found += [os.path.join(folder, n) for n in sorted(names) if not n.startswith((".", "_"))]
            elif os.path.exists(path):
                found.append(path)
            elif glob.has_magic(path) and glob.glob(path):
                found += sorted(glob.glob(path))
            else:
                raise ConfigurationError(f"the input path does not exist: {path}")
        return [[path, os.path.getsize(path)] for path in found]

    def _sample(self, files: list[list[Any]]) -> None:
        for path, size in files:
            if size and self._splittable(path):
                with open(path, "rb") as stream:
                    head = stream.read(_SAMPLE)
                self._bytes_per_row = max(1.0, len(head) / max(1, head.count(b"\n")))
                return

    def _splittable(self, path: str) -> bool:
        if not self._may_split:
            return False
        return self._charset.lower() in _SPLITTABLE and os.path.splitext(path)[1] not in _DECOMPRESS

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        files, number, byte = start["files"], start["file"], start["byte"]
        if number >= len(files) and self._monitor is not None:
            files = self._with_new_files(files)
        budget = max(1, int(rows * self._bytes_per_row))
        ranges: list[tuple[str, int, int]] = []
        while number < len(files) and budget > 0:
            path, size = files[number]
            end = min(size, byte + budget) if self._splittable(path) else size
            if end > byte:
                ranges.append((path, byte, end))
                budget -= end - byte
            byte = end
            if byte >= size:
                number, byte = number + 1, 0
        return {"files": files, "file": number, "byte": byte}, self._splits(ranges, parallelism)

    def _with_new_files(self, known: list[list[Any]]) -> list[list[Any]]:
        assert self._monitor is not None
        if time.monotonic() - self._listed_at < self._monitor:
            return known
        seen = {path for path, _ in known}
        return known + [entry for entry in self._list() if entry[0] not in seen]

    def _splits(self, ranges: list[tuple[str, int, int]], parallelism: int) -> list[Any]:
        total = sum(end - start for _, start, end in ranges)
        share = max(1, -(-total // parallelism))
        splits: list[list[tuple[str, int, int]]] = [[]]
        room = share
        for path, start, end in ranges:
            while start < end:
                stop = min(end, start + room) if self._splittable(path) else end
                splits[-1].append((os.path.abspath(path), start, stop))  # workers may have another working directory
                room -= stop - start
                start = stop
                if room <= 0 and len(splits) < parallelism:
                    splits.append([])
                    room = share
        return [tuple(split) for split in splits if split]

    def finished(self, position: Position) -> bool:
        return self.bounded and bool(position["file"] >= len(position["files"]))

    def poll_interval(self) -> float:
        return 0.1 if self._monitor is None else min(1.0, max(0.05, self._monitor))

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        for path, start, end in split:
            if self._splittable(path):
                yield from self._read_range(path, start, end)
            else:
                yield from self._read_whole(path)

    def _read_range(self, path: str, start: int, end: int) -> Iterator[list[Any]]:
        with open(path, "rb", buffering=_BLOCK) as stream:
            position = start
            if start > 0:
                stream.seek(start - 1)
                position = start - 1 + len(stream.readline())
            while position < end:
                block = stream.read(min(_BLOCK, end - position))
                if not block:
                    return
                if not block.endswith(b"\n"):
                    block += stream.readline()
                position += len(block)
                yield from _lines(block.decode(self._charset))

    def _read_whole(self, path: str) -> Iterator[list[Any]]:
        opener = _DECOMPRESS.get(os.path.splitext(path)[1], open)
        with opener(path, "rt", encoding=self._charset, newline="\n") as stream:
            while block := stream.readlines(_BLOCK):
                yield from _lines("".join(block))


def _lines(text: str) -> Iterator[list[str]]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    for start in range(0, len(lines), BATCH):
        yield lines[start : start + BATCH]
