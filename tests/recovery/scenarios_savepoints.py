"""Jobs that are stopped with a savepoint and go on as another version, elsewhere, wider, with another backend. One
session for all of it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.errors import BeadlineError
from beadline.testing import AwaitCheckpoint, Crash
from tests.recovery.telling import tell_all
from tests.recovery.upgrades import (
    HALF,
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
from tests.sessions import start_session

BACKENDS = ("heap", "rocksdb", "memory", "fs")
PARALLELISM = 2


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


def _first_half(folder: Path, backend: str) -> dict[str, str]:
    """Run up to the middle; a savepoint of each format of the same moment."""
    client = start(folder, backend, PARALLELISM, numbers(0, HALF), bounded=False)
    wait_until_read(client, HALF)
    native = client.trigger_savepoint(format_type="native").result()
    canonical = client.stop_with_savepoint(False, str(folder / "savepoints")).result()
    assert master_of(client).status.name == "FINISHED"
    return {"canonical": canonical, "native": native}


def savepoint_matrix(folder: Path) -> dict[str, Any]:
    saved = {}
    for backend in BACKENDS:
        (folder / backend).mkdir()
        saved[backend] = _first_half(folder / backend, backend)
    facts: dict[str, Any] = {"cells": {}}
    for cell in MATRIX:
        inside = folder / str(cell)
        inside.mkdir()
        source = Path(saved[cell.before][cell.format])
        if cell.place == "moved":
            source = Path(shutil.copytree(source, inside / "elsewhere" / "moved"))
        version = VERSIONS[cell.version]
        options = {
            "execution.state-recovery.path": str(source),
            "execution.state-recovery.claim-mode": "CLAIM" if cell.owner == "job" else "NO_CLAIM",
            "execution.state-recovery.ignore-unclaimed-state": str(not version.has_extra).lower(),
        }
        client = start(inside, cell.after, cell.parallelism, numbers(0, RECORDS), version, options=options)
        failed = end_of(client)
        seen = restored(inside)
        facts["cells"][str(cell)] = {
            "failed": failed,
            "differs": _differences(told(inside), expected(version, since=HALF)),
            "numbers": sorted(number for each in seen for number in each["numbers"]),
            "subtasks": len(seen),
            "unions": sorted({tuple(each["last"]) for each in seen}),
            "left": source.exists(),
        }
    return facts


def _differences(found: list[str], wanted: list[str]) -> list[str]:
    lost, surplus = [line for line in wanted if line not in found], [line for line in found if line not in wanted]
    return [f"lost {lost[:3]}, too many {surplus[:3]}"] if found != wanted else []


def original_deleted(folder: Path) -> dict[str, Any]:
    """After the first checkpoint of its own a job needs the savepoint no more: not when it fails either."""
    facts: dict[str, Any] = {}
    for format, backend in (("canonical", "rocksdb"), ("native", "heap")):
        inside = folder / format
        inside.mkdir()
        path = _first_half(inside, backend)[format]
        script = [
            *numbers(0, HALF + 10),
            AwaitCheckpoint(),
            *numbers(HALF + 10, HALF + 20),
            AwaitCheckpoint(),
            Crash(),
            *numbers(HALF + 20, RECORDS),
        ]
        again = inside / "again"
        again.mkdir()
        options = {"execution.state-recovery.path": path, "restart-strategy.type": "fixed-delay"}
        client = start(again, backend, 3, script, options=options)
        master = master_of(client)
        while not master.wait(0.01):
            if client.get_checkpoint_statistics() and master.last_checkpoint is not None:
                shutil.rmtree(path, ignore_errors=True)
        facts[format] = {
            "failed": end_of(client),
            "restarts": len(client.get_exceptions()),
            "differs": _differences(told(again), expected(Version())),
            "left": Path(path).exists(),
        }
    return facts


def ways_to_end(folder: Path) -> dict[str, Any]:
    """Cancel with a savepoint; drain; and go on from what each left."""
    facts: dict[str, Any] = {}
    for way in ("cancel", "drain"):
        inside = folder / way
        inside.mkdir()
        client = start(inside, "heap", PARALLELISM, numbers(0, HALF), bounded=False)
        wait_until_read(client, HALF)
        if way == "cancel":
            path = client.cancel_with_savepoint().result()
        else:
            path = client.stop_with_savepoint(True).result()
        facts[way] = {
            "status": master_of(client).status.name,
            "in_default_directory": Path(path).parent == inside / "savepoints",
            "told": sorted({line.split()[0] for line in told(inside)}),
            "retained": [p.name for p in (inside / "checkpoints").rglob("*") if p.is_file()],
        }
        if way == "cancel":
            options = {"execution.state-recovery.path": path}
            facts["resumed"] = {
                "failed": end_of(start(inside, "heap", PARALLELISM, numbers(0, RECORDS), options=options)),
                "differs": _differences(told(inside), expected(Version())),
            }
    return facts


def canonical_files(folder: Path) -> dict[str, Any]:
    """What anybody reads who has Spark and no Beadline."""
    from pyspark.sql import SparkSession

    path = Path(_first_half(folder, "heap")["canonical"])
    spark = SparkSession.getActiveSession()
    assert spark is not None

    def rows(*inside: str) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in spark.read.parquet(str(path.joinpath(*inside))).collect()]

    return {
        "folders": sorted(str(p.relative_to(path)) for p in path.glob("*/*")),
        "hidden": [str(p) for p in path.rglob(".*")],
        "list": sorted((row["key"], row["value"]) for row in rows("remember", "list")),
        "map": sorted((row["key"], row["value"]) for row in rows("remember", "map")),
        "row": sorted((row["key"], row["value"]) for row in rows("remember", "row")),
        "pickled": sum(row["pickled"] is not None for row in rows("remember", "list")),
        "numbers": sorted(row["value"] for row in rows("seen", "numbers")),
        "rules": [(row["key"], row["value"]) for row in rows("scale", "rules")],
        "problems": [str(problem) for problem in _problems(path)],
    }


def _problems(path: Path) -> list[Any]:
    from beadline.checkpoint.storage.durable import verify

    return verify(read_snapshot(str(path)))


def bad_input(folder: Path) -> dict[str, Any]:
    """One sentence each, and nothing changes."""
    path = Path(_first_half(folder, "heap")["canonical"])
    (folder / "directory").mkdir()
    newer = Path(shutil.copytree(path, folder / "newer"))
    metadata = newer / "_metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b'"format": 1,', b'"format": 2,'))
    broken = Path(shutil.copytree(path, folder / "broken"))
    missing = sorted(broken.rglob("*.parquet"))[0]
    missing.unlink()
    facts: dict[str, Any] = {"missing": {"path": str(missing)}}
    tries = {
        "unknown path": (str(folder / "nowhere"), {}),
        "no snapshot": (str(folder / "directory"), {}),
        "newer format": (str(newer), {}),
        "missing file": (str(broken), {}),
        "unclaimed": (str(path), {"version": Version(has_extra=False)}),
        "legacy": (str(path), {"execution.state-recovery.claim-mode": "LEGACY"}),
        "parallelism": (str(path), {"parallelism": 200}),
    }
    before = _files(folder)
    for name, (pointer, changes) in tries.items():
        options = {"execution.state-recovery.path": pointer, "execution.state-recovery.claim-mode": "CLAIM"}
        options.update({key: value for key, value in changes.items() if key.startswith("execution")})
        version, parallelism = changes.get("version", Version()), changes.get("parallelism", PARALLELISM)
        try:
            error = end_of(start(folder, "heap", parallelism, numbers(0, RECORDS), version, options=options))
        except BeadlineError as refused:
            error = str(refused)
        facts[name] = {"error": error, "changed": sorted(map(str, _files(folder) ^ before))}
    return facts


def _files(folder: Path) -> set[tuple[str, int]]:
    return {(str(path.relative_to(folder)), path.stat().st_size) for path in folder.rglob("*")}


SCENARIOS = [savepoint_matrix, original_deleted, ways_to_end, canonical_files, bad_input]

if __name__ == "__main__":
    session = start_session()
    tell_all(SCENARIOS)
    session.stop()
