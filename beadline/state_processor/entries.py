"""What tasks do to write state.

Entries of keyed state become rows that Spark can bring into order; sorted, they become the Parquet files of a canonical
savepoint. A problem becomes a row too, with a sentence about it: the driver takes in what tasks report, files and
problems alike, and raises it. A task that runs twice does no harm.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec

import pyarrow as pa

from beadline.api.windows.window import GlobalWindow
from beadline.common.typeinfo import TypeInformation
from beadline.errors import BeadlineError, KeyEncodingError, SerializationError, TypeMismatchError
from beadline.runtime.short_tasks.exporting import Export, Exported, KeyedExport, export
from beadline.state.access.backend import PROCESSING_TIMERS
from beadline.state.cells import Maker, maker_of
from beadline.state.codec import dumps, freeze, loads_own
from beadline.state.description import StateDescription
from beadline.state.heap.tables import TABLE_KINDS
from beadline.state.key_groups import (
    encode_indexed,
    encode_slot,
    hash_encoded,
    indexed,
    map_indexed,
    subtask_of_key_group,
)
from beadline.state.segments.merging import merged
from beadline.state.segments.segment import SegmentContent, TableChanges, count_entries, encode_segment
from beadline.state.segments.version import SegmentRef
from beadline.state_processor.reading import DOMAINS, key_of
from beadline.state_processor.slices import Slice

ENTRIES = pa.schema(
    [
        ("part", pa.int32()),
        ("table", pa.string()),
        ("key_group", pa.int32()),
        ("encoded", pa.binary()),
        ("payload", pa.binary()),
        ("problem", pa.string()),
    ]
)
REPORTS = pa.schema([("report", pa.binary()), ("problem", pa.string())])
# A file has this many entries, if a key group ends there.
_FILE_ENTRIES = 200_000
_ROWS = 4096

Entry = tuple[int, str, int, bytes, bytes, str | None]
Given = ParamSpec("Given")


@dataclass(frozen=True)
class Target:
    """Where the keys of an operator go."""

    parallelism: int
    max_parallelism: int

    def row(self, table: str, kind: str, namespaced: bool, slot: Any, encoded: bytes, change: Any) -> Entry:
        group = hash_encoded(encoded) % self.max_parallelism
        part = subtask_of_key_group(group, self.parallelism, self.max_parallelism)
        return part, table, group, encoded, dumps((kind, namespaced, slot, change)), None


class Problem(Exception):
    """Something in the input that the user has to correct."""


def in_batches(entries: Callable[Given, Iterator[Entry]]) -> Callable[Given, Iterator[pa.RecordBatch]]:
    """Makes batches of the rows that a function gives, and after them of the problem that ended them."""

    @wraps(entries)
    def batches(*args: Given.args, **kwargs: Given.kwargs) -> Iterator[pa.RecordBatch]:
        chunk: list[Entry] = []
        try:
            for row in entries(*args, **kwargs):
                chunk.append(row)
                if len(chunk) == _ROWS:
                    yield _batch(chunk)
                    chunk = []
        except Problem as problem:
            chunk.append((0, "", 0, b"", b"", str(problem)))
        if chunk:
            yield _batch(chunk)

    return batches


def _batch(rows: list[Entry]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ENTRIES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ENTRIES)


@in_batches
def existing_rows(target: Target, without: frozenset[str], piece: Slice) -> Iterator[Entry]:
    """The entries of a slice of state that is already there, without some tables."""
    for _, content in merged(piece.segments, piece.groups):
        for name, table in content.items():
            if name not in without:
                for slot, change in table.changes.items():
                    encoded = encode_slot(slot, table.namespaced)
                    yield target.row(name, table.kind, table.namespaced, slot, encoded, change)


@dataclass(frozen=True)
class TableRows:
    """The entries that the rows of a DataFrame make: key, perhaps window, value, perhaps the time of the last write.

    :ivar owner: names the state in problems
    :ivar key_type: None if nothing is declared, as for the other two
    :ivar written_at: the time of the last write for rows that don't say; None for state without a time to live
    """

    target: Target
    state: StateDescription
    owner: str
    key_type: TypeInformation | None
    value_type: TypeInformation | None
    map_key_type: TypeInformation | None = None
    written_at: int | None = None

    @in_batches
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Entry]:
        name, kind, windowed = self.state.name, self.state.kind, self.state.namespaced
        for batch in batches:
            change_of = self._change_maker(batch.column(1 + windowed).type)
            for key, slot, encoded, (value, *times) in slots_of(batch, self.key_type, windowed, self.owner):
                if value is None:
                    raise Problem(f"{self.owner}: the row with key {key!r} has no value; leave such rows out")
                time = self.written_at
                if time is not None and times and times[0] is not None:
                    time = _milliseconds(times[0], key, self.owner)
                change = change_of(value, key, time)
                if change is not None:
                    yield self.target.row(name, kind, windowed, slot, encoded, change)

    def _change_maker(self, arrow: pa.DataType) -> Callable[[Any, Any, int | None], Any]:
        """What makes a settled change of a cell: one value, a list or a map of them; None if nothing is in it."""
        if self.state.kind == "value":
            make = _checked(maker_of(arrow, self.value_type), f"{self.owner}: value")
            return lambda cell, key, time: _frozen(make(cell, key), time, self.owner, key)
        if self.state.kind == "list":
            element = _checked(maker_of(arrow.value_type, self.value_type), f"{self.owner}: element")

            def items(cell: Any, key: Any, time: int | None) -> Any:
                if None in cell:
                    raise Problem(f"{self.owner}: the list with key {key!r} has an element that is null")
                return (True, [_frozen(element(part, key), time, self.owner, key) for part in cell]) if cell else None

            return items
        map_key = _checked(maker_of(arrow.key_type, self.map_key_type), f"{self.owner}: key of a map")
        item = _checked(maker_of(arrow.item_type, self.value_type), f"{self.owner}: value of a map")

        def puts(cell: Any, key: Any, time: int | None) -> Any:
            made = {}
            for k, v in cell:
                frozen = _frozen(None if v is None else item(v, key), time, self.owner, key)
                made[_hashable(map_key(k, key), self.owner)] = frozen
            return (True, made, []) if made else None

        return puts


@dataclass(frozen=True)
class TimerRows:
    """The timers that the rows of a DataFrame make: key, window, domain, timestamp."""

    target: Target
    owner: str
    key_type: TypeInformation | None
    windowed: bool

    @in_batches
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Entry]:
        for batch in batches:
            for key, slot, encoded, cells in slots_of(batch, self.key_type, self.windowed, self.owner):
                domain, timestamp = cells
                if domain not in DOMAINS:
                    known = " or ".join(map(repr, DOMAINS))
                    raise Problem(f"{self.owner}: the domain at key {key!r} is {domain!r}; use {known}")
                timestamp = _milliseconds(timestamp, key, self.owner)
                yield self.target.row(DOMAINS[domain], "timer", self.windowed, slot, encoded, ([timestamp], []))


def slots_of(
    batch: pa.RecordBatch, key_type: TypeInformation | None, windowed: bool, owner: str
) -> Iterator[tuple[Any, Any, bytes, list[Any]]]:
    """Of each row the key's cell, its slot, the key's canonical encoding, and the cells after key and window."""
    key_of = _checked(maker_of(batch.column(0).type, key_type), f"{owner}: key")
    for key, *cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        if key is None:
            raise Problem(f"{owner}: a key is null; leave such rows out")
        try:
            slot = indexed(key_of(key, key))
            encoded = encode_indexed(slot)
        except KeyEncodingError as error:
            raise Problem(f"{owner}: {error}") from error
        yield key, (slot, _window(cells.pop(0), key, owner)) if windowed else slot, encoded, cells


def _milliseconds(cell: Any, key: Any, owner: str) -> int:
    if cell.__class__ is not int:
        raise Problem(f"{owner}: the timestamp at key {key!r} is {cell!r}, not a whole number of milliseconds")
    return int(cell)


def _window(cell: Any, key: Any, owner: str) -> Any:
    if cell is None:
        return GlobalWindow.get()
    bounds = cell.get("start"), cell.get("end")
    if None in bounds:
        raise Problem(f"{owner}: the window of key {key!r} is {cell!r}; it needs a start and an end")
    return bounds


def _checked(make: Maker, what: str) -> Callable[[Any, Any], Any]:
    """The maker of a value, whose problems name the key."""

    def made(cell: Any, key: Any) -> Any:
        try:
            return make(cell)
        except TypeMismatchError as error:
            raise Problem(f"{what} does not fit at key {key!r}: {error}") from error

    return made


def _frozen(value: Any, time: int | None, owner: str, key: Any) -> Any:
    try:
        return freeze(value if time is None else (time, value))
    except SerializationError as error:
        raise Problem(f"{owner}: value at key {key!r}: {error}") from error


def _hashable(map_key: Any, owner: str) -> Any:
    try:
        hash(map_key)
    except TypeError:
        raise Problem(f"{owner}: a key of a map must be hashable, got {map_key!r}; use a tuple type") from None
    return map_indexed(map_key)


# -- from entries to files


@dataclass(frozen=True)
class Report:
    """What a task wrote.

    :ivar task: the number of the task, for exports that were planned beforehand
    :ivar timers: by subtask, the earliest processing-time timer
    """

    exports: tuple[Export, ...]
    results: tuple[Exported, ...]
    timers: dict[int, int]
    task: int = 0


def _reported(report: Report | None, problem: str | None) -> pa.RecordBatch:
    packed = None if report is None else pickle.dumps(report, 5)
    arrays = [pa.array([packed], pa.binary()), pa.array([problem], pa.string())]
    return pa.RecordBatch.from_arrays(arrays, schema=REPORTS)


def planned_exports(now: int, piece: tuple[int, tuple[Export, ...]]) -> Iterator[pa.RecordBatch]:
    """Export state that is taken over as it is."""
    task, exports = piece
    try:
        results = tuple(export(each, now) for each in exports)
    except BeadlineError as error:
        yield _reported(None, str(error))
    else:
        yield _reported(Report((), results, {}, task), None)


@dataclass(frozen=True)
class EntryExports:
    """Exports entries that come by subtask and key group.

    :ivar uid: of the operator
    :ivar request: what all exports share; subtask, key groups and segments are those of the entries that come
    """

    uid: str
    request: KeyedExport
    now: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writing = _Writing(self)
        try:
            for batch in batches:
                for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    writing.take(*cells)
            writing.flush()
        except (Problem, BeadlineError) as problem:
            yield _reported(None, str(problem))
        else:
            yield _reported(Report(tuple(writing.exports), tuple(writing.results), writing.timers), None)


class _Writing:
    def __init__(self, about: EntryExports) -> None:
        self._about = about
        self._ttl = {state.name: state.ttl_ms for state in about.request.descriptions}
        self._content: SegmentContent = {}
        self._part = self._group = self._first = -1
        self._entries = 0
        self.exports: list[Export] = []
        self.results: list[Exported] = []
        self.timers: dict[int, int] = {}

    def take(self, part: int, table: str, key_group: int, encoded: bytes, payload: bytes, problem: str | None) -> None:
        if problem is not None:
            raise Problem(problem)
        if part != self._part or (key_group != self._group and self._entries >= _FILE_ENTRIES):
            self.flush()
            self._part, self._first = part, key_group
        self._group = key_group
        kind, namespaced, slot, change = loads_own(payload)
        held = self._content.get(table)
        if held is None:
            held = self._content[table] = TableChanges(kind, namespaced, {}, self._ttl.get(table))
        if slot in held.changes:
            if kind != "timer":
                raise Problem(self._twice(table, slot, namespaced))
            change = TABLE_KINDS[kind].merge(held.changes[slot], change)
        held.changes[slot] = change
        self._entries += 1
        if table == PROCESSING_TIMERS:
            self.timers[part] = min(self.timers.get(part, change[0][0]), *change[0])

    def _twice(self, table: str, slot: Any, namespaced: bool) -> str:
        where = f" and window {slot[1]}" if namespaced else ""
        return (
            f"state '{table}' of operator '{self._about.uid}': key {key_of(slot, namespaced)!r}{where} comes twice; a "
            "state has one row for each key"
        )

    def flush(self) -> None:
        if not self._content:
            return
        about = self._about
        data = encode_segment(self._content, about.request.max_parallelism)
        segment = SegmentRef("entries", count_entries(self._content), len(data), inline=data)
        # The driver has to know where the files belong, not what is in them.
        place = replace(about.request, subtask=self._part, groups=(self._first, self._group + 1))
        self.exports.append(place)
        self.results.append(export(replace(place, segments=(segment,)), about.now))
        self._content, self._entries = {}, 0
