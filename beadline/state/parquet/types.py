"""Which column keeps the values of a declared type."""

from __future__ import annotations

import importlib
from typing import Any

from beadline.common._types.classes import ClassTypeInfo, new_instance
from beadline.common._types.collections import ElementsTypeInfo
from beadline.common.type_description import classes_of, type_from_text
from beadline.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from beadline.common.types import new_row
from beadline.state import codec
from beadline.state.parquet import values as plain
from beadline.state.parquet.nested import ListColumn, MapColumn, StructColumn, rows, tuples
from beadline.state.parquet.values import Column, PickledColumn

_PYTHON_CLASS = 1 << 9  # of a class' flags: it was made by a class statement

_BASIC: dict[BasicType, Column] = {
    BasicType.BYTE: plain.integers(8),
    BasicType.SHORT: plain.integers(16),
    BasicType.INT: plain.integers(32),
    BasicType.LONG: plain.integers(64),
    BasicType.FLOAT: plain.FLOATS,  # state keeps all digits, whatever the declared width
    BasicType.DOUBLE: plain.FLOATS,
    BasicType.BOOLEAN: plain.BOOLEANS,
    BasicType.STRING: plain.TEXTS,
    BasicType.CHAR: plain.TEXTS,
    BasicType.BIG_INT: plain.BIG_INTEGERS,
    BasicType.BIG_DEC: plain.BIG_DECIMALS,
    BasicType.INSTANT: plain.INSTANTS,
}
_LOCAL: dict[Any, Column] = {
    LocalTimeTypeInfo.TimeType.LOCAL_DATE: plain.DATES,
    LocalTimeTypeInfo.TimeType.LOCAL_TIME: plain.TIMES,
    LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME: plain.TIMESTAMPS,
}


def column_of(info: TypeInformation) -> Column:
    """The column that keeps values of a declared type; pickles for any type it does not know."""
    if isinstance(info, BasicTypeInfo):
        return _BASIC[info._basic_type]
    if isinstance(info, DateTypeInfo):
        return plain.DATES
    if isinstance(info, TimeTypeInfo):
        return plain.TIMES
    if isinstance(info, TimestampTypeInfo):
        return plain.TIMESTAMPS
    if isinstance(info, LocalTimeTypeInfo):
        return _LOCAL[info._time_type]
    if isinstance(info, ExternalTypeInfo):
        return column_of(info._type_info)
    if isinstance(info, PrimitiveArrayTypeInfo) and info._is_bytes():
        return plain.BYTE_STRINGS
    if isinstance(info, ElementsTypeInfo):
        return ListColumn(column_of(info.elem_type))
    if isinstance(info, MapTypeInfo):
        return MapColumn(column_of(info._key_type_info), column_of(info._value_type_info))
    if isinstance(info, (RowTypeInfo, TupleTypeInfo, ClassTypeInfo)) and info.get_field_types():
        columns = [column_of(field) for field in info.get_field_types()]
        if isinstance(info, TupleTypeInfo):
            return tuples(columns)
        if isinstance(info, RowTypeInfo) or info.cls is None:
            column = rows(info.get_field_names(), columns)
            column.described |= isinstance(info, ClassTypeInfo)
            return column
        return _instances(info.cls, info.get_field_names(), columns)
    return PickledColumn()  # Parquet has no struct without fields


def column_of_text(text: str) -> Column:
    """The column of a type as a snapshot describes it."""
    return column_of(_with_classes(text))


def _with_classes(text: str) -> TypeInformation:
    """The type, with the job's own classes where they are: their module need not have been loaded yet."""
    info = type_from_text(text)
    missing = [found for found in classes_of(info) if found.cls is None and codec.is_trusted(found.module, found.name)]
    for found in missing:
        try:
            importlib.import_module(found.module)
        except ImportError:
            return info
    return type_from_text(text) if missing else info


def _instances(cls: type, names: list[str], columns: list[Column]) -> Column:
    """Instances of a dataclass or named tuple that hold their fields and nothing else."""
    wanted = set(names)
    known, is_tuple = _is_plain(cls, wanted), issubclass(cls, tuple)

    def fields(value: Any) -> Any:
        if type(value) is not cls or not known:
            return None
        attributes = getattr(value, "__dict__", None)
        if is_tuple:
            return None if attributes else value
        if attributes and not wanted.issuperset(attributes):
            return None
        try:
            return [getattr(value, name) for name in names]
        except AttributeError:
            return None

    # A file may name any class that happens to be loaded; as with pickles, only the job's own classes are used.
    trusted = codec.is_trusted(cls.__module__, cls.__qualname__)

    def make(values: tuple[Any, ...]) -> Any:
        return new_instance(cls, dict(zip(names, values, strict=True))) if trusted else new_row(list(values), names)

    return StructColumn(names, columns, fields, make)


def _is_plain(cls: type, names: set[str]) -> bool:
    """Whether the fields are all that its instances hold: no list or exception as base class, no other slots."""
    for base in cls.__mro__[:-1]:
        if not base.__flags__ & _PYTHON_CLASS and base is not tuple:
            return False
        slots = base.__dict__.get("__slots__", ())
        if not names.union(("__dict__", "__weakref__")).issuperset((slots,) if isinstance(slots, str) else slots):
            return False
    return True
