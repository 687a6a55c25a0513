"""Checkpoints of a job that runs: when they count, what they hold on to, and what becomes of those that fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beadline.checkpoint.coordinator.statistics import CheckpointStatus
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ends import End, Fate
from beadline.checkpoint.ownership.lease import Fenced, Lease
from beadline.checkpoint.restart import FixedDelay, NoRestart
from beadline.checkpoint.settings import Retention
from beadline.common.job_status import JobStatus
from beadline.connectors.files import pieces
from beadline.errors import BeadlineError, JobExecutionError
from beadline.master.life import State
from tests.master.snapshots.local_jobs import LocalJob, rows, rows_in, staged_files, whole
from tests.master.snapshots.troubles import Gate, fails, until

RETAIN = {"retention": Retention.RETAIN_ON_CANCELLATION}


def held(job: LocalJob, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The next checkpoint is written, and nobody hears of it before the gate is open."""
    gate = Gate()
    monkeypatch.setattr(job.storage, "write", gate.after(job.storage.write))
    return gate


def on_disk(job: LocalJob) -> set[str]:
    return {path.name for path in Path(job.storage.folder).glob("chk-*")}


def test_a_checkpoint_is_taken_written_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = LocalJob(tmp_path)
    gate = held(job, monkeypatch)
    job.step()
    job.step()
    job.clock.now += 1000
    gate.reached()
    assert job.checkpoints.coordinator.pending == (1,)
    assert on_disk(job) == {"chk-1"}
    assert (rows_in(job.out), job.source.committed) == ([], None), "it is on disk, but nobody has heard of it"
    gate.open()
    until(lambda: rows_in(job.out) == rows(6))
    assert job.source.committed == 6
    job.settled()
    job.step()
    assert [header.completed for header in job.engine.headers] == [(), (), (2,)], (
        "functions hear of it in the next step"
    )
    snapshot = read_snapshot(job.checkpoints.pointers[1])
    assert (snapshot.step, snapshot.counters["records"]) == (2, 6)
    assert whole(job.checkpoints.pointers[1])
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(9)


def test_the_job_ends_when_the_last_output_is_visible(tmp_path: Path) -> None:
    job = LocalJob(tmp_path)
    gate = job.engine.gates["publish"] = Gate()
    job.engine.failures["publish"] = [OSError("not yet")]
    job.give()
    job.source.bounded = True
    gate.reached()
    assert not job.master.wait(0.05)
    gate.open()
    assert job.ended() is End.FINISHED
    assert [str(each.error) for each in job.master.history] == [
        "the output of checkpoint 1 could not be published: not yet"
    ]
    assert rows_in(job.out) == rows(3)


@pytest.mark.parametrize("retained", [1, 2, 3])
def test_files_of_retained_checkpoints_are_never_garbage(retained: int, tmp_path: Path) -> None:
    """And files that none of them needs, nor the job, go."""
    job = LocalJob(tmp_path, retained=retained, inline_threshold=0)
    written: set[str] = set()
    for number in range(1, 31):
        job.step()
        job.checkpoint()
        pointers = job.checkpoints.pointers
        assert sorted(pointers) == list(range(max(1, number - retained + 1), number + 1))
        assert all(whole(pointer) for pointer in pointers.values())
        until(lambda: on_disk(job) == {f"chk-{id}" for id in job.checkpoints.pointers})
        written |= job.truth.book.live_files()
    needed = job.truth.book.live_files() | job.checkpoints.registry.files()
    assert needed < written, "state was merged"
    assert not [path for path in written - needed if os.path.exists(path)]
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(90)


def test_a_checkpoint_that_can_not_be_written_fails_and_the_next_one_has_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LocalJob(tmp_path)
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(job.storage, "write", fails(1, full, job.storage.write))
    job.step()
    with pytest.raises(BeadlineError, match=r"the checkpoint failed: .*No space left"):
        job.trigger().result(20)
    job.settled()
    assert (job.checkpoints.pointers, job.checkpoints.registry.files()) == ({}, frozenset())
    job.step()
    assert job.engine.headers[-1].aborted == (1,)
    job.checkpoint()
    assert sorted(job.checkpoints.pointers) == [2]
    assert rows_in(job.out) == rows(6)
    assert job.cancel() is End.CANCELLED


def test_too_many_failed_checkpoints_fail_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = LocalJob(tmp_path, tolerable_failures=1, restart=NoRestart())
    monkeypatch.setattr(job.storage, "write", fails(2, OSError("disk"), job.storage.write))
    job.step()
    job.clock.now += 1000
    until(lambda: [each.status for each in job.master.checkpoint_statistics] == [CheckpointStatus.FAILED])
    job.step()
    job.clock.now += 1000
    assert job.ended() is End.FAILED
    assert isinstance(job.master.error, JobExecutionError)


def test_one_that_is_written_after_it_was_given_up_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = LocalJob(tmp_path, timeout_ms=5000, inline_threshold=0)
    gate = held(job, monkeypatch)
    job.step()
    answer = job.trigger()
    gate.reached()
    job.clock.now += 5000
    with pytest.raises(BeadlineError, match="the checkpoint failed"):
        answer.result(20)
    # It is complete on disk: whoever resumes now finds it, so its files must stay until it is gone.
    late = os.path.join(job.storage.folder, "chk-1")
    for _ in range(20):
        job.step()
    assert whole(late)
    gate.open()
    until(lambda: not os.path.exists(late))
    job.checkpoint()
    assert 1 not in job.checkpoints.pointers
    assert rows_in(job.out) == rows(63)
    job.cancel()


def test_one_that_is_written_while_the_job_goes_back_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may go on from it: it names output that is taken back."""
    monkeypatch.setattr(pieces, "_INLINE", 0)
    job = LocalJob(tmp_path)
    gate = held(job, monkeypatch)
    job.step()
    answer = job.trigger()
    gate.reached()
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()
    with pytest.raises(BeadlineError, match="The job failed"):
        answer.result(20)
    assert on_disk(job) == {"chk-1"}
    assert staged_files(job.out), "it needs them as long as it is there"
    gate.open()
    job.sealed()
    assert on_disk(job) == set()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(6)
    assert staged_files(job.out) == []


def test_a_newer_checkpoint_subsumes_those_that_are_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LocalJob(tmp_path, max_concurrent=2)
    gate = held(job, monkeypatch)
    job.step()
    job.trigger()
    gate.reached()
    job.step()
    assert job.trigger().result(20) == job.checkpoints.pointers[2]
    until(lambda: rows_in(job.out) == rows(6))
    gate.open()
    until(lambda: on_disk(job) == {"chk-2"})
    job.settled()
    assert sorted(job.checkpoints.pointers) == [2]
    assert whole(job.checkpoints.pointers[2])
    job.cancel()


def test_publishing_that_takes_long_is_in_the_next_checkpoint(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, **RETAIN)
    gate = job.engine.gates["publish"] = Gate()
    for _ in range(2):
        job.step()
        pointer = job.trigger().result(20)
    until(lambda: on_disk(job) == {"chk-2"}, "the end of the first")
    gate.reached()
    assert rows_in(job.out) == [], "the first is gone, and nothing of it is visible"
    assert len(read_snapshot(pointer).committables()["sink"]["committables"]) == 2
    gate.open()
    until(lambda: rows_in(job.out) == rows(6))
    job.cancel()


# -- requests


def test_who_asks_for_a_checkpoint_gets_its_path(tmp_path: Path) -> None:
    job = LocalJob(tmp_path)
    job.step()
    assert job.trigger().result(20) == job.checkpoints.pointers[1]
    job.cancel()
    with pytest.raises(BeadlineError, match="has ended: CANCELED"):
        job.trigger().result(20)


def test_who_asks_while_the_job_waits_for_its_restart_is_heard_later(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, restart=FixedDelay(1, 300))
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()
    until(lambda: job.master.status is JobStatus.RESTARTING)
    answer = job.trigger()
    assert job.master.status is JobStatus.RESTARTING
    assert answer.result(20).endswith("chk-1")
    job.sealed()
    job.cancel()


def test_a_source_that_fails_when_it_hears_of_a_checkpoint_costs_nobody_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another checkpoint waits for the one that it should hear of: the job goes back, and that one is given up."""
    job = LocalJob(tmp_path)
    gate = held(job, monkeypatch)
    job.source.commit = fails(1, OSError("no broker"), job.source.commit)  # type: ignore[method-assign]
    job.step()
    first = job.trigger()
    gate.reached()
    second = job.trigger()
    until(lambda: job.checkpoints.coordinator._waiting, "the second request")
    gate.open()
    assert first.result(20).endswith("chk-1")
    with pytest.raises(BeadlineError, match="the checkpoint failed: The job failed"):
        second.result(20)
    until(lambda: job.master.status is JobStatus.RUNNING and rows_in(job.out) == rows(3))
    job.step()
    job.checkpoint()
    assert [str(each.error) for each in job.master.history] == ["no broker"]
    assert [record.id for record in job.checkpoints._records] == [3], "nothing is left to know of the others"
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(6)


# -- failure, fencing, the end


@pytest.mark.parametrize("damaged", [False, True])
def test_the_job_goes_back_to_the_newest_that_can_be_read(damaged: bool, tmp_path: Path) -> None:
    """The output of those after it is taken back, and comes again; nobody may go on from them."""
    job = LocalJob(tmp_path, retained=3, **RETAIN)
    for _ in range(3):
        job.step()
        pointer = Path(job.checkpoint(), "_metadata")
    if damaged:
        pointer.write_bytes(pointer.read_bytes()[:-1])
    gate = job.engine.gates["step"] = Gate()
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()
    gate.reached()
    again = job.engine.gates["step"] = Gate()
    gate.open()
    again.reached()
    assert rows_in(job.out) == rows(6 if damaged else 9)
    assert on_disk(job) == ({"chk-1", "chk-2"} if damaged else {"chk-1", "chk-2", "chk-3"})
    again.open()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(12)


def test_going_back_beyond_a_checkpoint_takes_it_away(tmp_path: Path) -> None:
    """Its output is taken back too: nobody may go on from it, however the job ends."""
    job = LocalJob(tmp_path, retained=3, **RETAIN)
    pointers = []
    for _ in range(3):
        job.step()
        pointers.append(job.checkpoint())
    job.cancel()
    job = LocalJob(tmp_path, retained=3, restore_path=pointers[0], **RETAIN)
    until(lambda: rows_in(job.out) == rows(3))
    until(lambda: job.master._life.state is State.RUNNING)
    assert on_disk(job) == {"chk-1"}
    job.cancel()
    other = LocalJob(tmp_path, given=6, retained=3, restore_path="latest", **RETAIN)
    assert other.home.pointer == pointers[0]
    other.sealed()
    other.checkpoint()
    assert sorted(other.checkpoints.pointers) == [1, 2]
    assert other.finish() is End.FINISHED
    assert rows_in(other.out) == rows(6)


@pytest.mark.parametrize("retention", Retention)
def test_a_driver_that_lost_its_job_publishes_and_deletes_nothing(
    retention: Retention, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what it has just made ready, which no checkpoint names."""
    monkeypatch.setattr(pieces, "_INLINE", 0)
    job = LocalJob(tmp_path, retention=retention)
    job.step()
    pointer = job.checkpoint()
    job.step()
    Lease.acquire(job.storage.folder)
    answer = job.trigger()
    assert job.ended() is End.FENCED
    assert isinstance(job.master.error, Fenced)
    with pytest.raises(BeadlineError):
        answer.result(0)
    assert rows_in(job.out) == rows(3)
    assert whole(pointer)
    assert staged_files(job.out), "the next driver may need them"


ENDS_THAT_CLOSE = [end for end in End if end.checkpoints is not Fate.UNTOUCHED]


@pytest.mark.parametrize("retention", Retention)
@pytest.mark.parametrize("end", ENDS_THAT_CLOSE)
def test_what_stays_when_the_job_ends(
    end: End, retention: Retention, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LocalJob(tmp_path, retention=retention, restart=NoRestart())
    job.step()
    pointer = job.checkpoint()
    folder = Path(pointer).parent
    if end not in (End.FINISHED, End.STOPPED):
        job.step()
        gate = held(job, monkeypatch)
        job.trigger()  # is written while the job ends, and nobody hears of it
        gate.reached()
    bring_about(end, job)
    if end not in (End.FINISHED, End.STOPPED):
        until(lambda: job.master._life.state is State.ENDING)
        gate.open()
    assert job.ended() is end
    assert job.master.kept == os.path.exists(pointer) == retention.keeps(end)
    assert [path.name for path in folder.glob("*")] == ["ended"] or not folder.exists() or job.master.kept
    if job.master.kept:
        assert job.master.last_checkpoint == str(folder / "chk-2")
        other = LocalJob(tmp_path, given=9, restore_path="latest")
        assert other.home.pointer == job.master.last_checkpoint, "who resumes takes what was named"
        assert other.finish() is End.FINISHED
        assert rows_in(job.out) == rows(9)
    else:
        assert job.master.last_checkpoint is None
        assert staged_files(job.out) == []


def bring_about(end: End, job: LocalJob) -> None:
    match end:
        case End.FINISHED:
            job.source.bounded = True
        case End.STOPPED:
            job.stop(job.folder / "savepoints")
        case End.CANCELLED:
            job.master.cancel()
        case End.FAILED:
            job.engine.failures["step"] = [JobExecutionError("a bad record")]
            job.give()
        case End.SUSPENDED:
            job.master.suspend(at_once=True)
        case End.ENGINE_LOST:
            job.engine.lost = "it was stopped"
