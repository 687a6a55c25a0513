"""The join of a stream with a table that does not change.

The table travels to the workers once per run and is read once per worker. It is part of the execution's one broadcast,
as a block of Arrow bytes. All copies in a process are the same object, however often the functions around it are
unpickled, and that object reads its rows at first use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa
import xxhash

from beadline.api.function import Function
from beadline.common.types import new_row
from beadline.errors import TypeMismatchError
from beadline.graph.specs import LookupSpec
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.functions.aliasing import copy_of, settle_unkeyed
from beadline.runtime.operators.base import FunctionOperator, Setup
from beadline.state.cells import maker_of
from beadline.state.codec import is_immutable


class Index:
    """Rows by the values of some columns, in the order of the table. Rows with None in one of them are left out.

    :ivar rows: tuples of values by key; a key of several columns is a tuple
    :ivar nested: whether values can be lists, dictionaries or rows, which somebody could change
    """

    def __init__(self, table: pa.Table, on: str | tuple[str, ...]) -> None:
        self.on = on
        self.composite = not isinstance(on, str)
        self.names: list[str] = table.column_names
        self.nested = any(map(pa.types.is_nested, table.schema.types))
        columns = dict(zip(self.names, map(_values, table.columns), strict=True))
        parts = [columns[name] for name in ((on,) if isinstance(on, str) else on)]
        keys = zip(*parts, strict=True) if self.composite else iter(parts[0])
        rows: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
        for key, values in zip(keys, zip(*columns.values(), strict=True), strict=True):
            if None not in key if self.composite else key is not None:
                rows[key].append(values)
        self.rows = dict(rows)
        fields = [table.schema.field(name) for name in ((on,) if isinstance(on, str) else on)]
        self._columns = [(field.name, str(field.type), _is_text(field.type)) for field in fields]

    def check(self, key: Any) -> None:
        """Refuse a key that can never be found: a number can't equal a text."""
        parts = key if self.composite else (key,)
        if len(parts) != len(self._columns):
            names = [name for name, _, _ in self._columns]
            raise TypeMismatchError(
                f"lookup(): the table is looked up by the {len(names)} columns {names}, but the key has {len(parts)} "
                f"values: {key!r}"
            )
        for part, (name, kind, is_text) in zip(parts, self._columns, strict=True):
            if part is not None and isinstance(part, str) != is_text:
                raise TypeMismatchError(
                    f"lookup(): a key of type {type(part).__name__} can't equal a value of column '{name}', which is "
                    f"of type {kind}: {part!r}. Convert one of them."
                )


class LookupTable:
    """The rows of a DataFrame as it was when the program was declared.

    :ivar data: an Arrow stream
    """

    def __init__(self, data: bytes, rows: int) -> None:
        self.data = data
        self.rows = rows
        self.digest = xxhash.xxh3_128_hexdigest(data)
        self._indexes: dict[str | tuple[str, ...], Index] = {}

    @staticmethod
    def of(table: pa.Table) -> LookupTable:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        return LookupTable(sink.getvalue().to_pybytes(), table.num_rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared, (self.digest, self.rows, self.data)

    def index(self, on: str | tuple[str, ...]) -> Index:
        """The rows by a column or several; made at first use."""
        known = self._indexes.get(on)
        if known is None:
            with pa.ipc.open_stream(self.data) as reader:
                known = self._indexes[on] = Index(reader.read_all(), on)
        return known


_tables: WeakValueDictionary[str, LookupTable] = WeakValueDictionary()


def _shared(digest: str, rows: int, data: bytes) -> LookupTable:
    table = _tables.get(digest)
    if table is None:
        table = _tables[digest] = LookupTable(data, rows)
    return table


def _values(column: pa.ChunkedArray) -> list[Any]:
    """As PySpark's ``collect()`` gives them, but structs are rows of Beadline."""
    make = maker_of(column.type, None)
    return [None if cell is None else make(cell) for cell in column.to_pylist()]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class LookupOperator(FunctionOperator[LookupSpec]):
    """Joins each element with the rows of its key. Each result gets new rows, so that nobody can change the table."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        function = self.spec.function
        self._key: Callable[[Any], Any] = _method(self.spec.key, "get_key")
        self._function = None if function is None else _method(function, "join")
        self._kinds: set[type] = {type(None)}
        self._index: Index

    def open(self) -> None:
        super().open()
        self._index = self.spec.table.index(self.spec.on)

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self.records_in += len(records)
        key, find, composite = self._key, self._index.rows.get, self._index.composite
        make = self._pairs if self._function is None else self._joined
        outer = self.spec.outer
        results: list[Any] = []
        times: list[int] | None = None if timestamps is None else []
        record = None
        try:
            for position, record in enumerate(records):
                wanted = tuple(key(record)) if composite else key(record)
                found = find(wanted)
                if found is not None:
                    make(record, found, results)
                else:
                    if wanted.__class__ not in self._kinds:
                        self._index.check(wanted)
                        if not composite:
                            self._kinds.add(wanted.__class__)
                    if outer:
                        make(record, _NO_ROW, results)
                if times is not None:
                    times.extend([timestamps[position]] * (len(results) - len(times)))  # type: ignore[index]
        except Exception as error:
            self.fail(record, error)
        self.emit(results, times)

    def _pairs(self, record: Any, found: list[Any], results: list[Any]) -> None:
        results.append((record, self._row(found[0])))
        for values in found[1:]:
            results.append((_own(record), self._row(values)))

    def _joined(self, record: Any, found: list[Any], results: list[Any]) -> None:
        assert self._function is not None
        result = self._function(record if len(found) == 1 else _own(record), self._row(found[0]))
        results.append(settle_unkeyed(result))
        for values in found[1:]:
            result = self._function(_own(record), self._row(values))
            results.append(settle_unkeyed(result))

    def _row(self, values: Any) -> Any:
        if values is None:
            return None
        return new_row(list(copy_of(values) if self._index.nested else values), self._index.names)


# The one "row" of an element without a match.
_NO_ROW: list[Any] = [None]


def _own(record: Any) -> Any:
    """The element for one of several results, which must not share anything that can be changed."""
    return record if is_immutable(record) else copy_of(record)


def _method(function: Any, name: str) -> Callable[..., Any]:
    return getattr(function, name) if isinstance(function, Function) else function  # type: ignore[no-any-return]
