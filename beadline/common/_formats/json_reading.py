"""From parsed JSON to values of a declared type, converted as Flink's JSON format does it.

Parsed means: numbers with a point or exponent are ``Decimal``, those without are ``int``.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from beadline.common._types.collections import ElementsTypeInfo
from beadline.common._types.javatext import double_text, to_float32
from beadline.common.typeinfo import MapTypeInfo, PrimitiveArrayTypeInfo, RowTypeInfo, TypeInformation, Types
from beadline.common.types import Row, new_row
from beadline.errors import UnsupportedFeatureError

Reader = Callable[[Any], Any]

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"(\d\d:\d\d:\d\d)Z")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?Z")
_PLENTY = Context(prec=1000)


def reader_of(type_info: TypeInformation, strict: bool, forgiving: bool) -> Reader:
    """What turns a JSON value into one of this type. It raises ValueError for what does not fit.

    :param strict: a field that an object lacks is an error, and not None
    :param forgiving: what does not fit is None, at whatever depth
    :raises UnsupportedFeatureError: if JSON has no form for the type
    """

    def nullable(inner: TypeInformation) -> Reader:
        read = reader_of(inner, strict, forgiving)

        def read_nullable(node: Any) -> Any:
            if node is None:
                return None
            try:
                return read(node)
            except (ValueError, ArithmeticError):
                if forgiving:
                    return None
                raise

        return read_nullable

    if isinstance(type_info, RowTypeInfo):
        readers = [nullable(field) for field in type_info.get_field_types()]
        return _row_reader(type_info.get_field_names(), readers, strict)
    if isinstance(type_info, MapTypeInfo):
        return _map_reader(nullable(type_info._key_type_info), nullable(type_info._value_type_info))
    if type_info == Types.PRIMITIVE_ARRAY(Types.BYTE()):
        return _bytes
    if isinstance(type_info, PrimitiveArrayTypeInfo):
        return _list_reader(reader_of(type_info.elem_type, strict, forgiving))
    if isinstance(type_info, ElementsTypeInfo):
        return _list_reader(nullable(type_info.elem_type))
    for simple, read in _SIMPLE:
        if simple == type_info:
            return read
    raise UnsupportedFeatureError(
        f"JSON has no form for {type_info}. Declare the field as STRING, and parse it in a map function."
    )


def _row_reader(names: list[str], readers: list[Reader], strict: bool) -> Reader:
    fields = list(zip(names, readers, strict=True))

    def read_row(node: Any) -> Row:
        if not isinstance(node, dict):
            raise ValueError(f"an object is needed, got {_text(node)!r}")
        values = []
        for name, read in fields:
            try:
                values.append(read(node.get(name)))
            except ValueError as error:
                raise ValueError(f"field '{name}': {error}") from None
            except ArithmeticError as error:
                raise ValueError(f"field '{name}': {node[name]!r} is out of range") from error
        if strict and any(name not in node for name in names):
            raise ValueError(f"there are no fields {[name for name in names if name not in node]}")
        return new_row(values, names)

    return read_row


def _map_reader(read_key: Reader, read_value: Reader) -> Reader:
    def read_map(node: Any) -> dict[Any, Any]:
        if not isinstance(node, dict):
            raise ValueError(f"an object is needed, got {_text(node)!r}")
        return {read_key(key): read_value(value) for key, value in node.items()}

    return read_map


def _list_reader(read: Reader) -> Reader:
    def read_list(node: Any) -> list[Any]:
        if not isinstance(node, list):
            raise ValueError(f"an array is needed, got {_text(node)!r}")
        return [read(element) for element in node]

    return read_list


def _bytes(node: Any) -> bytes:
    if not isinstance(node, str):
        raise ValueError(f"bytes in base64 are needed, got {_text(node)!r}")
    return base64.b64decode(node, validate=True)


def _text(node: Any) -> str:
    """A number or constant as Java writes it, arrays and objects as JSON."""
    if isinstance(node, str):
        return node
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, Decimal):
        return double_text(float(node))
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False, default=float)


def _scalar(node: Any) -> str:
    """The text of a scalar to parse; empty for an array or object."""
    return "" if isinstance(node, (list, dict)) else _text(node).strip()


def _whole_reader(bits: int, truncates: bool = False) -> Reader:
    lowest, highest = -(1 << bits - 1), (1 << bits - 1) - 1

    def read_whole(node: Any) -> int:
        if truncates and isinstance(node, Decimal) and lowest <= node <= highest:
            return int(node)
        value = _any_whole(node)
        if not lowest <= value <= highest:
            raise ValueError(f"{value} is not within {lowest} and {highest}")
        return value

    return read_whole


def _any_whole(node: Any) -> int:
    if isinstance(node, int) and not isinstance(node, bool):
        return node
    text = _scalar(node)
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{_text(node)!r} is not a whole number")
    return int(text)


def _real(node: Any) -> float:
    if isinstance(node, (Decimal, int)) and not isinstance(node, bool):
        try:
            return float(node)
        except OverflowError:
            return float("inf") if node > 0 else float("-inf")
    text = _scalar(node)
    if not _REAL.fullmatch(text):
        raise ValueError(f"{_text(node)!r} is not a number")
    return float(text)


def _decimal(node: Any) -> Decimal:
    if isinstance(node, Decimal):
        return node.normalize(_PLENTY)
    if isinstance(node, int) and not isinstance(node, bool):
        return Decimal(node)
    text = _scalar(node)
    if not _REAL.fullmatch(text) or text[-1] in "Ny":
        raise ValueError(f"{_text(node)!r} is not a decimal number")
    return Decimal(text)


def _boolean(node: Any) -> bool:
    return node if isinstance(node, bool) else _scalar(node).lower() == "true"


def _character(node: Any) -> str:
    if not isinstance(node, str) or len(node) != 1:
        raise ValueError(f"one character is needed, got {_text(node)!r}")
    return node


def _date(node: Any) -> dt.date:
    if not _DATE.fullmatch(_scalar(node)):
        raise ValueError(f"a date such as '2020-01-31' is needed, got {_text(node)!r}")
    return dt.date.fromisoformat(_scalar(node))


def _time(node: Any) -> dt.time:
    found = _TIME.fullmatch(_scalar(node))
    if not found:
        raise ValueError(f"a time such as '23:59:59Z' is needed, got {_text(node)!r}")
    return dt.time.fromisoformat(found[1])


def _timestamp(node: Any) -> dt.datetime:
    found = _TIMESTAMP.fullmatch(_scalar(node))
    if not found:
        raise ValueError(f"a timestamp such as '2020-01-31T23:59:59.123Z' is needed, got {_text(node)!r}")
    micros = int((found[2] or ".0")[1:7].ljust(6, "0"))
    return dt.datetime.fromisoformat(found[1]).replace(microsecond=micros)


_SIMPLE: list[tuple[TypeInformation, Reader]] = [
    (Types.STRING(), _text),
    (Types.BOOLEAN(), _boolean),
    (Types.BYTE(), _whole_reader(8)),
    (Types.SHORT(), _whole_reader(16)),
    (Types.INT(), _whole_reader(32, truncates=True)),
    (Types.LONG(), _whole_reader(64, truncates=True)),
    (Types.FLOAT(), lambda node: to_float32(_real(node))),
    (Types.DOUBLE(), _real),
    (Types.BIG_INT(), _any_whole),
    (Types.BIG_DEC(), _decimal),
    (Types.CHAR(), _character),
    (Types.SQL_DATE(), _date),
    (Types.SQL_TIME(), _time),
    (Types.SQL_TIMESTAMP(), _timestamp),
]
