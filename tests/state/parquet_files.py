"""A settled table as the bytes of a Parquet file."""

from __future__ import annotations

from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import TypeInformation
from beadline.state.description import StateDescription
from beadline.state.parquet.segment import ParquetSegmentWriter
from beadline.state.segments.segment import TableChanges


def encode_parquet(
    table: TableChanges, description: StateDescription, key_type: TypeInformation, max_parallelism: int
) -> bytes:
    parts: list[bytes] = []
    writer = ParquetSegmentWriter(parts.append, description, type_to_text(key_type), max_parallelism)
    writer.add(table)
    writer.finish()
    return b"".join(parts)
