"""Turning records into bytes and back, for connectors."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any, Self

from beadline.common._formats import find_row_format
from beadline.common.typeinfo import TypeInformation, Types
from beadline.common.types import Row
from beadline.common.utils import JavaObjectWrapper
from beadline.common.without_java import WithoutJava
from beadline.errors import ConfigurationError, SerializationError, UnsupportedFeatureError

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringEncoder",
    "SimpleStringSchema",
]


def _refuse_java(owner: object, j_object: Any) -> None:
    if j_object is not None:
        raise UnsupportedFeatureError(
            f"{type(owner).__name__} can't wrap the Java object {j_object!r}. Override its methods in Python instead."
        )


class SerializationSchema(WithoutJava):
    """Turns a record into the bytes a sink writes. Derive from it and override :meth:`serialize`."""

    def __init__(self, j_serialization_schema: Any = None) -> None:
        _refuse_java(self, j_serialization_schema)

    def serialize(self, value: Any) -> bytes:
        """The bytes of one record. Called in the workers, for every record."""
        raise NotImplementedError(f"{type(self).__name__} must override serialize(value)")

    def serializer(self) -> Callable[[Any], bytes]:
        """The function that a task calls for its records. It is asked for once per task, so what takes a while to set
        up belongs here and not into :meth:`serialize`."""
        return self.serialize


class DeserializationSchema(WithoutJava):
    """Turns the bytes a source reads into a record. Derive from it and override :meth:`deserialize`."""

    def __init__(self, j_deserialization_schema: Any = None) -> None:
        _refuse_java(self, j_deserialization_schema)

    def deserialize(self, message: bytes) -> Any:
        """The record in one message. Called in the workers, for every message."""
        raise NotImplementedError(f"{type(self).__name__} must override deserialize(message)")

    def deserializer(self) -> Callable[[bytes], Any]:
        """The function that a task calls for its messages, asked for once per task. None for a message means that there
        is no record in it: the source goes on with the next."""
        return self.deserialize

    def get_produced_type(self) -> TypeInformation:
        """The type of the records; any Python object unless overridden."""
        return Types.PICKLED_BYTE_ARRAY()


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Strings in a character set. What can't be decoded becomes U+FFFD, what can't be encoded ``?``."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = _codec(charset)

    def serialize(self, value: str) -> bytes:
        if not isinstance(value, str):
            raise SerializationError(
                f"SimpleStringSchema takes str, got {value!r} of type {type(value).__name__}; "
                "map the stream to str first."
            )
        return value.encode(self._charset, "replace")

    def deserialize(self, message: bytes) -> str:
        return message.decode(self._charset, "replace")

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()

    def __repr__(self) -> str:
        return f"SimpleStringSchema({self._charset!r})"


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def __init__(self) -> None:
        super().__init__()

    def serialize(self, value: bytes) -> bytes:
        if not isinstance(value, (bytes, bytearray)):
            raise SerializationError(
                f"ByteArraySchema takes bytes, got {value!r} of type {type(value).__name__}; "
                "map the stream to bytes first."
            )
        return bytes(value)

    def deserialize(self, message: bytes) -> bytes:
        return message

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    def __repr__(self) -> str:
        return "ByteArraySchema()"


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which must hold bytes; None gives no bytes. Made for keys and values of Kafka records."""

    def __init__(self, field_index: int) -> None:
        super().__init__()
        if field_index < 0:
            raise ValueError(f"The index of the field can't be negative, got {field_index}.")
        self._field_index = field_index

    def serialize(self, value: Row | None) -> bytes:
        if value is None:
            return b""
        if self._field_index >= len(value):
            raise SerializationError(f"There is no field {self._field_index} in {value!r}, it has {len(value)} fields.")
        field = value[self._field_index]
        if field is None:
            return b""
        if not isinstance(field, (bytes, bytearray)):
            raise SerializationError(
                f"Field {self._field_index} of {value!r} must be bytes, it is {type(field).__name__}; encode it first."
            )
        return bytes(field)

    def __repr__(self) -> str:
        return f"RowFieldExtractorSchema({self._field_index})"


class Encoder(WithoutJava):
    """Writes a record into a file of a file sink."""

    def __init__(self, encode: Callable[[Any], bytes]) -> None:
        self._encode = encode

    def encode(self, value: Any) -> bytes:
        """What is added to the file for one record."""
        return self._encode(value)

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """The text of the record and a newline."""
        return Encoder(_LineEncoder(_codec(charset_name)))


class SimpleStringEncoder(Encoder):
    """PyFlink 1.x's spelling of ``Encoder.simple_string_encoder()``."""

    def __init__(self, charset_name: str = "UTF-8") -> None:
        super().__init__(_LineEncoder(_codec(charset_name)))


class _LineEncoder:
    """A class, not a closure, so that it travels in a small pickle."""

    def __init__(self, charset: str) -> None:
        self._charset = charset

    def __call__(self, value: Any) -> bytes:
        return f"{value}\n".encode(self._charset, "replace")


class BulkWriterFactory(JavaObjectWrapper):
    """How a bulk file sink writes its files. Get one from a format: ``ParquetBulkWriters.for_row_type(…)``,
    ``AvroBulkWriters``, ``AvroParquetWriters``, ``OrcBulkWriters``, ``CsvBulkWriters``."""

    _encoding: Any

    def __init__(self, j_bulk_writer_factory: Any) -> None:
        raise UnsupportedFeatureError(
            f"{type(self).__name__} wraps a Java writer, and Beadline runs without Java. Get one from a format, such "
            "as ParquetBulkWriters.for_row_type(…)."
        )

    @classmethod
    def _of(cls, encoding: Any) -> Self:
        """A factory around what turns records into files: a ``BulkEncoding`` of the connectors."""
        made = cls.__new__(cls)
        made._encoding = encoding
        return made


class RowDataBulkWriterFactory(BulkWriterFactory):
    """Writes rows of one type."""

    _row_type: Any

    def __init__(self, j_bulk_writer_factory: Any, row_type: Any) -> None:
        super().__init__(j_bulk_writer_factory)

    @classmethod
    def _of_rows(cls, encoding: Any, row_type: Any) -> Self:
        made = cls._of(encoding)
        made._row_type = row_type
        return made

    def get_row_type(self) -> Any:
        """The type of the rows, as ``DataTypes.ROW`` made it."""
        return self._row_type


def _codec(charset: str) -> str:
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise ConfigurationError(f"There is no character set {charset!r}; try 'UTF-8'.") from None


def __getattr__(name: str) -> Any:
    return find_row_format(__name__, name)
