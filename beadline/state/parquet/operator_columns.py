"""Operator state as a Parquet file: one state of one subtask, typed as the program declared it.

A list, union or raw state has ``position`` and ``value``, broadcast state ``key`` and ``value``, keyed raw state
``key_group`` and ``value``. As in :mod:`beadline.state.parquet.columns`, what a declared type can't hold exactly is in
``pickled``. The file's metadata says which state it is, of which mode and types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from beadline.errors import VersionError
from beadline.state.codec import dumps, freeze, loads, thaw
from beadline.state.description import OPERATOR, StateDescription
from beadline.state.operator.handles import BROADCAST, KEYED_RAW, MODES, RAW, StateContent
from beadline.state.parquet.columns import GROUP, KEY, PICKLED, VALUE
from beadline.state.parquet.segment import ParquetSink, damage_named, described_state, open_parquet
from beadline.state.parquet.types import column_of_text
from beadline.state.parquet.values import BYTE_STRINGS, integers

POSITION = "position"
_BATCH = 8192


class OperatorColumns:
    def __init__(self, description: StateDescription) -> None:
        self._pairs = description.kind in (BROADCAST, KEYED_RAW)
        self._value = BYTE_STRINGS if description.kind in (RAW, KEYED_RAW) else column_of_text(description.type)
        self._first_name, self._first = POSITION, integers(64)
        if description.kind == BROADCAST:
            self._first_name, self._first = KEY, column_of_text(description.map_key_type)
        elif description.kind == KEYED_RAW:
            self._first_name, self._first = GROUP, integers(32)
        self.schema = pa.schema(
            [
                pa.field(self._first_name, self._first.arrow),
                pa.field(VALUE, self._value.arrow),
                pa.field(PICKLED, pa.binary()),
            ]
        )

    def batch(self, items: Sequence[Any], start: int = 0) -> pa.RecordBatch:
        """Rows of frozen elements or pairs; the first has this position."""
        firsts = [item[0] for item in items] if self._pairs else list(range(start, start + len(items)))
        values = [item[1] for item in items] if self._pairs else items
        first, bad = self._first.build(list(map(thaw, firsts)))
        value, wrong = self._value.build_frozen(values)
        odd = {*bad, *wrong}
        pickled = [dumps(item) if i in odd else None for i, item in enumerate(items)]
        arrays = [first, value, pa.array(pickled, pa.binary())]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def items(self, batch: pa.RecordBatch) -> list[Any]:
        """The frozen elements or pairs of some rows, in order."""
        found = self._value.read_frozen(batch.column(VALUE))
        if self._pairs:
            found = list(zip(map(freeze, self._first.read(batch.column(self._first_name))), found, strict=True))
        pickled = batch.column(PICKLED)
        if pickled.null_count < len(pickled):
            odd = pickled.to_pylist()
            found = [item if data is None else loads(data) for item, data in zip(found, odd, strict=True)]
        return found


def encode_operator_state(content: StateContent, description: StateDescription) -> bytes:
    """The bytes of one state of one subtask as a Parquet file. The description's kind is the state's mode."""
    columns = OperatorColumns(description)
    parts: list[bytes] = []
    sink = ParquetSink(parts.append, columns.schema, {**asdict(description), "scope": OPERATOR}, [])
    for start in range(0, len(content.items), _BATCH):
        sink.add(columns.batch(content.items[start : start + _BATCH], start))
    sink.finish()
    return b"".join(parts)


def read_operator_state(data: bytes, where: str = "operator state") -> tuple[StateDescription, StateContent]:
    """What a Parquet file says about its state, and what it holds."""
    view = memoryview(data)
    file, about = open_parquet(lambda offset, size: view[offset : offset + size], len(data), where)
    if about.get("scope") != OPERATOR or about.get("kind") not in MODES:
        raise VersionError(f"{where} holds {about.get('scope')} state of kind {about.get('kind')}, not operator state")
    with damage_named(where):
        description = described_state(about)
        columns = OperatorColumns(description)
        items = []
        for number in range(file.num_row_groups):
            for batch in file.iter_batches(_BATCH, row_groups=[number]):
                items += columns.items(batch)
    return description, StateContent(description.kind, items)
