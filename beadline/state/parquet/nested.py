"""Columns of values that hold others: tuples, rows, lists, maps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from beadline.common.types import Row, RowKind, new_row
from beadline.state.key_groups import BoxedKey, map_indexed, unboxed
from beadline.state.parquet.values import Built, Column

_INSERT = RowKind.INSERT

Fields = Callable[[Any], "Sequence[Any] | None"]
Make = Callable[[tuple[Any, ...]], Any]


class StructColumn(Column):
    """Values with a fixed number of fields.

    :param fields: the fields of a value, in order; None if the value is not what the type means
    :param make: a value from its fields; None if the tuple of them is the value
    """

    def __init__(
        self, names: Sequence[str], columns: Sequence[Column], fields: Fields, make: Make | None, indexes: bool = False
    ) -> None:
        self.names = list(names)
        self.columns = list(columns)
        self._fields = fields
        self._make = make
        self._types = [pa.field(name, column.arrow) for name, column in zip(names, columns, strict=True)]
        self.arrow = pa.struct(self._types)
        self.immutable = make is None and all(column.immutable for column in columns)
        self.indexes = indexes and all(column.indexes for column in columns)
        self.described = any(column.described for column in columns)

    def build(self, values: Sequence[Any]) -> Built:
        fields, nothing = self._fields, (None,) * len(self.columns)
        bad: set[int] = set()
        mask = None
        if self._make is None and {tuple}.issuperset(map(type, values)) and {len(nothing)}.issuperset(map(len, values)):
            found: list[Any] = list(values)
        else:
            found = [None if value is None else fields(value) for value in values]
            if None in found:
                bad = {i for i, some in enumerate(found) if some is None and values[i] is not None}
                mask = pa.array([some is None for some in found], pa.bool_())
                found = [nothing if some is None else some for some in found]
        arrays = []
        for position, column in enumerate(self.columns):
            array, wrong = column.build([some[position] for some in found])
            arrays.append(array)
            bad.update(wrong)
        return Built(pa.StructArray.from_arrays(arrays, fields=self._types, mask=mask), bad)

    def read(self, array: pa.Array) -> list[Any]:
        parts = [column.read(array.field(name)) for name, column in zip(self.names, self.columns, strict=True)]
        values: list[Any] = list(zip(*parts, strict=True))
        if array.null_count:
            valid = array.is_valid().to_pylist()
            make = self._make or tuple
            return [make(value) if there else None for value, there in zip(values, valid, strict=True)]
        return values if self._make is None else list(map(self._make, values))


def tuples(columns: Sequence[Column], names: Sequence[str] | None = None) -> Column:
    """Plain tuples; a named tuple is something else."""
    width = len(columns)

    def fields(value: Any) -> Any:
        return value if type(value) is tuple and len(value) == width else None

    return StructColumn(names or [f"f{i}" for i in range(width)], columns, fields, None, indexes=True)


def rows(names: list[str], columns: Sequence[Column]) -> Column:
    """Rows as a declared row type makes them: inserts, with these names."""
    width = len(columns)

    def fields(value: Any) -> Any:
        plain = type(value) is Row and value._row_kind is _INSERT and value._fields == names
        return value._values if plain and len(value._values) == width else None

    return StructColumn(names, columns, fields, lambda values: new_row(list(values), names))


class ListColumn(Column):
    """Lists of one type.

    :param frozen: elements are as a store keeps them
    """

    def __init__(self, element: Column, frozen: bool = False) -> None:
        self.arrow = pa.list_(element.arrow)
        self.described = element.described
        self._build, self._read = _ways(element, frozen)

    def build(self, values: Sequence[Any]) -> Built:
        lists, bad = _only(list, values)
        offsets, flat = _flattened(lists)
        array, wrong = self._build(flat)
        bad = bad.union(_owners(offsets, wrong))
        return Built(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array, mask=_nulls(lists)), bad)

    def read(self, array: pa.Array) -> list[Any]:
        offsets = array.offsets.to_pylist()
        inner = array.values.slice(offsets[0], offsets[-1] - offsets[0]) if offsets else array.values
        return _divided(array, offsets, self._read(inner), list)


class MapColumn(Column):
    """Dictionaries of one type of keys and one of values.

    :param frozen: keys and values are as a store keeps them
    """

    def __init__(self, key: Column, value: Column, frozen: bool = False) -> None:
        self._key, self._frozen = key, frozen
        self.arrow = pa.map_(key.arrow, value.arrow)
        self.described = key.described or value.described
        self._build, self._read = _ways(value, frozen)

    def build(self, values: Sequence[Any]) -> Built:
        maps, bad = _only(dict, values)
        offsets, flat = _flattened(maps)
        if self._frozen and BoxedKey in set(map(type, flat)):
            flat = list(map(unboxed, flat))
        keys, wrong = self._key.build(flat)
        if keys.null_count:  # Arrow has no null keys: neither None nor what does not fit
            lost = _owners(offsets, [i for i, valid in enumerate(keys.is_valid().to_pylist()) if not valid])
            array, others = self.build([None if i in lost else m for i, m in enumerate(maps)])
            return Built(array, {*bad, *lost, *others})
        items, odd = self._build(list(chain.from_iterable(m.values() for m in maps if m)))
        bad = bad.union(_owners(offsets, wrong), _owners(offsets, odd))
        offsets_array = pa.array(offsets, pa.int32())
        return Built(pa.MapArray.from_arrays(offsets_array, keys, items, mask=_nulls(maps)), bad)

    def read(self, array: pa.Array) -> list[Any]:
        offsets = array.offsets.to_pylist()
        start, size = (offsets[0], offsets[-1] - offsets[0]) if offsets else (0, 0)
        keys = self._key.read(array.keys.slice(start, size))
        if self._frozen and not self._key.indexes:
            keys = list(map(map_indexed, keys))
        items = self._read(array.items.slice(start, size))
        return _divided(array, offsets, list(zip(keys, items, strict=True)), dict)


def _ways(column: Column, frozen: bool) -> tuple[Callable[[Sequence[Any]], Built], Callable[[pa.Array], list[Any]]]:
    """How values become an array and values again."""
    return (column.build_frozen, column.read_frozen) if frozen else (column.build, column.read)


def _only(kind: type, values: Sequence[Any]) -> tuple[Sequence[Any], set[int]]:
    """The values that are of this very class, None in the place of others, and where those others are."""
    if {kind}.issuperset(map(type, values)):
        return values, set()
    bad = {i for i, value in enumerate(values) if value is not None and type(value) is not kind}
    return [value if type(value) is kind else None for value in values], bad


def _flattened(groups: Sequence[Collection[Any] | None]) -> tuple[list[int], list[Any]]:
    """Where each group begins and ends, and what is in all of them."""
    offsets = list(accumulate((len(group) if group else 0 for group in groups), initial=0))
    return offsets, list(chain.from_iterable(group for group in groups if group))


def _owners(offsets: list[int], positions: Iterable[int]) -> set[int]:
    return {bisect_right(offsets, position) - 1 for position in positions}


def _nulls(groups: Sequence[Any]) -> pa.Array | None:
    return pa.array([group is None for group in groups], pa.bool_()) if None in groups else None


def _divided(array: pa.Array, offsets: list[int], items: list[Any], make: Callable[[list[Any]], Any]) -> list[Any]:
    first = offsets[0] if offsets else 0
    valid = array.is_valid().to_pylist()
    return [make(items[offsets[i] - first : offsets[i + 1] - first]) if valid[i] else None for i in range(len(array))]
