"""What a step reads of RocksDB, under the same overlays that the heap has.

Values and lists need only another base: an object that is asked like a dictionary, reads a row at first touch and
remembers it for the step. Maps read single entries, so they have a table of their own.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, ClassVar
from weakref import WeakSet

from beadline.state.codec import loads_own, thaw
from beadline.state.heap.tables import MISSING, Changes, ListTable, MapTable, Table, ValueTable
from beadline.state.key_groups import EQUAL_THEMSELVES, BoxedKey, encode_key, hash_encoded, map_indexed, unboxed
from beadline.state.rocks.encoding import (
    OPAQUE,
    ListRow,
    RowKeys,
    decode_map_key,
    encode_map_key,
    is_owned,
    split_owner,
    unpack,
    unpack_items,
)

_NONE_SEEN: dict[Any, Any] = {}
# What an entry costs in memory beyond its bytes: the objects, and their place in a dictionary.
_ENTRY_BYTES = 300


class Remembered:
    """Values of one table that were read or written lately, as the table keeps them; None for no value.

    :ivar size: at most how many bytes they take
    :ivar limit: how many they may take; above it no more reads are remembered
    :ivar unwritten: values not in the database yet: those that change in every step are written now and then
    """

    __slots__ = ("__weakref__", "limit", "size", "unwritten", "values")
    #: Those of this process, which share its memory.
    all: ClassVar[WeakSet[Remembered]] = WeakSet()

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self.unwritten: Changes = {}
        self.size = 0
        self.limit = 0
        Remembered.all.add(self)

    def take(self, changes: Changes, write_later: bool) -> None:
        self.values.update(changes)
        if write_later:
            self.unwritten.update(changes)
        self.size += _bytes_of(changes)

    def is_too_large(self) -> bool:
        if self.size > self.limit:
            self.size = _bytes_of(self.values)  # what was replaced no longer counts
        return self.size > self.limit

    def shrink(self) -> None:
        """Forget the half that was touched first, or all if that is not enough. Everything must be written."""
        assert not self.unwritten
        self.values = dict(islice(self.values.items(), len(self.values) // 2, None))
        self.size = _bytes_of(self.values)
        if self.size > self.limit:
            self.values, self.size = {}, 0


def _bytes_of(values: Changes) -> int:
    return len(marshal.dumps(list(values.values()))) + len(values) * _ENTRY_BYTES


class Rows:
    """Goes through the rows of a database, in order. Cursors are expensive to make and are used again.

    RocksDB closes only when all cursors are gone, so :meth:`close` lets them go.
    """

    def __init__(self, database: Any) -> None:
        self._database = database
        self._idle: list[Any] = []

    def close(self) -> None:
        self.renew()
        self._database = None

    def renew(self) -> None:
        """Cursors show what was there when they were made: the next ones show what was written since."""
        self._idle = []

    def from_(self, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows from a key on, as long as they begin with a prefix."""
        idle = self._idle
        cursor = idle.pop() if idle else self._database.iter()
        try:
            cursor.seek(start)
            while cursor.valid():
                key = cursor.key()
                if not key.startswith(prefix):
                    break
                yield key, cursor.value()
                cursor.next()
        finally:
            if idle is self._idle and self._database is not None:
                idle.append(cursor)


class _Base:
    """What the bases of values and lists share: going through their slots."""

    def __init__(self, rows: Rows, keys: RowKeys) -> None:
        self._rows = rows
        self._keys = keys
        self.get: Callable[..., Any]

    def __contains__(self, slot: Any) -> bool:
        return self.get(slot) is not None

    def __iter__(self) -> Iterator[Any]:
        for row, data in self._rows.from_(self._keys.head, self._keys.head):
            yield self.slot(row, data)

    def items(self) -> Iterator[tuple[Any, Any]]:
        return ((slot, self.get(slot)) for slot in self)

    def slot(self, row: bytes, data: bytes) -> Any:
        return split_owner(data)[0] if is_owned(data) else self._keys.slot_from(row)

    def walk(self, place: Any, limit: int) -> tuple[list[Any], Any]:
        """See :meth:`beadline.state.heap.tables.Table.walk`; a place is a row's key."""
        slots: list[Any] = []
        last = b""
        for row, data in self._rows.from_(place or self._keys.head, self._keys.head):
            part = self._keys.slot_part(row)[0]
            if part == last:
                continue  # another entry of the same map
            if len(slots) == limit:
                return slots, row
            last = part
            slots.append(self.slot(row, data))
        return slots, None


class ValueRows(_Base):
    def __init__(
        self, database: Any, rows: Rows, keys: RowKeys, remembered: Remembered, settle: Callable[[], None]
    ) -> None:
        super().__init__(rows, keys)
        self._settle = settle
        known, read = remembered.values, database.get
        prefixes, maximum, of_slot, namespaced = keys.prefixes, keys.max_parallelism, keys.of_slot, keys.namespaced
        missing, boxed, hashed = MISSING, BoxedKey, hash_encoded

        def get(slot: Any, default: Any = None) -> Any:
            found = known.get(slot, missing)
            if found is missing:
                if namespaced:
                    data = read(of_slot(slot))
                else:
                    encoded = slot.encoded if slot.__class__ is boxed else encode_key(slot)
                    data = read(prefixes[hashed(encoded) % maximum] + encoded)
                found = None if data is None else unpack(data)
                if remembered.size <= remembered.limit:
                    known[slot] = found
                    remembered.size += _ENTRY_BYTES if data is None else _ENTRY_BYTES + len(data)
            return default if found is None else found

        def peek(slot: Any) -> Any:
            found = known.get(slot, missing)
            if found is missing:
                data = read(of_slot(slot))
                found = None if data is None else unpack(data)
            return found

        self.get = get
        self.peek = peek

    def __iter__(self) -> Iterator[Any]:
        self._settle()
        return super().__iter__()

    def walk(self, place: Any, limit: int) -> tuple[list[Any], Any]:
        self._settle()
        return super().walk(place, limit)


class _OverRows(Table):
    __slots__ = ()
    base: Any

    def walk(self, place: Any, limit: int) -> tuple[list[Any], Any]:
        found: tuple[list[Any], Any] = self.base.walk(place, limit)
        return found


class RocksValueTable(_OverRows, ValueTable):
    __slots__ = ()

    def peek(self, slot: Any) -> Any:
        value = self.writes.get(slot, MISSING)
        return thaw(self.base.peek(slot)) if value is MISSING else value


class ListRows(_Base):
    def __init__(self, database: Any, rows: Rows, keys: RowKeys, chunk_keys: RowKeys) -> None:
        super().__init__(rows, keys)
        seen: dict[Any, Any] = {}
        read, of_slot = database.get, keys.of_slot

        def get(slot: Any, default: Any = None) -> Any:
            found = seen.get(slot, MISSING)
            if found is MISSING:
                data = read(of_slot(slot))
                found = seen[slot] = None if data is None else whole(slot, ListRow(data))
            return default if found is None else found

        def whole(slot: Any, row: ListRow) -> list[Any]:
            if not row.chunks:
                return unpack_items(row.tail)
            prefix = chunk_keys.of_slot(slot)
            parts = [read(prefix + number.to_bytes(4, "big")) for number in range(row.chunks)]
            return [item for part in (*parts, row.tail) for item in unpack_items(part)]

        self.get = get


class RocksListTable(_OverRows, ListTable):
    __slots__ = ()


class MapRows(_Base):
    """The base of a map table: one row per entry, by map key; map keys without an encoding share a row after them."""

    def __init__(self, database: Any, rows: Rows, keys: RowKeys) -> None:
        super().__init__(rows, keys)
        self._read = database.get
        self._seen: dict[Any, Any] = {}
        self._prefixes: dict[Any, bytes] = {}

    def slot(self, row: bytes, data: bytes) -> Any:
        return split_owner(data)[0][0] if is_owned(data) else self._keys.slot_from(row)

    def __iter__(self) -> Iterator[Any]:
        place: Any = None
        while True:
            slots, place = self.walk(place, 1000)
            yield from slots
            if place is None:
                return

    def _prefix(self, slot: Any) -> bytes:
        prefix = self._prefixes.get(slot)
        if prefix is None:
            prefix = self._prefixes[slot] = self._keys.of_slot(slot)
        return prefix

    def entry(self, slot: Any, map_key: Any) -> Any:
        """The entry as the table keeps it, or MISSING."""
        found = self._seen.get((slot, map_key), self)
        if found is self:
            encoded = encode_map_key(map_key)
            if encoded is None:
                found = self.opaque(slot).get(map_key, MISSING)
            else:
                data = self._read(self._prefix(slot) + encoded)
                found = MISSING if data is None else unpack(data)
            self._seen[slot, map_key] = found
        return found

    def opaque(self, slot: Any) -> dict[Any, Any]:
        data = self._read(self._prefix(slot) + OPAQUE)
        return {} if data is None else read_opaque(data)

    def entries(self, slot: Any) -> Iterator[tuple[bytes, Any, Any]]:
        """Encoded map key, map key and entry, in the order of the encoding."""
        prefix = self._prefix(slot)
        for row, data in self._rows.from_(prefix, prefix):
            encoded = row[len(prefix) :]
            if encoded == OPAQUE:
                for map_key, value in read_opaque(data).items():
                    yield OPAQUE, map_key, value
            else:
                map_key = split_owner(data)[0][1] if is_owned(data) else decode_map_key(encoded)
                yield encoded, map_key, unpack(data)


def read_opaque(data: bytes) -> dict[Any, Any]:
    entries: dict[Any, Any] = loads_own(split_owner(data)[1])
    return entries


class RocksMapTable(_OverRows, MapTable):
    """Maps over RocksDB. They are gone through in the order of their encoded keys (numbers by value), whether an entry
    is in the overlay or in a row: the order does not show where steps were cut."""

    __slots__ = ()

    def get(self, slot: Any, map_key: Any) -> Any:
        if map_key.__class__ not in EQUAL_THEMSELVES:
            map_key = map_indexed(map_key)
        change = self.overlay.get(slot)
        if change is not None:
            value = change[1].get(map_key, change)
            if value is not change:
                return thaw(value)
            if change[0]:
                return MISSING
        return thaw(self.base.entry(slot, map_key))

    def _may_be_below(self, slot: Any, map_key: Any) -> bool:
        return self.base.entry(slot, map_key) is not MISSING

    def items(self, slot: Any) -> Iterator[tuple[Any, Any]]:
        cleared, over = self.overlay.get(slot, (False, _NONE_SEEN))
        below: Iterator[tuple[bytes, Any, Any]] = iter(()) if cleared else self.base.entries(slot)
        if not over:
            return ((unboxed(map_key), thaw(value)) for _, map_key, value in below)
        return ((unboxed(map_key), value) for map_key, value in self._merged(over, below))

    @staticmethod
    def _merged(over: dict[Any, Any], below: Iterator[tuple[bytes, Any, Any]]) -> Iterator[tuple[Any, Any]]:
        opaque: dict[Any, Any] = {}
        mine: list[tuple[bytes, Any]] = []
        for map_key in over:
            encoded = encode_map_key(map_key)
            if encoded is None:
                opaque[map_key] = over[map_key]
            else:
                mine.append((encoded, map_key))
        mine.sort(key=lambda pair: pair[0], reverse=True)
        shared: dict[Any, Any] = {}
        for encoded, map_key, value in below:
            if encoded == OPAQUE:
                shared[map_key] = value
                continue
            while mine and mine[-1][0] < encoded:
                name = mine.pop()[1]
                if over[name] is not MISSING:
                    yield name, thaw(over[name])
            if mine and mine[-1][0] == encoded:
                value = over[mine.pop()[1]]
            if value is not MISSING:
                yield map_key, thaw(value)
        for _, name in reversed(mine):
            if over[name] is not MISSING:
                yield name, thaw(over[name])
        for map_key, value in {**shared, **opaque}.items():
            if value is not MISSING:
                yield map_key, thaw(value)
