"""``beadline state``: what a running job, a checkpoint or a savepoint knows."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.cli.main import app
from beadline.common.savepoint_format_type import SavepointFormatType
from tests.state_processor.everything import KEYS, ROUNDS, running

Places = dict[str, str]


@pytest.fixture(scope="module")
def places(local_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A running job by its name, by its id, a job's folder, and savepoints of both formats."""
    folder = tmp_path_factory.mktemp("places")
    with running(
        2,
        execution_checkpointing_dir=str(folder / "checkpoints"),
        execution_checkpointing_interval="1h",
        execution_checkpointing_data__inline__threshold="0",
    ) as master:
        canonical, native = SavepointFormatType.CANONICAL, SavepointFormatType.NATIVE
        kinds = {"canonical": canonical, "native": native}
        paths = {
            name: master.trigger(CheckpointKind.SAVEPOINT, str(folder / name), format=format).result(20)
            for name, format in kinds.items()
        }
        checkpoint = master.trigger(CheckpointKind.CHECKPOINT).result(20)
        yield {**paths, "name": "everything", "id": master.job_id[:8], "folder": str(Path(checkpoint).parent)}


@pytest.fixture(params=["name", "id", "folder", "canonical", "native"])
def place(request: pytest.FixtureRequest, places: Places) -> str:
    return places[request.param]


@pytest.fixture
def state() -> Callable[..., Result]:
    def run(*args: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["state", *args])
        assert result.exit_code == code, result.output
        return result

    return run


def test_operators_and_states_are_listed(state: Callable[..., Result], place: str) -> None:
    lines = state("list", place).stdout.splitlines()
    (total,) = [line for line in lines if "shop.total" in line]
    assert "ValueState" in total
    assert "STRING → LONG" in total
    assert f" {KEYS} " in total
    operators = {each["uid"]: each for each in json.loads(state("list", place, "--json").stdout)["operators"]}
    assert operators["shop"]["keys"] == KEYS
    assert {each["table"] for each in operators["windows"]["states"]} == {"windows.timers", "windows.window_contents"}


def test_a_key_is_shown_with_its_values_and_timers(state: Callable[..., Result], place: str) -> None:
    shown = state("key", place, "c7", "-o", "shop").stdout
    assert '{"customer": "c7", "pieces": 8}' in shown
    assert "processing time" in shown
    (found,) = json.loads(state("key", place, '["c7", 8]', "-o", "seen", "--json").stdout)["states"]
    assert found["entries"][0]["value"] == {"customer": "c7", "pieces": 8}


def test_a_key_without_state_gives_exit_code_1(state: Callable[..., Result], place: str) -> None:
    result = state("key", place, "nobody", "-o", "shop", code=1)
    assert result.stderr == "operator 'shop' has nothing for key nobody.\n"


def test_the_operator_must_be_named_if_there_are_several(state: Callable[..., Result], place: str) -> None:
    error = state("key", place, "c7", code=1).stderr
    assert "several operators have keyed state; name one with --operator:\n  shop (Shop)\n" in error


def test_the_largest_keys(state: Callable[..., Result], place: str) -> None:
    result = state("largest", place, "-n", "2", "-o", "shop")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["key", "c39", "c38"]
    assert f"of {KEYS} keys" in result.stderr
    only = json.loads(state("largest", place, "-o", "shop", "--state", "by-size", "--json").stdout)
    assert [*only["keys"][0]["states"]] == ["by-size"]


def test_a_state_that_does_not_exist_is_refused(state: Callable[..., Result], place: str) -> None:
    for command in (["key", place, "c7"], ["largest", place]):
        result = CliRunner().invoke(app, ["state", *command, "-o", "shop", "--state", "nope"])
        assert result.exit_code in (1, 3)
        assert "has no keyed state 'nope'; there is '" in result.stderr


def test_counting_a_running_job_is_done_here(
    state: Callable[..., Result], places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes long takes nothing from the job; only where its files can't be read is the driver asked."""
    from beadline.cli.state_source import JobSource
    from beadline.errors import VersionError

    def refusing(*args: Any) -> Any:
        raise AssertionError(f"the driver was asked: {args}")

    with monkeypatch.context() as patch:
        patch.setattr(JobSource, "_get", refusing)
        assert f"of {KEYS} keys" in state("largest", places["name"], "-o", "shop").stderr
        assert json.loads(state("list", places["name"], "--exact", "--json").stdout)["operators"]

    def elsewhere(*args: Any, **more: Any) -> Any:
        raise VersionError("can't read it from here")

    monkeypatch.setattr("beadline.state_processor.local.largest.largest", elsewhere)
    assert f"of {KEYS} keys" in state("largest", places["name"], "-o", "shop").stderr


def test_sizes_show_the_spread(state: Callable[..., Result], place: str) -> None:
    shown = state("sizes", place, "-o", "shop").stdout
    assert "8 to 15" in shown
    assert "of 16 in use" in shown


def test_sql_joins_states(state: Callable[..., Result], place: str) -> None:
    query = """
        select t.key, t.value, len(i.value) as orders, n.value ->> 'pieces' as pieces
        from shop.total t join shop.items i using (key) join seen.note n on n.key.f0 = t.key
        order by t.value desc limit 2
    """
    assert json.loads(state("sql", query, "--from", place, "--json").stdout) == [
        {"key": "c39", "value": 40 * ROUNDS, "orders": ROUNDS, "pieces": "40"},
        {"key": "c38", "value": 39 * ROUNDS, "orders": ROUNDS, "pieces": "39"},
    ]
    found = list(csv.reader(io.StringIO(state("sql", query, "--from", place, "--csv").stdout)))
    assert found[0] == ["key", "value", "orders", "pieces"]
    assert found[1] == ["c39", str(40 * ROUNDS), str(ROUNDS), "40"]
    assert state("sql", "select sum(value) from total", "--from", place).stdout.split()[-1] == str(
        ROUNDS * KEYS * (KEYS + 1) // 2
    )


def test_sql_over_windows_timers_and_operator_state(state: Callable[..., Result], place: str) -> None:
    def ask(query: str) -> Any:
        return json.loads(state("sql", query, "--from", place, "--json").stdout)

    assert ask('select "window"."end" as ends, count(*) as n from windows.window_contents group by 1') == [
        {"ends": 3_600_000, "n": 4}
    ]
    assert ask("select domain, count(*) as n from shop.timers group by 1 order by 1") == [
        {"domain": "event", "n": KEYS},
        {"domain": "processing", "n": KEYS},
    ]
    assert ask("select distinct value from seen.seen") == [{"value": "something"}]
    assert ask("select a.value, b.value from shop.total a join shop.sum b using (key) where key = 'c0'") == [
        {"value": ROUNDS, "value_2": ROUNDS}
    ]


def test_a_query_that_fails_says_why_and_lists_the_tables(state: Callable[..., Result], place: str) -> None:
    error = state("sql", "select * from shop.nope", "--from", place, code=1).stderr
    assert "nope does not exist" in error
    assert "  shop.total: key, value (ValueState of LONG)" in error
    assert "syntax error" in state("sql", "selec", "--from", place, code=1).stderr


def test_without_duckdb_the_message_says_what_to_install(
    state: Callable[..., Result], places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install 'beadline[sql]'" in state("sql", "select 1", "--from", places["native"], code=1).stderr


def test_what_is_not_there_is_said(state: Callable[..., Result], places: Places, tmp_path: Path) -> None:
    assert "there is no checkpoint or savepoint at" in state("list", str(tmp_path / "x"), code=1).stderr
    error = state("list", "nobody", code=3).stderr
    assert "To look into a checkpoint or savepoint, give its path." in error
    assert "has no operator with uid 'x'" in state("key", places["native"], "k", "-o", "x", code=1).stderr
    assert "has no operator with uid 'x'" in state("key", places["name"], "k", "-o", "x", code=3).stderr


def test_looking_leaves_no_view_open(state: Callable[..., Result], places: Places) -> None:
    from beadline.master import life

    state("sql", "select * from total", "--from", places["name"])
    (master,) = [job for job in life.jobs if job.job_id.startswith(places["id"])]
    assert master.running is not None
    assert master.running.views.files() == frozenset()


def test_the_manual_writes_tables_as_sql_takes_them(state: Callable[..., Result]) -> None:
    """In single quotes a name is a file for DuckDB."""
    manual = (Path(__file__).parents[2] / "docs" / "state.md").read_text(encoding="utf-8")
    assert "from baskets.total" in manual
    assert "from '" not in manual
    assert "'uid.state'" not in state("sql", "--help").output
