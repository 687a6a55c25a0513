"""Between columns of Arrow and the values that functions see.

Functions see plain Python: a struct is a :class:`~beadline.common.types.Row` (or a dict, for records of Avro), a map is
a dict, a point in time is an :class:`~beadline.common.time.Instant` (or a ``datetime`` in UTC, for records of Avro).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from beadline.common.decimals import scaled
from beadline.common.time import Instant
from beadline.common.types import Row, new_row
from beadline.errors import TypeMismatchError

Convert = Callable[[Any], Any]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND = dt.timedelta(microseconds=1)


# -- reading


def values_of(column: pa.ChunkedArray, convert: Convert | None) -> list[Any]:
    """The values of a column. What Arrow does not do quickly by itself goes through NumPy."""
    kind = column.type
    if convert is None:
        if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return list(column.to_numpy().tolist())
        if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
            return list(column.to_numpy().tolist())
        if pa.types.is_integer(kind):
            return list(column.to_pandas(integer_object_nulls=True).tolist())
    plain: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    if convert is None:
        return plain
    return [None if value is None else convert(value) for value in plain]


def from_arrow(kind: pa.DataType, generic: bool) -> Convert | None:
    """What turns a value that Arrow gave into the one that functions see; None if it is the same.

    :param generic: a struct is a dict and a point in time a ``datetime``
    """
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return None if generic else _instant
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _each(from_arrow(kind.value_type, generic))
    if pa.types.is_map(kind):
        item = from_arrow(kind.item_type, generic)
        if item is None:
            return None
        return lambda found: {key: None if value is None else item(value) for key, value in found.items()}
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        readers = [from_arrow(field.type, generic) for field in kind]
        if generic:
            if not any(readers):
                return None
            return lambda found: dict(zip(names, _converted(readers, found.values()), strict=True))
        return lambda found: new_row(_converted(readers, found.values()), names)
    return None


def _instant(moment: dt.datetime) -> Instant:
    micros = (moment - _EPOCH) // _MICROSECOND
    return Instant(micros // 1_000_000, micros % 1_000_000 * 1000)


# -- writing


def to_arrow(kind: pa.DataType) -> Convert | None:
    """What turns a value that functions see into one that Arrow takes for this type; None if it is the same."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        millis = kind.unit == "ms"
        return lambda value: _moment(value, millis)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _each(to_arrow(kind.value_type))
    if pa.types.is_map(kind):
        item = to_arrow(kind.item_type)
        if item is None:
            return lambda value: list(value.items())
        return lambda value: [(key, None if inner is None else item(inner)) for key, inner in value.items()]
    if pa.types.is_decimal(kind):
        return lambda value: scaled(value, kind.precision, kind.scale) if isinstance(value, Decimal) else value
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        writers = [to_arrow(field.type) for field in kind]
        return lambda value: dict(zip(names, _converted(writers, fields_of(value, names)), strict=True))
    return None


def fields_of(record: Any, names: list[str]) -> Sequence[Any]:
    """The fields of a record in the order of these names."""
    if isinstance(record, Row):
        return record.get_fields_by_names(names)
    if isinstance(record, (tuple, list)):
        return record
    if isinstance(record, dict):
        unknown = [name for name in record if name not in names]
        if unknown:
            raise TypeMismatchError(f"there are no fields {unknown}, the columns are {names}")
        return [record.get(name) for name in names]
    raise TypeMismatchError(f"a Row with the fields {names} is needed, got {record!r} of type {type(record).__name__}")


def _moment(value: Any, millis: bool) -> Any:
    if isinstance(value, Instant):
        micros = value.seconds * 1_000_000 + value.nanos // 1000
        return micros // 1000 if millis else micros
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.timezone.utc)
    return value


def record_batch(records: list[Any], schema: pa.Schema, writers: Sequence[Convert | None]) -> pa.RecordBatch:
    """The columns of some records.

    :raises TypeMismatchError: a record does not fit
    """
    names = schema.names
    try:
        columns: Any = zip(*[fields_of(record, names) for record in records], strict=True)
        arrays = [_array(values, field, write) for values, field, write in zip(columns, schema, writers, strict=True)]
    except (ValueError, TypeError) as error:
        which = repr(records[0]) if len(records) == 1 else f"one of {len(records)} records"
        raise TypeMismatchError(f"{which} does not fit the columns {_shown(schema)}: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], field: pa.Field, write: Convert | None) -> pa.Array:
    if write is not None:
        values = [None if value is None else write(value) for value in values]
    try:
        array = pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeMismatchError(f"column '{field.name}' of type {field.type}: {error}") from error
    if array.null_count and not field.nullable:
        raise TypeMismatchError(f"column '{field.name}' of type {field.type} takes no null")
    return array


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _converted(functions: Sequence[Convert | None], values: Any) -> list[Any]:
    pairs = zip(functions, values, strict=True)
    return [value if value is None or convert is None else convert(value) for convert, value in pairs]


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [None if value is None else convert(value) for value in values]
