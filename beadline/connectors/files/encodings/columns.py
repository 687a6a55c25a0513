"""Parquet and ORC files.

Records are staged as streams of Arrow's own format. When a part is made ready they become row groups of a file, which
is written as it is made: no more than one row group is in memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from beadline.connectors.arrow_columns import record_batch, to_arrow
from beadline.connectors.files.bulk import BulkEncoding, PieceWriter

_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 64 << 20


class ColumnarEncoding(BulkEncoding):
    """Files of columns.

    :param prepare: changes records before they are written, if given
    """

    def __init__(self, schema: pa.Schema, prepare: Callable[[list[Any]], list[Any]] | None = None) -> None:
        self.schema = schema
        self._prepare = prepare

    def piece(self) -> PieceWriter:
        return _ArrowPiece(self.schema, self._prepare)

    @abstractmethod
    def _open(self, target: Any) -> Any:
        """A writer with ``write(table)`` and ``close()``."""

    def assemble(self, staged: Iterator[bytes]) -> Iterator[bytes]:
        drain = _Drain()
        writer = self._open(pa.PythonFile(drain, mode="w"))
        for table in _groups(self.schema, _batches(_Incoming(staged))):
            writer.write(table)
            yield from drain.taken()
        writer.close()
        yield from drain.taken()


class ParquetEncoding(ColumnarEncoding):
    """Parquet files.

    :ivar options: what ``pyarrow.parquet.ParquetWriter`` takes
    """

    def __init__(
        self,
        schema: pa.Schema,
        options: dict[str, Any],
        prepare: Callable[[list[Any]], list[Any]] | None = None,
    ) -> None:
        super().__init__(schema, prepare)
        self.options = options

    def _open(self, target: Any) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(target, self.schema, **self.options)


class OrcEncoding(ColumnarEncoding):
    """ORC files.

    :ivar options: what ``pyarrow.orc.ORCWriter`` takes
    """

    def __init__(self, schema: pa.Schema, options: dict[str, Any]) -> None:
        super().__init__(schema)
        self.options = options

    def _open(self, target: Any) -> Any:
        from pyarrow import orc

        return orc.ORCWriter(target, **self.options)


class _ArrowPiece(PieceWriter):
    def __init__(self, schema: pa.Schema, prepare: Callable[[list[Any]], list[Any]] | None) -> None:
        self._schema = schema
        self._prepare = prepare
        self._writers = [to_arrow(field.type) for field in schema]
        self._out = pa.BufferOutputStream()
        self._stream = pa.ipc.new_stream(self._out, schema)

    def write(self, records: list[Any]) -> None:
        if self._prepare is not None:
            records = self._prepare(records)
        self._stream.write_batch(record_batch(records, self._schema, self._writers))

    def finish(self) -> list[bytes]:
        self._stream.close()
        return [self._out.getvalue().to_pybytes()]


def _batches(incoming: _Incoming) -> Iterator[pa.RecordBatch]:
    """The batches of all streams, one after the other."""
    while not incoming.is_empty():
        yield from pa.ipc.open_stream(pa.PythonFile(incoming, mode="r"))


def _groups(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches gathered to what a row group should have."""
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        gathered.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(gathered, schema)
            gathered, rows, size = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered, schema)


class _Incoming:
    """Chunks of bytes as a file that is read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk = b""
        self._at = 0
        self._total = 0
        self.closed = False

    def is_empty(self) -> bool:
        while self._at >= len(self._chunk):
            chunk = next(self._chunks, None)
            if chunk is None:
                return True
            self._chunk, self._at = chunk, 0
        return False

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        wanted = size
        while (size < 0 or wanted > 0) and not self.is_empty():
            end = len(self._chunk) if size < 0 else min(len(self._chunk), self._at + wanted)
            parts.append(self._chunk[self._at : end])
            wanted -= end - self._at
            self._at = end
        data = b"".join(parts)
        self._total += len(data)
        return data

    def tell(self) -> int:
        return self._total

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Other streams follow in the same file."""


class _Drain:
    """A file that gives away what is written to it."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self._total = 0
        self.closed = False

    def write(self, data: Any) -> int:
        chunk = bytes(data)
        self._written.append(chunk)
        self._total += len(chunk)
        return len(chunk)

    def taken(self) -> Iterator[bytes]:
        written, self._written = self._written, []
        return iter(written)

    def tell(self) -> int:
        return self._total

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """There is nothing to wait for."""

    def close(self) -> None:
        """What was written is still to be taken."""
