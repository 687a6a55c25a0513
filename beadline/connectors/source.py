"""The contract of a source, and the adapter that fulfils it with any reader of PySpark's streaming data source API.

A source lives on both sides: the driver asks it for the range of the next step, tasks read the splits of that range.
Reading a split twice must give the same records in the same order.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from beadline.errors import BeadlineError, ConfigurationError, UnsupportedFeatureError

BATCH = 4096
_SHOWN = 100
Position = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Unreadable:
    """Stands in a source's output for a record that can't be read. The source can go on after it, so the job can
    be told to do so too (``beadline.poison.action``).

    :ivar place: where the record is, for people
    :ivar data: what is there
    :ivar problem: what the job fails with if it is not to go on
    """

    place: str
    data: bytes
    problem: BeadlineError

    def __repr__(self) -> str:
        shown = repr(self.data[:_SHOWN]) + ("…" if len(self.data) > _SHOWN else "")
        return f"{shown} ({self.place})"

    @property
    def identity(self) -> tuple[str, bytes]:
        """Equal when the same record is read again."""
        return self.place, self.data


@dataclass(frozen=True)
class Watermark:
    """Stands in a source's output where event time moves on, for a source that knows it by itself."""

    timestamp: int


class StepSource(ABC):
    """What the engine asks of a source.

    :ivar bounded: whether the source ends
    :ivar timed: whether records have timestamps; :meth:`read_batches` then gives pairs of records and timestamps
    """

    bounded: bool = False
    timed: bool = False

    def prepare(self, batch: bool) -> None:
        """Called once on the driver before the first step. ``batch``: read what is there now, then end."""

    @abstractmethod
    def initial(self) -> Position:
        """Where a new job starts reading."""

    @abstractmethod
    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        """The end of the next range of about ``rows`` records, and its splits. An end equal to the start means no
        new data."""

    @abstractmethod
    def finished(self, position: Position) -> bool:
        """Whether nothing will ever come after this position."""

    @abstractmethod
    def read_batches(self, split: Any) -> Iterator[Any]:
        """The records of a split, in lists of moderate length; an :class:`Unreadable` in the place of a record that
        can't be read, a :class:`Watermark` where event time moves on. Runs in tasks."""

    def guarantee(self) -> str:
        """What the source can give at best: ``exactly-once`` if a split that is read again gives the same records."""
        return "exactly-once"

    def poll_interval(self) -> float:
        """Seconds to wait before asking again when there was no new data."""
        return 0.1

    def commit(self, position: Position) -> None:
        """A checkpoint up to this position has completed."""

    def stop(self) -> None:
        """The job has ended."""


class _ReaderBacked(StepSource):
    """Reads with a user's PySpark reader.

    A reader with an attribute ``bounded = True`` ends when there is no new data; in batch mode every reader does.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.bounded = bool(getattr(reader, "bounded", False))

    def prepare(self, batch: bool) -> None:
        if batch and not self.bounded:
            self.bounded = True
            if isinstance(self._reader, SupportsTriggerAvailableNow):
                self._reader.prepareForTriggerAvailableNow()
            else:
                self._end_here()

    def _end_here(self) -> None:
        """The reader does not know how to end by itself."""

    def initial(self) -> Position:
        return dict(self._reader.initialOffset())

    def finished(self, position: Position) -> bool:
        return self.bounded and self.plan(position, 1, 1)[0] == position

    def commit(self, position: Position) -> None:
        self._reader.commit(position)


class ReaderSource(_ReaderBacked):
    """Reads with a :class:`DataSourceStreamReader`, old and new style."""

    def __init__(self, reader: DataSourceStreamReader) -> None:
        super().__init__(reader)
        self._limits = len(inspect.signature(reader.latestOffset).parameters) >= 2
        self._target: Position | None = None

    def _end_here(self) -> None:
        if not self._limits:
            self._target = self._latest(self.initial(), 0)

    def _latest(self, start: Position, rows: int) -> Position:
        return dict(
            self._reader.latestOffset(start, ReadMaxRows(rows)) if self._limits else self._reader.latestOffset()
        )

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        end = self._target if self._target is not None else self._latest(start, rows)
        return (end, list(self._reader.partitions(start, end))) if end != start else (start, [])

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        return _in_batches(self._reader.read(split))

    def stop(self) -> None:
        self._reader.stop()


class SimpleReaderSource(_ReaderBacked):
    """Reads with a :class:`SimpleDataSourceStreamReader`: the driver learns the end, a task reads between the
    offsets."""

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        _, end = self._reader.read(start)
        return (dict(end), [(start, dict(end))]) if dict(end) != start else (start, [])

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        return _in_batches(self._reader.readBetweenOffsets(*split))


def _in_batches(records: Any) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for record in records:
        if isinstance(record, pa.RecordBatch):
            batch.extend(zip(*(column.to_pylist() for column in record.columns), strict=True))
        else:
            batch.append(tuple(record))
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def as_source(source: Any) -> StepSource:
    """A source from whatever the user handed to ``from_source``."""
    make = getattr(source, "_make_source", None)
    if make is not None:
        source = make()
    if isinstance(source, StepSource):
        return source
    if isinstance(source, DataSourceStreamReader):
        return ReaderSource(source)
    if isinstance(source, SimpleDataSourceStreamReader):
        return SimpleReaderSource(source)
    if isinstance(source, DataSource):
        return DataSourceSource(source)
    if isinstance(source, type):
        raise ConfigurationError(
            f"from_source needs an object, got the class {source.__name__}: did you mean {source.__name__}(…)?"
        )
    raise UnsupportedFeatureError(
        f"from_source can't read from {type(source).__name__}. Use FileSource, NumberSequenceSource, or a "
        "DataSourceStreamReader, SimpleDataSourceStreamReader or DataSource of PySpark."
    )


class DataSourceSource(StepSource):
    """A user's :class:`DataSource`: its reader is made when the job starts, because a schema as text needs Spark to
    be read."""

    def __init__(self, source: DataSource) -> None:
        self._made = source
        self._inner: StepSource | None = None

    def prepare(self, batch: bool) -> None:
        self._inner = _reader_of(self._made)
        self._inner.prepare(batch)
        self.bounded = self._inner.bounded

    @property
    def _reader(self) -> StepSource:
        assert self._inner is not None, "prepare() comes first"
        return self._inner

    def initial(self) -> Position:
        return self._reader.initial()

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        return self._reader.plan(start, rows, parallelism)

    def finished(self, position: Position) -> bool:
        return self._reader.finished(position)

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        return self._reader.read_batches(split)

    def commit(self, position: Position) -> None:
        self._reader.commit(position)

    def stop(self) -> None:
        self._reader.stop()


def _reader_of(source: DataSource) -> StepSource:
    schema = source.schema()
    struct = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    assert isinstance(struct, StructType)
    try:
        return ReaderSource(source.streamReader(struct))
    except PySparkNotImplementedError:
        return SimpleReaderSource(source.simpleStreamReader(struct))
