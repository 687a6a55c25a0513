"""Cells of a DataFrame's column as functions and state know them: rows, tuples and dictionaries instead of structs and
maps, then checked against the declared type, if there is one, as in ``update()``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from beadline.common._types.classes import ClassTypeInfo
from beadline.common._types.collections import MapTypeInfo
from beadline.common.time import Instant
from beadline.common.type_description import type_from_text
from beadline.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from beadline.common.types import new_row

Maker = Callable[[Any], Any]


def maker_of(arrow: pa.DataType, info: TypeInformation | None) -> Maker:
    """Makes a value of what Arrow gives for a cell that is not null; raises TypeMismatchError if it does not fit."""
    shape = _shape(arrow, info)
    convert = None if info is None else info.held().converter()
    if convert is None:
        return shape
    if shape is _same:
        return convert
    return lambda cell: convert(shape(cell))


def _shape(arrow: pa.DataType, info: TypeInformation | None) -> Maker:
    if pa.types.is_struct(arrow):
        return _struct(arrow, info)
    if pa.types.is_map(arrow):
        inner = info if isinstance(info, MapTypeInfo) else None
        key = _optional(_shape(arrow.key_type, inner and inner._key_type_info))
        item = _optional(_shape(arrow.item_type, inner and inner._value_type_info))
        return lambda cell: {key(k): item(v) for k, v in cell}
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        inner_type = info.elem_type if isinstance(info, ListTypeInfo | ObjectArrayTypeInfo) else None
        element = _optional(_shape(arrow.value_type, inner_type))
        return lambda cell: [element(part) for part in cell]
    basic = info._basic_type if isinstance(info, BasicTypeInfo) else None
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        # A plain timestamp of Spark is an instant that Arrow shows in the session's time zone.
        return _instant if basic is BasicType.INSTANT else _naive
    if pa.types.is_string(arrow):
        # These two are shown as text, so text is taken for them too.
        if basic is BasicType.BIG_DEC:
            return _decimal
        if isinstance(info, TimeTypeInfo) or info == LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME):
            return _time
    if basic is BasicType.BIG_INT and pa.types.is_decimal(arrow) and arrow.scale == 0:
        return int
    return _same


def _struct(arrow: pa.StructType, info: TypeInformation | None) -> Maker:
    names = [field.name for field in arrow]
    types: dict[str, TypeInformation] = {}
    by_position = isinstance(info, TupleTypeInfo) or (isinstance(info, RowTypeInfo) and info._field_names is None)
    if isinstance(info, RowTypeInfo | TupleTypeInfo | ClassTypeInfo):
        fields = info.get_field_types()
        wanted = names if isinstance(info, TupleTypeInfo) or by_position else info.get_field_names()
        types = dict(zip(wanted, fields, strict=False))
    makers = [_optional(_shape(field.type, types.get(field.name))) for field in arrow]
    if by_position:
        return lambda cell: tuple([make(part) for make, part in zip(makers, cell.values(), strict=True)])
    return lambda cell: new_row([make(part) for make, part in zip(makers, cell.values(), strict=True)], list(names))


def declared(text: str) -> TypeInformation | None:
    """The type that a text names, unless it only says "any Python object"."""
    info = type_from_text(text)
    return None if isinstance(info, PickledBytesTypeInfo) else info


def _optional(make: Maker) -> Maker:
    return make if make is _same else lambda part: None if part is None else make(part)


def _same(cell: Any) -> Any:
    return cell


def _naive(cell: dt.datetime) -> dt.datetime:
    return cell.replace(tzinfo=None)


def _instant(cell: dt.datetime) -> Instant:
    micros = (cell - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)
    return Instant(micros // 1_000_000, micros % 1_000_000 * 1000)


def _time(cell: str) -> Any:
    try:
        return dt.time.fromisoformat(cell)
    except ValueError:
        return cell


def _decimal(cell: str) -> Any:
    try:
        return Decimal(cell)
    except ArithmeticError:
        return cell
