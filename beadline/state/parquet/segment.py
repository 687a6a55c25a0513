"""A segment as a Parquet file: one table, its columns typed as :mod:`beadline.state.parquet.columns` says.

Rows are sorted by key group and key, in row groups of bounded size with statistics of ``key_group``, so that a restore
reads only what it needs. The file's metadata holds, under ``beadline``, a JSON text with the name of the state and all
that is known of it; that and the columns are enough to read it without Beadline.

Pages have checksums. Parquet has none for its footer: Beadline puts one before it, where other readers don't look.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa
import xxhash
from pyarrow import parquet as pq

from beadline.errors import BeadlineError, ConfigurationError, VersionError
from beadline.state.description import KEYED, StateDescription
from beadline.state.parquet.columns import GROUP, KeyedColumns
from beadline.state.segments.segment import (
    PARQUET_MAGIC,
    Block,
    LoadedBlock,
    ReadRange,
    SegmentReader,
    TableChanges,
    sorted_rows,
)

METADATA = b"beadline"
FORMAT = 1
COMPRESSION = "zstd"
_SUM_MAGIC = b"BEADSUM1"
_SUM = len(_SUM_MAGIC) + 8
_TAIL = 4 + len(PARQUET_MAGIC)
_GROUP_ROWS = 1 << 16
_GROUP_BYTES = 16 << 20
_FIRST_ROWS = 1024


# -- any Parquet file of ours


class ParquetSink:
    """Writes batches as row groups of bounded size, and the checksum of the footer.

    :param write: takes the next bytes of the file
    :param about: what the metadata says
    :param statistics: the columns that have statistics
    """

    def __init__(self, write: Callable[[bytes], Any], schema: pa.Schema, about: dict[str, Any], statistics: list[str]):
        described = schema.with_metadata({METADATA: json.dumps({"format": FORMAT, **about}, sort_keys=True).encode()})
        self._file = _Output(write)
        self._schema = described
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._file, mode="w"),
            described,
            compression=COMPRESSION,
            compression_level=1,
            use_dictionary=False,
            write_statistics=statistics,
            write_page_checksum=True,
        )
        self._waiting: list[pa.RecordBatch] = []
        self.rows_waiting = 0
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.nbytes > _GROUP_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            self.add(batch.slice(0, half))
            self.add(batch.slice(half))
            return
        self._waiting.append(batch)
        self.rows_waiting += batch.num_rows
        self._bytes += batch.nbytes
        if self.rows_waiting >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self.rows_waiting:
            table = pa.Table.from_batches(self._waiting).replace_schema_metadata(self._schema.metadata)
            self._writer.write_table(table, row_group_size=self.rows_waiting)
        self._waiting, self.rows_waiting, self._bytes = [], 0, 0

    def finish(self) -> None:
        self._flush()
        self._file.hold()
        self._writer.close()
        tail = self._file.held()
        footer = len(tail) - _TAIL - int.from_bytes(tail[-_TAIL : -_TAIL + 4], "little")
        self._file.put(tail[:footer] + _SUM_MAGIC + xxhash.xxh3_64_digest(tail[footer:]) + tail[footer:])


class _Output(io.RawIOBase):
    """What Arrow writes to; the end of the file is held back until its checksum is known."""

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self.put = write
        self._held: list[bytes] | None = None
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        data = bytes(data)
        self._at += len(data)
        if self._held is None:
            self.put(data)
        else:
            self._held.append(data)
        return len(data)

    def hold(self) -> None:
        self._held = []

    def held(self) -> bytes:
        return b"".join(self._held or ())


class _Input(io.RawIOBase):
    """A segment that Arrow reads by ranges."""

    def __init__(self, read: ReadRange, size: int) -> None:
        self._read, self._size, self._at = read, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        data = bytes(self._read(self._at, left if size is None or size < 0 else min(size, left)))
        self._at += len(data)
        return data


@contextmanager
def damage_named(where: str) -> Iterator[None]:
    """Turn Arrow's error about a damaged file into one sentence."""
    try:
        yield
    except ConfigurationError as error:  # a type that a newer version knows
        raise VersionError(f"{where}: {error}") from error
    except BeadlineError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise VersionError(f"{where} is a damaged Parquet file: {reason[:200] or type(error).__name__}") from error


def open_parquet(read: ReadRange, size: int, where: str) -> tuple[pq.ParquetFile, dict[str, Any]]:
    """A Parquet file, its footer checked, and what its metadata says about the state in it."""
    with damage_named(where):
        _check_footer(read, size)
        file = pq.ParquetFile(pa.PythonFile(_Input(read, size), mode="r"), page_checksum_verification=True)
        found = (file.schema_arrow.metadata or {}).get(METADATA)
    if found is None:
        raise VersionError(
            f"{where} is a Parquet file without Beadline's metadata, so it is not known which state it holds"
        )
    with damage_named(where):
        about = json.loads(found)
    if about.get("format") != FORMAT:
        raise VersionError(
            f"{where} has format {about.get('format')}, and this Beadline knows {FORMAT}; use a newer one"
        )
    return file, about


def _check_footer(read: ReadRange, size: int) -> None:
    tail = bytes(read(size - _TAIL, _TAIL)) if size >= 2 * _TAIL else b""
    if tail[4:] != PARQUET_MAGIC:
        raise ValueError(f"it is cut short ({size} bytes)")
    start = size - _TAIL - int.from_bytes(tail[:4], "little")
    if start < len(PARQUET_MAGIC):
        raise ValueError("the length of its footer is wrong")
    found = bytes(read(start - _SUM, size - start + _SUM)) if start > _SUM else b""
    if found[: len(_SUM_MAGIC)] != _SUM_MAGIC:
        if METADATA not in bytes(read(start, size - start)):
            return  # not ours
        raise ValueError("the checksum of its footer is missing")
    if xxhash.xxh3_64_digest(found[_SUM:]) != found[len(_SUM_MAGIC) : _SUM]:
        raise ValueError("the checksum of its footer is wrong")


def described_state(about: dict[str, Any]) -> StateDescription:
    return StateDescription(
        **{field.name: about[field.name] for field in fields(StateDescription) if field.name in about}
    )


# -- keyed state


class ParquetSegmentWriter:
    """Writes a settled table as a Parquet file, some key groups at a time.

    :param write: takes the next bytes of the file
    :param key_type: the text of a type
    :ivar entries: how many entries were written; each timer is one
    """

    def __init__(
        self, write: Callable[[bytes], Any], description: StateDescription, key_type: str, max_parallelism: int
    ) -> None:
        self._columns = KeyedColumns(description, key_type)
        self._max_parallelism = max_parallelism
        about = {**asdict(description), "key_type": key_type, "max_parallelism": max_parallelism}
        self._sink = ParquetSink(write, self._columns.schema, about, [GROUP])
        self._bytes_per_entry = _GROUP_BYTES / _FIRST_ROWS
        self.entries = 0

    def add(self, table: TableChanges) -> None:
        """Add settled entries whose key groups do not come before those already written."""
        groups, slots, changes = sorted_rows(table.changes, table.namespaced, self._max_parallelism)
        start = 0
        while start < len(slots):
            room = max(1, _GROUP_ROWS - self._sink.rows_waiting)
            end = min(len(slots), start + max(1, min(room, int(_GROUP_BYTES / self._bytes_per_entry))))
            try:
                batch = self._columns.batch(groups[start:end], slots[start:end], changes[start:end])
            except pa.ArrowCapacityError:
                if end - start == 1:
                    raise
                self._bytes_per_entry = 2 * _GROUP_BYTES / (end - start)
                continue
            self._bytes_per_entry = max(16.0, batch.nbytes / (end - start))
            self._sink.add(batch)
            self.entries += batch.num_rows
            start = end

    def finish(self) -> None:
        self._sink.finish()


class ParquetReader(SegmentReader):
    """A Parquet file as a segment; a row group is a block.

    :ivar description: the state it holds
    :ivar key_type: the text of the key's type
    :ivar max_parallelism: what the key groups are counted for
    """

    def __init__(self, read: ReadRange, size: int, where: str) -> None:
        self._where = where
        self._file, about = open_parquet(read, size, where)
        if about.get("scope") != KEYED:
            raise VersionError(f"{where} holds {about.get('scope')} state, not keyed state")
        with damage_named(where):
            self.description = described_state(about)
            self.key_type: str = about["key_type"]
            self.max_parallelism: int = about["max_parallelism"]
            self._columns = KeyedColumns(self.description, self.key_type)
            self.blocks = list(self._row_groups())

    def _row_groups(self) -> Iterator[Block]:
        metadata = self._file.metadata
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            found = group.column(0).statistics
            known = found is not None and found.has_min_max and group.column(0).path_in_schema == GROUP
            first, last = (found.min, found.max) if known else (0, self.max_parallelism - 1)
            yield Block(number, self.description.name, first, last, group.num_rows, group.total_byte_size)

    def load(self, block: Block) -> LoadedBlock:
        with damage_named(self._where):
            rows = self._file.read_row_group(block.number)

        def changes_of(key_groups: range | None) -> TableChanges:
            with damage_named(self._where):
                return self._columns.table(rows, key_groups)

        return changes_of
