"""Records as the values of a statement, by the declared types of their fields."""

from __future__ import annotations

from typing import Any

from beadline.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from beadline.errors import ConfigurationError, UnsupportedFeatureError

_TIMES = (DateTypeInfo, TimeTypeInfo, TimestampTypeInfo, LocalTimeTypeInfo)
_ARRAYS = (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


class ToParameters:
    """Checks records against a row type, and gives the values of its fields. A row with names is read by name, as
    everywhere; a tuple by position."""

    def __init__(self, type_info: RowTypeInfo) -> None:
        self._type = type_info
        self._convert: Any = None

    def __call__(self, records: list[Any], timestamps: list[int] | None) -> list[tuple[Any, ...]]:
        if self._convert is None:
            self._convert = self._type.converter()
        convert = self._convert
        return [tuple(convert(record)._values) for record in records]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_convert": None}


def check_fields(type_info: TypeInformation, values: int, arrays: bool) -> RowTypeInfo:
    """Whether fields of these types can be the values of a statement.

    :param values: how many it takes
    :param arrays: whether the database has them
    """
    if not isinstance(type_info, RowTypeInfo):
        raise ConfigurationError(
            f"JdbcSink needs the type of rows, Types.ROW([…]) or Types.ROW_NAMED([…], […]), got {type_info!r}"
        )
    types = type_info.get_field_types()
    if len(types) != values:
        raise ConfigurationError(
            f"the statement of JdbcSink takes {values} values (question marks), and its rows have {len(types)} fields: "
            f"{type_info!r}"
        )
    for name, given in zip(type_info.get_field_names(), types, strict=True):
        if not _fits(given, arrays):
            raise UnsupportedFeatureError(
                f"JdbcSink can't write field {name!r} of type {given!r}. Map it to a string, number, boolean, bytes, "
                "date or time" + (", or an array of these" if arrays else "") + " before the sink"
            )
    return type_info


def _fits(given: TypeInformation, arrays: bool) -> bool:
    if isinstance(given, BasicTypeInfo):
        return given._basic_type is not BasicType.INSTANT
    if isinstance(given, _TIMES):
        return True
    if isinstance(given, PrimitiveArrayTypeInfo) and given._is_bytes():
        return True
    return arrays and isinstance(given, _ARRAYS)
