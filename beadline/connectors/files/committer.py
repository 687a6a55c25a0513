"""Gathers the pieces of a file sink into parts, one per bucket and subtask, and brings them out.

The counters of parts are in the checkpoint. Parts that were published after the checkpoint that is restored are
removed, and their rows come again; what a consumer has read by then can't be taken back. The checkpoint also says in
which epoch the job began: a job whose id the user chose may have had a namesake before, whose parts are not its own.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from beadline.connectors.files.named import strays
from beadline.connectors.files.pieces import Piece, paths_of, spilled, sync_all, with_data
from beadline.connectors.files.place import Place, publish
from beadline.connectors.files.policy import Compaction, RollingPolicy
from beadline.connectors.sink import Call, Committer, Held
from beadline.errors import BeadlineError
from beadline.state.segments.files import base_name, local_path, parent

_LOG = logging.getLogger("beadline")


@dataclass
class _OpenPart:
    opened_at: int
    changed_at: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@dataclass
class _Waiting:
    """Full parts of a bucket that are to become one file.

    :ivar checkpoints: how many have been taken since the first of them came
    """

    checkpoints: int = 0
    parts: list[_OpenPart] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


class FileCommitter(Committer):
    """A part is ``{"target": path, "pieces": […]}``; its place knows what a committable is."""

    def __init__(self, place: Place, policy: RollingPolicy, compaction: Compaction | None = None) -> None:
        self._place = place
        self._names = place.names
        self._policy = policy
        self._compaction = compaction
        self._open: dict[tuple[str, int], _OpenPart] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._counters: dict[int, int] = {}
        self._began = place.names.epoch
        self._now = 0
        self._final = False
        self._durable: set[str] = set()
        self._handed_out: set[str] = set()
        # The lists of what savepoints name, and those of them that were there at the last look.
        self._promises: dict[str, set[Any]] = {}
        self._seen_promises: set[str] = set()

    def __repr__(self) -> str:
        return f"<FileCommitter of {self._names.base}: {len(self._open)} open parts>"

    def sealed(self, pieces: list[Any], now: int, final: bool) -> None:
        self._now, self._final = now, final
        for piece in pieces:
            part = self._open.setdefault((piece.bucket, piece.subtask), _OpenPart(now, now))
            part.pieces = spilled([*part.pieces, piece], self._names.staging)
            part.changed_at = now

    def due(self, at_checkpoint: bool) -> list[Any]:
        full = [key for key, part in self._open.items() if self._is_full(part, at_checkpoint)]
        if self._compaction is None:
            return [self._hand_out(key[0], [self._open.pop(key)]) for key in full]
        for key in full:
            self._waiting.setdefault(key[0], _Waiting()).parts.append(self._open.pop(key))
        return self._compacted(self._compaction, at_checkpoint)

    def _compacted(self, compaction: Compaction, at_checkpoint: bool) -> list[Any]:
        """What has waited long enough."""
        parts: list[Any] = []
        for bucket, waiting in list(self._waiting.items()):
            waiting.checkpoints += at_checkpoint
            if self._final or compaction.is_due(waiting.size, waiting.checkpoints):
                del self._waiting[bucket]
                groups = [waiting.parts] if compaction.merge else [[part] for part in waiting.parts]
                parts += [self._hand_out(bucket, group, compaction) for group in groups]
        return parts

    def _is_full(self, part: _OpenPart, at_checkpoint: bool) -> bool:
        age, idle = self._now - part.opened_at, self._now - part.changed_at
        return self._final or self._policy.is_full(part.size, age, idle, at_checkpoint)

    def _hand_out(self, bucket: str, parts: list[_OpenPart], compaction: Compaction | None = None) -> dict[str, Any]:
        subtask = parts[0].pieces[0].subtask
        counter = self._counters.get(subtask, 0)
        self._counters[subtask] = counter + 1
        delimiter = b"" if compaction is None else compaction.delimiter
        pieces = list(parts[0].pieces)
        for part in parts[1:]:
            if delimiter:
                pieces.append(Piece(bucket, subtask, len(delimiter), delimiter, None))
            pieces += part.pieces
        self._handed_out |= paths_of(pieces)
        target = self._names.target(bucket, subtask, counter, compaction is not None)
        return {"target": target, "pieces": [piece.as_data() for piece in pieces]}

    def staged_size(self) -> int:
        return sum(part.size for part in self._open.values()) if self._policy.on_checkpoint else 0

    # -- two phases

    def precommitter(self) -> Callable[[Any], Any]:
        return self._place.make_ready

    def weight(self, part: Any) -> int:
        return sum(piece.size for piece in _pieces(part["pieces"]))

    def sweep(self, known: list[Any]) -> None:
        named = {self._place.key_of(committable) for committable in known}
        # Whatever stays is removed at the next time, or when the job ends.
        with contextlib.suppress(OSError):
            for key, epoch in list(self._place.ready()):
                if epoch == self._names.epoch and key not in named:
                    self._place.give_up(key)

    def make_durable(self, snapshot: Any) -> None:
        paths = paths_of(_pieces_of(Held(snapshot, [], [])))
        sync_all(paths - self._durable)
        self._durable = paths

    def publish(self, committables: list[Any], call: Call, recovering: bool) -> list[Any]:
        call(publish, committables, None)
        return []

    # -- checkpoints

    def snapshot(self) -> Any:
        began = [self._names.run, self._began]
        return _snapshot(list(self._open.values()), self._counters, began, self._waiting)

    def strays(self, data: Any, also: list[str]) -> Iterator[str]:
        yield from strays(data, self._names, also)
        for bucket in {piece.bucket for part in _all_parts(data["staged"]) for piece in part.pieces}:
            try:
                self._names.checked(bucket.lstrip("/"))  # it was once taken as if it were none
            except BeadlineError as error:
                yield str(error)

    def restore(self, snapshot: Any, needed: list[Held]) -> None:
        self._open.clear()
        for part in _parts(snapshot["parts"]):
            part.pieces = spilled(part.pieces, self._names.staging)
            self._open[part.pieces[0].bucket, part.pieces[0].subtask] = part
        self._waiting = {
            bucket: _Waiting(checkpoints, _parts(parts)) for bucket, checkpoints, parts in snapshot.get("waiting", ())
        }
        if self._compaction is None:
            self._reopen()
        self._counters = dict(snapshot["counters"])
        run, began = snapshot.get("began", (self._names.run, 0))
        self._began = began if run == self._names.run else self._names.epoch
        self._final = False
        self._give_up_others(needed)
        for path, name in list(self._place.parts()):
            # Those of later epochs are another driver's.
            own = self._began <= name.epoch <= self._names.epoch
            if own and name.counter >= self._counters.get(name.subtask, 0):
                _LOG.warning(
                    "%s was written after the checkpoint that is restored, and is removed: its rows come again", path
                )
                self._place.remove(path)
        self._skip_names(needed)

    def _skip_names(self, needed: list[Held]) -> None:
        """What savepoints name may appear yet, and keeps its name: the parts to come get others."""
        for target in (each["target"] for held in needed for each in held.committables if "target" in each):
            called = base_name(target)
            name = self._names.part(called if local_path(target) is not None else unquote(called))
            if name is not None and name.epoch == self._names.epoch:
                self._counters[name.subtask] = max(self._counters.get(name.subtask, 0), name.counter + 1)

    def _reopen(self) -> None:
        """The program compacted when the snapshot was taken, and does not any more."""
        for waiting in self._waiting.values():
            for part in reversed(waiting.parts):
                first = part.pieces[0]
                own = self._open.setdefault((first.bucket, first.subtask), _OpenPart(part.opened_at, part.changed_at))
                own.pieces = spilled([*part.pieces, *own.pieces], self._names.staging)
        self._waiting.clear()

    def _give_up_others(self, needed: list[Held]) -> None:
        """Remove what drivers up to this one made ready, except what is named, here or by an earlier one's
        savepoint."""
        named = self._named(needed)
        others = [(key, epoch) for key, epoch in self._place.ready() if key not in named]
        if any(epoch < self._names.epoch for _, epoch in others):
            named = self._place.promised()
        for key, epoch in others:
            if epoch == self._names.epoch or key not in named:
                self._place.give_up(key)

    def _named(self, needed: list[Held]) -> set[Any]:
        return {self._place.key_of(committable) for held in needed for committable in held.committables}

    def portable(self, snapshot: Any, parts: list[Any]) -> Any:
        """What was handed out is open again, before the rows that came later: the job that restores it names it."""
        merged: dict[tuple[str, int], _OpenPart] = {}
        handed_out = [_OpenPart(0, 0, _pieces(part["pieces"])) for part in parts]
        for part in [*handed_out, *_all_parts(snapshot)]:
            first = part.pieces[0]
            own = merged.setdefault((first.bucket, first.subtask), _OpenPart(part.opened_at, part.changed_at))
            own.changed_at = max(own.changed_at, part.changed_at)
            own.pieces += [with_data(piece) for piece in part.pieces]
        return _snapshot(list(merged.values()), dict(snapshot["counters"]), snapshot.get("began"), {})

    def portable_committables(self, committables: list[Any]) -> list[Any]:
        if committables:
            keys = [self._place.key_of(committable) for committable in committables]
            self._promises[self._place.promise(keys)] = set(keys)
        return committables

    def _forget_promises(self, needed: list[Held]) -> None:
        """Remove the lists of what has appeared since, or of savepoints that were given up. One that is here for the
        first time stays: its savepoint may have come after somebody asked what is needed."""
        if self._promises:
            named = self._named(needed)
            for path in [path for path in self._seen_promises if named.isdisjoint(self._promises[path])]:
                with contextlib.suppress(OSError):  # the next driver tries again
                    self._place.remove(path)
                del self._promises[path]
            self._seen_promises = set(self._promises)

    def tidy(self, needed: list[Held], idle: bool) -> None:
        candidates = self._handed_out
        self._forget_promises(needed)
        if idle:
            candidates = candidates | self._place.pieces()
            self._give_up_others(needed)
            with contextlib.suppress(OSError):
                self._place.forget_kept_promises()
        if not candidates:
            return
        waiting = [part for bucket in self._waiting.values() for part in bucket.parts]
        kept = set().union(*(paths_of(part.pieces) for part in [*self._open.values(), *waiting]))
        for held in needed:
            kept |= paths_of(_pieces_of(held))
        for path in candidates - kept:
            # What another job staged is not ours to remove, even if this one started from its checkpoint.
            if parent(parent(path)) == self._names.all_staged:
                with contextlib.suppress(OSError):
                    self._place.remove(path)
        self._handed_out &= kept

    def close(self, discard: bool) -> None:
        if discard:
            self._place.clear()


def _snapshot(parts: list[_OpenPart], counters: dict[int, int], began: Any, waiting: dict[str, _Waiting]) -> Any:
    made: dict[str, Any] = {"parts": _as_data(parts), "counters": sorted(counters.items())}
    if began is not None:
        made["began"] = began
    if waiting:
        made["waiting"] = [[bucket, each.checkpoints, _as_data(each.parts)] for bucket, each in waiting.items()]
    return made


def _as_data(parts: list[_OpenPart]) -> list[Any]:
    return [[p.opened_at, p.changed_at, [piece.as_data() for piece in p.pieces]] for p in parts]


def _parts(as_data: list[Any]) -> list[_OpenPart]:
    return [_OpenPart(opened, changed, _pieces(pieces)) for opened, changed, pieces in as_data]


def _all_parts(snapshot: Any) -> list[_OpenPart]:
    """Those that wait are older than those that are open."""
    waiting = [part for _, _, parts in snapshot.get("waiting", ()) for part in _parts(parts)]
    return waiting + _parts(snapshot["parts"])


def _pieces(as_data: list[Any]) -> list[Piece]:
    return [Piece(*piece) for piece in as_data]


def _pieces_of(held: Held) -> list[Piece]:
    """What is staged, handed out, or must be made ready again if it is lost."""
    found = [piece for part in _all_parts(held.staged) for piece in part.pieces] if held.staged is not None else []
    return found + [piece for part in held.parts + held.committables for piece in _pieces(part.get("pieces", []))]
