"""What one subtask staged for one bucket in one step. Small pieces ride in the acknowledgement, larger ones are files
in the sink's staging folder."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from beadline.state.disks import lost, naming
from beadline.state.segments.files import join, local_path, parent, read_file, sync, write_remote

_INLINE = 1 << 16
_READ = 8 << 20


@dataclass(frozen=True)
class Piece:
    """Encoded rows: ``data`` if they are small, else the file at ``path``."""

    bucket: str
    subtask: int
    size: int
    data: bytes | None
    path: str | None

    def as_data(self) -> list[Any]:
        return [self.bucket, self.subtask, self.size, self.data, self.path]


def of_rows(folder: str, bucket: str, subtask: int, rows: list[bytes]) -> Piece:
    """A piece of these rows; a file if they are many."""
    size = sum(map(len, rows))
    if size <= _INLINE:
        return Piece(bucket, subtask, size, b"".join(rows), None)
    return in_file(folder, bucket, subtask, rows)


def in_file(folder: str, bucket: str, subtask: int, rows: list[bytes]) -> Piece:
    """Rows in a file with a unique name: a lost attempt's file is never read."""
    path = join(folder, uuid.uuid4().hex)
    if local_path(path) is None:
        write_remote(path, rows)
    else:
        with naming(path), open(path, "wb") as stream:
            stream.writelines(rows)
    return Piece(bucket, subtask, sum(map(len, rows)), None, path)


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

    :raises OSError: a staged file is missing or has another size than was staged
    """
    for piece in pieces:
        if piece.data is not None:
            yield piece.data
            continue
        assert piece.path is not None
        found = 0
        while found < piece.size:
            data = read_file(piece.path, found, min(_READ, piece.size - found))
            if not data:
                raise OSError(f"{piece.path} was staged with {piece.size} bytes, and has {found}")
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
