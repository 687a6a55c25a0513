"""Lines of text files.

A split is a range of bytes; it owns the lines that *start* in it, so ranges can be cut anywhere and every line is
read once. Compressed files and charsets in which a line feed is more than one byte are read whole.

A file that was listed may grow: what is appended is not read. It must not shrink, vanish or be replaced, since
rows would be lost silently. Its size and a digest of both ends of its content travel with every range, and each
task looks at them when it opens the file and again when it has read its range. The content decides and not the inode
or the time, so that a file that was put back counts as the same.
"""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import lzma
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import xxhash

from beadline.connectors.source import BATCH, Position, StepSource, Unreadable
from beadline.errors import ConfigurationError, InputError
from beadline.state.segments.files import local_path

_BLOCK = 1 << 20
_SAMPLE = 1 << 16
_MARK_BYTES = 4096
_DECOMPRESS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# Charsets in which a line feed is one byte that is part of nothing else, by their names in Python.
_SPLITTABLE = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252"})
_PUT_BACK = (
    "Put the file back as it was: the job goes on from where it stood when it restarts or is resumed (-s latest)"
)


@dataclass(frozen=True)
class FileRange:
    """Bytes of a file, as it was when it was listed.

    :ivar size: how many bytes the file had
    :ivar mark: what :func:`mark_of` gave, None if that is not known
    """

    path: str
    start: int
    end: int
    size: int
    mark: str | None = None


class TextFileSource(StepSource):
    """Reads files and folders line by line; with ``monitor_seconds`` it goes on looking for new files."""

    def __init__(
        self,
        paths: list[str],
        charset: str = "UTF-8",
        monitor_seconds: float | None = None,
        may_split: bool = True,
    ) -> None:
        self._paths = [_checked_path(path) for path in paths]
        self._charset = charset
        self._codec = _codec_of(charset)
        self._may_split = may_split
        self._monitor = monitor_seconds
        self.bounded = monitor_seconds is None
        self._bytes_per_row = 100.0
        self._listed_at = 0.0

    def prepare(self, batch: bool) -> None:
        if batch:
            self._monitor, self.bounded = None, True

    def initial(self) -> Position:
        files = self._list(known=frozenset())
        self._sample(files)
        return {"files": files, "file": 0, "byte": 0}

    def _list(self, known: frozenset[str]) -> list[list[Any]]:
        """Files by name, with size and mark; hidden ones and those whose name starts with an underscore are left out,
        as in Flink."""
        self._listed_at = time.monotonic()
        found: list[list[Any]] = []
        for path in self._paths:
            if os.path.isdir(path):
                for folder, folders, names in os.walk(path):
                    folders[:] = sorted(f for f in folders if not f.startswith((".", "_")))
                    inside = [os.path.join(folder, n) for n in sorted(names) if not n.startswith((".", "_"))]
                    found += _entries(inside, known, may_vanish=True)
            elif os.path.exists(path):
                found += _entries([path], known, may_vanish=False)
            elif glob.has_magic(path) and glob.glob(path):
                found += _entries(sorted(glob.glob(path)), known, may_vanish=True)
            else:
                raise ConfigurationError(f"the input path does not exist: {path}")
        return found

    def _sample(self, files: list[list[Any]]) -> None:
        for path, size, _ in files:
            if size and self._splittable(path):
                with open(path, "rb") as stream:
                    head = stream.read(_SAMPLE)
                self._bytes_per_row = max(1.0, len(head) / max(1, head.count(b"\n")))
                return

    def _splittable(self, path: str) -> bool:
        return self._may_split and self._codec in _SPLITTABLE and os.path.splitext(path)[1] not in _DECOMPRESS

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        files, number, byte = start["files"], start["file"], start["byte"]
        if number >= len(files) and self._monitor is not None:
            files = self._with_new_files(files)
        budget = max(1, int(rows * self._bytes_per_row))
        ranges: list[FileRange] = []
        while number < len(files) and budget > 0:
            path, size, *mark = files[number]  # checkpoints of earlier versions have no marks
            end = min(size, byte + budget) if self._splittable(path) else size
            if end > byte:
                ranges.append(FileRange(path, byte, end, size, *mark))
                budget -= end - byte
            byte = end
            if byte >= size:
                number, byte = number + 1, 0
        return {"files": files, "file": number, "byte": byte}, self._splits(ranges, parallelism)

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
                stop = min(given.end, start + room) if self._splittable(given.path) else given.end
                path = os.path.abspath(given.path)  # workers may have another working directory
                splits[-1].append(FileRange(path, start, stop, given.size, given.mark))
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

    # -- in tasks

    def read_batches(self, split: Any) -> Iterator[list[Any] | Unreadable]:
        for given in split:
            try:
                with open(given.path, "rb", buffering=_BLOCK) as stream:
                    _check_same(stream, given)
                    if self._splittable(given.path):
                        yield from self._read_range(stream, given)
                    else:
                        yield from self._read_whole(stream, given)
                    _check_same(stream, given)
            except FileNotFoundError as error:
                raise InputError(
                    f"{given.path} is gone; it had {given.size} bytes when it was listed, and is still to be read from "
                    f"byte {given.start} on. {_PUT_BACK}"
                ) from error
            except OSError as error:
                raise InputError(f"can't read {given.path} from byte {given.start} on: {error}") from error

    def _read_range(self, stream: BinaryIO, given: FileRange) -> Iterator[list[Any] | Unreadable]:
        position = given.start
        if position > 0:
            stream.seek(position - 1)
            position += len(stream.readline()) - 1
        while position < given.end:
            block = stream.read(min(_BLOCK, given.end - position))
            if not block:
                raise _cut_short(given, position, os.fstat(stream.fileno()).st_size)
            if not block.endswith(b"\n"):
                block += stream.readline()
            yield from self._decoded(block, given.path, position)
            position += len(block)

    def _read_whole(self, stream: BinaryIO, given: FileRange) -> Iterator[list[Any] | Unreadable]:
        opener = _DECOMPRESS.get(os.path.splitext(given.path)[1])
        try:
            content = stream if opener is None else opener(stream)
            if self._codec in _SPLITTABLE:
                position = 0
                while block := content.read(_BLOCK):
                    if not block.endswith(b"\n"):
                        block += content.readline()
                    yield from self._decoded(block, given.path, position)
                    position += len(block)
            else:
                yield from self._read_text(content, given.path)
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise InputError(
                f"{given.path} can't be decompressed: {error}. It was damaged, cut short, or listed before its writer "
                f"had finished; it has {os.fstat(stream.fileno()).st_size} bytes. Repair the file and resume the job"
            ) from error

    def _decoded(self, block: bytes, path: str, offset: int) -> Iterator[list[Any] | Unreadable]:
        """The lines of a block that begins at an offset of the file, or of what it unpacks to."""
        try:
            return _lines(block.decode(self._codec))
        except UnicodeDecodeError:
            return self._one_by_one(block, path, offset)

    def _one_by_one(self, block: bytes, path: str, offset: int) -> Iterator[list[Any] | Unreadable]:
        """The lines of a block in which some can't be decoded."""
        good: list[str] = []
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for line in lines:
            try:
                good.append(line.decode(self._codec).removesuffix("\r"))
            except UnicodeDecodeError as error:
                if good:
                    yield good
                    good = []
                yield self._unreadable(line.removesuffix(b"\r"), path, offset, error)
            if len(good) >= BATCH:
                yield good
                good = []
            offset += len(line) + 1
        if good:
            yield good

    def _unreadable(self, line: bytes, path: str, offset: int, error: UnicodeDecodeError) -> Unreadable:
        unpacked = ", unpacked" if os.path.splitext(path)[1] in _DECOMPRESS else ""
        return Unreadable(
            f"the line at byte {offset} of {path}{unpacked}",
            line,
            InputError(
                f"the line is not {self._charset}: 0x{line[error.start]:02x} at byte {offset + error.start}, "
                f"{error.reason}. If the file has another charset, name that where the source is made. If only some "
                "lines are bad, beadline.poison.action=skip leaves them out, and side-output sends their bytes to the "
                "side output 'beadline-poison'"
            ),
        )

    def _read_text(self, content: Any, path: str) -> Iterator[list[Any]]:
        """The lines of a file whose bytes don't show where lines end: all of it is decoded in one go."""
        decoder = codecs.getincrementaldecoder(self._codec)()
        offset, rest = 0, ""
        while True:
            block = content.read(_BLOCK)
            pending = len(decoder.getstate()[0])
            try:
                text = rest + decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path} is not {self._charset}: {error.reason} at byte {offset - pending + error.start}. In this "
                    "charset it can't be told where a bad line ends, so none can be left out (beadline.poison.action "
                    "does not help): name the right charset where the source is made, or repair the file"
                ) from error
            offset += len(block)
            whole, feed, rest = text.rpartition("\n")
            yield from _lines(whole + feed)
            if not block:
                yield from _lines(rest)
                return


def _lines(text: str) -> Iterator[list[str]]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    for start in range(0, len(lines), BATCH):
        yield lines[start : start + BATCH]


def mark_of(stream: BinaryIO, size: int) -> str:
    """A digest of both ends of a file's first ``size`` bytes: cheap, and enough to tell another file."""
    descriptor = stream.fileno()
    head = os.pread(descriptor, min(size, _MARK_BYTES), 0)
    tail = os.pread(descriptor, min(size, _MARK_BYTES), max(0, size - _MARK_BYTES))
    return xxhash.xxh3_64_hexdigest(head + tail)


def _entries(paths: list[str], known: frozenset[str], may_vanish: bool) -> list[list[Any]]:
    """Path, size and mark of files that are not yet known."""
    found = []
    for path in paths:
        if path in known:
            continue
        try:
            size = os.path.getsize(path)
            if size:
                with open(path, "rb", buffering=0) as stream:
                    found.append([path, size, mark_of(stream, size)])
            else:
                found.append([path, 0, None])  # it may be a pipe, which would keep us waiting
        except FileNotFoundError:
            if not may_vanish:  # others come and go while a folder is listed
                raise
        except OSError as error:
            raise ConfigurationError(f"can't read the input file {path}: {error}") from error
    return found


def _check_same(stream: BinaryIO, given: FileRange) -> None:
    """Raise unless the file still has what it had when it was listed."""
    if os.fstat(stream.fileno()).st_size < given.size:
        raise _cut_short(given, given.start, os.fstat(stream.fileno()).st_size)
    if given.mark is not None and mark_of(stream, given.size) != given.mark:
        raise InputError(
            f"the content of {given.path} has changed since it was listed with {given.size} bytes, and it is still to "
            f"be read from byte {given.start} on. {_PUT_BACK}"
        )


def _cut_short(given: FileRange, position: int, size: int) -> InputError:
    return InputError(
        f"{given.path} has {size} bytes and had {given.size} when it was listed: it can't be read from byte "
        f"{position} on. {_PUT_BACK}"
    )


def _checked_path(path: str) -> str:
    local = local_path(path)
    if local is None:
        raise ConfigurationError(
            f"text files are read from paths that the driver and all executors see, which {path} is not. Mount it, or "
            "read it with Spark and use from_dataframe()"
        )
    return local


def _codec_of(charset: str) -> str:
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise ConfigurationError(
            f"Python knows no charset '{charset}'. Some that it knows: UTF-8, ISO-8859-1"
        ) from None
