"""Rows as lines of CSV: the schemas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from beadline.common._formats.csv_dialect import CsvDialect
from beadline.common._formats.csv_records import CsvRecordReader, CsvRecordWriter, shown
from beadline.common.serialization import DeserializationSchema, SerializationSchema
from beadline.common.typeinfo import RowTypeInfo, TypeInformation
from beadline.common.types import Row
from beadline.errors import ConfigurationError, SerializationError, TypeMismatchError

__all__ = ["CsvRowDeserializationSchema", "CsvRowSerializationSchema"]


class _Builder:
    """What both builders set."""

    def __init__(self, type_info: TypeInformation) -> None:
        if type_info is None:
            owner = type(self).__qualname__.partition(".")[0]
            raise TypeMismatchError(f"{owner} needs the type of a row, got None")
        self._type_info = type_info
        self._dialect = CsvDialect()
        self._elements = ";"

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """What separates the elements of an array, by default a semicolon."""
        self._elements = delimiter
        return self

    def set_quote_character(self, c: str) -> Self:
        self._dialect = replace(self._dialect, quote=c)
        return self

    def set_escape_character(self, c: str) -> Self:
        self._dialect = replace(self._dialect, escape=c)
        return self


class CsvRowDeserializationSchema(DeserializationSchema):
    """Reads a line of CSV as a row: its fields in their order. Make one with :class:`Builder`.

    An empty field is null, unless it is declared as STRING. ``set_null_literal`` names something else, for all types.
    """

    def __init__(
        self, type_info: TypeInformation, dialect: CsvDialect, elements: str, ignore_parse_errors: bool
    ) -> None:
        self._type = _row_type(type_info, "CsvRowDeserializationSchema")
        self._dialect = dialect
        self._elements = elements
        self._ignore_parse_errors = ignore_parse_errors
        self._reader: CsvRecordReader | None = None
        self._make_reader()  # a type that CSV can't hold is refused here, not in the workers

    def _make_reader(self) -> CsvRecordReader:
        elements = [self._elements] * len(self._type.get_field_types())
        self._reader = CsvRecordReader(self._dialect, self._type, elements, None, self._ignore_parse_errors)
        return self._reader

    def deserialize(self, message: bytes | None) -> Row | None:
        """The row; None for no message, for an empty line or a comment, and for what can't be read if such errors are
        ignored."""
        if message is None:
            return None
        reader = self._reader or self._make_reader()
        try:
            return reader.record(message.decode())
        except (ValueError, ArithmeticError) as error:
            if self._ignore_parse_errors:
                return None
            raise SerializationError(
                f"Can't read {shown(message)} as CSV of {self._type}: {error}. Correct the data, or skip such messages "
                "with set_ignore_parse_errors(True)."
            ) from error

    def get_produced_type(self) -> TypeInformation:
        return self._type

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}

    def __repr__(self) -> str:
        return f"CsvRowDeserializationSchema({self._type})"

    class Builder(_Builder):
        """Sets up a :class:`CsvRowDeserializationSchema`: ``Builder(Types.ROW([…])).build()``."""

        def __init__(self, type_info: TypeInformation) -> None:
            super().__init__(type_info)
            self._ignore = False

        def set_field_delimiter(self, delimiter: str) -> Self:
            """What separates fields, by default a comma."""
            self._dialect = replace(self._dialect, separator=delimiter)
            return self

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Whether lines that begin with ``#`` are left out."""
            self._dialect = replace(self._dialect, comments=allow_comments)
            return self

        def set_null_literal(self, null_literal: str) -> Self:
            """What stands for null."""
            self._dialect = replace(self._dialect, null=null_literal)
            return self

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Whether a field that can't be read is None, and a message that can't be read is skipped."""
            self._ignore = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            return CsvRowDeserializationSchema(self._type_info, self._dialect, self._elements, self._ignore)


class CsvRowSerializationSchema(SerializationSchema):
    """Writes a row as a line of CSV in UTF-8, its fields in the order of the type. Make one with :class:`Builder`."""

    def __init__(self, type_info: TypeInformation, dialect: CsvDialect, elements: str) -> None:
        self._type = _row_type(type_info, "CsvRowSerializationSchema")
        self._dialect = dialect
        self._elements = elements
        self._writer: CsvRecordWriter | None = None
        self._make_writer()

    def _make_writer(self) -> CsvRecordWriter:
        self._writer = CsvRecordWriter(self._dialect, self._type, [self._elements] * len(self._type.get_field_types()))
        return self._writer

    def serialize(self, value: Any) -> bytes:
        writer = self._writer or self._make_writer()
        try:
            return (writer.line(value) + self._dialect.line_end).encode()
        except (TypeError, ValueError) as error:
            raise SerializationError(f"Can't write {value!r} as CSV of {self._type}: {error}") from error

    def serializer(self) -> Callable[[Any], bytes]:
        self._make_writer()
        return self.serialize

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writer": None}

    def __repr__(self) -> str:
        return f"CsvRowSerializationSchema({self._type})"

    class Builder(_Builder):
        """Sets up a :class:`CsvRowSerializationSchema`: ``Builder(Types.ROW([…])).build()``."""

        def set_field_delimiter(self, c: str) -> Self:
            """What separates fields, by default a comma."""
            self._dialect = replace(self._dialect, separator=c)
            return self

        def set_line_delimiter(self, delimiter: str) -> Self:
            r"""What ends a line: ``\n`` by default, ``\r``, ``\r\n`` or nothing."""
            if delimiter not in ("\n", "\r", "\r\n", ""):
                raise ConfigurationError(f"set_line_delimiter() takes '\\n', '\\r', '\\r\\n' or '', got {delimiter!r}")
            self._dialect = replace(self._dialect, line_end=delimiter)
            return self

        def disable_quote_character(self) -> Self:
            self._dialect = replace(self._dialect, quote=None)
            return self

        def set_null_literal(self, s: str) -> Self:
            """What is written for null, by default nothing."""
            self._dialect = replace(self._dialect, null=s)
            return self

        def build(self) -> CsvRowSerializationSchema:
            return CsvRowSerializationSchema(self._type_info, self._dialect, self._elements)


def _row_type(type_info: object, owner: str) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise TypeMismatchError(f"{owner} needs the type of a row, got {type_info!r}; use Types.ROW_NAMED([…], […]).")
    return type_info
