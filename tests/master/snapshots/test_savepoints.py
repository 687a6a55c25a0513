"""Savepoints of a job that runs: what they hold, whom they commit for, and what is left of those that fail."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.ends import End
from beadline.checkpoint.restart import NoRestart
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.connectors.files import RollingPolicy, pieces
from beadline.errors import BeadlineError, JobExecutionError
from beadline.master.life import State
from tests.master.snapshots.local_jobs import LocalJob, consume, rows, rows_in, staged_files, whole
from tests.master.snapshots.troubles import Gate, until

CANONICAL, NATIVE = SavepointFormatType
FORMATS = pytest.mark.parametrize("format", SavepointFormatType)


@FORMATS
@pytest.mark.parametrize("inline", [0, 1 << 16], ids=["in files", "inline"])
def test_a_savepoint_holds_copies_of_all_it_needs(
    inline: int, format: SavepointFormatType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "_INLINE", inline)
    job = LocalJob(tmp_path / "job", RollingPolicy(), inline_threshold=0)
    job.step()
    path = job.savepoint(tmp_path / "savepoints", format)
    assert path.parent == tmp_path / "savepoints"
    assert rows_in(job.out) == [], "it commits nothing"
    assert job.checkpoints.pointers == {}, "it is none to go back to"
    job.step()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(6)
    shutil.rmtree(tmp_path / "job")

    other = LocalJob(tmp_path / "other", RollingPolicy(), given=6, restore_path=str(path))
    assert other.home.job_id != job.home.job_id
    assert other.finish() is End.FINISHED
    assert rows_in(other.out) == rows(6), "the rows that were staged at the savepoint too"
    assert whole(path), "it belongs to the user"


def test_without_checkpoints_a_savepoint_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_INLINE", 0)
    job = LocalJob(tmp_path / "job", interval_ms=None, exactly_once=False)
    job.step()
    job.savepoint(tmp_path / "savepoints")
    job.settled()
    assert job.checkpoints.registry.files() == frozenset()
    job.step()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(6)
    assert staged_files(job.out) == [], "no snapshot holds on to them"


@FORMATS
def test_the_first_checkpoint_frees_the_savepoint_it_started_from(format: SavepointFormatType, tmp_path: Path) -> None:
    job = LocalJob(tmp_path / "job", inline_threshold=0)
    job.step()
    path = job.savepoint(tmp_path / "savepoints", format)
    job.cancel()
    other = LocalJob(tmp_path / "other", given=6, restore_path=str(path), inline_threshold=0)
    other.sealed()
    pointer = other.checkpoint()
    shutil.rmtree(tmp_path / "savepoints")
    assert whole(pointer)
    assert all(os.path.exists(path) for path in other.truth.book.live_files())
    other.engine.failures["step"] = [JobExecutionError("a bad record")]
    other.step()
    assert len(other.master.history) == 1, "it went back to the checkpoint"
    assert other.finish() is End.FINISHED
    assert rows_in(other.out) == rows(9)


# -- to end the job with


def test_a_savepoint_to_stop_with_commits(tmp_path: Path) -> None:
    job = LocalJob(tmp_path)
    gate = job.engine.gates["publish"] = Gate()
    job.step()
    answer = job.stop(tmp_path / "savepoints")
    gate.reached()
    job.give()  # no step runs after it
    assert not answer.done(), "the job has not ended yet"
    assert not job.master.wait(0.05)
    gate.open()
    assert job.ended() is End.STOPPED
    assert rows_in(job.out) == rows(3)
    assert whole(answer.result(20))


def test_what_was_taken_away_after_a_stop_does_not_come_back(tmp_path: Path) -> None:
    """The job stops with a savepoint, whoever reads its files takes them, and the job goes on from the savepoint."""
    job = LocalJob(tmp_path)
    job.step()
    answer = job.stop(tmp_path / "savepoints")
    assert job.ended() is End.STOPPED
    assert consume(job.out) == rows(3)
    for number in range(2):  # and fails at once, and is started again
        job = LocalJob(tmp_path, given=6, restart=NoRestart(), restore_path=answer.result(20))
        if number == 0:
            job.engine.failures["step"] = [JobExecutionError("a bad record")]
            assert job.ended() is End.FAILED
            assert rows_in(job.out) == []
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(6, 3)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_savepoint_outlives_a_job_that_can_not_publish(goes_on: bool, tmp_path: Path) -> None:
    """Whoever starts from it publishes what it holds."""
    job = LocalJob(tmp_path, restart=None if goes_on else NoRestart())
    job.engine.failures["publish"] = [OSError("the disk is away")]
    job.step()
    answer = job.stop(tmp_path / "savepoints", NATIVE)
    with pytest.raises(BeadlineError, match=r"the savepoint was written to .*/savepoint-.*, but the job"):
        answer.result(20)
    if goes_on:
        until(lambda: rows_in(job.out) == rows(3), "what the savepoint holds")
        job.step()
        assert job.cancel() is End.CANCELLED
    else:
        assert job.ended() is End.FAILED
        assert "the disk is away" in str(job.master.error)
        assert rows_in(job.out) == []
    (path,) = (tmp_path / "savepoints").glob("savepoint-*")
    other = LocalJob(tmp_path, restore_path=str(path))
    until(lambda: rows_in(other.out) == rows(3))
    other.give(3)
    other.give(3)
    assert other.finish() is End.FINISHED
    assert rows_in(other.out) == rows(6)


@pytest.mark.parametrize("kind", [CheckpointKind.SAVEPOINT, CheckpointKind.CANCEL_WITH_SAVEPOINT])
def test_a_savepoint_leaves_out_what_is_being_published(kind: CheckpointKind, tmp_path: Path) -> None:
    """Its checkpoint has completed, and it appears: from the savepoint it would come again."""
    job = LocalJob(tmp_path)
    gate = job.engine.gates["publish"] = Gate()
    job.step()
    job.trigger().result(20)
    gate.reached()
    assert rows_in(job.out) == []
    job.step()
    answer = job.trigger(kind, tmp_path / "savepoints")
    until(lambda: list((tmp_path / "savepoints").glob("savepoint-*/_metadata")), "the savepoint")
    assert consume(job.out) == rows(3), "before the savepoint is there"
    gate.open()
    path = answer.result(20)
    job.cancel()
    assert rows_in(job.out) == []
    other = LocalJob(tmp_path, given=6, restore_path=path)
    assert other.finish() is End.FINISHED
    assert rows_in(other.out) == rows(6, 3)


def test_a_savepoint_to_cancel_with_commits_nothing(tmp_path: Path) -> None:
    job = LocalJob(tmp_path / "job")
    job.step()
    answer = job.trigger(CheckpointKind.CANCEL_WITH_SAVEPOINT, tmp_path / "savepoints")
    assert job.ended() is End.CANCELLED
    assert rows_in(job.out) == []
    other = LocalJob(tmp_path / "other", given=3, restore_path=answer.result(20))
    assert other.finish() is End.FINISHED
    assert rows_in(other.out) == rows(3), "who goes on from it commits"


# -- those that fail


@FORMATS
def test_a_savepoint_that_fails_leaves_nothing_and_the_job_goes_on(format: SavepointFormatType, tmp_path: Path) -> None:
    job = LocalJob(tmp_path, tolerable_failures=0, inline_threshold=0)
    job.step()
    os.truncate(next(iter(job.truth.book.live_files())), 20)
    answer = job.trigger(CheckpointKind.SAVEPOINT, tmp_path / "savepoints", format)
    with pytest.raises(BeadlineError, match=r"the savepoint failed: .*cut short"):
        answer.result(20)
    job.settled()
    assert os.listdir(tmp_path / "savepoints") == []
    assert job.checkpoints.registry.files() == frozenset()
    job.step()
    assert job.master.history == []
    job.cancel()


def test_files_that_a_savepoint_reads_are_no_garbage_meanwhile(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, inline_threshold=0)
    for _ in range(3):
        job.step()
    read = job.truth.book.live_files()
    gate = job.engine.gates["savepoint"] = Gate()
    answer = job.trigger(CheckpointKind.SAVEPOINT, tmp_path / "savepoints")
    gate.reached()
    for _ in range(3):  # checkpoints complete while the savepoint is under way
        job.step()
        job.trigger().result(20)
    assert len(job.checkpoints.pointers) == 1
    assert all(os.path.exists(path) for path in read)
    gate.open()
    assert whole(answer.result(20))
    for _ in range(30):  # until they are merged
        job.step()
        job.checkpoint()
    assert not any(os.path.exists(path) for path in read)
    assert whole(answer.result(0))
    job.cancel()


@FORMATS
@pytest.mark.parametrize("heard_of", [True, False])
def test_a_savepoint_that_is_written_too_late_goes_away(
    heard_of: bool, format: SavepointFormatType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LocalJob(tmp_path, inline_threshold=0)
    gate = Gate()
    monkeypatch.setattr(job.storage, "write_savepoint", gate.after(job.storage.write_savepoint))
    job.step()
    answer = job.trigger(CheckpointKind.SAVEPOINT, tmp_path / "savepoints", format)
    gate.reached()
    assert os.listdir(tmp_path / "savepoints") != []
    if heard_of:
        job.engine.failures["step"] = [JobExecutionError("a bad record")]
        job.give()
        with pytest.raises(BeadlineError, match="the savepoint failed: The job failed"):
            answer.result(20)
        gate.open()
        job.sealed()
        until(lambda: os.listdir(tmp_path / "savepoints") == [])
        job.cancel()
    else:
        job.master.cancel()
        until(lambda: job.master._life.state is State.ENDING)
        gate.open()
        assert job.ended() is End.CANCELLED
        with pytest.raises(BeadlineError, match="the savepoint failed"):
            answer.result(0)
    assert os.listdir(tmp_path / "savepoints") == []


def test_a_savepoint_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, inline_threshold=0)
    job.step()
    gate = job.engine.gates["savepoint"] = Gate()
    answer = job.trigger(CheckpointKind.SAVEPOINT, tmp_path / "savepoints")
    gate.reached()
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()
    with pytest.raises(BeadlineError, match="the savepoint failed: The job failed"):
        answer.result(20)
    gate.open()
    job.sealed()
    job.settled()
    assert os.listdir(tmp_path / "savepoints") == []
    assert job.checkpoints.registry.files() == frozenset()
    job.cancel()
