"""A job that stops with a savepoint, and is killed before it has ended: nobody goes back behind the savepoint."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.ends import End
from beadline.checkpoint.settings import Retention
from beadline.checkpoint.storage import file_system
from tests.connectors.transactions.ledger import Ledger, abort_all, visible
from tests.master.snapshots.drivers import FINISHED_BEFORE, KILLED, REFUSED, Trap
from tests.master.snapshots.ledger_jobs import into_ledger
from tests.master.snapshots.local_jobs import LocalJob, rows
from tests.master.snapshots.test_crashes import World
from tests.master.snapshots.test_outside_crashes import Outside
from tests.master.snapshots.troubles import Gate, fails, until

SAVED = "after the savepoint's appearance"


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where transactions go."""
    return into_ledger(tmp_path, monkeypatch)


def note_of(folder: Path) -> dict[str, Any] | None:
    """What the one job below a folder says of its end."""
    found = list((folder / "checkpoints").glob("*/ended"))
    return json.loads(found[0].read_text()) if found else None


@pytest.mark.parametrize("same_id", [False, True], ids=["another id", "the same id"])
@pytest.mark.parametrize("point", ["after noting the stop", "after publishing", "before noting the finish"])
def test_nothing_comes_twice_from_a_driver_that_was_killed_while_it_stopped(
    point: str, same_id: bool, tmp_path: Path
) -> None:
    options = {"job_id": "orders"} if same_id else {}
    world = Outside(tmp_path, "transactions", stop=16, checkpoints=options)
    assert world.run(Trap(point, since=SAVED)) == KILLED
    assert world.seen() == rows(8 if point == "after noting the stop" else 16)
    (savepoint,) = map(str, (tmp_path / "savepoints").glob("savepoint-*"))
    world = Outside(tmp_path, "transactions", checkpoints=options)
    assert world.run() == REFUSED
    assert f"-s {savepoint}" in (tmp_path / "refusal").read_text()
    assert world.run(path=savepoint) == 0
    assert world.seen() == rows(24)
    assert abort_all(tmp_path / "out") == 0, "nothing is left open"
    assert world.run() == FINISHED_BEFORE


def test_the_new_job_of_the_same_id_publishes_files_that_the_savepoint_names(tmp_path: Path) -> None:
    """It makes room for itself in the job's folder, and the hidden files are needed all the same."""
    world = World(tmp_path, stop=16, checkpoints={"job_id": "orders"}, consumes=True)
    assert world.run(Trap("after noting the stop", since=SAVED)) == KILLED
    assert world.seen() == rows(8)
    (savepoint,) = map(str, (tmp_path / "savepoints").glob("savepoint-*"))
    world = World(tmp_path, checkpoints={"job_id": "orders"}, consumes=True)
    assert world.run() == REFUSED
    assert world.run(path=savepoint) == 0
    assert world.seen() == rows(24)


def test_a_job_that_can_not_note_the_stop_goes_on(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = LocalJob(tmp_path)
    job.step()
    job.checkpoint()
    job.step()
    write = "beadline.checkpoint.storage.file_system.write_trace"
    monkeypatch.setattr(write, fails(1, OSError("no space left"), None))
    answer = job.stop(tmp_path / "savepoints")
    assert "can't note in its folder that it stops with" in str(answer.exception(20))
    assert "no space left" in str(answer.exception(20))
    assert sorted(visible(out)) == rows(3), "nothing of it was published"
    assert list((tmp_path / "savepoints").iterdir()) == []
    assert note_of(tmp_path) is None
    job.step()
    job.checkpoint()
    assert sorted(visible(out)) == rows(9)
    assert job.finish() is End.FINISHED
    note = note_of(tmp_path)
    assert note is not None
    assert (note["status"], note["savepoint"]) == ("FINISHED", "")


def test_the_note_of_a_job_that_was_stopped_names_the_savepoint(out: Path, tmp_path: Path) -> None:
    job = LocalJob(tmp_path)
    job.step()
    savepoint = job.stop(tmp_path / "savepoints").result(20)
    assert job.ended() is End.STOPPED
    note = note_of(tmp_path)
    assert note is not None
    assert (note["status"], note["savepoint"], note["checkpoint"]) == ("FINISHED", savepoint, None)


def test_a_job_that_goes_on_after_a_stop_takes_the_note_back(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LocalJob(tmp_path)
    job.step()
    job.checkpoint()
    job.step()
    monkeypatch.setattr(Ledger, "commit", fails(1, OSError("the system is away for a moment"), Ledger.commit))
    assert job.stop(tmp_path / "savepoints").exception(20) is not None
    note = note_of(tmp_path)
    assert note is not None
    assert note["status"] == "STOPPING"
    until(lambda: job.master.attempt == 2, "the failure")
    job.step()
    job.checkpoint()
    assert note_of(tmp_path) is None
    assert sorted(visible(out)) == rows(9)
    job.cancel()


def test_a_job_that_ends_before_it_could_go_on_names_the_savepoint(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark is lost while the stop publishes: the checkpoints are kept, and are not what to go on from."""
    caplog.set_level(logging.INFO, "beadline")
    job = LocalJob(tmp_path)
    job.step()
    job.checkpoint()
    job.step()

    def lost(ledger: Ledger, handle: Any) -> Any:
        job.engine.lost = "the JVM has died"
        raise OSError("no answer")

    monkeypatch.setattr(Ledger, "commit", lost)
    job.stop(tmp_path / "savepoints").exception(20)
    assert job.ended() is End.ENGINE_LOST
    (savepoint,) = (tmp_path / "savepoints").iterdir()
    assert f"-s {savepoint}, the savepoint that it was to stop with" in str(job.master.error)
    assert "latest" not in str(job.master.error)


def test_the_note_of_a_second_stop_stays(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first stop failed when it published, and no checkpoint came between the two."""
    job = LocalJob(tmp_path)
    job.step()
    job.checkpoint()
    job.step()
    monkeypatch.setattr(Ledger, "commit", fails(1, OSError("the system is away for a moment"), Ledger.commit))
    first = job.stop(tmp_path / "savepoints")
    assert first.exception(20) is not None
    until(lambda: job.master.attempt == 2, "the failure")
    assert "The job goes on from checkpoint 2" in caplog.text, "which is the savepoint"
    job.step()
    gate = Gate()
    monkeypatch.setattr(Ledger, "commit", gate.after(Ledger.commit))
    second = job.stop(tmp_path / "savepoints")
    gate.reached()
    note = note_of(tmp_path)
    gate.open()
    assert job.ended() is End.STOPPED
    assert note is not None, "a driver that dies now must not be resumed from the checkpoint before both"
    assert note["savepoint"] == second.result(20)


def test_a_job_that_finished_after_a_failed_stop_sends_nobody_to_the_savepoint(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no checkpoint at its end, so that the savepoint is the last that it could go back to."""
    job = LocalJob(tmp_path, after_tasks_finish=False)
    job.step()
    job.checkpoint()
    job.step()
    monkeypatch.setattr(Ledger, "commit", fails(1, OSError("the system is away for a moment"), Ledger.commit))
    assert job.stop(tmp_path / "savepoints").exception(20) is not None
    until(lambda: job.master.attempt == 2, "the failure")
    assert job.finish() is End.FINISHED
    note = note_of(tmp_path)
    assert note is not None
    assert (note["status"], note["savepoint"]) == ("FINISHED", "")


@pytest.mark.parametrize("by", ["latest", "folder"])
def test_a_driver_that_is_about_to_stop_is_not_said_to_be_dead(
    by: str, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LocalJob(tmp_path)
    job.step()
    job.checkpoint()
    job.step()
    gate = Gate()
    monkeypatch.setattr(Ledger, "commit", gate.after(Ledger.commit))
    savepoint = job.stop(tmp_path / "savepoints")
    gate.reached()
    with pytest.raises(SnapshotError, match=r"is about to stop with .*, and still runs: ") as refused:
        LocalJob(tmp_path, restore_path="latest" if by == "latest" else job.storage.folder)
    gate.open()
    assert f"-s {savepoint.result(20)}" in str(refused.value)
    assert job.ended() is End.STOPPED


def test_a_job_that_was_cancelled_after_a_failed_stop_is_not_said_to_have_died(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LocalJob(tmp_path, retention=Retention.RETAIN_ON_CANCELLATION)
    job.step()
    job.checkpoint()
    job.step()
    monkeypatch.setattr(Ledger, "commit", fails(1, OSError("the system is away for a moment"), Ledger.commit))
    assert job.stop(tmp_path / "savepoints").exception(20) is not None
    until(lambda: job.master.attempt == 2, "the failure")
    job.step()
    assert job.cancel() is End.CANCELLED
    (savepoint,) = (tmp_path / "savepoints").iterdir()
    assert job.master.last_checkpoint == str(savepoint), "which commands and pages name"
    with pytest.raises(SnapshotError, match=f"ended before all output was known .* -s {savepoint}"):
        LocalJob(tmp_path, restore_path="latest")


class NoteStays:
    """The note can't be removed, or not even changed, for some tries."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, removing: int, changing: int) -> None:
        self.removing, self.changing = removing, changing
        self._drop, self._void = file_system.drop_trace, file_system.void_trace
        monkeypatch.setattr(file_system, "drop_trace", self._fails_to_drop)
        monkeypatch.setattr(file_system, "void_trace", self._fails_to_void)

    def _fails_to_drop(self, folder: str) -> None:
        self.removing -= 1
        if self.removing >= 0:
            raise OSError(5, "Input/output error", f"{folder}/ended")
        self._drop(folder)

    def _fails_to_void(self, folder: str) -> None:
        self.changing -= 1
        if self.changing >= 0:
            raise OSError(5, "Input/output error", f"{folder}/ended")
        self._void(folder)


def gone_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> LocalJob:
    """A job that was to stop, could not publish at first, and has a newer checkpoint."""
    job = LocalJob(folder, job_id="orders")
    job.step()
    job.checkpoint()
    job.step()
    monkeypatch.setattr(Ledger, "commit", fails(1, OSError("the system is away for a moment"), Ledger.commit))
    assert job.stop(folder / "savepoints").exception(20) is not None
    until(lambda: job.master.attempt == 2, "the failure")
    job.step()
    job.checkpoint()
    return job


@pytest.mark.parametrize(("removing", "changing"), [(1, 0), (1, 1), (9, 0)])
def test_a_note_that_could_not_be_removed_at_first_sends_nobody_to_the_savepoint(
    removing: int, changing: int, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was cancelled, and has no checkpoints that would show that it had gone on."""
    NoteStays(monkeypatch, removing, changing)
    job = gone_on(tmp_path, monkeypatch)
    assert job.cancel() is End.CANCELLED
    with pytest.raises(SnapshotError, match="found no checkpoint of job 'orders'"):
        LocalJob(tmp_path, job_id="orders", restore_path="latest")


def test_a_note_that_stays_keeps_the_checkpoint_that_outdates_it(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NoteStays(monkeypatch, 99, 99)
    job = gone_on(tmp_path, monkeypatch)
    assert job.cancel() is End.CANCELLED
    assert note_of(tmp_path) is not None
    job = LocalJob(tmp_path, job_id="orders", restore_path="latest", given=9)
    job.step()
    job.checkpoint()
    assert sorted(visible(out)) == rows(12)
    job.cancel()


def test_the_next_checkpoint_tries_to_remove_the_note_again(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NoteStays(monkeypatch, 1, 1)
    job = gone_on(tmp_path, monkeypatch)
    assert note_of(tmp_path) is not None
    job.step()
    job.checkpoint()
    assert note_of(tmp_path) is None
    job.cancel()
