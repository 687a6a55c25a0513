"""A stop with a savepoint that fails when a part of its output is visible."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.ends import End
from tests.connectors.transactions.ledger import Ledger, visible
from tests.master.snapshots.ledger_jobs import into_ledger
from tests.master.snapshots.local_jobs import LocalJob, rows
from tests.master.snapshots.troubles import until


@pytest.mark.parametrize("trouble", ["raises", "aborted"])
def test_nothing_that_a_stop_has_published_comes_twice(
    trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = into_ledger(tmp_path, monkeypatch)
    job = LocalJob(tmp_path, parallelism=2)
    job.step(10)
    job.checkpoint()
    assert sorted(visible(out)) == rows(10)
    job.step(10)
    commit, left = Ledger.commit, iter([0])

    def troubled(ledger: Ledger, handle: Any) -> Any:
        if handle["id"].split("-")[-3] == "1" and next(left, None) is not None:
            if trouble == "raises":
                raise OSError("the system is away for a moment")
            ledger.abort(handle)
        return commit(ledger, handle)

    monkeypatch.setattr(Ledger, "commit", troubled)
    answer = job.stop(tmp_path / "savepoints")
    print(answer.exception(20))
    until(lambda: job.master.attempt == 2 or job.master.wait(0), "the failure")
    if not job.master.wait(0):
        assert job.finish() is End.FINISHED
    found = sorted(visible(out))
    assert len(found) == len(set(found)), "twice"
    assert found == rows(20)


def test_a_stop_that_drains_ends_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Event time is at its end, and the job must not read on."""
    from beadline.checkpoint.coordinator.actions import CheckpointKind

    out = into_ledger(tmp_path, monkeypatch)
    job = LocalJob(tmp_path, parallelism=2, after_tasks_finish=True)
    job.step(10)
    job.checkpoint()
    job.step(10)
    commit, left = Ledger.commit, iter([0])

    def troubled(ledger: Ledger, handle: Any) -> Any:
        if handle["id"].split("-")[-3] == "1" and next(left, None) is not None:
            raise OSError("the system is away for a moment")
        return commit(ledger, handle)

    monkeypatch.setattr(Ledger, "commit", troubled)
    job.master.trigger(CheckpointKind.STOP_WITH_SAVEPOINT, str(tmp_path / "savepoints"), drain=True)
    assert job.ended() is End.FINISHED or job.master.end is End.STOPPED
    assert sorted(visible(out)) == rows(20)


def test_a_process_that_is_told_to_end_while_a_job_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The savepoint is complete, and is being published: the job has stopped then, and nobody resumes it."""
    from tests.master.snapshots.troubles import Gate

    out = into_ledger(tmp_path, monkeypatch)
    job = LocalJob(tmp_path)
    job.step()
    job.checkpoint()
    job.step()
    gate = Gate()
    monkeypatch.setattr(Ledger, "commit", gate.after(Ledger.commit))
    answer = job.stop(tmp_path / "savepoints")
    gate.reached()
    job.master.suspend()
    time.sleep(0.5)
    gate.open()
    end = job.ended()
    assert sorted(visible(out)) == rows(6)
    if end is End.SUSPENDED:  # so they resume it, as the log says
        resumed = LocalJob(tmp_path, given=9, restore_path="latest")
        resumed.sealed()
        resumed.finish()
        assert sorted(visible(out)) == rows(9)
    assert end is End.STOPPED
    assert answer.result(20)
