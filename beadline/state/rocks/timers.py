"""Timers over RocksDB: rows sorted by time. A step reads the times that are due and no others."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from beadline.state.heap.timers import TimerTable
from beadline.state.rocks.encoding import TimerKeys, split_owner
from beadline.state.rocks.tables import Rows


class TimerRows:
    def __init__(self, database: Any, rows: Rows, keys: TimerKeys) -> None:
        self._read = database.get
        self._rows = rows
        self._keys = keys

    def holds(self, timestamp: int, slot: Any) -> bool:
        return self._read(self._keys.of(timestamp, slot)) is not None

    def at(self, timestamp: int) -> Iterator[Any]:
        """The slots that wait for a time."""
        start = self._keys.at(timestamp)
        for row, data in self._rows.from_(start, start):
            yield split_owner(data)[0] if data else self._keys.slot_from(row)

    def __iter__(self) -> Iterator[int]:
        """Times, each once. Between two of them nothing is held open, however many timers lie there."""
        start = self._keys.head
        while True:
            row, _ = next(self._rows.from_(start, self._keys.head), (None, None))
            if row is None:
                return
            timestamp = self._keys.timestamp_of(row)
            yield timestamp
            if timestamp >= (1 << 63) - 1:
                return
            start = self._keys.at(timestamp + 1)


class RocksTimerTable(TimerTable):
    """Timers over RocksDB; the overlay is the heap's."""

    __slots__ = ("_at", "_counts", "_loaded")
    base: Any

    def reset(self) -> None:
        self._counts: dict[int, int] = {}
        self._at: int | None = None
        self._loaded: dict[Any, None] = {}
        super().reset()

    def _holds(self, timestamp: int, slot: Any) -> bool:
        hash(slot)  # the stand-in for "no key" raises when it is used as a key
        if timestamp == self._at:
            return slot in self._loaded
        held: bool = self.base.holds(timestamp, slot)
        return held

    def register(self, timestamp: int, slot: Any) -> None:
        removed, added = self._removed.get(timestamp), self._added.get(timestamp)
        if added is not None and slot in added:
            return
        if removed is not None and slot in removed:
            del removed[slot]
        elif self._holds(timestamp, slot):
            return
        else:
            self._added.setdefault(timestamp, {})[slot] = None
        heapq.heappush(self._heap, timestamp)

    def _any_pending(self, timestamp: int) -> bool:
        if self._added.get(timestamp):
            return True
        gone = len(self._removed.get(timestamp, ()))
        known = self._counts.get(timestamp)
        if known is not None:
            return known > gone
        return any(count > gone for count, _ in enumerate(self.base.at(timestamp), 1))

    def _pending_at(self, timestamp: int) -> list[Any]:
        self._loaded = dict.fromkeys(self.base.at(timestamp))
        self._at, self._counts[timestamp] = timestamp, len(self._loaded)
        removed = self._removed.get(timestamp, ())
        slots = [slot for slot in self._loaded if slot not in removed]
        slots.extend(self._added.get(timestamp, ()))
        return slots

    def walk(self, place: Any, limit: int) -> tuple[list[Any], Any]:
        raise AssertionError("timers have no time to live")
