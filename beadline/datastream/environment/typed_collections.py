"""The elements of ``from_collection(…, type_info)``, as values of the declared type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from beadline.common._types.base import Converter
from beadline.common._types.basic import BasicType, BasicTypeInfo, bounds_of
from beadline.common._types.collections import ElementsTypeInfo, MapTypeInfo
from beadline.common._types.composite import RowTypeInfo, TupleTypeInfo
from beadline.common._types.javatext import boolean_text, decimal_text, double_text
from beadline.common.typeinfo import TypeInformation
from beadline.common.types import Row, new_row
from beadline.datastream.environment.options import LENIENT_TYPES
from beadline.errors import TypeMismatchError


def typed_elements(elements: Iterable[Any], type_info: TypeInformation | None, lenient: bool) -> list[Any]:
    """The elements, converted.

    What PyFlink converts without loss is converted: a number becomes text where a string is declared. What PyFlink
    converts with a loss, such as an integer that is too large, is refused unless ``lenient``.
    """
    convert = None if type_info is None else type_info.converter()
    if type_info is None or convert is None:
        return list(elements)
    converted: list[Any] = []
    for position, element in enumerate(elements):
        try:
            converted.append(convert(element))
        except TypeMismatchError:
            converted.append(_adapted(element, position, type_info, convert, lenient))
    return converted


def _adapted(element: Any, position: int, type_info: TypeInformation, convert: Converter, lenient: bool) -> Any:
    try:
        return convert(_as_flink(type_info, element, lenient))
    except TypeMismatchError as error:
        hint = "" if lenient else _hint(element, type_info, convert)
        raise TypeMismatchError(f"from_collection, element {position}: {error}{hint}") from None


def _hint(element: Any, type_info: TypeInformation, convert: Converter) -> str:
    try:
        wrapped = convert(_as_flink(type_info, element, wrapping=True))
    except TypeMismatchError:
        return ""
    return (
        f" PyFlink would cut off the upper bits and give {wrapped!r}; to do the same, set the option {LENIENT_TYPES} "
        "to true."
    )


# -- how Flink converts values that are not of the declared type: Java does it on the way in

_TEXTS: dict[type, Callable[[Any], str]] = {
    int: str,
    float: double_text,
    bool: boolean_text,
    Decimal: decimal_text,
}


def _as_flink(info: TypeInformation, value: Any, wrapping: bool) -> Any:
    """The value with its parts converted as far as Flink converts them; the rest is as it was.

    Numbers and booleans become text where a string is declared.

    :param wrapping: integers lose their upper bits where a smaller type is declared
    """
    if isinstance(info, BasicTypeInfo):
        return _basic(info, value, wrapping)
    if isinstance(info, ElementsTypeInfo) and isinstance(value, list | tuple):
        return [_as_flink(info.elem_type, item, wrapping) for item in value]
    if isinstance(info, MapTypeInfo) and isinstance(value, dict):
        key_type, value_type = info._key_type_info, info._value_type_info
        return {_as_flink(key_type, k, wrapping): _as_flink(value_type, v, wrapping) for k, v in value.items()}
    if isinstance(info, TupleTypeInfo | RowTypeInfo):
        return _fields(info, value, wrapping)
    return value


def _basic(info: BasicTypeInfo, value: Any, wrapping: bool) -> Any:
    if info._basic_type is BasicType.STRING:
        text = _TEXTS.get(type(value))
        return value if text is None else text(value)
    bounds = bounds_of(info)
    is_java_long = type(value) is int and -(1 << 63) <= value < 1 << 63
    if wrapping and bounds is not None and is_java_long:
        low, high = bounds
        return (value - low) % (high - low + 1) + low
    return value


def _fields(info: TupleTypeInfo | RowTypeInfo, value: Any, wrapping: bool) -> Any:
    types = info.get_field_types()
    by_name = dict(zip(info.get_field_names(), types, strict=True)) if isinstance(info, RowTypeInfo) else {}
    if isinstance(value, Row):
        names = value._fields
        if names is not None and by_name:
            pairs = zip(names, value, strict=True)
            items = [_as_flink(by_name[n], v, wrapping) if n in by_name else v for n, v in pairs]
        else:
            items = _each(types, list(value), wrapping)
        return new_row(items, names, value.get_row_kind())
    if isinstance(value, tuple | list):
        return tuple(_each(types, list(value), wrapping))
    if isinstance(value, dict):
        return {n: _as_flink(by_name[n], v, wrapping) if n in by_name else v for n, v in value.items()}
    return value


def _each(types: list[TypeInformation], values: list[Any], wrapping: bool) -> list[Any]:
    if len(types) != len(values):
        return values
    return [_as_flink(field, value, wrapping) for field, value in zip(types, values, strict=True)]
