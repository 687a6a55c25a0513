"""Makes snapshots to keep: ``python -m tests.old_snapshots.make <folder>``, from the root of the repository.

Those in ``by_9ff4bd6`` were made by Beadline 0.1.0 at that commit, with format version 1. They stand for what users
have stored, so they are never made again. To keep snapshots of another version as well, check that version out, run
this with a new folder next to that one (it takes about a minute), and name what it made in the test.

Snapshots name classes, uids and states of the job (see ``functions.py``), so these don't change. What they can't show
needs a job of its own.

Timers of processing time are pending in the snapshots, and a state with a short time to live is alive. Three minutes
later the timers are due and the state has expired. The driver's clock is six years slow here, so that they are by the
clock of whatever machine runs the test.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from beadline.common import JobClient
from beadline.datastream import EmbeddedRocksDBStateBackend, HashMapStateBackend, StateBackend
from beadline.testing import Pause, TestSource
from tests.old_snapshots import job
from tests.old_snapshots.stored import ROOT, Stored, snapshot_in
from tests.sessions import start_session

PATIENCE = 120.0
STEP = 5
FIRST = 60
HALF = 120
LATER = 130
SMALL_STEPS = {
    "beadline.step.first-records": 2 * STEP,
    "beadline.step.max-records": 2 * STEP,
    "execution.checkpointing.data-inline-threshold": 200,
}


_now = time.time
_SIX_YEARS = 6 * 365 * 24 * 3600


def main(target: Path) -> None:
    time.time = lambda: _now() - _SIX_YEARS  # type: ignore[assignment]
    target.mkdir(parents=True)
    ROOT.mkdir()
    session = start_session()
    try:
        for make in (heap, rocksdb, unaligned):
            make(target)
            shutil.rmtree(ROOT)
    finally:
        session.stop()
        shutil.rmtree(ROOT, ignore_errors=True)


def heap(target: Path) -> None:
    """A savepoint of each format, then a checkpoint that refers to files of several steps and to merged ones."""
    client = _start({}, HashMapStateBackend(), TestSource(job.numbers(HALF), bounded=False, step=STEP))
    _wait_for(FIRST - 1)
    client.trigger_checkpoint().result()
    _wait_for(HALF - 1)
    for format in ("native", "canonical"):
        path = Path(client.trigger_savepoint(str(ROOT / "savepoints"), format).result())
        _keep(target / f"{format}.tar.gz", path, HALF, staged=False)
    _keep_checkpoint(client, target / "heap.tar.gz", HALF)


def rocksdb(target: Path) -> None:
    """A checkpoint whose segments are compressed."""
    options = {"execution.checkpointing.snapshot-compression": "true"}
    source = TestSource(job.numbers(HALF), bounded=False, step=STEP)
    client = _start(options, EmbeddedRocksDBStateBackend(), source)
    _wait_for(FIRST - 1)
    client.trigger_checkpoint().result()
    _wait_for(HALF - 1)
    _keep_checkpoint(client, target / "rocksdb.tar.gz", HALF)


def unaligned(target: Path) -> None:
    """A checkpoint that overtakes a step, of a job that went on from a savepoint with another parallelism: the segments
    of former subtasks are dealt out by key groups."""
    options = {
        "parallelism.default": 3,
        "execution.state-recovery.path": Stored.read(target / "native.tar.gz").unpack(ROOT),
        "execution.checkpointing.unaligned.enabled": "true",
    }
    script = [*job.numbers(LATER), Pause(10.0), *job.numbers(job.RECORDS)[LATER:]]
    client = _start(options, HashMapStateBackend(), TestSource(script, bounded=False, step=STEP))
    _wait_for(LATER - 1)
    time.sleep(3.0)  # until the step with the pause runs
    _keep_checkpoint(client, target / "unaligned.tar.gz", LATER)


def _start(options: dict[str, Any], backend: StateBackend, source: TestSource) -> JobClient:
    if not (ROOT / "text").exists():
        job.write_text(ROOT)
    markers = ROOT / "markers"
    markers.mkdir(parents=True)
    env = job.environment(ROOT, {**SMALL_STEPS, **options}, source, str(markers))
    env.set_state_backend(backend)
    return env.execute_async("old")


def _wait_for(number: int) -> None:
    """Until the job has come to a number."""
    until = time.monotonic() + PATIENCE
    while not (ROOT / "markers" / str(number)).exists():
        if time.monotonic() > until:
            raise SystemExit(f"number {number} was not read within {PATIENCE} s")
        time.sleep(0.05)


def _keep_checkpoint(client: JobClient, archive: Path, since: int) -> None:
    """Take a checkpoint, end the job, and store both as if it had died before it published its output."""
    path = Path(client.trigger_checkpoint().result())
    client.cancel().result()
    (told,) = [operator for operator in snapshot_in(path)["operators"] if operator["uid"] == "told"]
    committables = told["committables"]["committables"]
    assert committables, "nothing was pre-committed"
    for committable in committables:
        os.rename(committable["target"], committable["source"])
    _keep(archive, path, since, staged=True)


def _keep(archive: Path, path: Path, since: int, staged: bool) -> None:
    """Store a snapshot, if it holds what it is kept for."""
    snapshot = snapshot_in(path)
    operators = {operator["uid"]: operator for operator in snapshot["operators"]}
    assert operators["numbers"]["position"] == {"index": since}
    assert not operators["lines"]["finished"]
    assert operators["copied"]["committables"]["staged"]["parts"], "no part is open"
    assert snapshot["unaligned"] == bool(snapshot["in_flight"]) == (archive.name == "unaligned.tar.gz")
    assert len(operators["remember"]["keyed"][0]["runs"]) < snapshot["step"], "no segments were merged"
    pending = [timer for timer in operators["remember"]["next_timers"] if timer is not None]
    assert snapshot["timestamp"] < min(pending), "timers have fired: make them on a machine that has less to do"
    Stored(archive, str(path.relative_to(ROOT)), since).pack(staged)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
