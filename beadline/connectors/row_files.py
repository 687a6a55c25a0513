"""Rows to files, each file complete when it appears.

Pieces are staged per step: small ones ride in the acknowledgement, larger ones lie in a hidden folder. A part file
is published by writing its pieces, in order, under a hidden name, then renaming it. The names of parts are counted, and
the counters are in the checkpoint: after a restore they go on from there. Parts that were published behind the
checkpoint are removed then, and their rows come again. Names and staging folders tell the epoch of their driver, and no
driver removes what belongs to a later epoch: it may have been fenced and not know it yet.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from beadline.connectors.sink import Committer, StagedSink, Stager
from beadline.state.disks import naming
from beadline.state.files import make_folder, sync

_LOG = logging.getLogger("beadline")

_INLINE = 1 << 16


@dataclass(frozen=True)
class Piece:
    """What one subtask staged for one bucket in one step."""

    bucket: str
    subtask: int
    size: int
    data: bytes | None
    path: str | None


def _as_data(piece: Piece) -> list[Any]:
    return [piece.bucket, piece.subtask, piece.size, piece.data, piece.path]


@dataclass(frozen=True)
class RollingPolicy:
    """When a part is full. ``on_checkpoint`` leaves it to checkpoints and the end of the job alone."""

    part_size: int = 128 << 20
    rollover_ms: int = 60_000
    inactivity_ms: int = 60_000
    on_checkpoint: bool = False


@dataclass
class RowFileSink(StagedSink):
    """Writes encoded rows to ``base_path/bucket/prefix-run[_epoch]-subtask-counter suffix``."""

    base_path: str
    encode: Callable[[Any], bytes]
    bucket_of: Callable[[Any, int], str]
    policy: RollingPolicy = field(default_factory=RollingPolicy)
    prefix: str = "part"
    suffix: str = ""
    run: str = ""
    epoch: int = 0

    def prepare(self, run: str, epoch: int = 0) -> None:
        self.run, self.epoch = run, epoch
        self.base_path = self.base_path.removeprefix("file://")
        os.makedirs(self.staging, exist_ok=True)

    @property
    def stem(self) -> str:
        """How the names of this job's parts begin."""
        return f"{self.prefix}-{self.run[:8]}"

    @property
    def all_staged(self) -> str:
        """The folder of what drivers of all epochs staged."""
        return os.path.join(self.base_path, ".staging-" + self.run)

    @property
    def staging(self) -> str:
        return os.path.join(self.all_staged, str(self.epoch))

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
            size = sum(map(len, rows))
            if size <= _INLINE:
                pieces.append(Piece(bucket, self._subtask, size, b"".join(rows), None))
            else:
                pieces.append(_staged(self._sink.staging, bucket, self._subtask, rows))
        return pieces


@dataclass
class _OpenPart:
    opened_at: int
    changed_at: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    def spill(self, folder: str) -> None:
        """Put small pieces that have become many into one file: checkpoints carry what is in memory."""
        small = [piece for piece in self.pieces if piece.data is not None]
        if sum(piece.size for piece in small) <= _INLINE:
            return
        kept: list[Piece] = []
        data: list[bytes] = []
        for piece in self.pieces:
            if piece.data is not None:
                data.append(piece.data)
                continue
            if data:
                kept.append(_staged(folder, piece.bucket, piece.subtask, data))
                data = []
            kept.append(piece)
        if data:
            kept.append(_staged(folder, self.pieces[0].bucket, self.pieces[0].subtask, data))
        self.pieces = kept


def _staged(folder: str, bucket: str, subtask: int, rows: list[bytes]) -> Piece:
    """Rows in a file with a name of its own: a lost attempt's file is never read."""
    path = os.path.join(folder, uuid.uuid4().hex)
    with naming(path), open(path, "wb") as stream:
        stream.writelines(rows)
    return Piece(bucket, subtask, sum(map(len, rows)), None, path)


class _RowCommitter(Committer):
    """Gathers pieces into parts, a bucket and subtask each. A committable is ``{"target": path, "pieces": […]}``."""

    def __init__(self, sink: RowFileSink) -> None:
        self._sink = sink
        self._open: dict[tuple[str, int], _OpenPart] = {}
        self._counters: dict[int, int] = {}
        self._now = 0
        self._final = False
        self._durable: set[str] = set()
        self._handed_out: set[str] = set()

    def sealed(self, pieces: list[Any], now: int, final: bool) -> None:
        self._now, self._final = now, final
        for piece in pieces:
            part = self._open.setdefault((piece.bucket, piece.subtask), _OpenPart(now, now))
            part.pieces.append(piece)
            part.changed_at = now
            part.spill(self._sink.staging)

    def due(self, at_checkpoint: bool) -> list[Any]:
        return [self._committable(*key) for key, part in list(self._open.items()) if self._is_full(part, at_checkpoint)]

    def _is_full(self, part: _OpenPart, at_checkpoint: bool) -> bool:
        policy = self._sink.policy
        if self._final or (policy.on_checkpoint and at_checkpoint):
            return True
        return not policy.on_checkpoint and (
            part.size >= policy.part_size
            or self._now - part.opened_at >= policy.rollover_ms
            or self._now - part.changed_at >= policy.inactivity_ms
        )

    def _committable(self, bucket: str, subtask: int) -> dict[str, Any]:
        part = self._open.pop((bucket, subtask))
        counter = self._counters.get(subtask, 0)
        self._counters[subtask] = counter + 1
        epoch = f"_{self._sink.epoch}" if self._sink.epoch else ""
        name = f"{self._sink.stem}{epoch}-{subtask}-{counter}{self._sink.suffix}"
        target = os.path.join(self._sink.base_path, bucket, name)
        self._handed_out |= _paths(part.pieces)
        return {"target": target, "pieces": [_as_data(piece) for piece in part.pieces]}

    def publisher(self) -> Callable[[Any], None]:
        return publish

    # -- checkpoints

    def snapshot(self) -> Any:
        parts = [[p.opened_at, p.changed_at, [_as_data(piece) for piece in p.pieces]] for p in self._open.values()]
        return {"parts": parts, "counters": sorted(self._counters.items())}

    def restore(self, snapshot: Any, committables: list[Any]) -> None:
        self._open.clear()
        for opened_at, changed_at, pieces in snapshot["parts"]:
            part = _OpenPart(opened_at, changed_at, [Piece(*piece) for piece in pieces])
            part.spill(self._sink.staging)
            self._open[part.pieces[0].bucket, part.pieces[0].subtask] = part
        self._counters = dict(snapshot["counters"])
        self._final = False
        for path in self._later_parts():
            if not os.path.basename(path).startswith("."):
                _LOG.warning(
                    "%s was written after the checkpoint that is restored, and is removed: its rows come again", path
                )
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def _later_parts(self) -> list[str]:
        """Parts of this job that were published after the snapshot was taken, and parts that broke off; those of later
        epochs are another driver's."""
        name_of_part = rf"{re.escape(self._sink.stem)}(?:_(\d+))?-(\d+)-(\d+){re.escape(self._sink.suffix)}"
        visible, hidden = re.compile(name_of_part), re.compile(rf"\.{name_of_part}\.inprogress\.[0-9a-f]{{8}}")
        found = []
        for folder, folders, names in os.walk(self._sink.base_path):
            folders[:] = [f for f in folders if not f.startswith(".staging-")]
            for name in names:
                match = visible.fullmatch(name)
                later = match is not None and int(match[3]) >= self._counters.get(int(match[2]), 0)
                part = match if later else hidden.fullmatch(name)
                if part is not None and int(part[1] or 0) <= self._sink.epoch:
                    found.append(os.path.join(folder, name))
        return found

    def make_durable(self, snapshot: Any, committables: list[Any]) -> None:
        paths = _paths(_pieces_of(snapshot, committables))
        new = paths - self._durable
        for path in new:
            sync(path)
        for folder in {os.path.dirname(path) for path in new}:
            sync(folder)
        self._durable = paths

    def portable(self, snapshot: Any, committables: list[Any]) -> tuple[Any, list[Any]]:
        parts = [[opened, changed, [_with_data(p) for p in pieces]] for opened, changed, pieces in snapshot["parts"]]
        whole = [{**c, "pieces": [_with_data(piece) for piece in c["pieces"]]} for c in committables]
        return {**snapshot, "parts": parts}, whole

    def tidy(self, needed: list[tuple[Any, list[Any]]], idle: bool) -> None:
        candidates = self._handed_out | (self._staged_so_far() if idle else set())
        if not candidates:
            return
        kept = set().union(*(_paths(part.pieces) for part in self._open.values()))
        for snapshot, committables in needed:
            kept |= _paths(_pieces_of(snapshot, committables))
        for path in candidates - kept:
            # What another job staged, from whose savepoint or checkpoint this one started, is not ours to remove.
            if os.path.dirname(os.path.dirname(path)) == self._sink.all_staged:
                with contextlib.suppress(OSError):
                    os.unlink(path)
        self._handed_out &= kept

    def _staged_so_far(self) -> set[str]:
        """What drivers up to this one have staged."""
        found: set[str] = set()
        with contextlib.suppress(FileNotFoundError):
            for epoch in os.listdir(self._sink.all_staged):
                if epoch.isdigit() and int(epoch) <= self._sink.epoch:
                    folder = os.path.join(self._sink.all_staged, epoch)
                    found |= {os.path.join(folder, name) for name in os.listdir(folder)}
        return found

    def close(self, discard: bool) -> None:
        if discard:
            shutil.rmtree(self._sink.all_staged, ignore_errors=True)


def _pieces_of(snapshot: Any, committables: list[Any]) -> list[Piece]:
    parts = [pieces for _, _, pieces in snapshot["parts"]] if snapshot is not None else []
    parts += [committable["pieces"] for committable in committables]
    return [Piece(*piece) for pieces in parts for piece in pieces]


def _paths(pieces: Iterable[Piece]) -> set[str]:
    return {piece.path for piece in pieces if piece.path is not None}


def _with_data(piece: list[Any]) -> list[Any]:
    """The piece with its rows, wherever they are."""
    bucket, subtask, size, data, path = piece
    if path is not None:
        with open(path, "rb") as stream:
            data = stream.read()
    return [bucket, subtask, size, data, None]


def publish(committable: dict[str, Any]) -> None:
    """Write the pieces under a hidden name, make them durable, rename. Done before: nothing to do."""
    target, pieces = committable["target"], [Piece(*piece) for piece in committable["pieces"]]
    folder, name = os.path.split(target)
    make_folder(folder)
    if not os.path.exists(target):
        hidden = os.path.join(folder, f".{name}.inprogress.{uuid.uuid4().hex[:8]}")
        try:
            _write(pieces, hidden)
        except FileNotFoundError:
            if not os.path.exists(target):  # else another attempt was faster, and the pieces have been removed since
                raise
        else:
            os.replace(hidden, target)
    sync(folder)


def _write(pieces: list[Piece], hidden: str) -> None:
    try:
        with open(hidden, "wb") as stream:
            for piece in pieces:
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
