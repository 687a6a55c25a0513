"""Lines of text files.

A range of bytes owns the lines that start in it. Compressed files and charsets in which a line feed is more than one
byte are read whole.

A file may grow while it is read. It ends where it ended when it was listed, in the middle of a line if need be: a range
that is read again must give the same lines. What is in a compressed file can't be told before it is complete, so such a
file is read to its end, and must not grow.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from beadline.connectors.decoding import Deserialize, decoded
from beadline.connectors.file_source.listing import FileRange, cut_short
from beadline.connectors.file_source.opening import BLOCK, opened, size_now
from beadline.connectors.file_source.source import FilesSource
from beadline.connectors.source import BATCH, Unreadable
from beadline.errors import ConfigurationError, InputError
from beadline.state.segments.files import base_name

_BLOCK = BLOCK
_SAMPLE = 1 << 16
_DECOMPRESS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# Charsets in which a line feed is one byte that is part of nothing else, by their names in Python.
_SPLITTABLE = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252"})


class TextFileSource(FilesSource):
    """Reads files and folders line by line."""

    def __init__(
        self,
        paths: list[str],
        charset: str = "UTF-8",
        monitor_seconds: float | None = None,
        may_split: bool = True,
    ) -> None:
        super().__init__(paths, monitor_seconds, may_split)
        self._charset = charset
        self._codec = _codec_of(charset)

    def _splittable(self, path: str) -> bool:
        return self._may_split and self._codec in _SPLITTABLE and not is_compressed(path)

    def _measure(self, path: str, size: int) -> float | None:
        with opened(path) as stream:
            head = stream.read(_SAMPLE)
        return max(1.0, len(head) / max(1, head.count(b"\n")))

    def _read(self, stream: BinaryIO, given: FileRange) -> Iterator[list[Any] | Unreadable]:
        return self._read_range(stream, given) if self._splittable(given.path) else self._read_whole(stream, given)

    def _read_range(self, stream: BinaryIO, given: FileRange) -> Iterator[list[Any] | Unreadable]:
        position = given.start
        if position > 0:
            stream.seek(position - 1)
            position += len(stream.readline()) - 1
        while position < given.end:
            block = stream.read(min(_BLOCK, given.end - position))
            if not block:
                raise cut_short(given, position, size_now(stream))
            if not block.endswith(b"\n"):
                block += stream.readline(given.size - position - len(block))
            yield from self._decoded(block, given.path, position)
            position += len(block)

    def _read_whole(self, stream: BinaryIO, given: FileRange) -> Iterator[list[Any] | Unreadable]:
        with unpacked(stream, given.path) as unpacked_stream:
            content = unpacked_stream if is_compressed(given.path) else _Head(unpacked_stream, given.size)
            if self._codec in _SPLITTABLE:
                position = 0
                while block := content.read(_BLOCK):
                    if not block.endswith(b"\n"):
                        block += content.readline()
                    yield from self._decoded(block, given.path, position)
                    position += len(block)
            else:
                yield from self._read_text(content, given.path)

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
        return Unreadable(
            line_place(path, offset),
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


class DecodedLinesSource(TextFileSource):
    """Lines that a deserialization schema turns into records.

    :param make: gives the function that does it; called in tasks
    """

    def __init__(
        self,
        paths: list[str],
        make: Callable[[], Deserialize],
        monitor_seconds: float | None = None,
        may_split: bool = True,
    ) -> None:
        super().__init__(paths, "UTF-8", monitor_seconds, may_split)
        self._make = make
        self._deserialize: Deserialize | None = None

    def _read(self, stream: BinaryIO, given: FileRange) -> Iterator[list[Any] | Unreadable]:
        self._deserialize = self._make()
        return super()._read(stream, given)

    def _decoded(self, block: bytes, path: str, offset: int) -> Iterator[list[Any] | Unreadable]:
        assert self._deserialize is not None
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if b"\r" in block:
            lines = [line.removesuffix(b"\r") for line in lines]

        def place(index: int) -> str:
            return line_place(path, offset + _offset_of_line(block, index))

        for batch in decoded(self._deserialize, lines, place):
            assert not isinstance(batch, tuple)
            yield batch

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_deserialize": None}


class _Head:
    """The first bytes of a file."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, most: int) -> bytes:
        return self._taken(self._stream.read(min(most, self._left)))

    def readline(self) -> bytes:
        return self._taken(self._stream.readline(self._left))

    def _taken(self, data: bytes) -> bytes:
        self._left -= len(data)
        return data


def _offset_of_line(block: bytes, index: int) -> int:
    offset = 0
    for _ in range(index):
        offset = block.index(b"\n", offset) + 1
    return offset


def line_place(path: str, offset: int) -> str:
    """Where a line is, for people."""
    return f"the line at byte {offset} of {path}{', unpacked' if is_compressed(path) else ''}"


def is_compressed(path: str) -> bool:
    return _ending(path) in _DECOMPRESS


def _ending(path: str) -> str:
    return os.path.splitext(base_name(path))[1]


@contextlib.contextmanager
def unpacked(stream: BinaryIO, path: str) -> Iterator[Any]:
    """The content of a file, decompressed if its name says that it is compressed."""
    opener = _DECOMPRESS.get(_ending(path))
    try:
        yield stream if opener is None else opener(stream)
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(
            f"{path} can't be decompressed: {error}. It was damaged, cut short, or listed before its writer "
            f"had finished; it has {size_now(stream)} bytes. Repair the file and resume the job"
        ) from error


def _codec_of(charset: str) -> str:
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise ConfigurationError(
            f"Python knows no charset '{charset}'. Some that it knows: UTF-8, ISO-8859-1"
        ) from None
