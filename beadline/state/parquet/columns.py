"""Keyed state as Arrow tables: what a savepoint's Parquet files hold, typed as the program declared it.

======================= ====================================================================================
column                  holds
======================= ====================================================================================
``key_group``           where the key belongs, for the max parallelism the state was written with
``key``                 of the declared key type; a pickle if none was declared
``window``              of state that belongs to windows: ``start`` and ``end``; null for the global window
``value``               of the declared type; a list of elements for list state, a map for map state. With a time to
                        live, each value or element is a struct of ``timestamp`` and ``value``
``timestamp``           of timers, instead of a value: one row per timer
``pickled``             mostly null: the whole entry, pickled, where a declared type can't hold it exactly
======================= ====================================================================================

What is read is exactly what was written: a value that its type would change (an ``int`` where a double is declared, a
row with other names) is in ``pickled``, and its column is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from beadline.api.windows.window import GlobalWindow
from beadline.errors import KeyEncodingError
from beadline.state.codec import dumps, loads
from beadline.state.description import StateDescription
from beadline.state.heap.tables import Changes
from beadline.state.key_groups import BoxedKey, indexed, unboxed
from beadline.state.parquet.nested import ListColumn, MapColumn, StructColumn, tuples
from beadline.state.parquet.types import column_of_text
from beadline.state.parquet.values import Built, Column, array_of, integers
from beadline.state.segments.segment import TableChanges

GROUP, KEY, WINDOW, VALUE, TIMESTAMP, PICKLED = "key_group", "key", "window", "value", "timestamp", "pickled"
_GLOBAL = GlobalWindow.get()


class KeyedColumns:
    """The columns of one state, and how entries become rows and entries again.

    :ivar key_type: as :mod:`beadline.common.type_description` writes it
    """

    def __init__(self, description: StateDescription, key_type: str) -> None:
        self.description = description
        self.key_type = key_type
        self._key = column_of_text(key_type)
        self._window = _WindowColumn()
        self._value = _value_column(description)
        self._last = TIMESTAMP if description.kind == "timer" else VALUE
        fields = [pa.field(GROUP, pa.int32(), nullable=False), pa.field(KEY, self._key.arrow)]
        if description.namespaced:
            fields.append(pa.field(WINDOW, self._window.arrow))
        fields += [pa.field(self._last, self._value.arrow), pa.field(PICKLED, pa.binary())]
        self.schema = pa.schema(fields)

    # -- entries become rows

    def batch(self, groups: Sequence[int], slots: Sequence[Any], payloads: Sequence[Any]) -> pa.RecordBatch:
        """Rows of settled entries: their key groups, slots and changes. Timers make one row each."""
        if self.description.kind == "timer":
            groups = [group for group, (times, _) in zip(groups, payloads, strict=True) for _ in times]
            slots = [slot for slot, (times, _) in zip(slots, payloads, strict=True) for _ in times]
            payloads = [timestamp for times, _ in payloads for timestamp in times]
        arrays, bad = self._slots(slots)
        array, wrong = self._payloads(payloads)
        bad.update(wrong)
        pickled = [dumps((slots[i], payloads[i])) if i in bad else None for i in range(len(slots))] if bad else None
        last = pa.nulls(len(slots), pa.binary()) if pickled is None else array_of(pickled, pa.binary())
        return pa.RecordBatch.from_arrays([pa.array(groups, pa.int32()), *arrays, array, last], schema=self.schema)

    def _slots(self, slots: Sequence[Any]) -> tuple[list[pa.Array], set[int]]:
        if not self.description.namespaced:
            array, bad = self._keys(slots)
            return [array], bad
        array, bad = self._keys([slot[0] for slot in slots])
        windows, wrong = self._window.build([slot[1] for slot in slots])
        return [array, windows], bad.union(wrong)

    def _keys(self, keys: Sequence[Any]) -> tuple[pa.Array, set[int]]:
        bad: set[int] = set()
        if BoxedKey in set(map(type, keys)):
            bad = {i for i, key in enumerate(keys) if key.__class__ is BoxedKey and not _boxes_again(key)}
            keys = [None if i in bad else unboxed(key) for i, key in enumerate(keys)]
        array, wrong = self._key.build(keys)
        return array, bad.union(wrong)

    def _payloads(self, payloads: Sequence[Any]) -> Built:
        if self.description.kind == "list":
            return self._value.build([items for _, items in payloads])
        if self.description.kind == "map":
            return self._value.build([puts for _, puts, _ in payloads])
        return self._value.build_frozen(payloads)

    # -- rows become entries

    def table(self, batch: pa.RecordBatch | pa.Table, key_groups: range | None = None) -> TableChanges:
        changes: Changes = {}
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            self._add(changes, part if key_groups is None else within(part, key_groups))
        description = self.description
        return TableChanges(description.kind, description.namespaced, changes, description.ttl_ms)

    def _add(self, changes: Changes, batch: pa.RecordBatch) -> None:
        slots = self._read_slots(batch)
        payloads = self._read_payloads(batch.column(self._last))
        pickled = batch.column(PICKLED)
        if pickled.null_count < len(pickled):
            for i, data in enumerate(pickled.to_pylist()):
                if data is not None:
                    slots[i], payloads[i] = loads(data)
        if self.description.kind != "timer":
            changes.update(zip(slots, payloads, strict=True))
            return
        for slot, timestamp in zip(slots, payloads, strict=True):
            change = changes.get(slot)
            if change is None:
                changes[slot] = ([timestamp], [])
            else:
                change[0].append(timestamp)

    def _read_slots(self, batch: pa.RecordBatch) -> list[Any]:
        keys = self._key.read(batch.column(KEY))
        if not self._key.indexes:
            keys = list(map(indexed, keys))
        if not self.description.namespaced:
            return keys
        return list(zip(keys, self._window.read(batch.column(WINDOW)), strict=True))

    def _read_payloads(self, array: pa.Array) -> list[Any]:
        if self.description.kind == "list":
            return [(True, items) for items in self._value.read(array)]
        if self.description.kind == "map":
            return [(True, puts, []) for puts in self._value.read(array)]
        return self._value.read_frozen(array)


def within(batch: pa.RecordBatch, key_groups: range) -> pa.RecordBatch:
    import pyarrow.compute as pc

    groups = batch.column(GROUP)
    if not len(groups):
        return batch
    bounds = pc.min_max(groups)
    if bounds["min"].as_py() >= key_groups.start and bounds["max"].as_py() < key_groups.stop:
        return batch
    return batch.filter(pc.and_(pc.greater_equal(groups, key_groups.start), pc.less(groups, key_groups.stop)))


def _value_column(description: StateDescription) -> Column:
    if description.kind == "timer":
        return integers(64)
    column = column_of_text(description.type)
    if description.ttl_ms is not None:
        column = tuples([integers(64), column], [TIMESTAMP, VALUE])
    if description.kind == "list":
        return ListColumn(column, frozen=True)
    if description.kind == "map":
        return MapColumn(column_of_text(description.map_key_type), column, frozen=True)
    return column


class _WindowColumn(StructColumn):
    """Time windows as a slot has them, ``(start, end)``; the global window, which has neither, is null."""

    def __init__(self) -> None:
        super().__init__(["start", "end"], [integers(64), integers(64)], _bounds, None)

    def build(self, values: Sequence[Any]) -> Built:
        array, bad = super().build([None if window.__class__ is GlobalWindow else window for window in values])
        return Built(array, bad if array.null_count == 0 else {*bad, *(i for i, w in enumerate(values) if w is None)})

    def read(self, array: pa.Array) -> list[Any]:
        values = super().read(array)
        return [_GLOBAL if value is None else value for value in values] if array.null_count else values


def _bounds(window: Any) -> Any:
    return window if window.__class__ is tuple and len(window) == 2 else None


def _boxes_again(boxed: BoxedKey) -> bool:
    """Whether the key alone leads to the same box."""
    try:
        again = indexed(boxed.key)
    except KeyEncodingError:
        return False
    return isinstance(again, BoxedKey) and again.encoded == boxed.encoded
