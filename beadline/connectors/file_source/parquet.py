"""Records of Parquet files.

Ranges count rows: the end of a file says how many there are. A step or task that begins inside a row group has to
decode the group from its start, so small groups are kept decoded for the next one.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from beadline.common.types import new_row
from beadline.connectors.arrow_columns import Convert, from_arrow, values_of
from beadline.connectors.file_source.listing import FileRange
from beadline.connectors.file_source.source import FilesSource, no_collection
from beadline.connectors.source import Unreadable
from beadline.errors import InputError
from beadline.state.segments.files import local_path, open_remote

_KEPT_BYTES = 64 << 20
_KEPT_GROUPS = 2


@dataclass(frozen=True)
class ParquetLayout:
    """What to read of a file.

    :ivar schema: the columns, and their types in the records; a file may have more of them, and those that it lacks are
        null
    :ivar generic: whether records are dicts, as for Avro, and not rows
    :ivar in_utc: whether a point in time is shown as the time of day in UTC, where a time without zone is asked for;
        else in the zone of the machine
    """

    schema: pa.Schema
    generic: bool = False
    case_sensitive: bool = True
    in_utc: bool = True
    batch_size: int = 2048


class ParquetFileSource(FilesSource):
    """Reads Parquet files and folders of them."""

    unit = "row"

    def __init__(
        self, paths: list[str], layout: ParquetLayout, monitor_seconds: float | None = None, may_split: bool = True
    ) -> None:
        super().__init__(paths, monitor_seconds, may_split)
        self._layout = layout
        self._units_per_row = 1.0
        self._lengths: dict[str, int] = {}

    def _length(self, path: str, size: int) -> int:
        if path not in self._lengths:
            self._lengths[path] = _opened(path).metadata.num_rows
        return self._lengths[path]

    def _read(self, stream: BinaryIO, given: FileRange) -> Iterator[list[Any] | Unreadable]:
        file = _opened(given.path)
        columns = _Columns(self._layout, file)
        try:
            for table in _tables(file, given, columns.names):
                yield from columns.records(table)
        except (pa.ArrowException, pa.ArrowInvalid) as error:
            raise InputError(
                f"can't read rows {given.start} to {given.end} of {given.path} as {self._layout.schema}: {error}. "
                "Repair the file, or correct the schema"
            ) from error


def _opened(path: str) -> Any:
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path if local_path(path) is not None else open_remote(path))
    except pa.ArrowException as error:
        raise InputError(f"{path} is no Parquet file: {error}. Repair or remove the file") from error


# -- rows of row groups

_kept: dict[tuple[Any, ...], pa.Table] = {}


def _tables(file: Any, given: FileRange, names: list[str]) -> Iterator[pa.Table]:
    """The rows of a range, from one row group at a time."""
    begins = 0
    for group in range(file.metadata.num_row_groups):
        described = file.metadata.row_group(group)
        start, stop = max(0, given.start - begins), min(described.num_rows, given.end - begins)
        begins += described.num_rows
        if start >= stop:
            continue
        if described.total_byte_size <= _KEPT_BYTES:
            yield _kept_table(file, given, group, names).slice(start, stop - start)
        else:
            yield from _skipping(file.iter_batches(row_groups=[group], columns=names), start, stop)


def _kept_table(file: Any, given: FileRange, group: int, names: list[str]) -> pa.Table:
    key = (given.path, given.size, given.mark, group, *names)
    table = _kept.pop(key, None)
    if table is None:
        table = file.read_row_group(group, names)
    _kept[key] = table  # the one used last is at the end
    while len(_kept) > _KEPT_GROUPS:
        _kept.pop(next(iter(_kept)))
    return table


def _skipping(batches: Iterator[pa.RecordBatch], start: int, stop: int) -> Iterator[pa.Table]:
    at = 0
    for batch in batches:
        low, high = max(0, start - at), min(batch.num_rows, stop - at)
        if low < high:
            yield pa.Table.from_batches([batch.slice(low, high - low)])
        at += batch.num_rows
        if at >= stop:
            return


# -- columns

#: None for one that the file lacks; and what turns its values into those of records.
_Column = tuple[pa.ChunkedArray | None, Convert | None]


class _Columns:
    """Finds the columns in a file, and makes records of them.

    :ivar names: what the columns are called in the file
    """

    def __init__(self, layout: ParquetLayout, file: Any) -> None:
        self._layout = layout
        there = file.schema_arrow.names
        if not layout.case_sensitive:
            lower = {name.lower(): name for name in reversed(there)}
            found = [lower.get(name.lower()) for name in layout.schema.names]
        else:
            found = [name if name in there else None for name in layout.schema.names]
        self.names = [name for name in found if name is not None]
        points = _points_in_time(file)
        self._columns = [
            (name, field.type, from_arrow(field.type, layout.generic), name in points)
            for name, field in zip(found, layout.schema, strict=True)
        ]

    def records(self, table: pa.Table) -> Iterator[list[Any]]:
        columns = [self._cast(table, *column) for column in self._columns]
        for start in range(0, table.num_rows, self._layout.batch_size):
            with no_collection():
                batch = self._batch(columns, start, min(self._layout.batch_size, table.num_rows - start))
            yield batch

    def _batch(
        self, columns: list[tuple[pa.ChunkedArray | None, Convert | None]], start: int, length: int
    ) -> list[Any]:
        names = self._layout.schema.names
        values = [
            [None] * length if column is None else values_of(column.slice(start, length), convert)
            for column, convert in columns
        ]
        rows = zip(*values, strict=True)
        if self._layout.generic:
            return [dict(zip(names, row, strict=True)) for row in rows]
        return [new_row(list(row), names) for row in rows]

    def _cast(
        self, table: pa.Table, name: str | None, kind: pa.DataType, convert: Convert | None, point: bool
    ) -> _Column:
        """A column with the type that is asked for, and what turns its values into those of records."""
        if name is None:
            return None, None
        column = table.column(name)
        if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
            if point and kind.tz is None:
                column = column.cast(pa.timestamp(kind.unit, "UTC"), safe=False)
                if self._layout.in_utc or machine_is_in_utc():
                    return column.cast(kind), None
                return column, _in_local_time
            return column.cast(kind, safe=False), convert
        return (column if column.type == kind else column.cast(kind)), convert


def _points_in_time(file: Any) -> set[str]:
    """The columns that are stored as points in time and not as times without zone."""
    schema = file.schema_arrow
    stored = {name for name in schema.names if getattr(schema.field(name).type, "tz", None) is not None}
    for index in range(len(file.schema)):
        column = file.schema.column(index)
        if column.physical_type == "INT96":
            stored.add(column.name)
    return stored


def _in_local_time(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone().replace(tzinfo=None)


def machine_is_in_utc() -> bool:
    """Whether local time is UTC, all year."""
    return time.timezone == 0 and not time.daylight
