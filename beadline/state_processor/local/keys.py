"""From the text that a person types to the key that a job knows."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from beadline.checkpoint.contents.snapshot import OperatorSnapshot
from beadline.common._types.base import shorten
from beadline.common._types.classes import ClassTypeInfo, new_instance
from beadline.common._types.collections import ElementsTypeInfo, MapTypeInfo
from beadline.common.time import Instant
from beadline.common.type_description import readable, type_from_text
from beadline.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from beadline.common.types import Row, new_row
from beadline.errors import BeadlineError, TypeMismatchError
from beadline.state_processor.local.shown import is_text

# A few characters can stand for a number that takes minutes to write out: 1e999999999.
_LONGEST_NUMBER = 1000
_WHOLE = {BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT}


class NoSuchKey(BeadlineError):
    """A text can't be a key of the operator's key type."""


def keys_of(text: str, operator: OperatorSnapshot) -> list[Any]:
    """The keys that a text may mean: one if the type of the keys is declared, else all that are written like this, the
    likeliest first."""
    if not operator.key_type:
        return list(_guesses(text))
    if is_text(operator.key_type):
        return [text]
    info = type_from_text(operator.key_type)
    try:
        key = _made(_parsed(text), info)
        convert = info.held().converter()
        return [key if convert is None else convert(key)]
    except (
        TypeMismatchError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        LookupError,
        RecursionError,
    ) as error:
        raise NoSuchKey(
            f"{shorten(text)} is no key of operator '{operator.uid}', whose keys are {readable(operator.key_type)}: "
            f"{error}. "
            f"Write it like {_example(info)}"
        ) from error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _made(value: Any, info: TypeInformation) -> Any:
    """What JSON has no word for, made of what stands for it. The type's own converter checks the result."""
    if isinstance(info, ExternalTypeInfo):
        return _made(value, info._type_info)
    if value is None or isinstance(info, PickledBytesTypeInfo):
        return _tuples(value)
    if isinstance(info, BasicTypeInfo):
        return _basic(value, info._basic_type)
    if isinstance(info, TupleTypeInfo):
        return tuple(_each(value, info.get_field_types()))
    if isinstance(info, RowTypeInfo):
        if info._field_names is None:
            return Row(*_each(value, info.get_field_types()))
        names = info.get_field_names()
        return new_row(_each(_fields(value, names), info.get_field_types()), list(names))
    if isinstance(info, ClassTypeInfo) and info.cls is not None:
        names = info.get_field_names()
        made = _each(_fields(value, names), info.get_field_types())
        return new_instance(info.cls, dict(zip(names, made, strict=True)))
    if isinstance(info, PrimitiveArrayTypeInfo) and info._is_bytes() and isinstance(value, str):
        return bytes.fromhex(value)
    if isinstance(info, ElementsTypeInfo):
        return [_made(item, info.elem_type) for item in value]
    if isinstance(info, MapTypeInfo):
        return {_made(k, info._key_type_info): _made(v, info._value_type_info) for k, v in value.items()}
    return _temporal(value, info)


def _each(values: Any, types: list[TypeInformation]) -> list[Any]:
    if not isinstance(values, list) or len(values) != len(types):
        raise ValueError(f"a list of {len(types)} parts should be there")
    return [_made(value, info) for value, info in zip(values, types, strict=True)]


def _fields(value: Any, names: list[str]) -> Any:
    return [value[name] for name in names] if isinstance(value, dict) and len(value) == len(names) else value


def _basic(value: Any, basic: BasicType) -> Any:
    if basic in _WHOLE and isinstance(value, str):
        return int(value)
    if basic in (BasicType.FLOAT, BasicType.DOUBLE) and not isinstance(value, bool):
        return float(value)
    if basic is BasicType.BIG_DEC:
        return _decimal(str(value))
    if basic is BasicType.INSTANT:
        return Instant.of_epoch_milli(value) if isinstance(value, int) else _instant(value)
    return value


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and abs(value.adjusted()) > _LONGEST_NUMBER:
        raise ValueError(f"it would have more than {_LONGEST_NUMBER} digits")
    return value


def _instant(text: str) -> Instant:
    moment = dt.datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone.utc)
    micros = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)
    return Instant(micros // 1_000_000, micros % 1_000_000 * 1000)


def _temporal(value: Any, info: TypeInformation) -> Any:
    kinds = LocalTimeTypeInfo.TimeType
    if isinstance(info, DateTypeInfo) or info == LocalTimeTypeInfo(kinds.LOCAL_DATE):
        return dt.date.fromisoformat(value)
    if isinstance(info, TimeTypeInfo) or info == LocalTimeTypeInfo(kinds.LOCAL_TIME):
        return dt.time.fromisoformat(value)
    if isinstance(info, TimestampTypeInfo | LocalTimeTypeInfo):
        return dt.datetime.fromisoformat(value)
    return value


def _tuples(value: Any) -> Any:
    """JSON with tuples for lists: keys are mostly tuples."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {key: _tuples(item) for key, item in value.items()} if isinstance(value, dict) else value


def _example(info: TypeInformation) -> str:
    if isinstance(info, TupleTypeInfo | RowTypeInfo | ClassTypeInfo):
        return f'a JSON list of its {len(info.get_field_types())} fields, such as ["a", 1]'
    if isinstance(info, ElementsTypeInfo):
        return "a JSON list"
    if isinstance(info, BasicTypeInfo) and info._basic_type is BasicType.BOOLEAN:
        return "true or false"
    return "a number" if isinstance(info, BasicTypeInfo) else "2024-02-29 or 2024-02-29T12:30:00, or as JSON"


_READERS: tuple[Callable[[str], Any], ...] = (
    uuid.UUID,
    dt.date.fromisoformat,
    dt.datetime.fromisoformat,
    dt.time.fromisoformat,
    _decimal,
    bytes.fromhex,
)


def _guesses(text: str) -> Iterator[Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield text
    else:
        yield _tuples(value)
        if isinstance(value, list):
            yield value
            yield Row(*map(_tuples, value))
        elif isinstance(value, dict):
            yield new_row([*map(_tuples, value.values())], [*value])
        yield text
    for read in _READERS:
        try:
            yield read(text)
        except (ValueError, ArithmeticError):
            continue
