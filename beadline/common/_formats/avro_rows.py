"""Rows as records of Avro, without a header: both sides know the schema."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from beadline.common._formats.avro_schema import AvroSchema, fastavro, kind_of
from beadline.common._formats.avro_values import row_reader, row_writer
from beadline.common.serialization import DeserializationSchema, SerializationSchema
from beadline.common.typeinfo import TypeInformation
from beadline.common.types import Row
from beadline.errors import ConfigurationError, SerializationError, TypeMismatchError, UnsupportedFeatureError

__all__ = ["AvroRowDeserializationSchema", "AvroRowSerializationSchema"]

_SHOWN = 100


class AvroRowDeserializationSchema(DeserializationSchema):
    """Reads a record of Avro as a row. Times are those of UTC.

    :param avro_schema_string: the schema as JSON
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = schema_given(record_class, avro_schema_string, "AvroRowDeserializationSchema")
        self._type = self._schema.type_info()
        self._deserialize: Callable[[bytes], Any] | None = None

    def deserialize(self, message: bytes | None) -> Row | None:
        """The row; None for no message."""
        if message is None:
            return None
        if self._deserialize is None:
            self._deserialize = self.deserializer()
        row: Row = self._deserialize(message)
        return row

    def deserializer(self) -> Callable[[bytes], Any]:
        return record_reader(self._schema, self._schema, row_reader(self._schema))

    def get_produced_type(self) -> TypeInformation:
        return self._type

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_deserialize": None}

    def __repr__(self) -> str:
        return f"AvroRowDeserializationSchema({self._schema!r})"


class AvroRowSerializationSchema(SerializationSchema):
    """Writes a row as a record of Avro. A time without zone is one of UTC.

    :param avro_schema_string: the schema as JSON
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = schema_given(record_class, avro_schema_string, "AvroRowSerializationSchema")
        self._serialize: Callable[[Any], bytes] | None = None

    def serialize(self, value: Any) -> bytes:
        if self._serialize is None:
            self._serialize = self.serializer()
        return self._serialize(value)

    def serializer(self) -> Callable[[Any], bytes]:
        return record_writer(self._schema, row_writer(self._schema), b"")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_serialize": None}

    def __repr__(self) -> str:
        return f"AvroRowSerializationSchema({self._schema!r})"


def schema_given(record_class: str | None, avro_schema_string: str | None, owner: str) -> AvroSchema:
    if record_class is not None:
        raise UnsupportedFeatureError(
            f"{owner}: record_class={record_class!r} names a Java class, and Beadline runs without Java. Give the "
            "schema as avro_schema_string"
        )
    if avro_schema_string is None:
        raise TypeMismatchError(f"{owner} needs avro_schema_string")
    schema = AvroSchema(avro_schema_string)
    if kind_of(schema.parsed()) != "record":
        raise ConfigurationError(f"{owner} needs the schema of a record, got {avro_schema_string}")
    return schema


def record_reader(writer: AvroSchema, reader: AvroSchema, convert: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    """Reads a record that was written with one schema as one of another."""
    read = fastavro().schemaless_reader
    written, wanted = writer.parsed(), None if reader == writer else reader.parsed()

    def read_record(message: bytes) -> Any:
        stream = io.BytesIO(message)
        try:
            record = convert(read(stream, written, wanted))
        except Exception as error:  # fastavro raises whatever the bytes lead it to
            raise unreadable(message, reader, f"{type(error).__name__}: {error}") from error
        if stream.tell() != len(message):
            raise unreadable(message, reader, f"{len(message) - stream.tell()} bytes are left over")
        return record

    return read_record


def record_writer(schema: AvroSchema, convert: Callable[[Any], Any], prefix: bytes) -> Callable[[Any], bytes]:
    """Writes a record after some fixed bytes."""
    write, parsed = fastavro().schemaless_writer, schema.parsed()

    def write_record(value: Any) -> bytes:
        stream = io.BytesIO()
        stream.write(prefix)
        try:
            write(stream, parsed, convert(value))
        except Exception as error:
            raise SerializationError(
                f"Can't write {value!r} as a record of {schema!r}: {type(error).__name__}: {error}"
            ) from error
        return stream.getvalue()

    return write_record


def unreadable(message: bytes, schema: AvroSchema, problem: str) -> SerializationError:
    shown = f"{bytes(message[:_SHOWN])!r}{'…' if len(message) > _SHOWN else ''}"
    return SerializationError(
        f"Can't read {shown} as a record of {schema!r}: {problem}. Was it written with this schema? Correct the data "
        "or the schema"
    )
