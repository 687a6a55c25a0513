"""Savepoints: what is in them, and that a job goes on from one as another version, elsewhere, wider, with another
backend."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.storage.durable import verify
from beadline.errors import BeadlineError
from beadline.testing import AwaitCheckpoint, Crash
from tests.recovery.upgrades import (
    HALF,
    KEYS,
    RECORDS,
    VERSIONS,
    Version,
    end_of,
    expected,
    master_of,
    numbers,
    restored,
    start,
    told,
    wait_until_read,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]

BACKENDS = ("heap", "rocksdb", "memory", "fs")
PARALLELISM = 2
PATH = "execution.state-recovery.path"
CLAIM = "execution.state-recovery.claim-mode"


@dataclass(frozen=True)
class Cell:
    """A savepoint of one backend and format that another one goes on from."""

    before: str
    after: str
    format: str
    parallelism: int
    version: str
    owner: str
    place: str

    def __str__(self) -> str:
        return f"{self.before} to {self.after}, {self.format}, {self.parallelism}, {self.version}, {self.owner}"


# Every backend to every other one. Of the rest, every pair of choices comes up, but for some of the five versions,
# which are too many for four times four cells.
MATRIX = [
    Cell("heap", "heap", "canonical", 4, "renamed", "user", "moved"),
    Cell("heap", "rocksdb", "native", 1, "reordered", "job", "moved"),
    Cell("heap", "memory", "native", 2, "added", "user", "in place"),
    Cell("heap", "fs", "native", 3, "removed", "user", "moved"),
    Cell("rocksdb", "heap", "native", 2, "reordered", "job", "moved"),
    Cell("rocksdb", "rocksdb", "canonical", 3, "renamed", "user", "in place"),
    Cell("rocksdb", "memory", "canonical", 4, "same", "job", "moved"),
    Cell("rocksdb", "fs", "canonical", 1, "added", "job", "moved"),
    Cell("memory", "heap", "native", 1, "removed", "user", "in place"),
    Cell("memory", "rocksdb", "native", 4, "added", "user", "moved"),
    Cell("memory", "memory", "native", 3, "reordered", "job", "moved"),
    Cell("memory", "fs", "canonical", 2, "same", "user", "in place"),
    Cell("fs", "heap", "native", 3, "same", "user", "in place"),
    Cell("fs", "rocksdb", "canonical", 2, "removed", "job", "moved"),
    Cell("fs", "memory", "native", 1, "renamed", "job", "moved"),
    Cell("fs", "fs", "canonical", 4, "reordered", "user", "in place"),
]


Saved = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, local_engine: None) -> Saved:
    """Savepoints of each backend and format, made in the middle of the job. Whoever changes one takes a copy."""
    made: dict[tuple[str, str], Path] = {}

    def find(backend: str, format: str) -> Path:
        if (backend, format) not in made:
            folder = tmp_path_factory.mktemp(backend)
            client = start(folder, backend, PARALLELISM, numbers(0, HALF), bounded=False)
            wait_until_read(client, HALF)
            made[backend, "native"] = Path(client.trigger_savepoint(format_type="native").result())
            canonical = client.stop_with_savepoint(False, str(folder / "savepoints")).result()
            made[backend, "canonical"] = Path(canonical)
            assert master_of(client).status.name == "FINISHED"
        return made[backend, format]

    return find


def test_the_matrix_has_every_pair_of_choices() -> None:
    cells = [asdict(cell) for cell in MATRIX]
    choices = {name: {cell[name] for cell in cells} for name in cells[0]}
    assert {name: len(values) for name, values in choices.items()} == {
        "before": len(BACKENDS),
        "after": len(BACKENDS),
        "format": 2,
        "parallelism": 4,
        "version": len(VERSIONS),
        "owner": 2,
        "place": 2,
    }
    for one, other in combinations(choices, 2):
        pairs = {(cell[one], cell[other]) for cell in cells}
        possible = len(choices[one]) * len(choices[other]) - ({one, other} == {"owner", "place"})
        assert len(pairs) == min(possible, len(cells)), f"{one} and {other}"


@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=pytest.mark.spark if cell.parallelism == 3 else ()) for cell in MATRIX],
    ids=str,
)
def test_a_job_goes_on_from_a_savepoint(cell: Cell, saved: Saved, tmp_path: Path) -> None:
    source = saved(cell.before, cell.format)
    if cell.place == "moved":
        source = Path(shutil.copytree(source, tmp_path / "elsewhere" / "moved"))
    version = VERSIONS[cell.version]
    options = {
        PATH: str(source),
        CLAIM: "CLAIM" if cell.owner == "job" else "NO_CLAIM",
        "execution.state-recovery.ignore-unclaimed-state": str(not version.has_extra).lower(),
    }
    client = start(tmp_path, cell.after, cell.parallelism, numbers(0, RECORDS), version, options=options)
    assert end_of(client) == ""
    assert told(tmp_path) == expected(version, since=HALF)
    seen = restored(tmp_path)
    kept = sorted(number for each in seen for number in each["numbers"])
    assert kept == list(range(HALF)), "a list of operator state is split, and nothing is lost"
    assert len(seen) == cell.parallelism
    assert [len(union) for union in {tuple(each["last"]) for each in seen}] == [PARALLELISM], "all are shown all"
    assert source.exists() == (cell.owner == "user")


@pytest.mark.parametrize(("format", "backend"), [("canonical", "rocksdb"), ("native", "heap")])
def test_after_its_first_checkpoint_a_job_does_without_the_savepoint(
    format: str, backend: str, saved: Saved, tmp_path: Path
) -> None:
    """Not when it fails either."""
    path = shutil.copytree(saved(backend, format), tmp_path / "savepoint")
    script = [
        *numbers(0, HALF + 10),
        AwaitCheckpoint(),
        *numbers(HALF + 10, HALF + 20),
        AwaitCheckpoint(),
        Crash(),
        *numbers(HALF + 20, RECORDS),
    ]
    options = {PATH: str(path), "restart-strategy.type": "fixed-delay"}
    client = start(tmp_path, backend, 3, script, options=options)
    master = master_of(client)
    while not master.wait(0.01):
        if client.get_checkpoint_statistics() and master.last_checkpoint is not None:
            shutil.rmtree(path, ignore_errors=True)
    assert end_of(client) == ""
    assert len(client.get_exceptions()) == 1
    assert told(tmp_path) == expected(Version())
    assert not path.exists()


def ended_in_the_middle(folder: Path, how: str) -> tuple[Any, Path]:
    client = start(folder, "heap", PARALLELISM, numbers(0, HALF), bounded=False)
    wait_until_read(client, HALF)
    path = client.cancel_with_savepoint() if how == "cancel" else client.stop_with_savepoint(True)
    return client, Path(path.result())


def left(folder: Path) -> list[str]:
    return [path.name for path in (folder / "checkpoints").rglob("*") if path.is_file()]


def test_a_job_that_is_cancelled_with_a_savepoint_goes_on_from_it(tmp_path: Path) -> None:
    client, path = ended_in_the_middle(tmp_path, "cancel")
    assert master_of(client).status.name == "CANCELED"
    assert path.parent == tmp_path / "savepoints", "the default directory"
    assert told(tmp_path) == []
    assert left(tmp_path) == []
    again = start(tmp_path, "heap", PARALLELISM, numbers(0, RECORDS), options={PATH: str(path)})
    assert end_of(again) == ""
    assert told(tmp_path) == expected(Version())


def test_a_drained_job_has_come_to_the_end_of_time(tmp_path: Path) -> None:
    client, _ = ended_in_the_middle(tmp_path, "drain")
    assert master_of(client).status.name == "FINISHED"
    assert sorted({line.split()[0] for line in told(tmp_path)}) == ["extra", "remember", "window"]
    assert left(tmp_path) == ["ended"], "a job that has finished says so"


@pytest.mark.spark
def test_anybody_reads_a_canonical_savepoint(saved: Saved, spark: Any) -> None:
    """Who has Spark, and no Beadline."""
    path = saved("heap", "canonical")

    def rows(*inside: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in spark.read.parquet(str(path.joinpath(*inside))).collect()]

    def pairs(name: str) -> list[Any]:
        return sorted((row["key"], row["value"]) for row in rows("remember", name))

    assert verify(read_snapshot(str(path))) == []
    assert list(path.rglob(".*")) == []
    mine = {key: [number for number in range(HALF) if number % KEYS == key] for key in range(KEYS)}
    assert pairs("list") == list(mine.items())
    assert pairs("map") == [(key, {"odd" if key % 2 else "even": sum(mine[key])}) for key in mine]
    counts = sorted((row["key"], row["value"]["count"]) for row in rows("remember", "row"))
    assert counts == [(key, len(mine[key])) for key in mine]
    assert all(row["pickled"] is None for row in rows("remember", "list"))
    assert sorted(row["value"] for row in rows("seen", "numbers")) == list(range(HALF))
    assert [(row["key"], row["value"]) for row in rows("scale", "rules")] == [("factor", 7)]
    for folder in ("remember/living", "windows/window-contents", "seen/last", "scale/rules"):
        assert (path / folder).is_dir()


WRONG = {
    "unknown path": "there is no checkpoint or savepoint at .*/nowhere: the path does not exist",
    "no snapshot": "directory is a directory and not a checkpoint or savepoint: it has no _metadata",
    "newer format": "broken/_metadata has format version 2, and this Beadline reads up to 1",
    "missing file": "broken can't be restored: .*the file is missing",
    "unclaimed": "extra",
    "legacy": "LEGACY leaves open who may delete the snapshot, so it is not supported: use NO_CLAIM",
    "parallelism": "200",
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_refused_in_a_sentence_and_nothing_changes(what: str, saved: Saved, tmp_path: Path) -> None:
    path = Path(shutil.copytree(saved("heap", "canonical"), tmp_path / "broken"))
    version, parallelism, claim = Version(), PARALLELISM, "CLAIM"
    match what:
        case "unknown path":
            path = tmp_path / "nowhere"
        case "no snapshot":
            path = tmp_path / "directory"
            path.mkdir()
        case "newer format":
            metadata = path / "_metadata"
            metadata.write_bytes(metadata.read_bytes().replace(b'"format": 1,', b'"format": 2,'))
        case "missing file":
            min(path.rglob("*.parquet")).unlink()
        case "unclaimed":
            version = Version(has_extra=False)
        case "legacy":
            claim = "LEGACY"
        case "parallelism":
            parallelism = 200
    before = files(tmp_path)
    options = {PATH: str(path), CLAIM: claim}
    try:
        error = end_of(start(tmp_path, "heap", parallelism, numbers(0, RECORDS), version, options=options))
    except BeadlineError as refused:
        error = str(refused)
    assert re.search(WRONG[what], error)
    assert files(tmp_path) == before


def files(folder: Path) -> set[tuple[str, int]]:
    return {(str(path.relative_to(folder)), path.stat().st_size) for path in folder.rglob("*")}
