"""The rows that travel through Spark: chunks of records, barriers, descriptors and acknowledgements, all with the
same columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("dest", pa.int32()),
        ("target", pa.int32()),
        ("channel", pa.int32()),
        ("seq", pa.int64()),
        ("kind", pa.int32()),
        ("payload", pa.binary()),
    ]
)
SPARK_SCHEMA = "dest int, target int, channel int, seq long, kind int, payload binary"

DATA = 0
BARRIER = 1
DESCRIPTOR = 2
ACK = 3

# Rows for the driver have a target after all levels.
DRIVER = 1 << 20
# A descriptor sorts before everything else, broadcast rows before the other data of a step.
DESCRIPTOR_SEQ = -(1 << 62)
BROADCAST_SEQ = -(1 << 61)

_FLUSH_BYTES = 4 << 20
_FLUSH_ROWS = 256


class WireRow(NamedTuple):
    """One row of Spark's shuffle."""

    dest: int
    target: int
    channel: int
    seq: int
    kind: int
    payload: bytes


def read_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[WireRow]:
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield WireRow(*values)


def write_rows(chunks: Iterator[list[WireRow]]) -> Iterator[pa.RecordBatch]:
    for rows in chunks:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class RowBuffer:
    """Gathers rows into chunks of a few megabytes."""

    def __init__(self) -> None:
        self._rows: list[WireRow] = []
        self._bytes = 0

    def add(self, row: WireRow) -> None:
        self._rows.append(row)
        self._bytes += len(row.payload)

    @property
    def full(self) -> bool:
        return self._bytes >= _FLUSH_BYTES or len(self._rows) >= _FLUSH_ROWS

    def take(self) -> list[WireRow]:
        rows, self._rows, self._bytes = self._rows, [], 0
        return rows
