"""What one subtask staged for one bucket in one step. Small pieces ride in the acknowledgement, larger ones are files
in the sink's staging folder.

A file has a checksum for each of its blocks, so that no byte of it is used before it was compared: some systems outside
show at once what they are handed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import xxhash

from beadline.state.disks import DAMAGED, lost, naming
from beadline.state.segments.files import join, local_path, parent, read_file, sync, write_remote
from beadline.state.segments.version import checksum_of

_INLINE = 1 << 16
_BLOCK = 8 << 20
_CHECKSUM = 16
# Rows are joined to about this much before they are written: calls for each row would take longer than the bytes.
_JOINED = 1 << 20


@dataclass(frozen=True)
class Piece:
    """Encoded rows: ``data`` if they are small, else the file at ``path``.

    :ivar checksum: of a file: those of its blocks, one after the other. None if it was staged by a version of Beadline
        that had none
    """

    bucket: str
    subtask: int
    size: int
    data: bytes | None
    path: str | None
    checksum: str | None = None

    def as_data(self) -> list[Any]:
        as_data = [self.bucket, self.subtask, self.size, self.data, self.path]
        return as_data if self.checksum is None else [*as_data, self.checksum]


def of_rows(folder: str, bucket: str, subtask: int, rows: list[bytes]) -> Piece:
    """A piece of these rows; a file if they are many."""
    size = sum(map(len, rows))
    if size <= _INLINE:
        return Piece(bucket, subtask, size, b"".join(rows), None)
    return in_file(folder, bucket, subtask, rows)


def in_file(folder: str, bucket: str, subtask: int, rows: list[bytes]) -> Piece:
    """Rows in a file with a unique name: a lost attempt's file is never read."""
    path = join(folder, uuid.uuid4().hex)
    size = sum(map(len, rows))
    content = Checked(_joined(rows, size))
    if local_path(path) is None:
        write_remote(path, content)
    else:
        with naming(path), open(path, "wb") as stream:
            stream.writelines(content)
    return Piece(bucket, subtask, size, None, path, content.checksum)


def _joined(rows: list[bytes], size: int) -> Iterator[bytes]:
    step = max(1, len(rows) * _JOINED // max(1, size))
    for start in range(0, len(rows), step):
        yield b"".join(rows[start : start + step])


class DamagedError(OSError):
    """A staged file is not what was staged.

    :ivar why: what is wrong with it
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} {why}. {DAMAGED}")
        self.why = why


class Checked:
    """Content on its way to a file; when it has been iterated over, its size and checksum are known."""

    def __init__(self, content: Iterable[bytes]) -> None:
        self._content = content
        self._blocks: list[str] = []
        self._block = xxhash.xxh3_64()
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        for data in self._content:
            self._add(data)
            yield data

    def _add(self, data: bytes) -> None:
        start = 0
        while start < len(data):
            end = min(len(data), start + _BLOCK - self.size % _BLOCK)
            self._block.update(memoryview(data)[start:end])
            self.size += end - start
            start = end
            if self.size % _BLOCK == 0:
                self._blocks.append(self._block.hexdigest())
                self._block.reset()

    @property
    def checksum(self) -> str:
        rest = [self._block.hexdigest()] if self.size % _BLOCK else []
        return "".join(self._blocks + rest)


def spilled(pieces: list[Piece], folder: str) -> list[Piece]:
    """The same rows. If there are many small pieces, they are put into files: checkpoints carry what is in memory."""
    if sum(piece.size for piece in pieces if piece.data is not None) <= _INLINE:
        return pieces
    kept: list[Piece] = []
    small: list[bytes] = []
    for piece in pieces:
        if piece.data is not None:
            small.append(piece.data)
            continue
        if small:
            kept.append(in_file(folder, piece.bucket, piece.subtask, small))
            small = []
        kept.append(piece)
    if small:
        kept.append(in_file(folder, pieces[0].bucket, pieces[0].subtask, small))
    return kept


def content_of(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """The rows of all pieces in order, some megabytes at a time.

    :raises OSError: a staged file is missing, or damaged
    """
    for piece in pieces:
        if piece.data is not None:
            yield piece.data
        else:
            assert piece.path is not None
            yield from checked_content(piece.path, piece.size, piece.checksum)


def checked_content(path: str, size: int, checksum: str | None) -> Iterator[bytes]:
    """A file, block by block, each compared with its checksum.

    :raises OSError: it is missing, cut short or altered
    """
    found = 0
    while found < size:
        wanted = min(_BLOCK, size - found)
        data = read_file(path, found, wanted)
        if len(data) < wanted:
            raise DamagedError(path, f"was staged with {size} bytes, and has {found + len(data)}")
        at = found // _BLOCK * _CHECKSUM
        if checksum is not None and (now := checksum_of(data)) != (then := checksum[at : at + _CHECKSUM]):
            why = f"the checksum of {len(data)} bytes at {found} is {now} and should be {then}"
            raise DamagedError(path, f"is not what was staged: {why}")
        found += len(data)
        yield data


def with_data(piece: Piece) -> Piece:
    """The piece with its rows in it, wherever they are."""
    return Piece(piece.bucket, piece.subtask, piece.size, b"".join(content_of([piece])), None)


def paths_of(pieces: Iterable[Piece]) -> set[str]:
    return {piece.path for piece in pieces if piece.path is not None}


def sync_all(paths: Iterable[str]) -> None:
    """From now on these files, and their names, survive a crash of the machine.

    :raises OSError: one of them does not. What it held may be gone, also if it can be synced later
    """
    paths = set(paths)
    for path in [*paths, *{parent(path) for path in paths}]:
        try:
            sync(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise lost(error, path) from error
