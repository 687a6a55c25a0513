"""Lookups in a table: what they find, and how the table travels."""

from __future__ import annotations

import datetime as dt
import logging
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.common import Row, Types, WatermarkStrategy
from beadline.datastream import JoinFunction, KeySelector, StreamExecutionEnvironment
from beadline.datastream.streams import lookup as lookup_module
from beadline.errors import ConfigurationError, JobExecutionError, TypeMismatchError
from beadline.graph.specs import CollectSpec
from beadline.runtime.operators import lookup as lookup_table
from beadline.runtime.operators.lookup import LookupTable
from tests.runtime.harness import Given, Job

hypothesis = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class Frame:
    """What a lookup needs of a DataFrame."""

    isStreaming = False

    def __init__(self, **columns: Any) -> None:
        self._table = pa.table(columns)
        self.columns = self._table.column_names
        self.evaluated = 0

    def toArrow(self) -> pa.Table:
        self.evaluated += 1
        return self._table


def source(p: int = 2, type_info: Any = None) -> Any:
    env = StreamExecutionEnvironment()
    env.set_parallelism(p)
    return env.from_source(Given(), WatermarkStrategy.no_watermarks(), "records", type_info).set_parallelism(1)


def job_of(stream: Any, folder: Path, seed: int | None = None, workers: int = 2) -> Job:
    stream._apply("out", CollectSpec("out"), None)
    plan = stream.get_execution_environment()._plan("lookup")
    return Job(plan, folder, workers=workers, trouble=None if seed is None else random.Random(seed))


def run(stream: Any, folder: Path, records: list[Any], sizes: list[int] | None = None, seed: int | None = None) -> Any:
    return job_of(stream, folder, seed).work_through({1: [records]}, sizes or [2]).out.get("out", [])


def found(results: list[Any]) -> list[Any]:
    """Pairs with the rows as plain values."""
    return [(element, None if row is None else tuple(row)) for element, row in results]


rows_ = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.sampled_from("xyz")), max_size=12)
elements = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 7)), st.sampled_from("xyz")), max_size=15)


@hypothesis
@given(rows_, elements, st.lists(st.integers(1, 5), min_size=1), st.integers(0, 99), st.sampled_from(["inner", "left"]))
def test_a_lookup_is_a_join(
    tmp_path: Path, rows: list[Any], records: list[Any], sizes: list[int], seed: int, how: str
) -> None:
    frame = Frame(
        id=pa.array([r[0] for r in rows], pa.int64()),
        name=pa.array([r[1] for r in rows], pa.string()),
        place=pa.array(range(len(rows)), pa.int64()),
    )
    table = [(*row, place) for place, row in enumerate(rows)]
    one, two = [], []
    for element in records:
        by_id = [row for row in table if row[0] == element[0] is not None]
        by_both = [row for row in table if row[:2] == element and element[0] is not None]
        for expected, matches in ((one, by_id), (two, by_both)):
            expected += [(element, row) for row in matches]
            if not matches and how == "left":
                expected.append((element, None))
    single = source(1).lookup(frame, "id", lambda e: e[0], how)
    double = source(1).lookup(frame, ["id", "name"], lambda e: list(e), how)
    assert found(run(single, tmp_path, records, sizes, seed)) == one, "all rows, in order"
    assert found(run(double, tmp_path, records, sizes, seed)) == two


PEOPLE = {"id": [1, 2, 2], "name": ["Ada", "Bo", "Cy"]}


def test_rows_have_names_and_timestamps_stay(tmp_path: Path) -> None:
    def year(element: Any, row: Any) -> Any:
        return element["year"], row.name, row["id"]

    stream = source(1).lookup(Frame(**PEOPLE), "id", function=year)
    assert run(stream, tmp_path, [{"id": 2, "year": 1}, {"id": 3, "year": 2}]) == [(1, "Bo", 2), (1, "Cy", 2)]
    assert run(source(1).lookup(Frame(**PEOPLE), on=["id"]), tmp_path, [Row(id=1)]) == [
        (Row(id=1), Row(id=1, name="Ada"))
    ]


class Tens(KeySelector):
    def open(self, runtime_context: Any) -> None:
        self.by = 10

    def get_key(self, value: Any) -> Any:
        return value // self.by


class Name(JoinFunction):
    def open(self, runtime_context: Any) -> None:
        self.greeting = "hello "

    def join(self, first: Any, second: Any) -> Any:
        return self.greeting + ("nobody" if second is None else second.name)


def test_functions_with_a_life(tmp_path: Path) -> None:
    stream = source(1).lookup(Frame(**PEOPLE), "id", Tens(), "left", Name(), Types.STRING())
    assert run(stream, tmp_path, [10, 99]) == ["hello Ada", "hello nobody"]


def test_behind_key_by(tmp_path: Path) -> None:
    stream = source(3).key_by(lambda n: n).lookup(Frame(**PEOPLE), "id", lambda n: n)
    assert sorted(found(run(stream, tmp_path, [1, 2]))) == [(1, (1, "Ada")), (2, (2, "Bo")), (2, (2, "Cy"))]


def test_values_are_python_values(tmp_path: Path) -> None:
    noon = dt.datetime(2024, 7, 1, 12)
    frame = Frame(
        id=pa.array([1]),
        at=pa.array([noon.replace(tzinfo=dt.timezone.utc)], pa.timestamp("us", "Europe/Berlin")),
        naive=pa.array([noon], pa.timestamp("us")),
        price=pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
        parts=pa.array([[{"n": 1, "at": None}]], pa.list_(pa.struct([("n", pa.int64()), ("at", pa.date32())]))),
        by_name=pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        nothing=pa.array([None], pa.list_(pa.int64())),
    )
    ((_, row),) = run(source(1).lookup(frame, "id", lambda n: n), tmp_path, [1])
    assert tuple(row) == (
        1,
        dt.datetime(2024, 7, 1, 14),
        noon,
        Decimal("1.50"),
        [Row(n=1, at=None)],
        {"a": 1},
        None,
    )


@pytest.mark.parametrize("function", [None, lambda element, row: [element, row]])
def test_nobody_can_change_the_table(tmp_path: Path, function: Any) -> None:
    """Two rows match, and each result is changed behind the lookup: neither the table nor the other result sees it."""
    frame = Frame(id=[1, 1], tags=[["a"], ["b"]])

    def spoil(result: Any) -> Any:
        element, row = result
        element.append("spoilt")
        row.tags.append("spoilt")
        known, row["id"] = row["id"], 99
        return known, len(element), tuple(row.tags)

    stream = source(1).lookup(frame, "id", lambda e: e[0], function=function).map(spoil)
    assert run(stream, tmp_path, [[1], [1]], [2]) == [(1, 2, ("a", "spoilt")), (1, 2, ("b", "spoilt"))] * 2


def test_the_table_travels_once_and_is_read_once_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(lookup_table, "Index", lambda *args: made.append(args) or lookup_table_index(*args))
    chance = random.Random(1)
    frame = Frame(id=range(20_000), noise=[chance.randbytes(50) for _ in range(20_000)])
    stream = source(4).rebalance().lookup(frame, "id", lambda n: n)
    again = stream.lookup(frame, "id", lambda pair: pair[0] + 1)
    job = job_of(again, tmp_path, workers=1)
    size = LookupTable.of(frame.toArrow()).data
    assert len(size) > 1_000_000
    assert len(job.engine.shipped.value.data) < len(size) * 2.2, "twice at most, for two lookups"
    job.work_through({1: [list(range(100))]}, [10])
    assert len(job.out["out"]) == 100
    assert len(made) == 1, "four subtasks of two lookups share one index"
    assert frame.evaluated == 3


lookup_table_index = lookup_table.Index


def test_copies_in_one_process_are_one_object() -> None:
    table = LookupTable.of(pa.table({"id": [1, 2]}))
    data = cloudpickle.dumps([table, table])
    first, second = cloudpickle.loads(data), cloudpickle.loads(data)
    assert first[0] is first[1] is second[0]
    assert data.count(table.data) == 1
    digest = table.digest
    assert digest in lookup_table._tables
    del first, second
    assert digest not in lookup_table._tables, "a table goes when its segment goes"


def test_a_table_that_is_too_large(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = Frame(id=pa.array(range(1000), pa.int64()))
    with pytest.raises(ConfigurationError, match=r"1000 rows of 0.0 MB together, more than max_bytes=7999"):
        source().lookup(frame, "id", lambda n: n, max_bytes=7999)
    with caplog.at_level(logging.WARNING, "beadline"):
        source().lookup(frame, "id", lambda n: n)
        assert not caplog.records
        monkeypatch.setattr(lookup_module, "_WARN_BYTES", 7999)
        source().lookup(frame, "id", lambda n: n)
        assert "1000 rows" in caplog.text


def test_wrong_use_is_refused() -> None:
    frame = Frame(**PEOPLE, tags=[["a"], [], []])
    stream = source()
    with pytest.raises(ConfigurationError, match=r"on='nmae', but the columns .*'name'"):
        stream.lookup(frame, "nmae")
    with pytest.raises(ConfigurationError, match="columns"):
        stream.lookup(frame, [])
    with pytest.raises(ConfigurationError, match="'inner' or 'left', got 'outer'"):
        stream.lookup(frame, "id", how="outer")
    with pytest.raises(TypeMismatchError, match="takes a Spark DataFrame, got list"):
        stream.lookup([1], "id")
    with pytest.raises(TypeMismatchError, match="'tags' is of type list"):
        stream.lookup(frame, "tags")
    with pytest.raises(ConfigurationError, match="have no field names; give key="):
        source(type_info=Types.STRING()).lookup(frame, "id")
    with pytest.raises(ConfigurationError, match=r"no fields \['id'\]"):
        source(type_info=Types.ROW_NAMED(["a"], [Types.INT()])).lookup(frame, "id")
    with pytest.raises(TypeMismatchError, match="KeySelector"):
        stream.lookup(frame, "id", key=5)
    unbounded = Frame(**PEOPLE)
    unbounded.isStreaming = True
    with pytest.raises(ConfigurationError, match="bounded"):
        stream.lookup(unbounded, "id")
    twice = Frame(**PEOPLE)
    twice.columns = ["id", "id"]
    with pytest.raises(ConfigurationError, match="two columns of one name"):
        stream.lookup(twice, "id")
    assert unbounded.evaluated == twice.evaluated == 0


@pytest.mark.parametrize(
    ("on", "key", "message"),
    [
        ("id", str, "a key of type str can't equal a value of column 'id', which is of type int64: '9'"),
        ("name", int, "a key of type int can't equal a value of column 'name', which is of type string: 9"),
        (["id", "name"], lambda n: (n,), r"by the 2 columns \['id', 'name'\], but the key has 1 values"),
        (["id", "name"], lambda n: (n, n), "can't equal a value of column 'name'"),
        ("id", lambda n: [n], "unhashable"),
    ],
)
def test_keys_that_can_not_match(tmp_path: Path, on: Any, key: Any, message: str) -> None:
    with pytest.raises(JobExecutionError, match=message):
        run(source(1).lookup(Frame(**PEOPLE), on, key), tmp_path, [9])
