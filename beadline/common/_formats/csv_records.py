"""Rows of CSV text: many at once, for files, and one at a time, for messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beadline.common._formats.csv_dialect import CsvDialect
from beadline.common._formats.csv_fields import (
    FieldReader,
    FieldWriter,
    field_reader,
    field_writer,
    is_raw,
    is_text,
    quick_column,
)
from beadline.common._types.base import Converter
from beadline.common.decimals import scaled
from beadline.common.typeinfo import RowTypeInfo, TypeInformation
from beadline.common.types import Row, new_row

_SHOWN = 500


class CsvRecordReader:
    """Reads rows of one type.

    :param elements: for each column, what separates the elements of an array in it
    :param decimals: precision and scale of columns of decimal numbers, by their index; others are taken as they are
    :param lenient: what does not fit is None, and so is a field that is missing
    """

    def __init__(
        self,
        dialect: CsvDialect,
        row_type: RowTypeInfo,
        elements: Sequence[str],
        decimals: Mapping[int, tuple[int, int]] | None = None,
        lenient: bool = False,
    ) -> None:
        self._dialect = dialect
        self._names = row_type.get_field_names()
        self._lenient = lenient
        types = zip(row_type.get_field_types(), elements, strict=True)
        self._quick = [quick_column(field) for field in row_type.get_field_types()]
        self._readers = [
            self._nullable(field, separator, (decimals or {}).get(index))
            for index, (field, separator) in enumerate(types)
        ]

    def _nullable(self, field: TypeInformation, separator: str, decimal: tuple[int, int] | None) -> FieldReader | None:
        """None for a column of texts that are taken as they are."""
        read, null, text = field_reader(field, separator), self._dialect.null, is_text(field)
        if decimal is not None:
            read = _scaled_reader(read, *decimal)
        if text and null is None:
            return None
        lenient = self._lenient

        def read_field(given: str) -> Any:
            if given == null or (not given and not text):
                return None
            try:
                return read(given)
            except (ValueError, ArithmeticError):
                if lenient:
                    return None
                raise

        return read_field

    def records(self, text: str) -> list[Row]:
        """The rows of a text, a column at a time. Empty lines are left out. It raises ValueError for what does not
        fit."""
        rows, width = self._dialect.rows(text), len(self._names)
        if [] in rows:
            rows = [row for row in rows if row] if width > 1 else [row or [""] for row in rows]
        if not rows:
            return []
        columns: list[Any] = list(zip(*self._of_right_width(rows, width), strict=True))
        for index, read in enumerate(self._readers):
            if read is not None:
                quick = self._quick[index]
                found = None if quick is None or self._dialect.null in columns[index] else quick(columns[index])
                columns[index] = self._column(read, columns[index], index) if found is None else found
        names = self._names
        return [new_row(list(values), names) for values in zip(*columns, strict=True)]

    def record(self, text: str) -> Row | None:
        """The only row of a text; None if it has none. It raises ValueError for what does not fit."""
        dialect = self._dialect
        line = text.rstrip("\r\n")
        special = (dialect.quote, dialect.escape, "\n", "\r", "#" if dialect.comments else None)
        if not line or any(character is not None and character in line for character in special):
            rows = self.records(text)
            if len(rows) > 1:
                raise ValueError(f"it has {len(rows)} lines")
            return rows[0] if rows else None
        (fields,) = self._of_right_width([line.split(dialect.separator)], len(self._names))
        values: list[Any] = list(fields)
        for index, read in enumerate(self._readers):
            if read is not None:
                values[index] = self._column(read, (fields[index],), index)[0]
        return new_row(values, self._names)

    def _column(self, read: FieldReader, column: Sequence[str], index: int) -> list[Any]:
        try:
            return list(map(read, column))
        except (ValueError, ArithmeticError) as error:
            raise ValueError(f"field '{self._names[index]}': {error}") from None

    def _of_right_width(self, rows: list[list[str]], width: int) -> list[list[str]]:
        for row in rows:
            if len(row) != width:
                if not self._lenient:
                    raise ValueError(f"{width} fields are needed, and there are {len(row)}")
                return [(row + [""] * width)[:width] for row in rows]
        return rows


class CsvRecordWriter:
    """Writes rows of one type. The parameters are those of :class:`CsvRecordReader`."""

    def __init__(
        self,
        dialect: CsvDialect,
        row_type: RowTypeInfo,
        elements: Sequence[str],
        decimals: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        self._dialect = dialect
        self._convert: Converter = row_type.converter()
        types = zip(row_type.get_field_types(), elements, strict=True)
        self._raw = [is_raw(field) for field in row_type.get_field_types()]
        self._writers: list[FieldWriter] = [field_writer(field, separator) for field, separator in types]
        for index, decimal in (decimals or {}).items():
            self._writers[index] = _scaled_writer(self._writers[index], *decimal)

    def line(self, record: Any) -> str:
        """One row, without the end of its line. It raises ValueError or TypeError for what does not fit."""
        row = self._convert(record)
        fields = [None if v is None else write(v) for write, v in zip(self._writers, row, strict=True)]
        return self._dialect.line(fields, self._raw)


def _scaled_reader(read: FieldReader, precision: int, scale: int) -> FieldReader:
    return lambda text: scaled(read(text), precision, scale)


def _scaled_writer(write: FieldWriter, precision: int, scale: int) -> FieldWriter:
    return lambda value: write(scaled(value, precision, scale))


def shown(message: bytes) -> str:
    """A message, cut to a length that fits an error."""
    text = bytes(message[: _SHOWN + 1]).decode("utf-8", "replace")
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"
