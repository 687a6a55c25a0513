"""Rows to files, each file complete when it appears.

Pieces are staged per step: small ones ride in the acknowledgement, larger ones lie in a hidden folder. A part file
is published by writing its pieces, in order, under a hidden name, then renaming it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from beadline.connectors.sink import Committer, StagedSink, Stager

_INLINE = 1 << 16


@dataclass(frozen=True)
class Piece:
    """What one subtask staged for one bucket in one step."""

    bucket: str
    subtask: int
    size: int
    data: bytes | None
    path: str | None


@dataclass(frozen=True)
class Publication:
    """One part file and the pieces it is made of."""

    target: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class RollingPolicy:
    """When a part is full. ``on_checkpoint`` leaves it to checkpoints and the end of the job alone."""

    part_size: int = 128 << 20
    rollover_ms: int = 60_000
    inactivity_ms: int = 60_000
    on_checkpoint: bool = False


@dataclass
class RowFileSink(StagedSink):
    """Writes encoded rows to ``base_path/bucket/prefix-run-subtask-counter suffix``."""

    base_path: str
    encode: Callable[[Any], bytes]
    bucket_of: Callable[[Any, int], str]
    policy: RollingPolicy = field(default_factory=RollingPolicy)
    prefix: str = "part"
    suffix: str = ""
    run: str = ""

    def prepare(self, run: str) -> None:
        self.run = run
        self.base_path = self.base_path.removeprefix("file://")
        os.makedirs(self.staging, exist_ok=True)

    @property
    def staging(self) -> str:
        return os.path.join(self.base_path, ".staging-" + self.run)

    def stager(self, subtask: int, step: int, now: int) -> Stager:
        return _RowStager(self, subtask, now)

    def committer(self) -> Committer:
        return _RowCommitter(self)


class _RowStager(Stager):
    def __init__(self, sink: RowFileSink, subtask: int, now: int) -> None:
        self._sink = sink
        self._subtask = subtask
        self._now = now
        self._buckets: dict[str, list[bytes]] = {}

    def write(self, records: list[Any], timestamps: list[int] | None) -> None:
        encode, bucket_of, now = self._sink.encode, self._sink.bucket_of, self._now
        for record in records:
            self._buckets.setdefault(bucket_of(record, now), []).append(encode(record))

    def finish(self) -> list[Any]:
        pieces = []
        for bucket, rows in self._buckets.items():
            data = b"".join(rows)
            if len(data) <= _INLINE:
                pieces.append(Piece(bucket, self._subtask, len(data), data, None))
            else:
                # A name of its own for each attempt: a lost attempt's file is never read.
                path = os.path.join(self._sink.staging, uuid.uuid4().hex)
                with open(path, "wb") as stream:
                    stream.write(data)
                pieces.append(Piece(bucket, self._subtask, len(data), None, path))
        return pieces


@dataclass
class _OpenPart:
    opened_at: int
    changed_at: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


class _RowCommitter(Committer):
    def __init__(self, sink: RowFileSink) -> None:
        self._sink = sink
        self._open: dict[tuple[str, int], _OpenPart] = {}
        self._counters: dict[int, int] = {}

    def sealed(self, pieces: list[Any], now: int, final: bool) -> list[Any]:
        for piece in pieces:
            part = self._open.setdefault((piece.bucket, piece.subtask), _OpenPart(now, now))
            part.pieces.append(piece)
            part.changed_at = now
        due = [key for key, part in self._open.items() if final or self._is_full(part, now)]
        return [self._publication(*key) for key in due]

    def _is_full(self, part: _OpenPart, now: int) -> bool:
        policy = self._sink.policy
        if policy.on_checkpoint:
            return False
        return (
            part.size >= policy.part_size
            or now - part.opened_at >= policy.rollover_ms
            or now - part.changed_at >= policy.inactivity_ms
        )

    def _publication(self, bucket: str, subtask: int) -> Publication:
        part = self._open.pop((bucket, subtask))
        counter = self._counters.get(subtask, 0)
        self._counters[subtask] = counter + 1
        name = f"{self._sink.prefix}-{self._sink.run[:8]}-{subtask}-{counter}{self._sink.suffix}"
        return Publication(os.path.join(self._sink.base_path, bucket, name), tuple(part.pieces))

    def publisher(self) -> Callable[[Any], None]:
        return publish

    def close(self) -> None:
        shutil.rmtree(self._sink.staging, ignore_errors=True)


def publish(publication: Publication) -> None:
    """Write the pieces under a hidden name, make them durable, rename, drop the pieces. Done before: nothing to do."""
    target = publication.target
    folder, name = os.path.split(target)
    hidden = os.path.join(folder, f".{name}.inprogress.{uuid.uuid4().hex[:8]}")
    if not os.path.exists(target):
        os.makedirs(folder, exist_ok=True)
        try:
            _write(publication, hidden)
        except FileNotFoundError:
            if not os.path.exists(target):  # else another attempt was faster and has dropped the pieces
                raise
        else:
            os.replace(hidden, target)
            _sync_folder(folder)
    for piece in publication.pieces:
        if piece.path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(piece.path)


def _write(publication: Publication, hidden: str) -> None:
    try:
        with open(hidden, "wb") as stream:
            for piece in publication.pieces:
                if piece.data is not None:
                    stream.write(piece.data)
                else:
                    assert piece.path is not None
                    with open(piece.path, "rb") as staged:
                        shutil.copyfileobj(staged, stream, 1 << 20)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hidden)
        raise


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
