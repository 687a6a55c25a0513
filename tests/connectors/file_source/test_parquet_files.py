"""Records of Parquet files."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.common import Instant, Row
from beadline.connectors.file_source import parquet as parquet_files
from beadline.connectors.file_source.parquet import ParquetFileSource, ParquetLayout
from beadline.errors import InputError
from beadline.table import DataTypes
from beadline.table.arrow import arrow_schema
from tests.connectors.file_source.conftest import read_all, read_ranges

SMALL = pa.schema([("id", pa.int64()), ("name", pa.string())])


def table(count: int, start: int = 0) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": list(numbers), "name": [None if n % 3 else f"n{n}" for n in numbers]}, SMALL)


def rows(count: int, start: int = 0) -> list[Row]:
    return [Row(**row) for row in table(count, start).to_pylist()]


@pytest.fixture(params=["kept groups", "large groups"])
def _groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "large groups":
        monkeypatch.setattr(parquet_files, "_KEPT_BYTES", -1)


@pytest.mark.usefixtures("_groups")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    count=st.integers(0, 60),
    group=st.integers(1, 25),
    batch=st.integers(1, 9),
    cuts=st.sets(st.integers(1, 59), max_size=5),
)
def test_each_row_is_read_once_wherever_ranges_are_cut(
    tmp_path: Path, count: int, group: int, batch: int, cuts: set[int]
) -> None:
    path = tmp_path / f"{count}-{group}.parquet"
    pq.write_table(table(count), path, row_group_size=group)
    source = ParquetFileSource([str(path)], ParquetLayout(SMALL, batch_size=batch))
    places = [0, *sorted(cut for cut in cuts if cut < count), count]
    assert read_ranges(source, str(path), path.stat().st_size, places) == rows(count)


@pytest.mark.usefixtures("_groups")
@pytest.mark.parametrize("may_split", [True, False])
def test_steps_read_files_and_folders(tmp_path: Path, may_split: bool) -> None:
    pq.write_table(table(100), tmp_path / "a.parquet", row_group_size=30)
    pq.write_table(table(50, 100), tmp_path / "b.parquet", row_group_size=30)
    pq.write_table(table(0), tmp_path / "c.parquet")
    source = ParquetFileSource([str(tmp_path)], ParquetLayout(SMALL), None, may_split)
    assert read_all(source, 7, 3) == rows(150)


def test_a_step_has_as_many_rows_as_were_asked_for(tmp_path: Path) -> None:
    pq.write_table(table(100), tmp_path / "a.parquet")
    source = ParquetFileSource([str(tmp_path)], ParquetLayout(SMALL))
    end, splits = source.plan(source.initial(), 40, 3)
    assert end["byte"] == 40
    assert [(given.start, given.end, given.unit) for split in splits for given in split] == [
        (0, 14, "row"),
        (14, 28, "row"),
        (28, 40, "row"),
    ]


def test_new_files_are_found(tmp_path: Path) -> None:
    pq.write_table(table(10), tmp_path / "a.parquet")
    source = ParquetFileSource([str(tmp_path)], ParquetLayout(SMALL), 0.001)
    position, _ = source.plan(source.initial(), 100, 1)
    assert not source.finished(position)
    pq.write_table(table(5, 10), tmp_path / "b.parquet")
    time.sleep(0.002)
    position, splits = source.plan(position, 100, 1)
    assert [row for split in splits for batch in source.read_batches(split) for row in batch] == rows(5, 10)


EVERYTHING = DataTypes.ROW(
    [
        DataTypes.FIELD("tiny", DataTypes.TINYINT()),
        DataTypes.FIELD("small", DataTypes.SMALLINT()),
        DataTypes.FIELD("number", DataTypes.INT()),
        DataTypes.FIELD("real", DataTypes.FLOAT()),
        DataTypes.FIELD("flag", DataTypes.BOOLEAN()),
        DataTypes.FIELD("price", DataTypes.DECIMAL(10, 2)),
        DataTypes.FIELD("day", DataTypes.DATE()),
        DataTypes.FIELD("time", DataTypes.TIME()),
        DataTypes.FIELD("at", DataTypes.TIMESTAMP(6)),
        DataTypes.FIELD("moment", DataTypes.TIMESTAMP_LTZ(3)),
        DataTypes.FIELD("data", DataTypes.BYTES()),
        DataTypes.FIELD("list", DataTypes.ARRAY(DataTypes.INT())),
        DataTypes.FIELD("map", DataTypes.MAP(DataTypes.STRING(), DataTypes.TIMESTAMP_LTZ(3))),
        DataTypes.FIELD("inner", DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT())])),
        DataTypes.FIELD("rows", DataTypes.ARRAY(DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT())]))),
    ]
)
FULL = Row(
    tiny=-1,
    small=2,
    number=3,
    real=0.5,
    flag=True,
    price=Decimal("1.25"),
    day=dt.date(2020, 1, 31),
    time=dt.time(1, 2, 3),
    at=dt.datetime(2020, 1, 31, 1, 2, 3, 456789),
    moment=Instant.of_epoch_milli(1234),
    data=b"\x00",
    list=[1, None],
    map={"a": Instant.of_epoch_milli(5), "b": None},
    inner=Row(x=1),
    rows=[Row(x=None), None],
)
EMPTY = Row(**dict.fromkeys(EVERYTHING.names))


def test_values_of_all_types(tmp_path: Path) -> None:
    utc = dt.timezone.utc
    stored = FULL.as_dict(recursive=True)
    stored |= {
        "moment": dt.datetime.fromtimestamp(1.234, utc),
        "map": [("a", dt.datetime.fromtimestamp(0.005, utc)), ("b", None)],
    }
    schema = arrow_schema(EVERYTHING)
    pq.write_table(pa.Table.from_pylist([stored, dict.fromkeys(schema.names)], schema), tmp_path / "a.parquet")
    found = read_all(ParquetFileSource([str(tmp_path)], ParquetLayout(schema)), 10, 1)
    assert found == [FULL, EMPTY]
    convert: Any = EVERYTHING.type_info().converter()
    assert [convert(row) for row in found] == found, "they are of the type that is declared"


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"other": [1], "NAME": ["a"], "id": pa.array([7], pa.int32())}), tmp_path / "a.parquet")
    layout = ParquetLayout(SMALL)
    assert read_all(ParquetFileSource([str(tmp_path)], layout), 10, 1) == [Row(id=7, name=None)]
    any_case = replace(layout, case_sensitive=False)
    assert read_all(ParquetFileSource([str(tmp_path)], any_case), 10, 1) == [Row(id=7, name="a")]
    generic = replace(any_case, generic=True)
    assert read_all(ParquetFileSource([str(tmp_path)], generic), 10, 1) == [{"id": 7, "name": "a"}]


@pytest.mark.parametrize("int96", [False, True])
def test_points_in_time_are_shown_in_utc_or_here(tmp_path: Path, int96: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = dt.datetime(2020, 7, 1, 12, tzinfo=dt.timezone.utc)
    stored = pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC"))})
    pq.write_table(stored, tmp_path / "a.parquet", use_deprecated_int96_timestamps=int96)
    schema = pa.schema([("at", pa.timestamp("ms"))])
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        for in_utc, hour in ((True, 12), (False, 14)):
            source = ParquetFileSource([str(tmp_path)], ParquetLayout(schema, in_utc=in_utc))
            assert read_all(source, 10, 1) == [Row(at=dt.datetime(2020, 7, 1, hour))]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["not a number"]}), path)
    with pytest.raises(InputError, match=r"can't read rows 0 to 1 of .*a\.parquet"):
        read_all(ParquetFileSource([str(path)], ParquetLayout(SMALL)), 10, 1)
    path.write_text("no Parquet")
    with pytest.raises(InputError, match="is no Parquet file"):
        read_all(ParquetFileSource([str(path)], ParquetLayout(SMALL)), 10, 1)


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(10), path)
    source = ParquetFileSource([str(path)], ParquetLayout(SMALL))
    position, _ = source.plan(source.initial(), 5, 1)
    _, splits = source.plan(position, 5, 1)
    pq.write_table(table(10, 100), path)
    with pytest.raises(InputError, match=r"(has changed since|bytes and had).*from row 5 on"):
        list(source.read_batches(splits[0]))
