"""Avro, where PyFlink has it: container files, and messages that are one record each.

Beyond PyFlink: ``AvroReaderFormat`` reads container files with a ``FileSource``, and ``ConfluentRegistryAvro…Schema``
reads and writes messages whose schemas are in a registry, as Flink's Java API does.
"""

from __future__ import annotations

from beadline.common._formats.avro_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from beadline.common._formats.avro_rows import AvroRowDeserializationSchema, AvroRowSerializationSchema
from beadline.common._formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo
from beadline.common.io import InputFormat
from beadline.common.serialization import BulkWriterFactory
from beadline.common.serialization import DeserializationSchema as DeserializationSchema
from beadline.common.serialization import SerializationSchema as SerializationSchema
from beadline.common.typeinfo import TypeInformation as TypeInformation
from beadline.connectors.file_source.avro import AvroFileSource
from beadline.connectors.file_source.source import FilesSource
from beadline.connectors.files.encodings.avro import AvroEncoding
from beadline.datastream.connectors.file_formats import StreamFormat
from beadline.datastream.utils import ResultTypeQueryable
from beadline.errors import TypeMismatchError

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroReaderFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
    "GenericRecordAvroTypeInfo",
]


class AvroInputFormat(InputFormat, ResultTypeQueryable):
    """Avro files as dicts: ``env.create_input(AvroInputFormat(path, schema))``.

    :param path: a file or a folder
    :param schema: of the records that the program sees; the files may have been written with others
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self._path = path
        self._schema = checked_avro(schema)

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        return GenericRecordAvroTypeInfo(self._schema)

    def _make_source(self) -> FilesSource:
        return AvroFileSource([self._path], self._schema)


class AvroReaderFormat(StreamFormat):
    """Avro files as dicts: ``FileSource.for_record_stream_format(AvroReaderFormat.for_generic_record(schema), path)``.
    PyFlink does not have it."""

    def __init__(self, schema: AvroSchema) -> None:
        super().__init__("UTF-8")
        self._schema = checked_avro(schema)
        self._produced_type = GenericRecordAvroTypeInfo(schema)

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroReaderFormat:
        return AvroReaderFormat(schema)

    def _files(self, paths: list[str], monitor_seconds: float | None, may_split: bool) -> FilesSource:
        return AvroFileSource(paths, self._schema, None, monitor_seconds, may_split)


class AvroBulkWriters:
    """Dicts or rows as Avro files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """``FileSink.for_bulk_format(path, AvroBulkWriters.for_generic_record(schema))``"""
        return BulkWriterFactory._of(AvroEncoding(checked_avro(schema), "null"))


def checked_avro(schema: object) -> AvroSchema:
    if not isinstance(schema, AvroSchema):
        raise TypeMismatchError(f"an AvroSchema is needed, got {schema!r}; use AvroSchema.parse_string(…)")
    return schema
