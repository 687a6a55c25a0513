"""Jobs go on from snapshots that earlier versions wrote, and the whole output is that of a run without interruption.
``make.py`` made the snapshots."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from beadline.testing import TestSource
from tests.old_snapshots import job
from tests.old_snapshots.functions import DELAY_MS, LAST_STEP, RECORDS, UNITED
from tests.old_snapshots.stored import Stored, snapshot_in

pytestmark = pytest.mark.spark


class GoingOn(NamedTuple):
    """How a job goes on from a snapshot.

    :ivar is_named: the checkpoint is named, and not only the folder of the job, in which the newest one is to be found
    :ivar is_rescaled: the parallelism is another one, and watermarks begin again
    """

    backend: str
    parallelism: int
    is_named: bool = True
    is_rescaled: bool = False


SNAPSHOTS = {
    "by_9ff4bd6/heap": GoingOn("hashmap", 2),
    "by_9ff4bd6/rocksdb": GoingOn("rocksdb", 2, is_named=False),
    "by_9ff4bd6/unaligned": GoingOn("hashmap", 3),
    "by_9ff4bd6/canonical": GoingOn("hashmap", 3, is_rescaled=True),
    "by_9ff4bd6/native": GoingOn("rocksdb", 2),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_job_goes_on_from_a_snapshot_of_an_earlier_version(spark: Any, tmp_path: Path, name: str) -> None:
    stored, going_on = Stored.read(Path(__file__).parent / f"{name}.tar.gz"), SNAPSHOTS[name]
    path = stored.unpack(tmp_path)
    due = snapshot_in(path)["timestamp"] + DELAY_MS
    assert due < time.time() * 1000, "by this machine's clock the timers of the snapshot are not due yet"
    options = {
        "execution.state-recovery.path": path if going_on.is_named else path.parent,
        "state.backend.type": going_on.backend,
        "parallelism.default": going_on.parallelism,
    }
    source = TestSource(job.numbers(RECORDS), step=LAST_STEP)
    job.environment(tmp_path, options, source).execute("old")
    told = {kind: list(lines) for kind, lines in groupby(sorted(lines_in(tmp_path / "out"), key=kind_of), kind_of)}
    check_operator_state([json.loads(line) for line in told.pop("{")])
    behind = told.pop("behind", [])
    assert bool(behind) == going_on.is_rescaled, "watermarks go on where they were, unless the job is rescaled"
    assert differences(list(chain(*told.values())), job.expected(stored.since)) == ([], [])
    assert differences(lines_in(tmp_path / "copied"), [f"line {i}" for i in range(job.LINES)]) == ([], [])


def kind_of(line: str) -> str:
    return "{" if line.startswith("{") else line.split()[0]


def check_operator_state(told: list[dict[str, Any]]) -> None:
    """Which subtask has which numbers is open, but all of them together have each number once."""
    last = {each["subtask"]: each for each in sorted(told, key=lambda each: len(each["own"]))}.values()
    assert sorted(number for each in last for number in each["own"]) == list(range(RECORDS))
    assert sum(each["sum"] for each in last) == sum(range(RECORDS))
    assert {tuple(each["united"]) for each in told} == {UNITED}


def lines_in(folder: Path) -> list[str]:
    """The lines that a reader of a folder sees."""
    paths = [path for path in folder.rglob("*.txt") if not path.relative_to(folder).parts[0].startswith(".")]
    return [line for path in paths for line in path.read_text().splitlines()]


def differences(found: list[str], wanted: list[str]) -> tuple[list[str], list[str]]:
    """What is missing, and what is too much."""
    have, want = Counter(found), Counter(wanted)
    return sorted((want - have).elements()), sorted((have - want).elements())
