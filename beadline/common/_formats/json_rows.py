"""Rows as JSON objects."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NoReturn

from beadline.common._formats.json_reading import Reader, reader_of
from beadline.common._formats.json_schema import type_of_json_schema
from beadline.common._formats.json_writing import Writer, writer_of
from beadline.common._types.base import Converter
from beadline.common.serialization import DeserializationSchema, SerializationSchema
from beadline.common.typeinfo import RowTypeInfo, TypeInformation
from beadline.common.types import Row
from beadline.errors import ConfigurationError, SerializationError, TypeMismatchError

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

_SHOWN = 500


class JsonRowDeserializationSchema(DeserializationSchema):
    """Reads a JSON object as a row: the fields by their names; other members of the object are left out.

    Values are converted as in Flink: ``"5"`` is an INT, ``1`` a STRING, null is None. Where Flink would silently lose
    data, this is an error: text after the object, an array where a map or bytes are declared, null in a
    primitive array.

    Make one with :meth:`builder`.
    """

    def __init__(
        self, type_info: TypeInformation, fail_on_missing_field: bool = False, ignore_parse_errors: bool = False
    ) -> None:
        if fail_on_missing_field and ignore_parse_errors:
            raise ConfigurationError(
                "JsonRowDeserializationSchema: fail_on_missing_field() and ignore_parse_errors() exclude each other; "
                "choose one."
            )
        self._type = _row_type(type_info, "JsonRowDeserializationSchema")
        self._fail_on_missing_field = fail_on_missing_field
        self._ignore_parse_errors = ignore_parse_errors
        self._read: Reader | None = None
        self._make_reader()  # a type that JSON can't hold is refused here, not in the workers

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Sets up a schema: ``builder().type_info(Types.ROW_NAMED([…], […])).build()``."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes | None) -> Row | None:
        """The row; None for null, for no message, and for what can't be read if such errors are ignored."""
        if message is None:
            return None
        try:
            read = self._read or self._make_reader()
            node = json.loads(message, parse_float=Decimal, parse_constant=_no_constant)
            row: Row | None = None if node is None else read(node)
        except (ValueError, ArithmeticError, RecursionError) as error:
            if self._ignore_parse_errors:
                return None
            raise SerializationError(
                f"Can't read {_shown(message)} as JSON of {self._type}: {error}. Correct the data, or skip such "
                f"messages with ignore_parse_errors()."
            ) from error
        return row

    def get_produced_type(self) -> TypeInformation:
        return self._type

    def _make_reader(self) -> Reader:
        self._read = reader_of(self._type, self._fail_on_missing_field, self._ignore_parse_errors)
        return self._read

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_read": None}

    def __repr__(self) -> str:
        return f"JsonRowDeserializationSchema({self._type})"

    class Builder:
        """Sets up a :class:`JsonRowDeserializationSchema`."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """The type of the rows; its field names are the names in the JSON object."""
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """The type of the rows as a JSON schema (draft 7). Numbers become BIG_DEC."""
            if json_schema is None:
                raise TypeMismatchError("json_schema() takes the JSON schema as str, got None")
            self._type_info = type_of_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """A field that the object lacks is an error, and not None."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """A message that can't be read is skipped, and a field that can't be converted is None."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            if self._type_info is None:
                raise ConfigurationError("JsonRowDeserializationSchema needs a type: call type_info() or json_schema()")
            return JsonRowDeserializationSchema(self._type_info, self._fail_on_missing_field, self._ignore_parse_errors)


class JsonRowSerializationSchema(SerializationSchema):
    """Writes a row as a JSON object in UTF-8, without blanks, its fields in the order of the type.

    Make one with :meth:`builder`.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type = _row_type(type_info, "JsonRowSerializationSchema")
        self._convert_and_write: tuple[Converter, Writer] | None = None
        self._make_writer()

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Sets up a schema: ``builder().with_type_info(Types.ROW_NAMED([…], […])).build()``."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, value: Any) -> bytes:
        convert, write = self._convert_and_write or self._make_writer()
        try:
            return write(convert(value)).encode()
        except (TypeError, ValueError) as error:
            raise SerializationError(f"Can't write {value!r} as JSON of {self._type}: {error}") from error

    def _make_writer(self) -> tuple[Converter, Writer]:
        self._convert_and_write = self._type.converter(), writer_of(self._type)
        return self._convert_and_write

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_convert_and_write": None}

    def __repr__(self) -> str:
        return f"JsonRowSerializationSchema({self._type})"

    class Builder:
        """Sets up a :class:`JsonRowSerializationSchema`."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """The type of the rows; its field names are the names in the JSON object."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            if self._type_info is None:
                raise TypeMismatchError("JsonRowSerializationSchema needs a type: call with_type_info()")
            return JsonRowSerializationSchema(self._type_info)


def _row_type(type_info: object, owner: str) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise TypeMismatchError(f"{owner} needs the type of a row, got {type_info!r}; use Types.ROW_NAMED([…], […]).")
    return type_info


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _shown(message: bytes) -> str:
    text = bytes(message[: _SHOWN + 1]).decode("utf-8", "replace")
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"
