"""What tasks do to show state: from slices of keyed state, or parts of operator state, to Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from beadline.state.codec import thaw
from beadline.state.operator.handles import read_part
from beadline.state.segments.files import read_segment
from beadline.state.segments.segment import TableChanges
from beadline.state.segments.version import SegmentRef
from beadline.state_processor.columns import WINDOW, Shown
from beadline.state_processor.comparing import Pair, differences
from beadline.state_processor.entries import key_of, reader_of, same, window_of, without_times
from beadline.state_processor.slices import Slice

_ROWS = 4096

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
EVENT, PROCESSING = "event", "processing"


@dataclass(frozen=True)
class KeyedRead:
    """Shows one keyed state: key, perhaps window, value, and the time it was written if it has a time to live."""

    name: str
    kind: str
    windowed: bool
    expiring: bool
    key: Shown
    value: Shown
    decoded: bool

    @property
    def schema(self) -> pa.Schema:
        fields = [self.key.field, pa.field("window", WINDOW), self.value.field, pa.field("timestamp", pa.int64())]
        return pa.schema(
            [f for f in fields if (f.name != "window" or self.windowed) and (f.name != "timestamp" or self._timed)]
        )

    @property
    def _timed(self) -> bool:
        """Whether the time is a column of its own; elements of lists and maps have one each."""
        return self.expiring and self.kind == "value"

    def __call__(self, piece: Slice) -> Iterator[pa.RecordBatch]:
        for _, table in piece.tables(self.name):
            for items in _chunks(table.changes.items()):
                yield self._batch(table, items)

    def _batch(self, table: TableChanges, items: list[tuple[Any, Any]]) -> pa.RecordBatch:
        read = reader_of(self.kind)
        values = [read(change) for _, change in items]
        arrays = [self.key.array([key_of(slot, table.namespaced) for slot, _ in items])]
        if self.windowed:
            arrays.append(pa.array([window_of(slot[1]) for slot, _ in items], WINDOW))
        if self._timed:
            times = [value[0] for value in values]
            arrays += [self.value.array([value[1] for value in values]), pa.array(times, pa.int64())]
        else:
            if self.expiring and self.decoded:
                values = [without_times(self.kind, value) for value in values]
            arrays.append(self.value.array(values))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class TimersRead:
    """Shows the timers of an operator, a row each.

    :ivar tables: which table holds the timers of which time domain
    """

    tables: dict[str, str]
    key: Shown

    @property
    def schema(self) -> pa.Schema:
        fields = [self.key.field, ("window", WINDOW), ("domain", pa.string()), ("timestamp", pa.int64())]
        return pa.schema(fields)

    def __call__(self, piece: Slice) -> Iterator[pa.RecordBatch]:
        for domain, name in self.tables.items():
            for _, table in piece.tables(name):
                timers = ((slot, time) for slot, change in table.changes.items() for time in change[0])
                for rows in _chunks(timers):
                    windows = [window_of(slot[1]) if table.namespaced else None for slot, _ in rows]
                    arrays = [
                        self.key.array([key_of(slot, table.namespaced) for slot, _ in rows]),
                        pa.array(windows, WINDOW),
                        pa.array([domain] * len(rows), pa.string()),
                        pa.array([time for _, time in rows], pa.int64()),
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class OperatorRead:
    """Shows one operator state: elements and the subtask that holds them; of a broadcast state keys and values."""

    mode: str
    key: Shown | None
    value: Shown

    @property
    def schema(self) -> pa.Schema:
        if self.key is not None:
            return pa.schema([self.key.field, self.value.field])
        return pa.schema([("subtask", pa.int32()), self.value.field])

    def __call__(self, piece: tuple[int, SegmentRef]) -> Iterator[pa.RecordBatch]:
        subtask, part = piece
        for items in _chunks(read_part(part, self.mode, read_segment)):
            if self.key is not None:
                arrays = [self.key.array([key for key, _ in items])]
                arrays.append(self.value.array([thaw(value) for _, value in items]))
            else:
                arrays = [pa.array([subtask] * len(items), pa.int32())]
                arrays.append(self.value.array([thaw(item) for item in items]))
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class DiffRead:
    """Shows which entries of a keyed state differ, and from what to what."""

    name: str
    kind: str
    windowed: bool
    expiring: tuple[bool, bool]
    key: Shown
    before: Shown
    after: Shown

    @property
    def schema(self) -> pa.Schema:
        window = [pa.field("window", WINDOW)] if self.windowed else []
        return pa.schema([self.key.field, *window, ("change", pa.string()), self.before.field, self.after.field])

    def __call__(self, piece: Pair) -> Iterator[pa.RecordBatch]:
        for rows in _chunks(self._changes(piece)):
            arrays = [self.key.array([key_of(row[0], self.windowed) for row in rows])]
            if self.windowed:
                arrays.append(pa.array([window_of(row[0][1]) for row in rows], WINDOW))
            arrays.append(pa.array([row[1] for row in rows], pa.string()))
            arrays += [self.before.array([row[2] for row in rows]), self.after.array([row[3] for row in rows])]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _changes(self, piece: Pair) -> Iterator[tuple[Any, str, Any, Any]]:
        read = reader_of(self.kind)
        for slot, before, after in differences(piece, self.name):
            old, new = (
                None if change is None else without_times(self.kind, read(change)) if timed else read(change)
                for change, timed in zip((before, after), self.expiring, strict=True)
            )
            if before is None:
                yield slot, ADDED, None, new
            elif after is None:
                yield slot, REMOVED, old, None
            elif not same(old, new):
                yield slot, CHANGED, old, new


def _chunks(items: Iterable[Any]) -> Iterator[Any]:
    """Lists of bounded length."""
    ahead = iter(items)
    while chunk := list(islice(ahead, _ROWS)):
        yield chunk


def parts_of(refs: Sequence[tuple[int, Any]], one_copy: bool) -> list[tuple[int, SegmentRef]]:
    """The parts of an operator state with the subtask they belong to; of a broadcast state one copy is enough."""
    parts = [(subtask, part) for subtask, ref in refs for part in ref.own_parts]
    if one_copy and refs:
        first = refs[0][0]
        return [piece for piece in parts if piece[0] == first]
    return parts
