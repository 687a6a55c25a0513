"""Rows of CSV files.

A quoted field may have line feeds in it, so a row can't be found from anywhere in the file. The driver looks for the
places where ranges can end: it counts quotes, which is quick. Files that may have comments are read whole, since
quotes in comments don't count.

A quote inside an unquoted field has no meaning, but is counted. Ranges then become longer than they should be; they
would be cut wrongly only in a file that has both such quotes and line feeds in quoted fields. For such a file there is
``FileEnumeratorProvider.default_non_splittable_file_enumerator()``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from beadline.common._formats.csv_dialect import CsvDialect
from beadline.common._formats.csv_records import CsvRecordReader, shown
from beadline.common.typeinfo import RowTypeInfo
from beadline.connectors.file_source.listing import FileRange
from beadline.connectors.file_source.opening import BLOCK, opened
from beadline.connectors.file_source.source import FilesSource, no_collection
from beadline.connectors.file_source.text import is_compressed, unpacked
from beadline.connectors.source import BATCH, Unreadable
from beadline.errors import InputError, SerializationError

_HEAD = 1 << 16
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class CsvLayout:
    """What a CSV file looks like.

    :ivar elements: for each column, what separates the elements of an array in it
    :ivar header: whether the first row has the names of the columns. As in Flink, it is left out: columns have the
        order of the type
    :ivar strict: whether the header must have the names of the type, in its order
    :ivar skip_first: whether the first row after the header is left out
    :ivar decimals: precision and scale of columns of decimal numbers, by their index
    """

    dialect: CsvDialect
    row_type: RowTypeInfo
    elements: Sequence[str]
    header: bool = False
    strict: bool = False
    skip_first: bool = False
    decimals: Mapping[int, tuple[int, int]] = field(default_factory=dict)


class CsvFileSource(FilesSource):
    """Reads CSV files and folders of them, in UTF-8."""

    def __init__(
        self, paths: list[str], layout: CsvLayout, monitor_seconds: float | None = None, may_split: bool = True
    ) -> None:
        super().__init__(paths, monitor_seconds, may_split)
        self._layout = layout

    def _splittable(self, path: str) -> bool:
        return self._may_split and not is_compressed(path) and not self._layout.dialect.comments

    def _measure(self, path: str, size: int) -> float | None:
        with opened(path) as stream:
            head = stream.read(_HEAD)
        return max(1.0, len(head) / max(1, head.count(b"\n")))

    def _cut(self, path: str, start: int, end: int, length: int) -> int:
        """The first end of a row at or after ``end``, given that a row begins at ``start``."""
        dialect = self._layout.dialect
        with opened(path) as stream:
            position, open_quote = start, False
            if dialect.quote is None:
                position = end - 1
            stream.seek(position)
            while position < end - 1:
                block = self._block(stream, min(BLOCK, end - 1 - position))
                if not block:
                    return length
                open_quote ^= dialect.odd_quotes(block)
                position += len(block)
            while block := self._block(stream, _HEAD):
                row_end, open_quote = dialect.first_row_end(block, open_quote)
                if row_end is not None:
                    return min(length, position + row_end)
                position += len(block)
        return length

    def _block(self, stream: Any, size: int) -> bytes:
        """Some bytes; not only the first half of an escaped character."""
        block: bytes = stream.read(size)
        escape = self._layout.dialect.escape
        while escape is not None and block.endswith(escape.encode()) and (more := stream.read(1)):
            block += more
        return block

    # -- in tasks

    def _read(self, stream: BinaryIO, given: FileRange) -> Iterator[list[Any] | Unreadable]:
        reader = _Reader(self._layout, given.path)
        if is_compressed(given.path):
            with unpacked(stream, given.path) as content:
                yield from self._rows(content, reader, 0, None)
            return
        stream.seek(given.start)
        yield from self._rows(stream, reader, given.start, given.end)

    def _rows(self, content: Any, reader: _Reader, start: int, end: int | None) -> Iterator[list[Any] | Unreadable]:
        dialect = self._layout.dialect
        rest, position, read = b"", start, start
        while True:
            block = self._block(content, BLOCK if end is None else min(BLOCK, end - read))
            read += len(block)
            data = rest + block
            whole = len(data) if not block else dialect.last_row_end(data)
            rows, rest = data[:whole], data[whole:]
            if rows and position == 0:
                skipped = reader.begin(rows)
                position, rows = skipped, rows[skipped:]
            if rows:
                yield from reader.read(rows, position)
            position += len(rows)
            if not block:
                return


class _Reader:
    """Reads blocks of whole rows of one file."""

    def __init__(self, layout: CsvLayout, path: str) -> None:
        self._layout = layout
        self._path = path
        self._records = CsvRecordReader(layout.dialect, layout.row_type, layout.elements, layout.decimals)

    def begin(self, head: bytes) -> int:
        """Take in what the first rows say. Gives where the data begin."""
        dialect, at = self._layout.dialect, len(_BOM) if head.startswith(_BOM) else 0
        for wanted, is_header in ((self._layout.header, True), (self._layout.skip_first, False)):
            if not wanted:
                continue
            end, _ = dialect.first_row_end(head, False, at)
            row, at = head[at : end or len(head)], end or len(head)
            if is_header and self._layout.strict:
                self._check_header(row)
        return at

    def _check_header(self, header: bytes) -> None:
        names = [name.strip() for name in self._layout.dialect.rows(header.decode())[0]]
        wanted = self._layout.row_type.get_field_names()
        if names != wanted:
            raise InputError(
                f"{self._path} has the header {names}, and the schema has the columns {wanted}. Correct the file or "
                "the schema, or leave set_strict_headers() out"
            )

    def read(self, block: bytes, offset: int) -> Iterator[list[Any] | Unreadable]:
        try:
            with no_collection():
                rows = self._rows(block)
        except (ValueError, ArithmeticError):
            yield from self._one_by_one(block, offset)
            return
        for start in range(0, len(rows), BATCH):
            yield rows[start : start + BATCH]

    def _rows(self, block: bytes) -> list[Any]:
        return self._records.records(block.decode())

    def _one_by_one(self, block: bytes, offset: int) -> Iterator[list[Any] | Unreadable]:
        good: list[Any] = []
        for row in self._layout.dialect.split(block):
            try:
                good += self._rows(row)
            except (ValueError, ArithmeticError) as error:
                if good:
                    yield good
                    good = []
                yield self._unreadable(row.rstrip(b"\r\n"), offset, error)
            offset += len(row)
        if good:
            yield good

    def _unreadable(self, row: bytes, offset: int, error: Exception) -> Unreadable:
        packed = ", unpacked" if is_compressed(self._path) else ""
        return Unreadable(
            f"the row at byte {offset} of {self._path}{packed}",
            row,
            SerializationError(
                f"can't read {shown(row)} as CSV of {self._layout.row_type}: {error}. Correct the file or the schema. "
                "If only some rows are bad, beadline.poison.action=skip leaves them out, and side-output sends their "
                "bytes to the side output 'beadline-poison'"
            ),
        )
