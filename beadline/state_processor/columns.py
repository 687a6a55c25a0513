"""The columns that state is shown in: typed where types are declared, text where they are not.

In a column of text a string is itself. Plain data, rows, dataclasses and time windows are JSON, so that
``get_json_object`` and ``from_json`` take them apart in SQL. Anything else is its ``repr``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any

import pyarrow as pa

from beadline.api.windows.window import TimeWindow
from beadline.common import Row
from beadline.common.type_description import readable, type_to_text
from beadline.common.typeinfo import TypeInformation
from beadline.errors import ConfigurationError, TypeMismatchError
from beadline.state.description import StateDescription
from beadline.state.parquet.nested import ListColumn, MapColumn, tuples
from beadline.state.parquet.types import column_of, column_of_text
from beadline.state.parquet.values import Built, Column, integers

WINDOW = pa.struct([("start", pa.int64()), ("end", pa.int64())])


class TextColumn(Column):
    """Values of no declared type, as :func:`text_of` writes them.

    :param none: what stands for None
    """

    arrow = pa.string()

    def __init__(self, none: str | None = None) -> None:
        self._none = none

    def build(self, values: Sequence[Any]) -> Built:
        return Built(pa.array([self._none if value is None else text_of(value) for value in values], self.arrow), ())


class DecodedColumn(Column):
    def __init__(self, arrow: pa.DataType, decode: Callable[[Any], Any]) -> None:
        self.arrow = arrow
        self._decode = decode

    def build(self, values: Sequence[Any]) -> Built:
        decoded = [self._decode(value) for value in values]
        try:
            return Built(pa.array(decoded, self.arrow), ())
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            for value, made in zip(values, decoded, strict=True):
                try:
                    pa.array([made], self.arrow)
                except (pa.ArrowException, OverflowError, TypeError, ValueError):
                    raise TypeMismatchError(
                        f"decode gave {made!r} for {value!r}, which does not fit the schema {self.arrow}"
                    ) from None
            raise TypeMismatchError(f"the values from decode do not fit the schema {self.arrow}: {error}") from error


class Shown:
    """A column of a DataFrame: values of the state in, an Arrow array out.

    Each process makes its own, because each decides which classes a type may name.

    :param what: names the values in errors: the value of state '…'
    :param type_name: the declared type as a person writes it
    """

    def __init__(self, name: str, what: str, type_name: str, make: Callable[[], Column]) -> None:
        self.name = name
        self._what = what
        self._type_name = type_name
        self._make = make
        self._column = make()

    def __reduce__(self) -> tuple[Any, ...]:
        return Shown, (self.name, self._what, self._type_name, self._make)

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self._column.arrow)

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The array; a value that does not fit its declared type is an error, not a null."""
        array, bad = self._column.build(values)
        if bad:
            raise TypeMismatchError(
                f"{self._what} {values[min(bad)]!r} does not fit its declared type {self._type_name}; name its real "
                "type with key_type= or value_type= (Types.PICKLED_BYTE_ARRAY() gives pickles), or convert it with "
                "decode= and schema="
            )
        return array


def key_column(type_text: str, override: TypeInformation | None, owner: str) -> Shown:
    """The column of keys; ``override`` is what the caller says they are."""
    return Shown("key", f"the key of {owner}", _named(type_text, override), partial(_column, type_text, override))


def value_column(
    state: StateDescription,
    override: TypeInformation | None,
    owner: str,
    decode: Callable[[Any], Any] | None = None,
    schema: Any = None,
    name: str = "value",
    times: bool = False,
) -> Shown:
    """The column of a state's values: one value, a list or a map of them.

    :param times: elements of lists and values of maps come with the times of their time to live
    """
    what = f"the value of {owner}"
    if (decode is None) != (schema is None):
        raise ConfigurationError("decode= converts values and schema= is their Spark type: give both or neither")
    if decode is not None:
        if override is not None:
            raise ConfigurationError("value_type= and decode= exclude each other: decode is given the value as it is")
        return Shown(name, what, str(schema), partial(DecodedColumn, arrow_type_of(schema), decode))
    named = _named(state.type, override)
    if state.kind == "list":
        named = f"LIST<{named}>"
    elif state.kind == "map":
        named = f"MAP<{_named(state.map_key_type, None)}, {named}>"
    return Shown(name, what, named, partial(_state_column, state, override, times))


def _named(type_text: str, override: TypeInformation | None) -> str:
    return readable(type_text if override is None else type_to_text(override))


def _column(type_text: str, override: TypeInformation | None, none: str | None = None) -> Column:
    if override is not None:
        return column_of(override)
    return column_of_text(type_text) if type_text else TextColumn(none)


def _state_column(state: StateDescription, override: TypeInformation | None, times: bool) -> Column:
    element = _column(state.type, override)
    if times and state.kind != "value":
        element = tuples([integers(64), element], ["timestamp", "value"])
    if state.kind == "list":
        return ListColumn(element)
    return MapColumn(_column(state.map_key_type, None, "null"), element) if state.kind == "map" else element


def arrow_type_of(schema: Any) -> pa.DataType:
    """The Arrow type of a Spark type, or of its text such as ``'name string, age int'``."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType, _parse_datatype_string

    parsed = _parse_datatype_string(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, DataType):
        raise ConfigurationError(f"schema= takes a Spark type or its text, such as 'bigint', got {schema!r}")
    return to_arrow_type(parsed, timezone="UTC")


# -- text


def text_of(value: Any) -> str | None:
    """The text of a value; None stays None."""
    if value is None or value.__class__ is str:
        return value
    if isinstance(value, dt.date | dt.time | uuid.UUID | Decimal | bytes | bytearray | Enum):
        return str(plain(value))
    return json.dumps(plain(value), ensure_ascii=False)


def plain(value: Any) -> Any:
    """A value in JSON's terms."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID | Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Row):
        names = value._fields
        return [plain(item) for item in value] if names is None else _object(zip(names, value, strict=False))
    if isinstance(value, Mapping):
        return _object(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _object(zip(value._fields, value, strict=True))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Set):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, TimeWindow):
        return {"start": value.start, "end": value.end}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return repr(value)


def _object(pairs: Any) -> dict[str, Any]:
    return {text_of(key) or "null": plain(item) for key, item in pairs}
