"""The tables of a database: each has a number, which its rows begin with, and its kind of rows."""

from __future__ import annotations

import marshal
from typing import Any

from beadline.state.heap.tables import Changes
from beadline.state.rocks.encoding import RowKeys, TimerKeys
from beadline.state.rocks.writing import CHUNKS, Batch
from beadline.state.segments.segment import TableChanges
from beadline.state.store import check_kind


class Known:
    """A table of the database.

    :ivar keys: how its rows are named; for a list those of the lists and those of their chunks
    """

    def __init__(self, number: int, kind: str, namespaced: bool, max_parallelism: int) -> None:
        self.number, self.kind, self.namespaced = number, kind, namespaced
        self.keys: Any
        if kind == "timer":
            self.keys = TimerKeys(number, namespaced)
        elif kind == "list":
            chunks = RowKeys(number + CHUNKS, max_parallelism, namespaced, followed=True)
            self.keys = (RowKeys(number, max_parallelism, namespaced), chunks)
        else:
            self.keys = RowKeys(number, max_parallelism, namespaced, followed=kind == "map")


class Catalogue:
    def __init__(self, max_parallelism: int) -> None:
        self._max_parallelism = max_parallelism
        self._tables: dict[str, Known] = {}
        self._made: dict[tuple[int, str, bool], Known] = {}

    def load(self, data: bytes | None) -> None:
        """Take what a database says about itself; None if it is empty."""
        found: dict[str, tuple[int, str, bool]] = {} if data is None else marshal.loads(data)
        self._tables = {name: self._table(*entry) for name, entry in found.items()}

    def _table(self, number: int, kind: str, namespaced: bool) -> Known:
        made = self._made.get((number, kind, namespaced))
        if made is None:
            made = self._made[number, kind, namespaced] = Known(number, kind, namespaced, self._max_parallelism)
        return made

    def dump(self) -> bytes:
        return marshal.dumps({name: (t.number, t.kind, t.namespaced) for name, t in self._tables.items()})

    def known(self, name: str, kind: str, namespaced: bool) -> Known:
        """The table of a name, which gets a number if it is new."""
        known = self._tables.get(name)
        if known is None:
            known = self._tables[name] = self._table(len(self._tables) + 1, kind, namespaced)
        check_kind(name, (known.kind, known.namespaced), (kind, namespaced))
        return known

    def changes(self, name: str, changes: Changes) -> TableChanges:
        known = self._tables[name]
        return TableChanges(known.kind, known.namespaced, changes)

    def fill(self, batch: Batch, name: str, table: TableChanges) -> None:
        known = self.known(name, table.kind, table.namespaced)
        if known.kind == "value":
            batch.values(known.keys, table.changes)
        elif known.kind == "list":
            batch.lists(known.keys[0], known.keys[1], table.changes)
        elif known.kind == "map":
            batch.maps(known.keys, table.changes)
        else:
            batch.timers(known.keys, table.changes)
