"""What savepoints name is there for whoever starts from them, whatever becomes of the job meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.ends import End
from beadline.connectors.files.renaming import RenamedFiles
from beadline.errors import BeadlineError, JobExecutionError
from tests.connectors.transactions.ledger import Ledger, visible
from tests.master.snapshots.ledger_jobs import into_ledger
from tests.master.snapshots.local_jobs import LocalJob, consume, file_sink, rows, rows_in, staged_files
from tests.master.snapshots.troubles import Gate, fails, until


def test_what_a_savepoint_promised_too_late_is_not_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = into_ledger(tmp_path, monkeypatch)
    job = LocalJob(tmp_path)
    job.step()
    monkeypatch.setattr(job.storage, "write", fails(1, SnapshotError("no space"), job.storage.write))
    assert job.trigger().exception(20) is not None  # its output is still held for it
    gate, sinks = Gate(), job.checkpoints._sinks
    portable = sinks.portable

    def waiting(*args: Any, **kwargs: Any) -> Any:
        gate.come()
        return portable(*args, **kwargs)

    monkeypatch.setattr(sinks, "portable", waiting)
    answer = job.trigger(CheckpointKind.SAVEPOINT, tmp_path / "savepoints")
    gate.reached()
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()
    assert answer.exception(20) is not None
    gate.open()
    job.sealed()
    job.checkpoint()
    job.step()
    job.checkpoint()
    assert job.finish() is End.FINISHED
    assert sorted(visible(out)) == rows(9)
    assert Ledger(str(out)).list_open("test-") == [], "readers of committed rows would wait for it"


def job_with_a_promise(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[LocalJob, Path]:
    """A checkpoint that could not be written holds output, which is therefore ready; and a savepoint names it."""
    job = LocalJob(folder, job_id="orders")
    job.step()
    job.checkpoint()
    job.step()
    monkeypatch.setattr(job.storage, "write", fails(1, SnapshotError("no space"), job.storage.write))
    assert job.trigger().exception(20) is not None
    return job, job.savepoint(folder / "savepoints")


@pytest.mark.parametrize("end", ["finishes", "goes on"])
def test_a_file_that_a_savepoint_names_outlives_a_driver_that_goes_on_from_elsewhere(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is lost before the checkpoint that would publish the file. The next one goes back further."""
    job, savepoint = job_with_a_promise(tmp_path, monkeypatch)
    taker = LocalJob(tmp_path, given=6, job_id="orders", restore_path=job.storage.folder)
    taker.sealed()
    if end == "finishes":
        assert taker.finish() is End.FINISHED
        assert rows_in(tmp_path / "out") == rows(6)
        assert len(staged_files(tmp_path / "out")) == 2, "the file, and the list that names it"
    consume(tmp_path / "out")
    forked = LocalJob(tmp_path / "fork", given=6, restore_path=str(savepoint), sinks=[file_sink(tmp_path / "out")])
    forked.step()
    assert rows_in(tmp_path / "out") == rows(6, 3)
    assert forked.finish() is End.FINISHED
    assert rows_in(tmp_path / "out") == rows(9, 3)
    for each in (taker, job):
        each.cancel()


def test_nothing_is_left_of_a_promise_that_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, _ = job_with_a_promise(tmp_path, monkeypatch)
    job.checkpoint()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(6)
    assert list(job.out.glob(".staging-*")) == []


def test_a_job_that_takes_savepoints_for_years_keeps_no_list_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, _ = job_with_a_promise(tmp_path, monkeypatch)
    assert [Path(name).name[:9] for name in staged_files(job.out)].count("promised-") == 1
    for _ in range(2):
        job.step()
        job.checkpoint()
    assert staged_files(job.out) == [], "what it names is visible"
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(12)


@pytest.mark.parametrize("outside", [False, True], ids=["files", "transactions"])
def test_nothing_is_owed_once_a_failed_stop_has_published_after_all(
    outside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    if outside:
        into_ledger(tmp_path, monkeypatch)
        monkeypatch.setattr(Ledger, "commit", fails(1, OSError("away for a moment"), Ledger.commit))
    job = LocalJob(tmp_path)
    job.step()
    if not outside:
        job.engine.failures["publish"] = [JobExecutionError("away for a moment")]
    assert job.stop(tmp_path / "savepoints").exception(20) is not None
    until(lambda: job.master.attempt == 2, "the failure")
    job.step()
    assert job.master.running is not None
    assert job.master.running.sinks.promises.to_keep("sink") == []
    assert job.finish() is End.FINISHED
    assert (sorted(visible(out)) if outside else rows_in(out)) == rows(6)
    assert list(job.out.glob(".staging-*")) == []


def test_a_driver_that_was_fenced_before_it_promised_gives_no_savepoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one has looked for promises by then, and given the file up: the savepoint would lack its rows."""
    job = LocalJob(tmp_path, job_id="orders")
    job.step()
    job.checkpoint()
    job.step()
    monkeypatch.setattr(job.storage, "write", fails(1, SnapshotError("no space"), job.storage.write))
    assert job.trigger().exception(20) is not None
    gate, promise = Gate(), RenamedFiles.promise

    def late(place: RenamedFiles, keys: list[Any]) -> str:
        gate.come()
        return promise(place, keys)

    monkeypatch.setattr(RenamedFiles, "promise", late)
    answer = job.trigger(CheckpointKind.SAVEPOINT, tmp_path / "savepoints")
    gate.reached()
    taker = LocalJob(tmp_path, given=6, job_id="orders", restore_path=job.storage.folder)
    taker.sealed()
    gate.open()
    assert isinstance(answer.exception(20), BeadlineError)
    assert job.ended() is End.FENCED
    assert list((tmp_path / "savepoints").glob("savepoint-*")) == []
    assert taker.finish() is End.FINISHED


def test_what_a_savepoint_names_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job fails before it has published the file, and writes its rows again, with others after them."""
    job, savepoint = job_with_a_promise(tmp_path, monkeypatch)
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.step()
    until(lambda: job.master.attempt == 2, "the failure")
    job.sealed()
    job.checkpoint()
    assert rows_in(job.out) == rows(9)
    forked = LocalJob(tmp_path / "fork", given=6, restore_path=str(savepoint), sinks=[file_sink(job.out)])
    assert forked.finish() is End.FINISHED
    assert rows_in(job.out) == sorted(rows(9) + rows(6, 3)), "both jobs go on, and have read these"
    job.cancel()
