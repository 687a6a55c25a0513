"""State of any snapshot as tables: typed where it is declared, readable where it is not."""

from __future__ import annotations

import datetime as dt
import pickle
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

import beadline
from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.common import Row, Time, Types
from beadline.common.type_description import type_to_text
from beadline.datastream.window import TimeWindow, TumblingEventTimeWindows
from beadline.errors import ConfigurationError, SerializationError, TypeMismatchError
from beadline.state import codec
from beadline.state.description import StateDescription
from beadline.state_processor.columns import text_of
from beadline.testing import Harness, KeyedHarness
from tests.state_processor.functions import Forgetful, Order, Remembering, Undeclared
from tests.state_processor.local import keep, reader, rows, save, shop

CUSTOMERS = 42
ORDERS = [(f"c{n % CUSTOMERS}", f"i{n % 5}", n % 3 + 1) for n in range(10 * CUSTOMERS)]


def expected(orders: list[tuple[str, str, int]] = ORDERS) -> dict[str, Any]:
    """What the states of :class:`Shop` hold after some orders."""
    pieces: dict[str, int] = {}
    items: dict[str, list[str]] = {}
    by_item: dict[str, dict[str, int]] = {}
    last: dict[str, dict[str, Any]] = {}
    timers: set[tuple[str, None, str, int]] = set()
    for customer, item, number in orders:
        pieces[customer] = pieces.get(customer, 0) + number
        items.setdefault(customer, []).append(item)
        own = by_item.setdefault(customer, {})
        own[item] = own.get(item, 0) + number
        last[customer] = {"item": item, "pieces": number}
        timers.add((customer, None, "event", number * 100))
    return {"pieces": pieces, "items": items, "by-item": by_item, "last": last, "timers": timers}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    with shop() as harness:
        for start in range(0, len(ORDERS), 50):  # several steps, so that there are several segments
            harness.push_all(ORDERS[start : start + 50])
        return save(harness, tmp_path_factory.mktemp("saved") / "savepoint")


# -- keyed state


@pytest.mark.parametrize("slots", [1, 7])
def test_keyed_state_in_closed_form(saved: str, slots: int) -> None:
    state, found = expected(), reader(saved, slots)
    assert rows(found.keyed_state("function", "pieces")) == sorted(state["pieces"].items())
    assert dict(rows(found.keyed_state("function", "items"))) == state["items"]
    assert {key: dict(value) for key, value in rows(found.keyed_state("function", "by-item"))} == state["by-item"]
    assert dict(rows(found.keyed_state("function", "last"))) == state["last"]
    assert set(rows(found.timers("function"))) == state["timers"]


def test_columns_have_the_declared_types(saved: str) -> None:
    found = reader(saved)
    assert str(found.keyed_state("function", "pieces").schema) == "key: string\nvalue: int64"
    assert (
        str(found.keyed_state("function", "items").schema)
        == "key: string\nvalue: list<item: string>\n  child 0, item: string"
    )
    assert found.keyed_state("function", "last").schema.field("value").type[1].name == "pieces"


def test_what_was_removed_is_not_there(tmp_path: Path) -> None:
    with shop(parallelism=3) as harness:
        harness.push_all(ORDERS)
        harness.push_all([("c7", "", 0), ("c8", "", 0)])
        harness.push(("c8", "new", 5))
        found = reader(save(harness, tmp_path / "s"))
    pieces = dict(rows(found.keyed_state("function", "pieces")))
    assert len(pieces) == CUSTOMERS - 1
    assert "c7" not in pieces
    assert pieces["c8"] == 5
    assert dict(rows(found.keyed_state("function", "items")))["c8"] == ["new"]


def test_after_rescaling_every_key_is_there_once(tmp_path: Path) -> None:
    with shop(parallelism=1) as harness:
        harness.push_all(ORDERS)
        for parallelism in (3, 2, 5):
            harness.rescale(parallelism)
            harness.push_all(ORDERS)
        found = rows(reader(save(harness, tmp_path / "s")).keyed_state("function", "pieces"))
    assert found == sorted((key, 4 * value) for key, value in expected()["pieces"].items())


def test_undeclared_state_is_readable_text(tmp_path: Path) -> None:
    values = {
        "text": "plain",
        "number": 7,
        "list": [1, {"a": None}],
        "row": Row(a=1, b="x"),
        "date": dt.date(2026, 1, 2),
    }
    with KeyedHarness(Undeclared(), lambda pair: pair[0]) as harness:
        harness.push_all(list(values.items()))
        path = save(harness, tmp_path / "s")
    assert dict(rows(reader(path).keyed_state("function", "last"))) == {
        "text": "plain",
        "number": "7",
        "list": '[1, {"a": null}]',
        "row": '{"a": 1, "b": "x"}',
        "date": "2026-01-02",
    }


def test_the_reader_may_say_what_undeclared_state_is(tmp_path: Path) -> None:
    with KeyedHarness(Undeclared(), lambda pair: pair[0]) as harness:
        harness.push_all([((1, "a"), 10), ((2, "b"), 20)])
        found = reader(save(harness, tmp_path / "s"))
    typed = found.keyed_state(
        "function", "last", key_type=Types.TUPLE([Types.INT(), Types.STRING()]), value_type=Types.LONG()
    )
    assert rows(typed) == [({"f0": 1, "f1": "a"}, 10), ({"f0": 2, "f1": "b"}, 20)]
    pickled = found.keyed_state("function", "last", value_type=Types.PICKLED_BYTE_ARRAY())
    assert {key: pickle.loads(value) for key, value in rows(pickled)} == {'[1, "a"]': 10, '[2, "b"]': 20}
    with pytest.raises(TypeMismatchError, match="the value of state 'last' of operator 'function' 10 does not fit"):
        found.keyed_state("function", "last", value_type=Types.STRING())


def test_decode_makes_cells_of_values(tmp_path: Path) -> None:
    with KeyedHarness(Undeclared(), lambda pair: pair[0]) as harness:
        harness.push_all([("a", {"n": 3, "more": [1]}), ("b", {"n": 4})])
        found = reader(save(harness, tmp_path / "s"))
    numbers = found.keyed_state("function", "last", decode=lambda value: value["n"], schema=LongType())
    assert rows(numbers) == [("a", 3), ("b", 4)]
    pairs = found.keyed_state(
        "function",
        "last",
        decode=lambda v: (v["n"], len(v)),
        schema=StructType().add("n", LongType()).add("fields", IntegerType()),
    )
    assert rows(pairs) == [("a", {"n": 3, "fields": 2}), ("b", {"n": 4, "fields": 1})]
    with pytest.raises(TypeMismatchError, match=r"decode gave 'x' for .* which does not fit the schema int64"):
        found.keyed_state("function", "last", decode=lambda value: "x", schema=LongType())
    with pytest.raises(ConfigurationError, match="give both or neither"):
        found.keyed_state("function", "last", decode=lambda value: value)


def test_the_users_classes_must_be_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with KeyedHarness(Undeclared(), lambda pair: pair[0]) as harness:
        harness.push(("a", Order("tea", 2)))
        path = save(harness, tmp_path / "s")
    monkeypatch.setattr(codec, "_registered", set())
    codec.trust((), ())
    with pytest.raises(SerializationError, match=r"beadline.register_state_class\(Order\)"):
        reader(path).keyed_state("function", "last")
    beadline.register_state_class(Order)
    assert rows(reader(path).keyed_state("function", "last")) == [("a", '{"item": "tea", "pieces": 2}')]


def test_state_with_a_time_to_live_shows_its_times(tmp_path: Path) -> None:
    with KeyedHarness(Forgetful(), lambda pair: pair[0], key_type=Types.STRING()) as harness:
        harness.advance_processing_time(1000)
        harness.push_all([("a", 1), ("b", 2)])
        harness.advance_processing_time(5000)
        harness.push(("a", 3))
        found = reader(save(harness, tmp_path / "s"))
    assert rows(found.keyed_state("function", "value")) == [("a", 3, 5000), ("b", 2, 1000)]
    assert dict(rows(found.keyed_state("function", "list")))["a"] == [
        {"timestamp": 1000, "value": 1},
        {"timestamp": 5000, "value": 3},
    ]
    assert dict(dict(rows(found.keyed_state("function", "map")))["a"]) == {
        "m1": {"timestamp": 1000, "value": 1},
        "m3": {"timestamp": 5000, "value": 3},
    }
    lengths = found.keyed_state("function", "list", decode=sum, schema=IntegerType())
    assert rows(lengths) == [("a", 4), ("b", 2)]


# -- state of our own operators


def test_windows_and_their_timers(tmp_path: Path) -> None:
    with KeyedHarness(
        lambda words: words.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).reduce(
            lambda a, b: (a[0], a[1] + b[1])
        ),
        lambda pair: pair[0],
        key_type=Types.STRING(),
        parallelism=2,
    ) as harness:
        harness.push_all([("a", 1), ("b", 2), ("a", 4), ("a", 8)], [1, 2, 9, 12])
        found = reader(save(harness, tmp_path / "s"))
    uid = next(o.uid for o in found._catalog.snapshot.operators if o.keyed)
    assert rows(found.window_state(uid, "window-contents")) == [
        ("a", {"start": 0, "end": 10}, '["a", 5]'),
        ("a", {"start": 10, "end": 20}, '["a", 8]'),
        ("b", {"start": 0, "end": 10}, '["b", 2]'),
    ]
    sums = found.window_state(uid, "window-contents", value_type=Types.TUPLE([Types.STRING(), Types.INT()]))
    assert [row[2]["f1"] for row in rows(sums)] == [5, 8, 2]
    assert rows(found.timers(uid)) == [
        ("a", {"start": 0, "end": 10}, "event", 9),
        ("a", {"start": 10, "end": 20}, "event", 19),
        ("b", {"start": 0, "end": 10}, "event", 9),
    ]
    with pytest.raises(SnapshotError, match=r"is kept by window; read it with window_state\(\)"):
        found.keyed_state(uid, "window-contents")


def test_the_totals_of_reduce(tmp_path: Path) -> None:
    with KeyedHarness(
        lambda pairs: pairs.reduce(lambda a, b: (a[0], a[1] + b[1])), lambda pair: pair[0], key_type=Types.STRING()
    ) as harness:
        harness.push_all([("a", 1), ("b", 2), ("a", 4)])
        found = reader(save(harness, tmp_path / "s"))
    uid = next(o.uid for o in found._catalog.snapshot.operators if o.keyed)
    assert rows(found.keyed_state(uid, "_reduce")) == [("a", '["a", 5]'), ("b", '["b", 2]')]


# -- operator state


def test_operator_state(tmp_path: Path) -> None:
    with Harness(Remembering(), parallelism=2) as harness:
        harness.push_all(list(range(7)))
        found = reader(save(harness, tmp_path / "s"))
    seen = rows(found.list_state("function", "seen"))
    assert sorted(value for _, value in seen) == list(range(7))
    assert {subtask for subtask, _ in seen} == {0, 1}
    assert sorted(value for _, value in rows(found.union_state("function", "union"))) == [f"u{i}" for i in range(7)]
    assert rows(found.broadcast_state("function", "rules")) == []
    doubled = found.list_state("function", "seen", decode=lambda value: value * 2, schema=IntegerType())
    assert sorted(value for _, value in rows(doubled)) == [2 * i for i in range(7)]


# -- what there is, and what there is not


def test_unknown_names_are_answered_with_those_that_there_are(saved: str) -> None:
    found = reader(saved)
    with pytest.raises(SnapshotError, match=r"has no operator with uid 'shop'; there is .*'function' \(Shop\)"):
        found.keyed_state("shop", "pieces")
    with pytest.raises(SnapshotError, match=r"has no state named 'count'; there is .*'pieces' \(keyed value\)"):
        found.keyed_state("function", "count")
    with pytest.raises(SnapshotError, match=r"is keyed state and can't be read with list_state\(\)"):
        found.list_state("function", "items")
    with pytest.raises(SnapshotError, match=r"read them with timers\('function'\)"):
        found.keyed_state("function", "_event-timers")
    with pytest.raises(SnapshotError, match=r"is kept by key; read it with keyed_state\(\)"):
        found.window_state("function", "pieces")


def test_paths_that_are_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="the path does not exist"):
        reader(str(tmp_path / "nothing"))
    with pytest.raises(SnapshotError, match="is a directory and not a checkpoint or savepoint"):
        reader(str(tmp_path))


def test_a_value_that_does_not_fit_is_an_error_and_not_a_null(saved: str, tmp_path: Path) -> None:
    snapshot = read_snapshot(saved)
    wrong = StateDescription("pieces", "value", type_to_text(Types.STRING()))
    operators = tuple(replace(o, state_descriptions=(wrong,)) if o.keyed else o for o in snapshot.operators)
    found = reader(keep(replace(snapshot, operators=operators), tmp_path / "s"))
    with pytest.raises(TypeMismatchError, match="does not fit its declared type STRING"):
        found.keyed_state("function", "pieces")
    assert rows(found.keyed_state("function", "pieces", value_type=Types.LONG()))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("a", "a"),
        (b"\x01\xff", "01ff"),
        (Decimal("1.10"), "1.10"),
        (True, "true"),
        (float("nan"), '"nan"'),
        ((1, "a"), '[1, "a"]'),
        ({(1, 2): {3}}, '{"[1, 2]": [3]}'),
        (Order("tea", 2), '{"item": "tea", "pieces": 2}'),
        (Row(1, None), "[1, null]"),
        (TimeWindow(1, 9), '{"start": 1, "end": 9}'),
        (object, "\"<class 'object'>\""),
    ],
)
def test_text(value: Any, text: str | None) -> None:
    assert text_of(value) == text
