"""State looked at without Spark: the same answers from a running job, a checkpoint and savepoints of both formats."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.master.job import JobMaster
from beadline.state import codec
from beadline.state_processor.catalog import Catalog
from beadline.state_processor.local.keys import NoSuchKey
from beadline.state_processor.local.largest import largest
from beadline.state_processor.local.lookup import look_up
from beadline.state_processor.local.overview import overview
from beadline.state_processor.local.parts import Pace
from beadline.state_processor.local.tables import tables_of
from beadline.testing import KeyedHarness
from tests.state_processor.everything import FAR, KEYS, ROUNDS, running
from tests.state_processor.functions import Undeclared
from tests.state_processor.local import save, shop

pytestmark = pytest.mark.usefixtures("local_engine")

#: How the snapshot comes about, after which the answers must be the same.
PLACES = ["running", "checkpoint", "canonical", "native", "rescaled"]


def options(folder: Path, backend: str) -> dict[str, str]:
    return {
        "execution_checkpointing_dir": str(folder / "checkpoints"),
        "execution_checkpointing_interval": "1h",
        "execution_checkpointing_data__inline__threshold": "100",
        "state_backend_type": backend,
    }


def trigger(master: JobMaster, kind: CheckpointKind, folder: Path, format: SavepointFormatType) -> str:
    return master.trigger(kind, str(folder / "savepoints"), format=format).result(20)


@pytest.fixture(scope="module", params=["hashmap", "rocksdb"])
def catalogs(
    request: pytest.FixtureRequest, local_engine: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Catalog]]:
    folder = tmp_path_factory.mktemp(request.param)
    chosen = options(folder, request.param)
    canonical, native = SavepointFormatType.CANONICAL, SavepointFormatType.NATIVE
    with running(2, **chosen) as master:
        paths = {
            "canonical": trigger(master, CheckpointKind.SAVEPOINT, folder, canonical),
            "native": trigger(master, CheckpointKind.SAVEPOINT, folder, native),
            "checkpoint": trigger(master, CheckpointKind.CHECKPOINT, folder, native),
        }
        view = master.look(60).result(5)
        chosen["execution_checkpointing_dir"] = str(folder / "others")
        with running(3, **chosen, execution_state__recovery_path=paths["native"]) as rescaled:
            paths["rescaled"] = trigger(rescaled, CheckpointKind.SAVEPOINT, folder, native)
        yield {
            "running": Catalog("the running job", view.snapshot),
            **{name: Catalog(path) for name, path in paths.items()},
        }


@pytest.fixture(params=PLACES)
def catalog(request: pytest.FixtureRequest, catalogs: dict[str, Catalog]) -> Catalog:
    return catalogs[request.param]


def found(catalog: Catalog, uid: str, text: str, only: str | None = None) -> dict[str, Any]:
    """What there is of a key, as it comes out of JSON."""
    now = int(time.time() * 1000)
    answer: dict[str, Any] = json.loads(
        json.dumps(look_up(catalog.operator(uid), catalog.states(uid), text, now, only))
    )
    return answer


def values(answer: dict[str, Any]) -> dict[str, Any]:
    return {state["name"]: state["entries"][0]["value"] for state in answer["states"]}


# -- one key


def test_a_key_has_all_its_values_and_timers(catalog: Catalog) -> None:
    answer = found(catalog, "shop", "c7")
    assert answer["found"]
    assert values(answer) == {
        "total": 8 * ROUNDS,
        "items": [8] * ROUNDS,
        "by-size": {"8": "c7" * 8},
        "sum": 8 * ROUNDS,
        "mean": [8 * ROUNDS, ROUNDS],
        "last": {"customer": "c7", "pieces": 8},
        "fresh": 8,
    }
    assert [(timer["domain"], timer["timestamp"]) for timer in answer["timers"]] == [
        ("processing", FAR - 8),
        ("event", FAR + 8),
    ]
    fresh = next(state for state in answer["states"] if state["name"] == "fresh")
    (entry,) = fresh["entries"]
    assert entry["expires_at"] == entry["written_at"] + 3_600_000
    assert not entry["expired"]


def test_tuples_are_keys_and_windows_have_their_own_entries(catalog: Catalog) -> None:
    assert values(found(catalog, "seen", '["c7", 8]')) == {"note": {"customer": "c7", "pieces": 8}}
    answer = found(catalog, "windows", "3")
    (state,) = answer["states"]
    assert state["windowed"]
    assert state["entries"][0]["window"] == {"start": 0, "end": 3_600_000}
    assert state["entries"][0]["length"] == KEYS // 4 * ROUNDS
    assert answer["timers"] == [
        {"domain": "event", "timestamp": 3_599_999, "window": {"start": 0, "end": 3_600_000}},
    ]


def test_a_key_without_state_is_not_found_and_one_of_another_type_is_refused(catalog: Catalog) -> None:
    answer = found(catalog, "shop", "nobody")
    assert (answer["found"], answer["states"], answer["timers"], answer["bytes"]) == (False, [], [], 0)
    with pytest.raises(NoSuchKey, match=r'keys are TUPLE<STRING, INT>.*JSON list of its 2 fields, such as \["a", 1\]'):
        found(catalog, "seen", "c7")


def test_one_state_can_be_asked_for(catalog: Catalog) -> None:
    assert values(found(catalog, "shop", "c7", "total")) == {"total": 8 * ROUNDS}


def test_only_segments_and_blocks_of_the_key_group_are_read(
    catalogs: dict[str, Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    from beadline.state_processor.local import lookup

    catalog, read = catalogs["canonical"], []

    def noting(segment: Any, offset: int, size: int) -> Any:
        read.append(segment.path)
        return read_range(segment, offset, size)

    read_range = lookup.read_range
    monkeypatch.setattr(lookup, "read_range", noting)
    answer = found(catalog, "shop", "c7", "total")
    other = catalog.operator("shop").keyed[1 - answer["subtask"]]
    assert other is not None
    assert not {segment.path for segment in other.segments} & set(read)


# -- what there is


def test_the_overview_counts_entries_keys_and_spread(catalog: Catalog) -> None:
    operators = {operator["uid"]: operator for operator in overview(catalog)["operators"]}
    shop = operators["shop"]
    assert (shop["exact"], shop["keys"], shop["key_type"]) == (True, KEYS, "STRING")
    assert {state["name"]: state["entries"] for state in shop["states"]} == dict.fromkeys(
        ["total", "items", "by-size", "sum", "mean", "last", "fresh", "_event-timers", "_processing-timers"], KEYS
    )
    for spread in (shop["subtasks"], shop["states"]):
        assert sum(part["bytes"] for part in spread) == shop["bytes"]
        assert sum(part["entries"] for part in spread) == shop["entries"]
    assert sum(shop["key_groups"]["bytes"]) == shop["bytes"]
    assert len(shop["key_groups"]["entries"]) == 16
    assert sum(subtask["keys"] for subtask in shop["subtasks"]) == KEYS
    assert operators["seen"]["key_type"] == "TUPLE<STRING, INT>"
    own = [state for state in operators["seen"]["states"] if state["scope"] == "operator"]
    assert [(state["name"], state["kind"], state["type"]) for state in own] == [("seen", "list", "STRING")]
    assert not operators["orders"]["keyed"]
    assert operators["orders"]["key_groups"] is None


def test_indexes_give_upper_bounds_without_reading_state(catalog: Catalog) -> None:
    counted, indexed = (overview(catalog, "shop", exact)["operators"][0] for exact in (True, False))
    assert (indexed["exact"], indexed["keys"]) == (False, None)
    for before, after in zip(counted["states"], indexed["states"], strict=True):
        assert after["entries"] >= before["entries"] > 0
    assert sum(indexed["key_groups"]["entries"]) == pytest.approx(indexed["entries"], abs=16)


# -- the largest


def test_the_largest_keys_come_first(catalog: Catalog) -> None:
    answer = largest(catalog.operator("shop"), 3)
    assert [key["key_text"] for key in answer["keys"]] == ["c39", "c38", "c37"]
    assert (answer["complete"], answer["keys_seen"]) == (True, KEYS)
    first = answer["keys"][0]
    assert first["bytes"] == sum(first["states"].values()) == found(catalog, "shop", "c39")["bytes"]
    assert first["key_group"] == found(catalog, "shop", "c39")["key_group"]
    only = largest(catalog.operator("shop"), 1, "by-size")["keys"][0]
    assert only["states"] == {"by-size": first["states"]["by-size"]}


def test_a_reader_that_must_not_take_long_says_how_far_it_came(tmp_path: Path) -> None:
    clock = iter(range(1000))
    with shop(parallelism=3) as harness:
        harness.push_all([(f"c{n}", "x", 1) for n in range(50)])
        catalog = Catalog(save(harness, tmp_path / "s"))
    answer = largest(catalog.operator("function"), 5, pace=Pace(1.0, 1.5, clock=lambda: float(next(clock))))
    assert not answer["complete"]
    assert 0 < answer["keys_seen"] < 50
    assert answer["note"].startswith("The state is large: after 1.5 s, ")


def test_a_considerate_reader_sleeps_most_of_the_time(tmp_path: Path) -> None:
    clock, slept = iter(range(1000)), []
    with shop(parallelism=3) as harness:
        harness.push_all([(f"c{n}", "x", 1) for n in range(50)])
        catalog = Catalog(save(harness, tmp_path / "s"))
    pace = Pace(0.2, None, slept.append, lambda: float(next(clock)))
    assert largest(catalog.operator("function"), 5, pace=pace)["keys_seen"] == 50
    assert slept == [1.0] * 3


# -- values that are not plain data


def test_keys_without_a_type_are_found_by_what_they_look_like(tmp_path: Path) -> None:
    keys: list[Any] = ["ann", 7, "7", ("a", 1), 2.5, True, None, '"quoted"', [1, 2]]
    with KeyedHarness(Undeclared(), lambda pair: pair[0]) as harness:
        harness.push_all([(key, f"of {key!r}") for key in keys])
        catalog = Catalog(save(harness, tmp_path / "s"))
    listed = {key["key_text"] for key in largest(catalog.operator("function"), 100)["keys"]}
    assert listed == {"ann", "7", '"7"', '["a", 1]', "2.5", "true", "null", '"\\"quoted\\""', "[1, 2]"}
    texts = {values(found(catalog, "function", text))["last"] for text in listed}
    assert texts == {f"of {key!r}" for key in keys}


def test_classes_that_this_process_does_not_know_are_rows_and_nothing_of_them_is_run(
    catalogs: dict[str, Catalog], tmp_path: Path
) -> None:
    """A process that has never seen the program reads its savepoint."""
    code = f"""
    import sys
    from beadline.state_processor.catalog import Catalog
    from beadline.state_processor.local.lookup import look_up
    from beadline.state_processor.local.tables import tables_of
    catalog = Catalog({catalogs["native"].path!r})
    operator = catalog.operator("shop")
    (state,) = look_up(operator, catalog.states("shop"), "c7", 0, "last")["states"]
    print(state["entries"][0]["value"])
    (table,) = [table for table in tables_of(catalog) if table.name == "last"]
    print(sorted(table.read().read_all().to_pylist(), key=str)[0])
    print([name for name in ("pyspark", "tests.state_processor.everything") if name in sys.modules])
    """
    lines = "\n".join(line.strip() for line in code.strip().splitlines())
    result = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=60, check=False)
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "{'customer': 'c7', 'pieces': 8}",
        """{'key': 'c0', 'value': '{"customer": "c0", "pieces": 1}'}""",
        "[]",
    ]


class Odd:
    """Neither plain data nor a class with fields."""

    def __reduce__(self) -> Any:
        return Odd, ()


def test_what_can_not_be_loaded_is_said_and_the_rest_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with KeyedHarness(Undeclared(), lambda pair: pair[0]) as harness:
        harness.push_all([("odd", Odd()), ("plain", 1)])
        catalog = Catalog(save(harness, tmp_path / "s"))
    monkeypatch.setattr(codec, "_job_modules", {"__main__"})
    shown = values(found(catalog, "function", "odd"))["last"]
    assert shown.startswith("<a pickle of ")
    assert "test_local.Odd" in shown
    assert values(found(catalog, "function", "plain")) == {"last": 1}


def test_a_large_value_is_cut_and_says_so(tmp_path: Path) -> None:
    with KeyedHarness(Undeclared(), lambda pair: pair[0]) as harness:
        harness.push_all([("a", "x" * 200_000), ("b", [1, 2, 3])])
        catalog = Catalog(save(harness, tmp_path / "s"))
    (entry,) = found(catalog, "function", "a")["states"][0]["entries"]
    assert entry["truncated"]
    assert entry["value"] == '"' + "x" * 65_535
    assert entry["bytes"] > 200_000


# -- tables


def test_each_state_is_a_table_with_a_name_that_needs_no_quotes(catalog: Catalog) -> None:
    tables = {table.full_name: table for table in tables_of(catalog)}
    assert set(tables) == {
        *(f"shop.{name}" for name in ("by_size", "fresh", "items", "last", "mean", "sum", "timers", "total")),
        *("seen.note", "seen.seen", "windows.window_contents", "windows.timers"),
    }
    totals = tables["shop.total"].read().read_all()
    assert str(totals.schema.field("value").type) == "int64"
    assert sorted(totals.to_pylist(), key=lambda row: row["value"])[0] == {"key": "c0", "value": ROUNDS}
    notes = tables["seen.note"].read().read_all().to_pylist()
    assert {row["key"]["f0"] for row in notes} == {f"c{n}" for n in range(KEYS)}
    assert tables["windows.timers"].read().read_all().num_rows == 4
    assert tables["shop.total"].about == "ValueState of LONG"


def test_tables_of_generated_uids_and_of_equal_names_can_be_told_apart(tmp_path: Path) -> None:
    from dataclasses import replace

    with shop() as harness:
        harness.push(("a", "x", 1))
        catalog = Catalog(save(harness, tmp_path / "s"))
    operator = catalog.operator("function")
    odd = [
        replace(operator, uid="a" * 32, generated_uid=True, name="Sum -> Map!"),
        replace(operator, uid="MAIN"),
        replace(operator, uid="1st"),
        replace(operator, uid="sum map"),
    ]
    snapshot = replace(catalog.snapshot, operators=tuple(odd))
    assert {table.schema for table in tables_of(Catalog("x", snapshot))} == {"sum_map", "main_2", "_1st", "sum_map_2"}
