"""CSV files: rows one after the other, and perhaps a header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beadline.common._formats.csv_dialect import CsvDialect
from beadline.common._formats.csv_records import CsvRecordWriter
from beadline.common.typeinfo import RowTypeInfo
from beadline.connectors.files.bulk import BulkEncoding, PieceWriter
from beadline.errors import TypeMismatchError


class CsvEncoding(BulkEncoding):
    """CSV files in UTF-8.

    :param decimals: precision and scale of columns of decimal numbers, by their index
    """

    def __init__(
        self,
        dialect: CsvDialect,
        row_type: RowTypeInfo,
        elements: Sequence[str],
        header: bool,
        decimals: Mapping[int, tuple[int, int]],
    ) -> None:
        self._dialect = dialect
        self._row_type = row_type
        self._elements = elements
        self._header = header
        self._decimals = decimals
        self.piece()  # a type that CSV can't hold is refused here, not in the workers

    def piece(self) -> PieceWriter:
        writer = CsvRecordWriter(self._dialect, self._row_type, self._elements, self._decimals)
        return _CsvPiece(writer, self._dialect.line_end)

    def assemble(self, staged: Iterator[bytes]) -> Iterator[bytes]:
        if self._header:
            names: list[str | None] = list(self._row_type.get_field_names())
            yield (self._dialect.line(names, [False] * len(names)) + self._dialect.line_end).encode()
        yield from staged


class _CsvPiece(PieceWriter):
    def __init__(self, writer: CsvRecordWriter, line_end: str) -> None:
        self._writer = writer
        self._line_end = line_end
        self._staged: list[bytes] = []

    def write(self, records: list[Any]) -> None:
        end, line = self._line_end, self._writer.line
        try:
            self._staged.append("".join([line(record) + end for record in records]).encode())
        except (ValueError, TypeError) as error:
            if len(records) == 1:
                raise TypeMismatchError(f"{records[0]!r} can't be written as CSV: {error}") from error
            raise

    def finish(self) -> list[bytes]:
        return self._staged
