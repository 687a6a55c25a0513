"""Timers of keyed operators: one table per time domain, ordered by time.

The base is a sorted map from timestamp to the slots that wait for it; a step adds and removes in its overlay only.
Timers of one timestamp fire in the order of their encoded keys: a worker that rebuilt its store fires in the same
order as one that kept it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from beadline.state.heap.tables import TABLE_KINDS, Changes, Table
from beadline.state.key_groups import encode_indexed


class TimerTable(Table):
    """Timers by slot. A change is ``(added, removed)``, two lists of timestamps."""

    kind = "timer"
    __slots__ = ("_added", "_ahead", "_heap", "_next", "_removed")

    def reset(self) -> None:
        """The base does not change under an overlay, so one walk over the base serves the whole step."""
        self._added: dict[int, dict[Any, None]] = {}
        self._removed: dict[int, dict[Any, None]] = {}
        self._heap: list[int] = []
        self._ahead = iter(self.base)
        self._next: int | None = next(self._ahead, None)

    def register(self, timestamp: int, slot: Any) -> None:
        """A second registration of the same slot and time changes nothing."""
        removed = self._removed.get(timestamp)
        if removed is not None and slot in removed:
            del removed[slot]
        elif slot in self.base.get(timestamp, ()):
            return
        else:
            self._added.setdefault(timestamp, {})[slot] = None
        heapq.heappush(self._heap, timestamp)

    def delete(self, timestamp: int, slot: Any) -> None:
        added = self._added.get(timestamp)
        if added is not None and slot in added:
            del added[slot]
        elif self._holds(timestamp, slot):
            self._removed.setdefault(timestamp, {})[slot] = None

    def due(self, until: int) -> Iterator[tuple[int, Any]]:
        """Take every timer up to a time, in order, including those registered while others fire."""
        while True:
            timestamp = self.first()
            if timestamp is None or timestamp > until:
                return
            slots = self._pending_at(timestamp)
            if len(slots) > 1:
                slots.sort(key=lambda slot: _order(slot, self.namespaced))
            for slot in slots:
                if self._is_pending(timestamp, slot):  # not deleted by a timer that fired just before it
                    self.delete(timestamp, slot)
                    yield timestamp, slot

    def first(self) -> int | None:
        heap = self._heap
        while heap and not self._any_pending(heap[0]):
            heapq.heappop(heap)
        while self._next is not None and not self._any_pending(self._next):
            self._next = next(self._ahead, None)
        if not heap:
            return self._next
        return heap[0] if self._next is None else min(heap[0], self._next)

    def _any_pending(self, timestamp: int) -> bool:
        removed = self._removed.get(timestamp, ())
        return bool(self._added.get(timestamp)) or len(self.base.get(timestamp, ())) > len(removed)

    def _is_pending(self, timestamp: int, slot: Any) -> bool:
        if slot in self._added.get(timestamp, ()):
            return True
        return slot not in self._removed.get(timestamp, ()) and self._holds(timestamp, slot)

    def _holds(self, timestamp: int, slot: Any) -> bool:
        return slot in self.base.get(timestamp, ())

    def _pending_at(self, timestamp: int) -> list[Any]:
        removed = self._removed.get(timestamp, ())
        slots = [slot for slot in self.base.get(timestamp, ()) if slot not in removed]
        slots.extend(self._added.get(timestamp, ()))
        return slots

    def take_changes(self) -> Changes:
        changes: Changes = {}
        for position, timers in enumerate((self._added, self._removed)):
            for timestamp, slots in timers.items():
                for slot in slots:
                    changes.setdefault(slot, ([], []))[position].append(timestamp)
        self.reset()
        return changes

    @staticmethod
    def apply(base: dict[Any, Any], changes: Changes) -> None:
        for slot, (added, removed) in changes.items():
            for timestamp in removed:
                slots = base.get(timestamp)
                if slots is not None:
                    slots.pop(slot, None)
                    if not slots:
                        del base[timestamp]
            for timestamp in added:
                base.setdefault(timestamp, {})[slot] = None

    @staticmethod
    def merge(older: Any, newer: Any) -> Any:
        gone = set(newer[1])
        added = list(dict.fromkeys((*(t for t in older[0] if t not in gone), *newer[0])))
        removed = list(dict.fromkeys((*older[1], *newer[1])))
        return added, removed

    @staticmethod
    def settle(change: Any) -> Any:
        return (change[0], []) if change[0] else None


def _order(slot: Any, namespaced: bool) -> tuple[bytes, str]:
    key, namespace = slot if namespaced else (slot, None)
    return encode_indexed(key), "" if namespace is None else repr(namespace)


TABLE_KINDS[TimerTable.kind] = TimerTable
