"""Parquet, where PyFlink has it: files of rows, and of records of Avro."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from beadline.common import Configuration, Row
from beadline.common._formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo
from beadline.common.serialization import BulkWriterFactory, RowDataBulkWriterFactory
from beadline.common.types import new_row
from beadline.connectors.arrow_columns import fields_of
from beadline.connectors.avro_columns import arrow_schema_of
from beadline.connectors.file_source.parquet import ParquetFileSource, ParquetLayout, machine_is_in_utc
from beadline.connectors.file_source.source import FilesSource
from beadline.connectors.files.encodings.columns import ParquetEncoding
from beadline.datastream.connectors.file_formats import BulkFormat, StreamFormat
from beadline.datastream.formats.avro import checked_avro
from beadline.errors import ConfigurationError, UnsupportedFeatureError
from beadline.table.arrow import arrow_schema
from beadline.table.types import RowType, checked_row_type

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]

_COMPRESSION = {"uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "lz4": "lz4_raw"}
_WRITER_KEYS = ("parquet.compression", "parquet.enable.dictionary", "parquet.page.size")


class ParquetColumnarRowInputFormat(BulkFormat):
    """Parquet files as rows: ``FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(row_type), path)``.

    Columns are found by their names, and those that a file lacks are None. Unlike PyFlink's it also reads columns of
    arrays, maps and rows.

    :param hadoop_config: must be empty: no Hadoop is involved
    :param batch_size: how many rows travel together
    :param is_utc_timestamp: a TIMESTAMP column that is stored as a point in time is shown in UTC; else in the zone of
        the machine
    :param is_case_sensitive: whether the case of the columns' names counts
    """

    def __init__(
        self,
        row_type: RowType,
        hadoop_config: Configuration | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        checked_row_type(row_type, "ParquetColumnarRowInputFormat")
        _no_settings("ParquetColumnarRowInputFormat", hadoop_config, ())
        if batch_size <= 0:
            raise ConfigurationError(f"batch_size must be positive, got {batch_size}")
        self._layout = ParquetLayout(arrow_schema(row_type), False, is_case_sensitive, is_utc_timestamp, batch_size)
        self._produced_type = row_type.type_info()

    def _files(self, paths: list[str], monitor_seconds: float | None, may_split: bool) -> FilesSource:
        return ParquetFileSource(paths, self._layout, monitor_seconds, may_split)


class AvroParquetReaders:
    """Parquet files as records of Avro."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Records as dicts. It goes into ``FileSource.for_record_stream_format``."""
        return _AvroParquetFormat(checked_avro(schema))


class _AvroParquetFormat(StreamFormat):
    def __init__(self, schema: AvroSchema) -> None:
        super().__init__("UTF-8")
        self._layout = ParquetLayout(arrow_schema_of(schema), generic=True)
        self._produced_type = GenericRecordAvroTypeInfo(schema)

    def _files(self, paths: list[str], monitor_seconds: float | None, may_split: bool) -> FilesSource:
        return ParquetFileSource(paths, self._layout, monitor_seconds, may_split)


class AvroParquetWriters:
    """Records of Avro as Parquet files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Dicts, or rows with the same fields."""
        return BulkWriterFactory._of(ParquetEncoding(arrow_schema_of(checked_avro(schema)), {"compression": "snappy"}))


class ParquetBulkWriters:
    """Rows as Parquet files."""

    @staticmethod
    def for_row_type(
        row_type: RowType, hadoop_config: Configuration | None = None, utc_timestamp: bool = False
    ) -> BulkWriterFactory:
        """``FileSink.for_bulk_format(path, ParquetBulkWriters.for_row_type(row_type))``

        :param hadoop_config: may have ``parquet.compression`` (by default SNAPPY), ``parquet.enable.dictionary`` and
            ``parquet.page.size``
        :param utc_timestamp: a TIMESTAMP is stored as the point in time that it is in UTC; else in the zone of the
            machine
        """
        checked_row_type(row_type, "ParquetBulkWriters.for_row_type")
        schema, times = _stored(arrow_schema(row_type))
        prepare = None if utc_timestamp or not times else _FromLocalTime(schema.names, times)
        encoding = ParquetEncoding(schema, _writer_options(hadoop_config), prepare)
        return RowDataBulkWriterFactory._of_rows(encoding, row_type)


def _stored(schema: pa.Schema) -> tuple[pa.Schema, list[int]]:
    """The schema with times of day stored as points in time, as Flink does; and which columns they are."""
    times = [index for index, field in enumerate(schema) if pa.types.is_timestamp(field.type) and field.type.tz is None]
    for index in times:
        field = schema.field(index)
        schema = schema.set(index, field.with_type(pa.timestamp(field.type.unit, "UTC")))
    return schema, times


class _FromLocalTime:
    """Times of day of this machine's zone, as points in time."""

    def __init__(self, names: list[str], columns: list[int]) -> None:
        self._names = names
        self._columns = columns

    def __call__(self, records: list[Any]) -> list[Any]:
        return records if machine_is_in_utc() else [self._converted(record) for record in records]

    def _converted(self, record: Any) -> Row:
        values = list(fields_of(record, self._names))
        for index in self._columns:
            value = values[index]
            if isinstance(value, dt.datetime) and value.tzinfo is None:
                values[index] = value.astimezone(dt.timezone.utc)
        return new_row(values, self._names)


def _writer_options(config: Configuration | None) -> dict[str, Any]:
    given = _no_settings("ParquetBulkWriters", config, _WRITER_KEYS)
    name = given.get("parquet.compression", "SNAPPY").lower()
    if name not in _COMPRESSION:
        raise ConfigurationError(f"parquet.compression: {name!r} is not one of {sorted(_COMPRESSION)}")
    options: dict[str, Any] = {"compression": _COMPRESSION[name]}
    if "parquet.enable.dictionary" in given:
        options["use_dictionary"] = given["parquet.enable.dictionary"].lower() == "true"
    if "parquet.page.size" in given:
        options["data_page_size"] = int(given["parquet.page.size"])
    return options


def _no_settings(owner: str, config: Configuration | None, known: tuple[str, ...]) -> dict[str, str]:
    """The settings, if all of them are known ones."""
    given = {} if config is None else config.to_dict()
    unknown = sorted(set(given) - set(known))
    if unknown:
        takes = f"it knows {list(known)}" if known else "it takes none"
        raise UnsupportedFeatureError(f"{owner}: the Hadoop settings {unknown} are not supported; {takes}")
    return given
