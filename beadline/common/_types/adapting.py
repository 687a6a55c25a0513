"""How Flink converts values in a collection that are not of the declared type: Java does it on the way in."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from beadline.common._types.base import TypeInformation
from beadline.common._types.basic import BasicType, BasicTypeInfo, bounds_of
from beadline.common._types.collections import ElementsTypeInfo, MapTypeInfo
from beadline.common._types.composite import RowTypeInfo, TupleTypeInfo
from beadline.common._types.javatext import boolean_text, decimal_text, double_text
from beadline.common.types import Row, new_row

_TEXTS: dict[type, Callable[[Any], str]] = {
    int: str,
    float: double_text,
    bool: boolean_text,
    Decimal: decimal_text,
}


def adapted(info: TypeInformation, value: Any, wrapping: bool) -> Any:
    """The value with its parts converted as far as Flink converts them; the rest is as it was.

    Numbers and booleans become text where a string is declared.

    :param wrapping: integers lose their upper bits where a smaller type is declared
    """
    if isinstance(info, BasicTypeInfo):
        return _basic(info, value, wrapping)
    if isinstance(info, ElementsTypeInfo) and isinstance(value, list | tuple):
        return [adapted(info.elem_type, item, wrapping) for item in value]
    if isinstance(info, MapTypeInfo) and isinstance(value, dict):
        key_type, value_type = info._key_type_info, info._value_type_info
        return {adapted(key_type, k, wrapping): adapted(value_type, v, wrapping) for k, v in value.items()}
    if isinstance(info, TupleTypeInfo | RowTypeInfo):
        return _fields(info, value, wrapping)
    return value


def _basic(info: BasicTypeInfo, value: Any, wrapping: bool) -> Any:
    if info._basic_type is BasicType.STRING:
        text = _TEXTS.get(type(value))
        return value if text is None else text(value)
    bounds = bounds_of(info)
    if (
        wrapping and bounds is not None and type(value) is int and -(1 << 63) <= value < 1 << 63
    ):  # what Java calls a long
        low, high = bounds
        return (value - low) % (high - low + 1) + low
    return value


def _fields(info: TupleTypeInfo | RowTypeInfo, value: Any, wrapping: bool) -> Any:
    types = info.get_field_types()
    if isinstance(value, Row):
        names = value._fields
        if names is not None and isinstance(info, RowTypeInfo):
            by_name = dict(zip(info.get_field_names(), types, strict=True))
            items = [adapted(by_name[n], v, wrapping) if n in by_name else v for n, v in zip(names, value, strict=True)]
        else:
            items = _each(types, list(value), wrapping)
        return new_row(items, names, value.get_row_kind())
    if isinstance(value, tuple | list):
        return tuple(_each(types, list(value), wrapping))
    if isinstance(value, dict) and isinstance(info, RowTypeInfo):
        by_name = dict(zip(info.get_field_names(), types, strict=True))
        return {n: adapted(by_name[n], v, wrapping) if n in by_name else v for n, v in value.items()}
    return value


def _each(types: list[TypeInformation], values: list[Any], wrapping: bool) -> list[Any]:
    if len(types) != len(values):
        return values
    return [adapted(field, value, wrapping) for field, value in zip(types, values, strict=True)]
