"""Sources that read with any reader of PySpark's streaming data source API."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from beadline.connectors.source import BATCH, PartSplit, Position, StepSource
from beadline.errors import ConfigurationError


def reader_source(source: Any) -> StepSource | None:
    """A source from an object of PySpark's API; None if it is not one."""
    if isinstance(source, DataSourceStreamReader):
        return ReaderSource(source)
    if isinstance(source, SimpleDataSourceStreamReader):
        return SimpleReaderSource(source)
    if isinstance(source, DataSource):
        return DataSourceSource(source)
    return None


class _ReaderBacked(StepSource):
    """Reads with a user's reader of PySpark's.

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
    """Reads with a :class:`DataSourceStreamReader`, old and new style.

    A reader with a method ``parts(offset)``, which names its parts, has a watermark generator for each of them; its
    partitions say in an attribute ``part`` to which one they belong.
    """

    def __init__(self, reader: DataSourceStreamReader) -> None:
        super().__init__(reader)
        self.parted = callable(getattr(reader, "parts", None))
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
        if end == start:
            return start, []
        partitions = list(self._reader.partitions(start, end))
        return end, [self._of_part(each) for each in partitions] if self.parted else partitions

    def _of_part(self, partition: Any) -> PartSplit:
        part = getattr(partition, "part", None)
        if not isinstance(part, str):
            raise ConfigurationError(
                f"{type(self._reader).__name__} has a method parts(), so each of its partitions needs an attribute "
                f"'part' with the name of the part that it belongs to; {type(partition).__name__} has {part!r}"
            )
        return PartSplit(part, partition)

    def parts(self, position: Position) -> list[str]:
        return list(self._reader.parts(position))

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
        self.parted = self._inner.parted

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

    def parts(self, position: Position) -> list[str]:
        return self._reader.parts(position)

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
