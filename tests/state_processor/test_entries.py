"""Rows of a table become entries of state, or a sentence that says why not."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from beadline.common import Instant, Row, Types
from beadline.runtime.short_tasks.exporting import KeyedExport
from beadline.state.cells import maker_of
from beadline.state.codec import loads, thaw
from beadline.state.description import StateDescription
from beadline.state.key_groups import key_group_of, subtask_of_key_group
from beadline.state.segments.segment import decode_segment
from beadline.state_processor.entries import ENTRIES, EntryExports, TableRows, Target, TimerRows
from tests.state_processor.functions import Order

TARGET = Target(3, 13)


def entries(rows: Any, columns: dict[str, pa.Array]) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pydict(columns)
    return [row for made in rows(iter([batch])) for row in made.to_pylist()]


def table(kind: str = "value", windowed: bool = False, **more: Any) -> TableRows:
    given = {"key_type": None, "value_type": None, **more}
    return TableRows(TARGET, StateDescription("s", kind, namespaced=windowed), "state 's' of operator 'u'", **given)


def changes(rows: Any, columns: dict[str, pa.Array]) -> dict[Any, Any]:
    return {slot: change for _, _, slot, change in (loads(row["payload"]) for row in entries(rows, columns))}


def test_entries_go_where_the_engine_looks_for_them() -> None:
    keys = [f"k{i}" for i in range(100)]
    for row, key in zip(entries(table(), {"key": pa.array(keys), "value": pa.array(range(100))}), keys, strict=True):
        assert row["key_group"] == key_group_of(key, 13)
        assert row["part"] == subtask_of_key_group(row["key_group"], 3, 13)


def test_values_lists_and_maps() -> None:
    key = pa.array(["a"])
    assert changes(table(), {"key": key, "value": pa.array([1])}) == {"a": 1}
    assert changes(table("list"), {"key": key, "value": pa.array([[1, 2]])}) == {"a": (True, [1, 2])}
    maps = pa.array([[("x", 1), ("y", None)]], pa.map_(pa.string(), pa.int64()))
    assert changes(table("map"), {"key": key, "value": maps}) == {"a": (True, {"x": 1, "y": None}, [])}
    assert changes(table("list"), {"key": key, "value": pa.array([[]], pa.list_(pa.int64()))}) == {}


def test_times_of_a_time_to_live() -> None:
    columns = {"key": pa.array(["a", "b"]), "value": pa.array([[1, 2], [3]]), "at": pa.array([70, None], pa.int64())}
    assert changes(table("list", written_at=99), columns) == {
        "a": (True, [(70, 1), (70, 2)]),
        "b": (True, [(99, 3)]),
    }


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (table(), {"key": pa.array([None, "a"]), "value": pa.array([1, 2])}, "a key is null"),
        (table(), {"key": pa.array(["a"]), "value": pa.array([None])}, "the row with key 'a' has no value"),
        (table(value_type=Types.LONG()), {"key": pa.array(["a"]), "value": pa.array(["x"])}, "does not fit at key 'a'"),
        (table(value_type=Types.BYTE()), {"key": pa.array(["a"]), "value": pa.array([300])}, "got 300"),
        (table(key_type=Types.STRING()), {"key": pa.array([1]), "value": pa.array([1])}, "key does not fit at key 1"),
        (table("list"), {"key": pa.array(["a"]), "value": pa.array([[1, None]])}, "has an element that is null"),
        (
            table("map"),
            {"key": pa.array(["a"]), "value": pa.array([[([1], 1)]], pa.map_(pa.list_(pa.int64()), pa.int64()))},
            "a key of a map must be hashable",
        ),
        (
            table(windowed=True),
            {
                "key": pa.array(["a"]),
                "window": pa.array([{"start": 1}], pa.struct([("start", pa.int64()), ("end", pa.int64())])),
                "value": pa.array([1]),
            },
            "it needs a start and an end",
        ),
        (
            TimerRows(TARGET, "the timers of operator 'u'", None, False),
            {"key": pa.array(["a"]), "domain": pa.array(["other"]), "timestamp": pa.array([1])},
            "the domain at key 'a' is 'other'; use 'event' or 'processing'",
        ),
        (
            TimerRows(TARGET, "the timers of operator 'u'", None, False),
            {"key": pa.array(["a"]), "domain": pa.array(["event"]), "timestamp": pa.array([None], pa.int64())},
            "the timestamp at key 'a' is None, not a whole number of milliseconds",
        ),
    ],
)
def test_bad_rows(rows: Any, columns: dict[str, pa.Array], message: str) -> None:
    (row,) = entries(rows, columns)
    assert message in row["problem"]
    assert row["problem"].startswith(("state 's' of operator 'u': ", "the timers of operator 'u': "))


def test_entries_become_files_by_subtask(tmp_path: Path) -> None:
    (tmp_path / "savepoint").mkdir()
    keys = [f"k{i}" for i in range(50)]
    found = entries(table(), {"key": pa.array(keys), "value": pa.array(range(50))})
    timers = TimerRows(TARGET, "timers", None, False)
    found += entries(
        timers,
        {
            "key": pa.array(["k1", "k1", "k2"]),
            "domain": pa.array(["processing"] * 3),
            "timestamp": pa.array([30, 20, 10]),
        },
    )
    found.sort(key=lambda row: (row["part"], row["key_group"], row["table"], row["encoded"]))
    exporting = exports_to(tmp_path)
    (report,) = [pickle.loads(row["report"]) for row in _run(exporting, found)]
    held: dict[str, dict[Any, Any]] = {}
    for export, result in zip(report.exports, report.results, strict=True):
        for name, segment in result:
            content = decode_segment(Path(segment.path).read_bytes(), range(*export.groups))
            assert {subtask_of_key_group(key_group_of(key, 13), 3, 13) for key in content[name].changes} == {
                export.subtask
            }
            held.setdefault(name, {}).update(content[name].changes)
    assert {key: thaw(value) for key, value in held["s"].items()} == {f"k{i}": i for i in range(50)}
    assert {key: sorted(change[0]) for key, change in held["_processing-timers"].items()} == {
        "k1": [20, 30],
        "k2": [10],
    }
    due = {}
    for key, time in (("k1", 20), ("k2", 10)):
        subtask = subtask_of_key_group(key_group_of(key, 13), 3, 13)
        due[subtask] = min(time, due.get(subtask, time))
    assert report.timers == due


def test_a_key_that_comes_twice(tmp_path: Path) -> None:
    (tmp_path / "savepoint").mkdir()
    found = entries(table(), {"key": pa.array(["a", "a"]), "value": pa.array([1, 2])})
    exporting = exports_to(tmp_path)
    (row,) = _run(exporting, found)
    assert row["problem"] == "state 's' of operator 'u': key 'a' comes twice; a state has one row for each key"


def exports_to(folder: Path) -> EntryExports:
    place = str(folder / "savepoint" / "u")
    return EntryExports("u", KeyedExport(0, 0, place, (0, 0), (), TARGET.max_parallelism, "", ()), 0)


def _run(exporting: EntryExports, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist(found, schema=ENTRIES)
    return [row for made in exporting(iter([batch])) for row in made.to_pylist()]


PERSON = pa.struct([("item", pa.string()), ("pieces", pa.int32())])


@pytest.mark.parametrize(
    ("arrow", "cell", "info", "value"),
    [
        (PERSON, {"item": "a", "pieces": 1}, None, Row(item="a", pieces=1)),
        (PERSON, {"item": "a", "pieces": 1}, Types.TUPLE([Types.STRING(), Types.INT()]), ("a", 1)),
        (PERSON, {"item": "a", "pieces": 1}, Types.ROW([Types.STRING(), Types.INT()]), Row(f0="a", f1=1)),
        (
            PERSON,
            {"item": "a", "pieces": 1},
            Types.ROW_NAMED(["pieces", "item"], [Types.INT(), Types.STRING()]),
            Row(pieces=1, item="a"),
        ),
        (PERSON, {"item": "a", "pieces": 1}, Types.CLASS(Order), Order("a", 1)),
        (pa.list_(PERSON), [{"item": "a", "pieces": None}], None, [Row(item="a", pieces=None)]),
        (pa.map_(pa.string(), pa.int64()), [("a", 1)], Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}),
        (pa.decimal128(38, 0), 12, Types.BIG_INT(), 12),
        (
            pa.timestamp("us", "UTC"),
            dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc),
            Types.INSTANT(),
            Instant(1767312000, 0),
        ),
        (pa.timestamp("us", "UTC"), dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc), None, dt.datetime(2026, 1, 2)),
        (pa.float32(), 0.5, Types.FLOAT(), 0.5),
        (pa.string(), "01:02:03.004", Types.SQL_TIME(), dt.time(1, 2, 3, 4000)),
        (pa.string(), "1.10", Types.BIG_DEC(), Decimal("1.10")),
    ],
)
def test_cells_become_values(arrow: pa.DataType, cell: Any, info: Any, value: Any) -> None:
    made = maker_of(arrow, info)(cell)
    assert made == value
    assert type(made) is type(value)
