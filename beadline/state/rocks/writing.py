"""From changes to rows.

Deltas go through a write batch. What a list or a map held before decides which rows go: lists read one row per slot,
maps that were cleared at their entries. Over an empty database nothing was there before, and rows that come in order
go straight into files that RocksDB takes as they are. Each table of a database has a number, which its rows begin with,
and its kind of rows.
"""

from __future__ import annotations

import marshal
import os
import uuid
from collections.abc import Callable
from itertools import islice
from typing import Any

from beadline.state.codec import dumps
from beadline.state.heap.tables import Changes
from beadline.state.key_groups import encode_key, hash_encoded
from beadline.state.rocks.encoding import (
    OPAQUE,
    ListRow,
    RowKeys,
    TimerKeys,
    encode_map_key,
    is_plain,
    owned,
    pack,
    pack_items,
)
from beadline.state.rocks.tables import Rows, read_opaque
from beadline.state.segments.segment import TableChanges
from beadline.state.store import check_kind

_LOOK_UP = 1000
_CHUNK_BYTES = 256 << 10
_CLEAR_ONE_BY_ONE = 1000
CHUNKS = 0x8000  # tables of list chunks: the list's own number plus this

Put = Callable[[bytes, bytes], None]
Delete = Callable[[bytes], None]


def _plain_slot(slot: Any) -> bool:
    return slot.__class__ is str or is_plain(slot)


class Batch:
    """Rows on their way into the database, in one batch.

    :param empty: nothing can lie where they go
    :param batch: what takes them; a write batch of its own if left out
    """

    def __init__(self, database: Any, rows: Rows, empty: bool, batch: Any = None) -> None:
        import rocksdict

        self._database = database
        self._rows = rows
        self._empty = empty
        self.batch = rocksdict.WriteBatch(raw_mode=True) if batch is None else batch
        self._put: Put = self.batch.put
        self._delete: Delete = self.batch.delete

    def values(self, keys: RowKeys, changes: Changes) -> None:
        put, delete, of_slot = self._put, self._delete, keys.of_slot
        if keys.namespaced:
            for slot, value in changes.items():
                if value is None:
                    delete(of_slot(slot))
                else:
                    put(of_slot(slot), pack(value) if is_plain(slot) else owned(slot, pack(value)))
            return
        # Runs once per entry and step, so it is inlined.
        prefixes, maximum = keys.prefixes, keys.max_parallelism
        hashed, encode, dump = hash_encoded, encode_key, marshal.dumps
        for slot, value in changes.items():
            if slot.__class__ is str:
                encoded = encode(slot)
                row = prefixes[hashed(encoded) % maximum] + encoded
                if value.__class__ is tuple:
                    put(row, dump(value))
                    continue
                data = None if value is None else pack(value)
            else:
                row = of_slot(slot)
                data = None if value is None else pack(value) if is_plain(slot) else owned(slot, pack(value))
            if data is None:
                delete(row)
            else:
                put(row, data)

    def lists(self, keys: RowKeys, chunk_keys: RowKeys, changes: Changes) -> None:
        put, delete, of_slot = self._put, self._delete, keys.of_slot
        left = iter(changes.items())
        while part := list(islice(left, _LOOK_UP)):
            names = [of_slot(slot) for slot, _ in part]
            before = [None] * len(names) if self._empty else self._database.get(names)
            for name, data, (slot, (replaced, items)) in zip(names, before, part, strict=True):
                row = ListRow(data)
                if replaced:
                    for number in range(row.chunks):
                        delete(_chunk(chunk_keys, slot, number))
                    row.chunks, row.tail = 0, b""
                packed = pack_items(items) if items else b""
                if row.tail and len(row.tail) + len(packed) > _CHUNK_BYTES:
                    put(_chunk(chunk_keys, slot, row.chunks), row.tail)
                    row.chunks, row.tail = row.chunks + 1, b""
                row.tail += packed
                if row.chunks or row.tail:
                    if data is None and not _plain_slot(slot):
                        row.owner = owned(slot, b"")
                    put(name, row.pack())
                elif data is not None:
                    delete(name)

    def maps(self, keys: RowKeys, changes: Changes) -> None:
        put, delete = self._put, self._delete
        for slot, (cleared, puts, removed) in changes.items():
            prefix, plain = keys.of_slot(slot), _plain_slot(slot)
            if cleared and not self._empty:
                self._clear(prefix)
            opaque_puts, opaque_removed = {}, []
            for map_key in removed:
                encoded = encode_map_key(map_key)
                if encoded is None:
                    opaque_removed.append(map_key)
                else:
                    delete(prefix + encoded)
            for map_key, value in puts.items():
                encoded = encode_map_key(map_key)
                if encoded is None:
                    opaque_puts[map_key] = value
                elif plain and is_plain(map_key):
                    put(prefix + encoded, pack(value))
                else:
                    put(prefix + encoded, owned((slot, map_key), pack(value)))
            if opaque_puts or opaque_removed:
                self._opaque(prefix + OPAQUE, slot, cleared, opaque_puts, opaque_removed)

    def _opaque(self, name: bytes, slot: Any, cleared: bool, puts: dict[Any, Any], removed: list[Any]) -> None:
        data = None if cleared or self._empty else self._database.get(name)
        entries = {} if data is None else read_opaque(data)
        for map_key in removed:
            entries.pop(map_key, None)
        entries.update(puts)
        if entries:
            self._put(name, owned((slot, None), dumps(entries)))
        elif data is not None:
            self._delete(name)

    def _clear(self, prefix: bytes) -> None:
        for found, (row, _) in enumerate(self._rows.from_(prefix, prefix)):
            if found == _CLEAR_ONE_BY_ONE:
                self.batch.delete_range(prefix, prefix + OPAQUE + b"\xff")
                return
            self._delete(row)

    def timers(self, keys: TimerKeys, changes: Changes) -> None:
        put, delete, of = self._put, self._delete, keys.of
        for slot, (added, removed) in changes.items():
            data = b"" if _plain_slot(slot) else owned(slot, b"")
            if not self._empty:
                for timestamp in removed:
                    delete(of(timestamp, slot))
            for timestamp in added:
                put(of(timestamp, slot), data)


class SortedFiles:
    """Takes rows as a write batch does. Those that come in order become RocksDB's own files: nothing has to be sorted
    or compacted again."""

    def __init__(self, database: Any, options: Any, folder: str, file_bytes: int) -> None:
        self._database = database
        self._options = options
        self._folder = folder
        self._file_bytes = file_bytes
        self._waiting: list[tuple[bytes, bytes]] = []
        self._writer: Any = None
        self._path = ""
        self._last = b""
        self._size = 0

    def put(self, name: bytes, data: bytes) -> None:
        self._waiting.append((name, data))

    def delete(self, name: bytes) -> None:
        """Nothing was there before."""

    def take(self) -> bool:
        """Write the rows that wait; False if they don't follow those before."""
        rows, self._waiting = self._waiting, []
        if not rows:
            return True
        rows.sort()
        if rows[0][0] <= self._last:
            return False
        if self._writer is None:
            import rocksdict

            self._path = os.path.join(self._folder, f"load-{uuid.uuid4().hex[:8]}.sst")
            self._writer = rocksdict.SstFileWriter(self._options)
            self._writer.open(self._path)
        writer = self._writer
        for name, data in rows:
            writer[name] = data
            self._size += len(name) + len(data)
        self._last = rows[-1][0]
        if self._size >= self._file_bytes:
            self.finish()
        return True

    def finish(self) -> None:
        if self._writer is None:
            return
        import rocksdict

        self._writer.finish()
        self._writer, self._size = None, 0
        moved = rocksdict.IngestExternalFileOptions()
        moved.set_move_files(True)
        self._database.ingest_external_file([self._path], moved)


def _chunk(keys: RowKeys, slot: Any, number: int) -> bytes:
    return keys.of_slot(slot) + number.to_bytes(4, "big")


# -- the tables of a database


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
