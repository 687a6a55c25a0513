"""What tasks do to write state: sorted entries become the Parquet files of a canonical savepoint.

The driver takes in what tasks report, files and problems alike; a task that runs twice does no harm.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from beadline.errors import BeadlineError
from beadline.runtime.short_tasks.exporting import Export, Exported, KeyedExport, export
from beadline.state.access.backend import PROCESSING_TIMERS
from beadline.state.codec import loads
from beadline.state.heap.tables import TABLE_KINDS
from beadline.state.segments.segment import SegmentContent, TableChanges, count_entries, encode_segment
from beadline.state.segments.version import SegmentRef
from beadline.state_processor.reading import key_of
from beadline.state_processor.rows import Problem

REPORTS = pa.schema([("report", pa.binary()), ("problem", pa.string())])
# A file has this many entries, if a key group ends there.
_FILE_ENTRIES = 200_000


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


@dataclass(frozen=True)
class PlannedExports:
    now: int

    def __call__(self, piece: tuple[int, tuple[Export, ...]]) -> Iterator[pa.RecordBatch]:
        task, exports = piece
        try:
            results = tuple(export(each, self.now) for each in exports)
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
        kind, namespaced, slot, change = loads(payload)
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
