"""Gathers the pieces of a file sink into parts, one per bucket and subtask, and brings them out.

The counters of parts are in the checkpoint, with the name of the driver that counted. Parts that this lineage published
after the checkpoint that is restored are removed, and their rows come again; what a consumer has read by then can't be
taken back. They are those of the driver that took the checkpoint, from its counters on, and all of later drivers, each
by the names that its program gave them. Counters go on from driver to driver, so that the parts of a subtask are in
order. A driver never sets its own counters back: a consumer may remember a name.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from beadline.connectors.files.named import strays
from beadline.connectors.files.names import Names
from beadline.connectors.files.pieces import Piece, paths_of, spilled, sync_all, with_data
from beadline.connectors.files.place import Place, publish
from beadline.connectors.files.policy import Compaction, RollingPolicy
from beadline.connectors.sink import Call, Committer, Held
from beadline.errors import BeadlineError
from beadline.state.segments.files import parent

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
    """A part is ``{"target": path, "pieces": […]}``; its place knows what a committable is.

    :param elsewhere: places where only earlier drivers wrote
    """

    def __init__(
        self,
        place: Place,
        policy: RollingPolicy,
        compaction: Compaction | None = None,
        elsewhere: Sequence[Place] = (),
    ) -> None:
        self._place = place
        self._places = (place, *elsewhere)
        self._names = place.names
        self._policy = policy
        self._compaction = compaction
        self._open: dict[tuple[str, int], _OpenPart] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._counters: dict[int, int] = {}
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
            for key, names in list(self._place.ready()):
                if names == self._names and key not in named:
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
        return _snapshot(list(self._open.values()), self._counters, self._own_name, self._waiting)

    def strays(self, data: Any, also: list[str]) -> Iterator[str]:
        yield from strays(data, self._names, also)
        for bucket in {piece.bucket for part in _all_parts(data["staged"]) for piece in part.pieces}:
            try:
                self._names.checked(bucket.lstrip("/"))  # it was once taken as if it were none
            except BeadlineError as error:
                yield str(error)

    @property
    def _own_name(self) -> list[str]:
        """Who counts the parts."""
        return [self._names.run, self._names.driver]

    def restore(self, snapshot: Any, needed: list[Held], epoch: int | None = None) -> None:
        self._open.clear()
        for part in _parts(snapshot["parts"]):
            part.pieces = self._kept(part.pieces)
            self._open[part.pieces[0].bucket, part.pieces[0].subtask] = part
        self._waiting = {
            bucket: _Waiting(checkpoints, _parts(parts)) for bucket, checkpoints, parts in snapshot.get("waiting", ())
        }
        for waiting in self._waiting.values():
            for part in waiting.parts:
                part.pieces = self._kept(part.pieces)
        if self._compaction is None:
            self._reopen()
        counters = dict(snapshot["counters"])
        is_own = snapshot.get("driver") == self._own_name
        for subtask, counter in counters.items():
            self._counters[subtask] = max(self._counters.get(subtask, 0), counter)
        self._final = False
        self._give_up_others(needed)
        # Where each driver stood when the snapshot was taken; those that published nothing since are not in it.
        first = {names: counters if names.epoch == epoch else {} for names in self._later_than(epoch)}
        first[self._names] = counters if is_own else {}
        for place in self._places:
            for path, names, part_name in list(place.parts()) if first.keys() & set(place.known) else ():
                if names in first and part_name.counter >= first[names].get(part_name.subtask, 0):
                    _LOG.warning(
                        "%s was written after the checkpoint that is restored, and is removed: its rows come again",
                        path,
                    )
                    place.remove(path)

    def _later_than(self, epoch: int | None) -> list[Names]:
        """The drivers of this lineage before this one that may have published since one took a snapshot, that one
        too."""
        known = [names for place in self._places for names in place.known if names != self._names]
        return [names for names in known if names.is_own and epoch is not None and names.epoch >= epoch]

    def _kept(self, pieces: list[Piece]) -> list[Piece]:
        """The same rows, staged where nobody else removes them: another job tidies up what it staged."""
        own = {names.staging for place in self._places for names in place.known}
        brought = [p if p.path is None or parent(p.path) in own else with_data(p) for p in pieces]
        return spilled(brought, self._names.staging)

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
        for place in self._places:
            others = [(key, names) for key, names in place.ready() if key not in named]
            promised = place.promised() if any(names != self._names for _, names in others) else set()
            for key, names in others:
                if names == self._names or key not in promised:
                    place.give_up(key)

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
        return _snapshot(list(merged.values()), dict(snapshot["counters"]), snapshot.get("driver"), {})

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
            candidates = candidates.union(*(place.pieces() for place in self._places))
            self._give_up_others(needed)
            with contextlib.suppress(OSError):
                for place in self._places:
                    place.forget_kept_promises()
        if not candidates:
            return
        waiting = [part for bucket in self._waiting.values() for part in bucket.parts]
        kept = set().union(*(paths_of(part.pieces) for part in [*self._open.values(), *waiting]))
        for held in needed:
            kept |= paths_of(_pieces_of(held))
        # What another job staged is not ours to remove, even if this one started from its checkpoint.
        places = {names.staging: place for place in self._places for names in place.known}
        for path in candidates - kept:
            if parent(path) in places:
                with contextlib.suppress(OSError):
                    places[parent(path)].remove(path)
        self._handed_out &= kept

    def close(self, discard: bool) -> None:
        if discard:
            for place in self._places:
                place.clear()


def _snapshot(parts: list[_OpenPart], counters: dict[int, int], driver: Any, waiting: dict[str, _Waiting]) -> Any:
    made: dict[str, Any] = {"parts": _as_data(parts), "counters": sorted(counters.items())}
    if driver is not None:
        made["driver"] = driver
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
