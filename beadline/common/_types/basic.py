"""Numbers, strings and instants."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any

from beadline.common._types.base import Converter, Formatter, TypeInformation, mismatch, nullable
from beadline.common._types.javatext import (
    boolean_text,
    decimal_text,
    double_text,
    float_text,
    instant_text,
    to_float32,
)
from beadline.common.time import Instant
from beadline.errors import ConfigurationError


class BasicType(Enum):
    """The basic types, each with the name that its description shows."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


def _maker(name: str) -> staticmethod[[], BasicTypeInfo]:
    return staticmethod(lambda: basic_type_info(name))


class BasicTypeInfo(TypeInformation):
    """One of the types of :class:`BasicType`."""

    def __init__(self, basic_type: BasicType) -> None:
        if not isinstance(basic_type, BasicType):
            raise ConfigurationError(f"BasicTypeInfo takes a BasicType such as BasicType.INT, got {basic_type!r}.")
        self._basic_type = basic_type

    def converter(self) -> Converter | None:
        return _CONVERTERS[self._basic_type](self)

    def held(self) -> TypeInformation:
        return basic_type_info("DOUBLE") if self._basic_type is BasicType.FLOAT else self

    def plain_test(self) -> str | None:
        return _PLAIN_TESTS.get(self._basic_type)

    def all_plain(self, values: list[Any]) -> bool:
        if set(map(type, values)) != {_PLAIN_CLASSES.get(self._basic_type)}:
            return False
        bounds = _BOUNDS.get(self._basic_type)
        return bounds is None or (bounds[0] <= min(values) and max(values) <= bounds[1])

    def is_immutable(self) -> bool:
        return True

    def java_text(self) -> Formatter:
        return _TEXTS.get(self._basic_type, str)

    def _identity(self) -> tuple[Any, ...]:
        return (self._basic_type,)

    def __repr__(self) -> str:
        return self._basic_type.value

    def __reduce__(self) -> tuple[Any, ...]:
        return basic_type_info, (self._basic_type.name,)

    STRING_TYPE_INFO = _maker("STRING")
    BOOLEAN_TYPE_INFO = _maker("BOOLEAN")
    BYTE_TYPE_INFO = _maker("BYTE")
    SHORT_TYPE_INFO = _maker("SHORT")
    INT_TYPE_INFO = _maker("INT")
    LONG_TYPE_INFO = _maker("LONG")
    FLOAT_TYPE_INFO = _maker("FLOAT")
    DOUBLE_TYPE_INFO = _maker("DOUBLE")
    CHAR_TYPE_INFO = _maker("CHAR")
    BIG_INT_TYPE_INFO = _maker("BIG_INT")
    BIG_DEC_TYPE_INFO = _maker("BIG_DEC")
    INSTANT_TYPE_INFO = _maker("INSTANT")


class InstantTypeInfo(BasicTypeInfo):
    """The type of :class:`~beadline.common.time.Instant`; None is a value of it."""

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Instant) -> int:
        """Microseconds since 1970-01-01T00:00Z, of which PyFlink fills only the milliseconds."""
        return obj.to_epoch_milli() * 1000

    def is_immutable(self) -> bool:
        return False

    def from_internal_type(self, obj: int) -> Instant:
        return Instant.of_epoch_milli(obj // 1000)


def _string_converter(info: TypeInformation) -> Converter:
    def convert(value: Any) -> str:
        if type(value) is str:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        raise mismatch(info, "a str", value)

    return convert


def _char_converter(info: TypeInformation) -> Converter:
    def convert(value: Any) -> str:
        if isinstance(value, str) and len(value) == 1:
            return str.__str__(value)
        raise mismatch(info, "a str of exactly one character", value)

    return convert


def _boolean_converter(info: TypeInformation) -> Converter:
    def convert(value: Any) -> bool:
        if value is True or value is False:
            return value
        if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
            return bool(value)
        raise mismatch(info, "True or False", value)

    return convert


def _integer_converter(low: int, high: int) -> Callable[[TypeInformation], Converter]:
    wanted = f"an int from {low} to {high}"

    def make(info: TypeInformation) -> Converter:
        def convert(value: Any) -> int:
            if type(value) is int and low <= value <= high:
                return value
            number = _as_int(value)  # integers of other classes: numpy's, IntEnum
            if number is None or not low <= number <= high:
                raise mismatch(info, wanted, value)
            return number

        return convert

    return make


def _number_converter(
    plain: type, number_of: Callable[[Any], Any], wanted: str
) -> Callable[[TypeInformation], Converter]:
    def make(info: TypeInformation) -> Converter:
        def convert(value: Any) -> Any:
            if type(value) is plain:
                return value
            number = number_of(value)
            if number is None:
                raise mismatch(info, wanted, value)
            return number

        return convert

    return make


def _float_converter(info: TypeInformation) -> Converter:
    def convert(value: Any) -> float:
        number = value if type(value) is float else _as_float(value)
        if number is None:
            raise mismatch(info, "a float or an int, rounded to 32 bits", value)
        return to_float32(number)

    return convert


def _decimal_converter(info: TypeInformation) -> Converter:
    def convert(value: Any) -> Decimal:
        if type(value) is Decimal and value.is_finite():
            return value
        # As PyFlink does, a plain number is taken by the digits it shows.
        if type(value) is int or (type(value) is float and value - value == 0):
            return Decimal(str(value))
        if isinstance(value, Decimal) and value.is_finite():
            return Decimal(value)
        raise mismatch(info, "a finite decimal.Decimal, int or float", value)

    return convert


def _instant_converter(info: TypeInformation) -> Converter:
    def convert(value: Any) -> Instant | None:
        if value is None or isinstance(value, Instant):
            return value
        raise mismatch(info, "a beadline.common.Instant or None", value)

    return convert


def _as_int(value: Any) -> int | None:
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    return None


def _as_float(value: Any) -> float | None:
    if isinstance(value, (numbers.Real, Decimal)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return None
    return None


_BOUNDS = {
    kind: (-(1 << bits - 1), (1 << bits - 1) - 1)
    for kind, bits in ((BasicType.BYTE, 8), (BasicType.SHORT, 16), (BasicType.INT, 32), (BasicType.LONG, 64))
}


def bounds_of(info: BasicTypeInfo) -> tuple[int, int] | None:
    """The smallest and the largest value of an integer type that has them."""
    return _BOUNDS.get(info._basic_type)


_CONVERTERS: dict[BasicType, Callable[[TypeInformation], Converter]] = {
    BasicType.STRING: _string_converter,
    BasicType.BOOLEAN: _boolean_converter,
    BasicType.FLOAT: _float_converter,
    BasicType.DOUBLE: _number_converter(float, _as_float, "a float or an int within its range"),
    BasicType.CHAR: _char_converter,
    BasicType.BIG_INT: _number_converter(int, _as_int, "an int"),
    BasicType.BIG_DEC: _decimal_converter,
    BasicType.INSTANT: _instant_converter,
    **{kind: _integer_converter(*bounds) for kind, bounds in _BOUNDS.items()},
}

_PLAIN_CLASSES: dict[BasicType, type] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: bool,
    BasicType.DOUBLE: float,
    BasicType.BIG_INT: int,
    **dict.fromkeys(_BOUNDS, int),
}

_PLAIN_TESTS = {
    **{kind: f"{{v}}.__class__ is {plain.__name__}" for kind, plain in _PLAIN_CLASSES.items()},
    **{kind: f"{{v}}.__class__ is int and {low} <= {{v}} <= {high}" for kind, (low, high) in _BOUNDS.items()},
}


_TEXTS: dict[BasicType, Formatter] = {
    BasicType.BOOLEAN: boolean_text,
    BasicType.FLOAT: float_text,
    BasicType.DOUBLE: double_text,
    BasicType.BIG_DEC: decimal_text,
    BasicType.INSTANT: nullable(instant_text),
}

_INSTANCES: dict[str, BasicTypeInfo] = {
    basic_type.name: (InstantTypeInfo if basic_type is BasicType.INSTANT else BasicTypeInfo)(basic_type)
    for basic_type in BasicType
}


def basic_type_info(name: str) -> BasicTypeInfo:
    """The one description of the basic type with this name; pickles carry the name alone."""
    return _INSTANCES[name]
