"""Records of Avro's container files.

A file is a header and blocks of records, each followed by 16 bytes that are the same all over the file. A range of
bytes owns the blocks whose *preceding* 16 bytes start in it, so it can be cut anywhere.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from beadline.common._formats.avro_schema import AvroSchema, fastavro
from beadline.connectors.file_source.listing import FileRange
from beadline.connectors.file_source.opening import BLOCK, opened
from beadline.connectors.file_source.source import FilesSource
from beadline.connectors.source import BATCH, Unreadable
from beadline.errors import InputError, SerializationError

_SYNC = 16
_SAMPLE = 1 << 16
_DAMAGED = "Repair the file, or leave it out"


@dataclass(frozen=True)
class _Header:
    """What comes before the blocks, and ends with the first 16 bytes."""

    data: bytes

    @property
    def sync(self) -> bytes:
        return self.data[-_SYNC:]


class AvroFileSource(FilesSource):
    """Reads Avro files and folders of them.

    :param schema: what the records are to be; files may have been written with others, by Avro's rules of evolution
    :param convert: makes what functions see of a record; None for the dicts that fastavro gives
    """

    def __init__(
        self,
        paths: list[str],
        schema: AvroSchema,
        convert: Callable[[], Callable[[Any], Any]] | None = None,
        monitor_seconds: float | None = None,
        may_split: bool = True,
    ) -> None:
        super().__init__(paths, monitor_seconds, may_split)
        self._schema = schema
        self._make_convert = convert

    def _measure(self, path: str, size: int) -> float | None:
        with opened(path) as stream:
            header = _header(stream, path)
            block = _block(stream, header, path, size)
        return None if block is None or not block.count else max(1.0, len(block.data) / block.count)

    def _read(self, stream: BinaryIO, given: FileRange) -> Iterator[list[Any] | Unreadable]:
        convert = None if self._make_convert is None else self._make_convert()
        header = _header(stream, given.path)
        first = len(header.data) - _SYNC
        if given.start > first and not _seek(stream, header.sync, given.start):
            return
        gathered: list[_Block] = []
        while stream.tell() - _SYNC < given.end:
            block = _block(stream, header, given.path, given.size)
            if block is None:
                break
            gathered.append(block)
            if sum(block.count for block in gathered) >= BATCH or sum(len(b.data) for b in gathered) >= BLOCK:
                yield from self._records(header, gathered, given.path, convert)
                gathered = []
        yield from self._records(header, gathered, given.path, convert)

    def _records(
        self, header: _Header, blocks: list[_Block], path: str, convert: Callable[[Any], Any] | None
    ) -> Iterator[list[Any] | Unreadable]:
        if not blocks:
            return
        try:
            yield self._decoded(header, b"".join(block.data for block in blocks), convert)
        except Exception as error:  # fastavro raises whatever the bytes lead it to
            if len(blocks) == 1:
                yield _unreadable(blocks[0], path, error)
                return
            for block in blocks:
                yield from self._records(header, [block], path, convert)

    def _decoded(self, header: _Header, data: bytes, convert: Callable[[Any], Any] | None) -> list[Any]:
        """The records of some blocks: with the header in front, they are a file."""
        records = list(fastavro().reader(io.BytesIO(header.data + data), self._schema.parsed()))
        return records if convert is None else [convert(record) for record in records]


@dataclass(frozen=True)
class _Block:
    """:ivar data: all of it, with the 16 bytes after it"""

    offset: int
    count: int
    data: bytes


def _header(stream: BinaryIO, path: str) -> _Header:
    try:
        fastavro().reader(stream)
    except Exception as error:
        raise InputError(f"{path} is no Avro file: {type(error).__name__}: {error}. {_DAMAGED}") from error
    end = stream.tell()
    stream.seek(0)
    return _Header(stream.read(end))


def _seek(stream: BinaryIO, sync: bytes, start: int) -> bool:
    """Go to the first block whose preceding 16 bytes start at ``start`` or later. False if there is none."""
    stream.seek(start)
    position, rest = start, b""
    while block := stream.read(_SAMPLE):
        data = rest + block
        found = data.find(sync)
        if found >= 0:
            stream.seek(position + found + _SYNC)
            return True
        rest = data[-(_SYNC - 1) :]
        position += len(data) - len(rest)
    return False


def _block(stream: BinaryIO, header: _Header, path: str, size: int) -> _Block | None:
    """The next block; None at the end of what the file had when it was listed."""
    offset = stream.tell()
    if offset >= size:
        return None
    head = stream.read(20)  # two numbers of at most ten bytes
    count, used = _number(head, 0, path, offset)
    length, used = _number(head, used, path, offset)
    if count < 0 or length < 0 or offset + used + length + _SYNC > size:
        raise InputError(f"{path} has no whole block at byte {offset}, though it has {size} bytes. {_DAMAGED}")
    stream.seek(offset)
    data = stream.read(used + length + _SYNC)
    if data[-_SYNC:] != header.sync:
        raise InputError(f"{path} is damaged: the block at byte {offset} does not end as it should. {_DAMAGED}")
    return _Block(offset, count, data)


def _number(data: bytes, at: int, path: str, offset: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise InputError(f"{path} is damaged: there is no block at byte {offset}. {_DAMAGED}")


def _unreadable(block: _Block, path: str, error: Exception) -> Unreadable:
    return Unreadable(
        f"the block of {block.count} records at byte {block.offset} of {path}",
        block.data,
        SerializationError(
            f"can't read the block: {type(error).__name__}: {error}. Correct the file or the schema. It can't be told "
            "where the records of a bad block end: beadline.poison.action=skip leaves out all of it, and side-output "
            "sends its bytes to the side output 'beadline-poison'"
        ),
    )
