"""Sources over data at hand, and over the readers of PySpark's data source API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from beadline.connectors import collections as collections_module
from beadline.connectors import readers as readers_module
from beadline.connectors.collections import CollectionSource, SequenceSource
from beadline.connectors.readers import ReaderSource, SimpleReaderSource
from beadline.connectors.source import StepSource, as_source
from beadline.errors import ConfigurationError, UnsupportedFeatureError


def read(source: StepSource, splits: list[Any]) -> list[Any]:
    return [record for split in splits for batch in source.read_batches(split) for record in batch]


def read_all(source: StepSource, rows: int, parallelism: int) -> list[Any]:
    position = source.initial()
    found: list[Any] = []
    for _ in range(1000):
        if source.finished(position):
            return found
        position, splits = source.plan(position, rows, parallelism)
        assert read(source, splits) == read(source, splits), "a split reads the same twice"
        found += read(source, splits)
    raise AssertionError("it does not end")


@given(st.lists(st.integers(), max_size=40), st.integers(1, 20), st.integers(1, 7))
def test_a_collection_is_read_in_order(elements: list[int], rows: int, batch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collections_module, "BATCH", batch)
        source = CollectionSource(elements)
        assert source.bounded
        assert read_all(source, rows, 3) == elements


def test_a_collection_is_a_copy() -> None:
    element = [1]
    source = CollectionSource([element])
    element.append(2)
    assert read_all(source, 1, 1) == [[1]]


@given(st.integers(-50, 50), st.integers(0, 60), st.integers(1, 20), st.integers(1, 5))
def test_a_sequence_has_each_number_once(start: int, length: int, rows: int, parallelism: int) -> None:
    source = SequenceSource(start, start + length)
    _position, splits = source.plan(source.initial(), rows, parallelism)
    assert len(splits) == min(parallelism, rows, length + 1)
    assert read_all(source, rows, parallelism) == list(range(start, start + length + 1))


def test_a_sequence_must_not_be_upside_down() -> None:
    with pytest.raises(ConfigurationError, match="got 3 and 2"):
        SequenceSource(3, 2)


class Range(InputPartition):
    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


class Old(DataSourceStreamReader):
    """``latestOffset()`` without arguments: it grows by three with every call."""

    def __init__(self) -> None:
        self.latest = 0
        self.log: list[Any] = []

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        self.latest += 3
        return {"n": self.latest}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Range]:  # type: ignore[override]
        middle = (start["n"] + end["n"]) // 2
        return [Range(start["n"], middle), Range(middle, end["n"])]

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        return iter([(n,) for n in range(partition.start, partition.end)])

    def commit(self, end: Any) -> None:
        self.log.append(end)

    def stop(self) -> None:
        self.log.append("stop")


class New(Old):
    """``latestOffset(start, limit)``: ten records in all, as many at once as asked for."""

    bounded = True

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # type: ignore[override]
        return {"n": min(10, start["n"] + limit.max_rows)}

    def read(self, partition: Any) -> Iterator[Any]:
        numbers = list(range(partition.start, partition.end))
        yield pa.record_batch({"n": numbers, "s": ["x"] * len(numbers)})


def test_an_old_reader_never_ends_by_itself() -> None:
    source = as_source(Old())
    assert isinstance(source, ReaderSource)
    assert not source.bounded
    position, splits = source.plan(source.initial(), 1, 1)
    assert position == {"n": 3}
    assert read(source, splits) == [(0,), (1,), (2,)]
    assert not source.finished(position)


def test_an_old_reader_in_batch_mode_reads_what_is_there() -> None:
    source = ReaderSource(Old())
    source.prepare(batch=True)
    assert source.bounded
    assert read_all(source, 1, 1) == [(0,), (1,), (2,)]


def test_a_new_reader_is_asked_for_so_many_rows() -> None:
    source = ReaderSource(New())
    position, splits = source.plan(source.initial(), 4, 1)
    assert position == {"n": 4}, "the limit was passed on"
    assert read(source, splits) == [(n, "x") for n in range(4)]
    assert read_all(source, 3, 1) == [(n, "x") for n in range(10)]


def test_a_reader_that_can_prepare_for_batch_mode_does() -> None:
    class Prepared(Old, SupportsTriggerAvailableNow):
        def prepareForTriggerAvailableNow(self) -> None:
            self.latest = -1

        def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
            return {"n": 4} if self.latest == -1 else {"n": 99}

    source = ReaderSource(Prepared())
    source.prepare(batch=True)
    assert read_all(source, 1, 1) == [(0,), (1,), (2,), (3,)]


def test_commit_and_stop_reach_the_reader() -> None:
    reader = Old()
    source = ReaderSource(reader)
    source.commit({"n": 3})
    source.stop()
    assert reader.log == [{"n": 3}, "stop"]


class Simple(SimpleDataSourceStreamReader):
    bounded = True

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def read(self, start: Any) -> Any:
        end = min(7, start["n"] + 3)
        return iter([(n,) for n in range(start["n"], end)]), {"n": end}

    def readBetweenOffsets(self, start: Any, end: Any) -> Iterator[Any]:
        return iter([(n,) for n in range(start["n"], end["n"])])

    def commit(self, end: Any) -> None:
        self.committed = end


def test_a_simple_reader() -> None:
    reader = Simple()
    source = as_source(reader)
    assert isinstance(source, SimpleReaderSource)
    assert read_all(source, 1, 1) == [(n,) for n in range(7)]
    source.commit({"n": 7})
    assert reader.committed == {"n": 7}


def test_records_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "BATCH", 2)
    source = SimpleReaderSource(Simple())
    assert [len(batch) for batch in source.read_batches(({"n": 0}, {"n": 5}))] == [2, 2, 1]


class WithStream(DataSource):
    def schema(self) -> StructType:
        return StructType([StructField("n", IntegerType()), StructField("s", StringType())])

    def streamReader(self, schema: Any) -> Any:
        assert schema.names == ["n", "s"]
        return New()


class WithSimple(DataSource):
    def schema(self) -> StructType:
        return StructType([StructField("n", IntegerType())])

    def simpleStreamReader(self, schema: Any) -> Any:
        return Simple()


def test_a_data_source_gives_its_reader() -> None:
    for made, kind in ((WithStream({}), ReaderSource), (WithSimple({}), SimpleReaderSource)):
        source = as_source(made)
        source.prepare(batch=False)
        assert isinstance(source._reader, kind)
        assert source.initial() == source._reader.initial()


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean Old\(…\)"):
        as_source(Old)
    with pytest.raises(UnsupportedFeatureError, match="can't read from int"):
        as_source(3)
    ready = SequenceSource(1, 2)
    assert as_source(ready) is ready
