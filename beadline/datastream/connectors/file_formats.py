"""How files are read."""

from __future__ import annotations

import codecs
from typing import Any

from beadline.common.serialization import DeserializationSchema
from beadline.common.typeinfo import TypeInformation, Types
from beadline.connectors.file_source.source import FilesSource
from beadline.connectors.file_source.text import DecodedLinesSource, TextFileSource
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError


class StreamFormat:
    """A format that is read record by record: lines of text here, others in ``beadline.datastream.formats``."""

    _produced_type: TypeInformation = Types.STRING()

    def __init__(self, charset: str) -> None:
        try:
            codecs.lookup(charset)
        except LookupError:
            raise ConfigurationError(f"unknown charset: {charset!r}") from None
        self.charset = charset

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """One record per line."""
        return StreamFormat(charset_name)

    @staticmethod
    def decoded_line_format(schema: DeserializationSchema) -> StreamFormat:
        """One record per line, which a schema reads: JSON lines with a ``JsonRowDeserializationSchema``.

        PyFlink does not have this; there, read text and map it.
        """
        if not isinstance(schema, DeserializationSchema):
            raise TypeMismatchError(f"decoded_line_format() takes a DeserializationSchema, got {schema!r}")
        return _DecodedLines(schema)

    def _files(self, paths: list[str], monitor_seconds: float | None, may_split: bool) -> FilesSource:
        """The source of these files."""
        return TextFileSource(paths, self.charset, monitor_seconds, may_split)


class _DecodedLines(StreamFormat):
    def __init__(self, schema: DeserializationSchema) -> None:
        super().__init__("UTF-8")
        self._schema = schema
        self._produced_type = schema.get_produced_type()

    def _files(self, paths: list[str], monitor_seconds: float | None, may_split: bool) -> FilesSource:
        return DecodedLinesSource(paths, self._schema.deserializer, monitor_seconds, may_split)


class BulkFormat:
    """A format that is read many records at a time, such as ``ParquetColumnarRowInputFormat``."""

    _produced_type: TypeInformation

    def __init__(self, j_bulk_format: Any) -> None:
        raise UnsupportedFeatureError(
            f"{type(self).__name__} wraps a Java format, and Beadline runs without Java. Use "
            "ParquetColumnarRowInputFormat."
        )

    def _files(self, paths: list[str], monitor_seconds: float | None, may_split: bool) -> FilesSource:
        raise NotImplementedError
