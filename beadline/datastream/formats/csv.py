"""CSV, where PyFlink has it: files of rows, and messages that are one row each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from beadline.common._formats.csv_dialect import CsvDialect
from beadline.common._formats.csv_rows import CsvRowDeserializationSchema, CsvRowSerializationSchema
from beadline.common.serialization import BulkWriterFactory as BulkWriterFactory
from beadline.common.serialization import DeserializationSchema as DeserializationSchema
from beadline.common.serialization import RowDataBulkWriterFactory
from beadline.common.serialization import SerializationSchema as SerializationSchema
from beadline.common.typeinfo import TypeInformation
from beadline.connectors.file_source.csv import CsvFileSource, CsvLayout
from beadline.connectors.file_source.source import FilesSource
from beadline.connectors.files.encodings.csv import CsvEncoding
from beadline.datastream.connectors.file_formats import StreamFormat
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError
from beadline.table.types import (
    ArrayType,
    DataType,
    DataTypes,
    DecimalType,
    NumericType,
    RowField,
    RowType,
    checked_row_type,
)

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]

_ELEMENTS = ";"


class CsvSchema:
    """The columns of a CSV file, and how it is written. Make one with :meth:`builder`."""

    def __init__(self, row_type: RowType, layout: CsvLayout) -> None:
        self._row_type = row_type
        self._layout = layout

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        return CsvSchemaBuilder()

    def get_type_info(self) -> TypeInformation:
        """The type of the rows."""
        return self._layout.row_type

    def size(self) -> int:
        """How many columns there are."""
        return len(self._row_type)

    def __len__(self) -> int:
        return self.size()

    def __str__(self) -> str:
        dialect = self._layout.dialect
        return f"[CsvSchema: columns={self._row_type.names}, header? {self._layout.header}, {dialect}]"

    __repr__ = __str__


class CsvSchemaBuilder:
    """Sets up a :class:`CsvSchema`."""

    def __init__(self) -> None:
        self._fields: list[RowField] = []
        self._separators: list[str | None] = []
        self._all_separators = _ELEMENTS
        self._dialect = CsvDialect()
        self._header = False
        self._strict = False
        self._skip_first = False

    def build(self) -> CsvSchema:
        row_type = checked_row_type(DataTypes.ROW(self._fields), "CsvSchema")
        elements = [self._all_separators if own is None else own for own in self._separators]
        types: Any = row_type.type_info()
        decimals = {
            index: (kind.precision, kind.scale)
            for index, kind in enumerate(row_type.field_types())
            if isinstance(kind, DecimalType)
        }
        layout = CsvLayout(self._dialect, types, elements, self._header, self._strict, self._skip_first, decimals)
        _encoding(layout)  # refuses types that CSV can't hold
        return CsvSchema(row_type, layout)

    # -- columns

    def _add(self, name: str, data_type: DataType, separator: str | None = None) -> Self:
        self._fields.append(DataTypes.FIELD(name, data_type))
        self._separators.append(separator)
        return self

    def add_array_column(
        self, name: str, separator: str = ";", element_type: DataType | None = None
    ) -> CsvSchemaBuilder:
        """A column of arrays, by default of strings.

        :param separator: what is between their elements
        """
        inner = element_type if element_type is not None else DataTypes.STRING()
        if isinstance(inner, (ArrayType, RowType)):
            raise ConfigurationError(f"add_array_column({name!r}): elements can't have parts themselves, got {inner!r}")
        return self._add(name, DataTypes.ARRAY(inner), separator)

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, DataTypes.BOOLEAN())

    def add_number_column(self, name: str, number_type: NumericType | None = None) -> CsvSchemaBuilder:
        """A column of numbers, by default ``DataTypes.BIGINT()``. A ``DECIMAL`` is rounded to its scale."""
        if number_type is not None and not isinstance(number_type, NumericType):
            raise TypeMismatchError(f"add_number_column({name!r}) takes a type of numbers, got {number_type!r}")
        return self._add(name, number_type if number_type is not None else DataTypes.BIGINT())

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, DataTypes.STRING())

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """All columns of another schema."""
        for field, separator in zip(schema._row_type, schema._layout.elements, strict=True):
            self._add(field.name, field.data_type, separator)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        self._fields.clear()
        self._separators.clear()
        return self

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Arrays have one element, unless their column has a separator."""
        return self.set_array_element_separator("")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """The arrays of a column have one element."""
        self._separators[index] = ""
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """What is between the elements of arrays whose column does not say it."""
        self._all_separators = separator
        return self

    # -- characters with a meaning

    def _set(self, **characters: Any) -> CsvSchemaBuilder:
        self._dialect = replace(self._dialect, **characters)
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Whether lines that begin with ``#`` are left out."""
        return self._set(comments=allow)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        raise UnsupportedFeatureError(
            "set_any_property_name() gathers columns that have no name, and rows have no place for them. Name all "
            "columns"
        )

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """What is between columns, by default a comma."""
        return self._set(separator=char)

    def disable_escape_char(self) -> CsvSchemaBuilder:
        return self._set(escape=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """What takes the meaning from the next character; by default there is none."""
        return self._set(escape=char)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        r"""How written lines end, by default with ``\n``. Read lines may end with ``\n`` and ``\r\n``."""
        if separator not in ("\n", "\r\n"):
            raise ConfigurationError(f"set_line_separator() takes '\\n' or '\\r\\n', got {separator!r}")
        return self._set(line_end=separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """What stands for null. By default nothing is written for it, and an empty field is null in all columns but
        those of strings."""
        return self._set(null=null_value)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        return self._set(quote=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """What is around fields that need it, by default ``"``."""
        return self._set(quote=char)

    # -- the first rows

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Whether the first row, after a header if there is one, is left out."""
        self._skip_first = skip
        return self

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Whether the header must have the names of the columns in their order."""
        self._strict = strict
        return self

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Whether the first row has the names of the columns. It is left out, and written."""
        self._header = use
        return self

    def size(self) -> int:
        return len(self._fields)

    def __len__(self) -> int:
        return self.size()


class CsvReaderFormat(StreamFormat):
    """CSV files as rows: ``FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path)``."""

    def __init__(self, schema: CsvSchema) -> None:
        super().__init__("UTF-8")
        self._layout = schema._layout
        self._produced_type = schema.get_type_info()

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        return CsvReaderFormat(_checked(schema))

    def _files(self, paths: list[str], monitor_seconds: float | None, may_split: bool) -> FilesSource:
        return CsvFileSource(paths, self._layout, monitor_seconds, may_split)


class CsvBulkWriters:
    """Rows as CSV files: ``FileSink.for_bulk_format(path, CsvBulkWriters.for_schema(schema))``."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> RowDataBulkWriterFactory:
        return RowDataBulkWriterFactory._of_rows(_encoding(_checked(schema)._layout), schema._row_type)


def _encoding(layout: CsvLayout) -> CsvEncoding:
    return CsvEncoding(layout.dialect, layout.row_type, layout.elements, layout.header, layout.decimals)


def _checked(schema: object) -> CsvSchema:
    if not isinstance(schema, CsvSchema):
        raise TypeMismatchError(f"a CsvSchema is needed, got {schema!r}; make one with CsvSchema.builder()")
    return schema
