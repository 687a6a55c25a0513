"""Which column keeps the values of a declared type."""

from __future__ import annotations

import importlib
from collections.abc import Callable
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

_BASIC: dict[BasicType, Callable[[], Column]] = {
    BasicType.BYTE: lambda: plain.integers(8),
    BasicType.SHORT: lambda: plain.integers(16),
    BasicType.INT: lambda: plain.integers(32),
    BasicType.LONG: lambda: plain.integers(64),
    BasicType.FLOAT: plain.floats,  # state keeps all digits, whatever the declared width
    BasicType.DOUBLE: plain.floats,
    BasicType.BOOLEAN: plain.booleans,
    BasicType.STRING: plain.texts,
    BasicType.CHAR: plain.texts,
    BasicType.BIG_INT: plain.big_integers,
    BasicType.BIG_DEC: plain.big_decimals,
    BasicType.INSTANT: plain.instants,
}
_LOCAL = {
    LocalTimeTypeInfo.TimeType.LOCAL_DATE: plain.dates,
    LocalTimeTypeInfo.TimeType.LOCAL_TIME: plain.times,
    LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME: plain.timestamps,
}


def column_of(info: TypeInformation) -> Column:
    """The column that keeps values of a declared type; pickles for any type it does not know."""
    if isinstance(info, BasicTypeInfo):
        return _BASIC[info._basic_type]()
    if isinstance(info, DateTypeInfo):
        return plain.dates()
    if isinstance(info, TimeTypeInfo):
        return plain.times()
    if isinstance(info, TimestampTypeInfo):
        return plain.timestamps()
    if isinstance(info, LocalTimeTypeInfo):
        return _LOCAL[info._time_type]()
    if isinstance(info, ExternalTypeInfo):
        return column_of(info._type_info)
    if isinstance(info, PrimitiveArrayTypeInfo) and info._is_bytes():
        return plain.byte_strings()
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
    known = _is_plain(cls, wanted)

    is_tuple = issubclass(cls, tuple)

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

    def make(values: tuple[Any, ...]) -> Any:
        return new_instance(cls, dict(zip(names, values, strict=True)))

    def make_row(values: tuple[Any, ...]) -> Any:
        return new_row(list(values), names)

    # A file may name any class that happens to be loaded; as with pickles, only the job's own classes are used.
    trusted = codec.is_trusted(cls.__module__, cls.__qualname__)
    return StructColumn(names, columns, fields, make if trusted else make_row)


def _is_plain(cls: type, names: set[str]) -> bool:
    """Whether the fields are all that its instances hold: no list or exception as base class, no other slots."""
    for base in cls.__mro__[:-1]:
        if not base.__flags__ & _PYTHON_CLASS and base is not tuple:
            return False
        slots = base.__dict__.get("__slots__", ())
        if not names.union(("__dict__", "__weakref__")).issuperset((slots,) if isinstance(slots, str) else slots):
            return False
    return True
