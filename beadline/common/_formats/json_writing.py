"""From values of a declared type to JSON text, as Flink's JSON format writes it."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

from beadline.common._types.collections import ElementsTypeInfo
from beadline.common._types.javatext import boolean_text, decimal_text, double_text, float_text
from beadline.common.typeinfo import MapTypeInfo, RowTypeInfo, TypeInformation, Types
from beadline.errors import UnsupportedFeatureError

Writer = Callable[[Any], str]


def writer_of(type_info: TypeInformation) -> Writer:
    """What writes a value that fits this type.

    :raises UnsupportedFeatureError: if JSON has no form for the type
    """

    def nullable(inner: TypeInformation) -> Writer:
        write = writer_of(inner)
        return lambda value: "null" if value is None else write(value)

    if isinstance(type_info, RowTypeInfo):
        names = [f"{encode_basestring(name)}:" for name in type_info.get_field_names()]
        writers = [nullable(field) for field in type_info.get_field_types()]

        def write_row(row: Any) -> str:
            fields = zip(names, writers, row, strict=True)
            return "{" + ",".join([name + write(value) for name, write, value in fields]) + "}"

        return write_row
    if isinstance(type_info, MapTypeInfo):
        key_text, write_value = type_info._key_type_info.java_text(), nullable(type_info._value_type_info)

        def write_map(value: Any) -> str:
            entries = [f"{encode_basestring(key_text(key))}:{write_value(item)}" for key, item in value.items()]
            return "{" + ",".join(entries) + "}"

        return write_map
    if type_info == Types.PRIMITIVE_ARRAY(Types.BYTE()):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if isinstance(type_info, ElementsTypeInfo):
        write_element = nullable(type_info.elem_type)
        return lambda value: f"[{','.join(map(write_element, value))}]"
    for simple, write in _SIMPLE:
        if simple == type_info:
            return write
    raise UnsupportedFeatureError(
        f"JSON has no form for {type_info}. Map the field to one that has: text, a number, a row."
    )


def _number(text: Writer) -> Writer:
    """NaN and the infinities are no JSON numbers: they are written as text, which reads back."""

    def write_number(value: Any) -> str:
        written = text(value)
        return f'"{written}"' if written[-1] in "Ny" else written

    return write_number


def _time(value: dt.time) -> str:
    return f'"{value:%H:%M:%S}{_fraction(value.microsecond)}Z"'


def _timestamp(value: dt.datetime) -> str:
    return f'"{value.date().isoformat()}T{value:%H:%M:%S}{_fraction(value.microsecond)}Z"'


def _fraction(micros: int) -> str:
    return f".{micros:06d}".rstrip("0") if micros else ""


_SIMPLE: list[tuple[TypeInformation, Writer]] = [
    (Types.STRING(), encode_basestring),
    (Types.CHAR(), encode_basestring),
    (Types.BOOLEAN(), boolean_text),
    (Types.BYTE(), str),
    (Types.SHORT(), str),
    (Types.INT(), str),
    (Types.LONG(), str),
    (Types.BIG_INT(), str),
    (Types.FLOAT(), _number(float_text)),
    (Types.DOUBLE(), _number(double_text)),
    (Types.BIG_DEC(), decimal_text),
    (Types.SQL_DATE(), lambda value: f'"{value.isoformat()}"'),
    (Types.SQL_TIME(), _time),
    (Types.SQL_TIMESTAMP(), _timestamp),
]
