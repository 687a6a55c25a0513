"""A job stops with a savepoint, its types change, and it goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.common.type_description import readable
from beadline.testing import AwaitCheckpoint, Crash, TestSource
from tests.datastream.evolving import given

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

FIRST, SECOND = list(range(10)), list(range(100, 105))
Play = Callable[..., Any]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Runs a script as ``__main__``, with what it is given, and returns the module."""

    def run(script: str, **names: Any) -> Any:
        for name, value in names.items():
            monkeypatch.setattr(given, name, value, raising=False)
        main = ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", main)
        path = Path(__file__).parent / "evolving" / script
        exec(compile(path.read_text(), str(path), "exec"), vars(main))
        return main

    return run


@pytest.fixture
def savepoint(play: Play, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """What the program before the change stops with."""
    source = TestSource([*FIRST, AwaitCheckpoint(), *SECOND])
    format = getattr(request, "param", "native")
    path = play("before.py", source=source, options={}, savepoints=str(tmp_path / "savepoints"), format=format).STOPPED
    (account,) = [d for d in read_snapshot(path).operator("remember").state_descriptions if d.name == "account"]
    assert readable(account.type) == "__main__.Account<owner STRING, cents LONG, remark STRING>"
    return str(path)


def resumed(savepoint: str, folder: Path) -> dict[str, str]:
    return {
        "execution.state-recovery.path": savepoint,
        "execution.checkpointing.interval": "1h",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0s",
    }


@pytest.mark.parametrize("savepoint", ["canonical", "native"], indirect=True)
def test_a_job_goes_on_with_changed_types(play: Play, savepoint: str, tmp_path: Path) -> None:
    """Also through a failure before its first checkpoint, at another parallelism."""
    before = {path: path.read_bytes() for path in Path(savepoint).rglob("*") if path.is_file()}
    source = TestSource([*FIRST, SECOND[0], Crash(), *SECOND[1:]], step=2)
    made = play("after.py", source=source, options=resumed(savepoint, tmp_path))
    assert source.crashes == 1
    assert {value: rest for value, *rest, _ in made.RESULTS} == {
        100 + k: [
            ([], Decimal(k + 5), False, f"owner {k}"),
            ({"hits": 2, "level": None, "name": f"name {k}"}, [2, None, f"name {k}"]),
            [(k, f"page {k}", "nobody"), (k + 5, f"page {k + 5}", "nobody")],
            {f"to {k}": float(k), f"to {k + 5}": k + 5.0},
            (k + 5) * 10,
            (-k - 5, 3),
        ]
        for k in range(5)
    }
    counts = [count for *_, counts in made.RESULTS for count in counts]
    assert counts
    assert all(type(count) is float for count in counts)
    after = {path: path.read_bytes() for path in Path(savepoint).rglob("*") if path.is_file()}
    assert after == before


def test_a_type_that_nothing_leads_to_is_refused(play: Play, savepoint: str, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError) as told:
        play("after.py", source=TestSource([*FIRST]), options=resumed(savepoint, tmp_path), refused=True)
    for part in (
        "'Remember' (uid remember)",
        "state 'profile'",
        "ROW<name STRING, hits INT>",
        "ROW<hits BOOLEAN, level STRING, name STRING>",
        "field 'hits': INT can't become BOOLEAN",
        "migrate_from",
    ):
        assert part in str(told.value)
    assert not list((tmp_path / "checkpoints").rglob("*.run"))
