"""From the text of a CSV field to a value of a declared type and back, as Flink's CSV format does it."""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from beadline.common._types.collections import ElementsTypeInfo
from beadline.common._types.javatext import boolean_text, decimal_text, double_text, float_text, to_float32
from beadline.common._types.temporal import LocalTimeTypeInfo
from beadline.common.typeinfo import RowTypeInfo, TypeInformation, Types
from beadline.common.types import new_row
from beadline.errors import UnsupportedFeatureError

FieldReader = Callable[[str], Any]
FieldWriter = Callable[[Any], str]

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,9})?Z?")
_TIME = re.compile(r"(\d\d:\d\d:\d\d)(\.\d{1,9})?Z?")
_REAL = re.compile(r"\s*[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)\s*")
_Kind = LocalTimeTypeInfo.TimeType


def is_text(type_info: TypeInformation) -> bool:
    """Whether an empty field is a value. Of all other types it is null."""
    return type_info == Types.STRING()


def is_raw(type_info: TypeInformation) -> bool:
    """Whether a value is a number or a boolean, which need no quotes."""
    return type_info in _RAW


def field_reader(type_info: TypeInformation, elements: str) -> FieldReader:
    """What reads a field that is not null. It raises ValueError for what does not fit.

    :param elements: what separates the elements of an array, and the fields of an inner row
    """
    if type_info == Types.PRIMITIVE_ARRAY(Types.BYTE()):
        return _bytes
    if isinstance(type_info, ElementsTypeInfo):
        read = _element_reader(type_info.elem_type, elements)
        return lambda text: [read(part) for part in _parts(text, elements)]
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        readers = [_element_reader(field, elements) for field in type_info.get_field_types()]

        def read_row(text: str) -> Any:
            parts = _parts(text, elements)
            if len(parts) != len(readers):
                raise ValueError(f"{len(readers)} fields are needed, got {len(parts)} in {text!r}")
            return new_row([read(part) for read, part in zip(readers, parts, strict=True)], names)

        return read_row
    for simple, read_simple, _ in _SIMPLE:
        if simple == type_info:
            return read_simple
    raise _no_form(type_info)


def field_writer(type_info: TypeInformation, elements: str) -> FieldWriter:
    """What writes a value that is not None."""
    if type_info == Types.PRIMITIVE_ARRAY(Types.BYTE()):
        return lambda value: base64.b64encode(value).decode()
    if isinstance(type_info, (ElementsTypeInfo, RowTypeInfo)):
        if isinstance(type_info, RowTypeInfo):
            writers = [_element_writer(field, elements) for field in type_info.get_field_types()]
            return lambda row: elements.join([write(v) for write, v in zip(writers, row, strict=True)])
        write = _element_writer(type_info.elem_type, elements)
        return lambda value: elements.join(map(write, value))
    for simple, _, write_simple in _SIMPLE:
        if simple == type_info:
            return write_simple
    raise _no_form(type_info)


def _element_reader(inner: TypeInformation, elements: str) -> FieldReader:
    if isinstance(inner, (ElementsTypeInfo, RowTypeInfo)):
        raise _no_form(inner)
    read, text = field_reader(inner, elements), is_text(inner)
    return lambda part: None if not part and not text else read(part)


def _element_writer(inner: TypeInformation, elements: str) -> FieldWriter:
    if isinstance(inner, (ElementsTypeInfo, RowTypeInfo)):
        raise _no_form(inner)
    write = field_writer(inner, elements)

    def write_element(value: Any) -> str:
        written = "" if value is None else write(value)
        if elements and elements in written:
            raise ValueError(f"{value!r} has {elements!r} in it, which separates elements")
        return written

    return write_element


def _parts(text: str, elements: str) -> list[str]:
    if not text:
        return []
    return text.split(elements) if elements else [text]


def _no_form(type_info: TypeInformation) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"CSV has no form for {type_info} there. Declare the field as STRING, and convert it in a map function."
    )


def _whole_reader(bits: int | None) -> FieldReader:
    def read_whole(text: str) -> int:
        value = int(text)
        if "_" in text or (bits is not None and not -(1 << bits - 1) <= value < 1 << bits - 1):
            raise ValueError(f"{text!r} is not a whole number of {bits} bits")
        return value

    return read_whole


def _real(text: str) -> float:
    if text[-1:].isdecimal() and "_" not in text:
        return float(text)
    if not _REAL.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a decimal number") from None
    if not value.is_finite():
        raise ValueError(f"{text!r} is not a decimal number")
    return value


def _boolean(text: str) -> bool:
    lower = text.strip().lower()
    if lower not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return lower == "true"


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _date(text: str) -> dt.date:
    return dt.date.fromisoformat(text.strip())


def _time(text: str) -> dt.time:
    found = _TIME.fullmatch(text.strip())
    if not found:
        raise ValueError(f"a time such as '23:59:59' is needed, got {text!r}")
    return dt.time.fromisoformat(found[1]).replace(microsecond=_micros(found[2]))


def _timestamp(text: str) -> dt.datetime:
    found = _TIMESTAMP.fullmatch(text.strip())
    if not found:
        raise ValueError(f"a timestamp such as '2020-01-31 23:59:59.123' is needed, got {text!r}")
    return dt.datetime.fromisoformat(f"{found[1]}T{found[2]}").replace(microsecond=_micros(found[3]))


def _micros(fraction: str | None) -> int:
    return int((fraction or ".0")[1:7].ljust(6, "0"))


def _time_text(value: dt.time) -> str:
    return f"{value:%H:%M:%S}{_fraction(value.microsecond)}"


def _timestamp_text(value: dt.datetime) -> str:
    return f"{value.date().isoformat()} {value:%H:%M:%S}{_fraction(value.microsecond)}"


def _fraction(micros: int) -> str:
    return f".{micros:06d}".rstrip("0") if micros else ""


def quick_column(type_info: TypeInformation) -> Callable[[Sequence[str]], list[Any] | None] | None:
    """Reads a whole column of numbers at once; None for what has to be read field by field."""
    bits = next((bits for simple, bits in _WHOLE_BITS if simple == type_info), None)
    if bits is not None:
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1

        def whole(column: Sequence[str]) -> list[Any] | None:
            try:
                values = list(map(int, column))
            except ValueError:
                return None
            fits = low <= min(values) and max(values) <= high
            return values if fits and "_" not in "".join(column) else None

        return whole
    return _quick_reals if type_info == Types.DOUBLE() else None


def _quick_reals(column: Sequence[str]) -> list[Any] | None:
    try:
        values = list(map(float, column))
    except ValueError:
        return None
    letters = "".join(column).lower()
    return values if "n" not in letters and "_" not in letters else None  # Java spells NaN and Infinity in one way


def _same(text: str) -> str:
    return text


_SIMPLE: list[tuple[TypeInformation, FieldReader, FieldWriter]] = [
    (Types.STRING(), _same, str),
    (Types.CHAR(), _same, str),
    (Types.BOOLEAN(), _boolean, boolean_text),
    (Types.BYTE(), _whole_reader(8), str),
    (Types.SHORT(), _whole_reader(16), str),
    (Types.INT(), _whole_reader(32), str),
    (Types.LONG(), _whole_reader(64), str),
    (Types.BIG_INT(), _whole_reader(None), str),
    (Types.FLOAT(), lambda text: to_float32(_real(text)), float_text),
    (Types.DOUBLE(), _real, double_text),
    (Types.BIG_DEC(), _decimal, decimal_text),
    (Types.SQL_DATE(), _date, dt.date.isoformat),
    (Types.SQL_TIME(), _time, _time_text),
    (Types.SQL_TIMESTAMP(), _timestamp, _timestamp_text),
    (LocalTimeTypeInfo(_Kind.LOCAL_DATE), _date, dt.date.isoformat),
    (LocalTimeTypeInfo(_Kind.LOCAL_TIME), _time, _time_text),
    (LocalTimeTypeInfo(_Kind.LOCAL_DATE_TIME), _timestamp, _timestamp_text),
]
_WHOLE_BITS = [(Types.BYTE(), 8), (Types.SHORT(), 16), (Types.INT(), 32), (Types.LONG(), 64)]
_RAW = (
    Types.BOOLEAN(),
    Types.BYTE(),
    Types.SHORT(),
    Types.INT(),
    Types.LONG(),
    Types.BIG_INT(),
    Types.FLOAT(),
    Types.DOUBLE(),
    Types.BIG_DEC(),
)
