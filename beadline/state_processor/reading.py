"""What tasks do to show state: from slices of keyed state, or parts of operator state, to Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from beadline.api.windows.window import CountWindow, TimeWindow
from beadline.state.access.backend import EVENT_TIMERS, PROCESSING_TIMERS
from beadline.state.codec import thaw
from beadline.state.description import StateDescription
from beadline.state.key_groups import unboxed
from beadline.state.operator.handles import read_part
from beadline.state.segments.segment import TableChanges
from beadline.state.segments.version import SegmentRef
from beadline.state_processor.columns import WINDOW, Shown
from beadline.state_processor.slices import Pair, Slice, differences

_ROWS = 4096

Thaw = Callable[[Any], Any]

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
#: Which table holds the timers of which time domain.
DOMAINS = {"event": EVENT_TIMERS, "processing": PROCESSING_TIMERS}


@dataclass(frozen=True)
class KeyedRead:
    """Shows one keyed state: key, perhaps window, value, and the time it was written if it has a time to live.

    :ivar thaw: what loads pickled values
    """

    state: StateDescription
    key: Shown
    value: Shown
    decoded: bool = False
    thaw: Thaw = thaw

    @property
    def schema(self) -> pa.Schema:
        window = [("window", WINDOW)] if self.state.namespaced else []
        time = [("timestamp", pa.int64())] if self._timed else []
        return pa.schema([self.key.field, *window, self.value.field, *time])

    @property
    def _timed(self) -> bool:
        """Whether the time is a column of its own; elements of lists and maps have one each."""
        return self.state.ttl_ms is not None and self.state.kind == "value"

    def __call__(self, piece: Slice) -> Iterator[pa.RecordBatch]:
        for _, table in piece.tables(self.state.name):
            for items in _chunks(table.changes.items()):
                yield self._batch(table, items)

    def _batch(self, table: TableChanges, items: list[tuple[Any, Any]]) -> pa.RecordBatch:
        read = reader_of(self.state.kind, self.thaw)
        values = [read(change) for _, change in items]
        arrays = [self.key.array([key_of(slot, table.namespaced) for slot, _ in items])]
        if self.state.namespaced:
            arrays.append(pa.array([window_of(slot[1]) for slot, _ in items], WINDOW))
        if self._timed:
            times = [value[0] for value in values]
            arrays += [self.value.array([value[1] for value in values]), pa.array(times, pa.int64())]
        else:
            if self.state.ttl_ms is not None and self.decoded:
                values = [without_times(self.state.kind, value) for value in values]
            arrays.append(self.value.array(values))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class TimersRead:
    """Shows the timers of an operator, a row each."""

    key: Shown

    @property
    def schema(self) -> pa.Schema:
        fields = [self.key.field, ("window", WINDOW), ("domain", pa.string()), ("timestamp", pa.int64())]
        return pa.schema(fields)

    def __call__(self, piece: Slice) -> Iterator[pa.RecordBatch]:
        for domain, name in DOMAINS.items():
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
    thaw: Thaw = thaw

    @property
    def schema(self) -> pa.Schema:
        if self.key is not None:
            return pa.schema([self.key.field, self.value.field])
        return pa.schema([("subtask", pa.int32()), self.value.field])

    def __call__(self, piece: tuple[int, SegmentRef]) -> Iterator[pa.RecordBatch]:
        subtask, part = piece
        for items in _chunks(read_part(part, self.mode)):
            if self.key is not None:
                arrays = [self.key.array([key for key, _ in items])]
                arrays.append(self.value.array([self.thaw(value) for _, value in items]))
            else:
                arrays = [pa.array([subtask] * len(items), pa.int32())]
                arrays.append(self.value.array([self.thaw(item) for item in items]))
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class DiffRead:
    """Shows which entries of a keyed state differ, and from what to what.

    :ivar expiring: whether they have a time to live, before and after
    """

    state: StateDescription
    expiring: tuple[bool, bool]
    key: Shown
    before: Shown
    after: Shown

    @property
    def schema(self) -> pa.Schema:
        window = [("window", WINDOW)] if self.state.namespaced else []
        return pa.schema([self.key.field, *window, ("change", pa.string()), self.before.field, self.after.field])

    def __call__(self, piece: Pair) -> Iterator[pa.RecordBatch]:
        for rows in _chunks(self._changes(piece)):
            arrays = [self.key.array([key_of(row[0], self.state.namespaced) for row in rows])]
            if self.state.namespaced:
                arrays.append(pa.array([window_of(row[0][1]) for row in rows], WINDOW))
            arrays.append(pa.array([row[1] for row in rows], pa.string()))
            arrays += [self.before.array([row[2] for row in rows]), self.after.array([row[3] for row in rows])]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _changes(self, piece: Pair) -> Iterator[tuple[Any, str, Any, Any]]:
        kind, read = self.state.kind, reader_of(self.state.kind)
        for slot, before, after in differences(piece, self.state.name):
            old, new = (
                None if change is None else without_times(kind, read(change)) if timed else read(change)
                for change, timed in zip((before, after), self.expiring, strict=True)
            )
            if before is None:
                yield slot, ADDED, None, new
            elif after is None:
                yield slot, REMOVED, old, None
            elif not same(old, new):
                yield slot, CHANGED, old, new


def _chunks(items: Iterable[Any]) -> Iterator[Any]:
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


# -- the entries of a table as a person sees them


def key_of(slot: Any, namespaced: bool) -> Any:
    return unboxed(slot[0] if namespaced else slot)


def window_of(namespace: Any) -> tuple[int, int] | None:
    """Start and end of a window; None for the global one. A count window begins with its number."""
    if namespace.__class__ is tuple and len(namespace) == 2 and all(part.__class__ is int for part in namespace):
        return namespace[0], namespace[1]
    if isinstance(namespace, TimeWindow):
        return namespace.start, namespace.end
    if isinstance(namespace, CountWindow):
        return namespace.id, namespace.id + 1
    return None


def reader_of(kind: str, thaw: Thaw = thaw) -> Callable[[Any], Any]:
    """What turns a settled change of a table into a value: itself, a list or a dictionary."""
    if kind == "list":
        return lambda change: [thaw(item) for item in change[1]]
    if kind == "map":
        return lambda change: {unboxed(key): thaw(value) for key, value in change[1].items()}
    return {"value": thaw}[kind]


def without_times(kind: str, value: Any) -> Any:
    """A value of a state with a time to live, without the times that its entries begin with."""
    if value is None:
        return None
    if kind == "list":
        return [item for _, item in value]
    if kind == "map":
        return {key: item for key, (_, item) in value.items()}
    return value[1]


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal. Values that can't be compared differ."""
    if one.__class__ is not other.__class__:
        return False
    try:
        return bool(one == other)
    except Exception:
        return False
