"""Checkpoints with the real coordinator, storage, lease and registry; threads write them, steps are made by hand."""

from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.actions import CheckpointKind
from beadline.checkpoint.ends import End, Fate
from beadline.checkpoint.lease import Fenced, Lease
from beadline.checkpoint.lookup import read_snapshot
from beadline.checkpoint.settings import Retention
from beadline.common.job_status import JobStatus
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.connectors.files import RollingPolicy, pieces
from beadline.errors import BeadlineError, JobExecutionError
from beadline.master.events import NotWritten, Request, Written
from beadline.master.snapshots.sinks import Sinks
from tests.master.snapshots.stages import Driver, rows_in, staged_files


def rows(count: int) -> list[str]:
    return sorted(str(number) for number in range(count))


CANONICAL, NATIVE = SavepointFormatType
FORMATS = pytest.mark.parametrize("format", SavepointFormatType)


def request(
    driver: Driver, kind: CheckpointKind, directory: Path | None = None, format: SavepointFormatType = CANONICAL
) -> Future[str]:
    answer: Future[str] = Future()
    driver.do(
        driver.checkpoints.request(Request(kind, answer, None if directory is None else str(directory), format=format))
    )
    return answer


def whole(driver: Driver, pointer: str) -> bool:
    return driver.home.storage.verify(read_snapshot(pointer)) == []


def test_a_checkpoint_is_taken_written_and_told(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    told: list[int] = []
    driver.checkpoints.commit_sources = lambda snapshot: told.append(snapshot.checkpoint_id)
    driver.step()
    driver.step()
    driver.trigger()
    assert driver.checkpoints.coordinator.pending == (1,)
    assert told == []
    event = driver.written()
    assert isinstance(event, Written)
    assert rows_in(tmp_path / "out") == [], "it is on disk, but nobody has heard of it"
    driver.handle(event)
    assert told == [1]
    assert driver.checkpoints.completed_steps == [2]
    driver.pump()
    assert rows_in(tmp_path / "out") == rows(6)
    snapshot = read_snapshot(driver.checkpoints.pointers[1])
    assert (snapshot.step, snapshot.counters["records"]) == (2, 6)
    assert whole(driver, driver.checkpoints.pointers[1])


def test_the_job_may_end_when_the_last_output_is_visible(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.step(final=True)
    driver.cluster.fail = OSError("not yet")
    event = driver.written()
    driver.handle(event)
    assert not driver.checkpoints.may_end
    with pytest.raises(JobExecutionError, match="output of checkpoint 1 could not be published: not yet"):
        driver.pump()
    driver.cluster.fail = None
    driver.go_back()
    assert rows_in(tmp_path / "out") == rows(3)


@pytest.mark.parametrize("retained", [1, 2, 3])
def test_files_of_retained_checkpoints_are_never_garbage(retained: int, tmp_path: Path) -> None:
    driver = Driver(tmp_path, retained=retained)
    for number in range(1, 8):
        driver.step()
        driver.checkpoint()
        driver.merge_all()
        assert driver.counts() == driver.expected_counts()
        files = {str(path) for path in Path(driver.files.root).iterdir()}
        assert files == driver.truth.book.live_files() | driver.checkpoints.needed()
        pointers = driver.checkpoints.pointers
        assert sorted(pointers) == list(range(max(1, number - retained + 1), number + 1))
        assert all(whole(driver, pointer) for pointer in pointers.values())
        on_disk = {path.name for path in Path(driver.lease.folder).glob("chk-*")}
        assert on_disk == {f"chk-{id}" for id in pointers}


def test_what_only_a_discarded_checkpoint_needed_goes(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.step()
    driver.checkpoint()
    (old,) = driver.truth.book.live_files()
    # The job goes on from other runs, as after a merge.
    counts = driver.counts()
    driver.truth = driver.new_truth()
    driver.truth.seal(1, [], {driver.source: {"offset": 3}})
    driver.drop_garbage()
    assert os.path.exists(old), "checkpoint 1 needs it"
    driver.step()
    driver.checkpoint()
    assert not os.path.exists(old), "a file that this truth never wrote is removed with its last checkpoint"
    assert counts == {0: 1, 1: 1, 2: 1}


def test_a_checkpoint_that_can_not_be_written_fails_and_the_next_one_has_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path)
    driver.step()
    with monkeypatch.context() as patch:
        patch.setattr(driver.home.storage, "write", _raises(OSError(28, "No space left on device")))
        driver.trigger()
        event = driver.written()
        assert isinstance(event, NotWritten)
        driver.handle(event)
    assert driver.checkpoints.aborted_steps == [1]
    assert driver.checkpoints.coordinator.pending == ()
    assert driver.checkpoints.pointers == {}
    assert driver.checkpoints.registry.holders() == ()
    driver.step()
    driver.checkpoint()
    assert sorted(driver.checkpoints.pointers) == [2]
    assert rows_in(tmp_path / "out") == rows(6)


def test_too_many_failed_checkpoints_fail_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(tmp_path, tolerable_failures=1)
    monkeypatch.setattr(driver.home.storage, "write", _raises(OSError("disk")))
    driver.step()
    driver.trigger()
    driver.pump()
    driver.trigger()
    with pytest.raises(JobExecutionError):
        driver.pump()


def test_one_that_is_written_after_it_was_given_up_goes_away(tmp_path: Path) -> None:
    driver = Driver(tmp_path, timeout_ms=5000)
    driver.step()
    driver.trigger()
    late = driver.written()
    assert isinstance(late, Written)
    driver.now += 5000
    driver.checkpoints.tick()
    assert driver.checkpoints.aborted_steps == [1]
    assert os.path.exists(late.stored.pointer)
    # It is complete on disk: whoever resumes now finds it, so its files must stay until it is gone.
    assert late.stored.snapshot.files() <= driver.checkpoints.needed()
    driver.truth = driver.new_truth()
    driver.truth.step = 1
    driver.drop_garbage(late.stored.snapshot.files())
    assert whole(driver, late.stored.pointer)
    driver.handle(late)
    driver.pump()
    assert not os.path.exists(late.stored.pointer)
    assert 1 not in driver.checkpoints.pointers


def test_staged_rows_of_one_that_was_given_up_stay_until_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "_INLINE", 0)
    driver = Driver(tmp_path, timeout_ms=5000)
    driver.step()
    driver.trigger()
    late = driver.written()
    driver.checkpoints.job_failed()
    driver.truth = driver.new_truth()
    driver.sinks.restore({})
    driver.checkpoints.restored(None, 0)
    assert len(staged_files(tmp_path / "out")) == 1
    # The driver dies here: the next one finds the checkpoint, and all it needs.
    driver.die()
    other = Driver(tmp_path, restore_path="latest")
    assert other.offset == 3
    assert rows_in(tmp_path / "out") == rows(3)
    # Or it lives and hears of it.
    with pytest.raises(Fenced):
        driver.home.storage.check()
    assert isinstance(late, Written)


def test_a_newer_checkpoint_subsumes_those_that_are_still_written(tmp_path: Path) -> None:
    driver = Driver(tmp_path, max_concurrent=2)
    driver.step()
    driver.trigger()
    first = driver.written()
    driver.step()
    driver.trigger()
    second = driver.written()
    driver.handle(second)
    driver.pump()
    assert rows_in(tmp_path / "out") == rows(6)
    driver.handle(first)
    driver.pump()
    assert sorted(driver.checkpoints.pointers) == [2]
    assert whole(driver, driver.checkpoints.pointers[2])
    folder = Path(driver.checkpoints.pointers[2]).parent
    assert [path.name for path in folder.glob("chk-*")] == ["chk-2"]


def test_publishing_that_takes_long_is_in_the_next_checkpoint(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.step()
    driver.trigger()
    driver.checkpoints._publish = lambda id, ready: None  # type: ignore[method-assign]
    driver.handle(driver.written())
    assert not driver.checkpoints.may_end
    driver.step()
    driver.trigger()
    driver.handle(driver.written())
    assert sorted(driver.checkpoints.pointers) == [2], "the first is gone, and nothing of it is visible"
    assert rows_in(tmp_path / "out") == []
    driver.die()
    Driver(tmp_path, restore_path="latest")
    assert rows_in(tmp_path / "out") == rows(6)


# -- requests


def test_who_asks_for_a_checkpoint_gets_its_path(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.step()
    answer = request(driver, CheckpointKind.CHECKPOINT)
    driver.pump()
    assert answer.result(0) == driver.checkpoints.pointers[1]


def test_who_asks_in_vain_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(tmp_path)
    driver.step()
    monkeypatch.setattr(driver.home.storage, "write", _raises(OSError("the disk is away")))
    answer = request(driver, CheckpointKind.CHECKPOINT)
    driver.pump()
    with pytest.raises(BeadlineError, match=r"the checkpoint failed: .*the disk is away"):
        answer.result(0)
    driver.checkpoints.job_failed()
    refused = request(driver, CheckpointKind.CHECKPOINT)
    with pytest.raises(BeadlineError, match="no checkpoint was taken"):
        refused.result(0)


@FORMATS
@pytest.mark.parametrize("inline", [0, 1 << 16], ids=["in files", "inline"])
def test_a_savepoint_holds_copies_of_all_it_needs(
    inline: int, format: SavepointFormatType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "_INLINE", inline)
    driver = Driver(tmp_path / "job", policy=RollingPolicy(), inline_threshold=0)
    driver.step()
    answer = request(driver, CheckpointKind.SAVEPOINT, tmp_path / "savepoints", format)
    driver.pump()
    path = Path(answer.result(0))
    assert path.parent == tmp_path / "savepoints"
    assert rows_in(tmp_path / "job" / "out") == [], "it commits nothing"
    assert driver.checkpoints.pointers == {}, "it is none to go back to"
    driver.step(final=True)
    driver.pump()
    assert rows_in(tmp_path / "job" / "out") == rows(6)
    driver.sinks.close(discard=True)
    shutil.rmtree(tmp_path / "job")

    other = Driver(tmp_path / "other", restore_path=str(path), policy=RollingPolicy())
    assert other.home.job_id != driver.home.job_id
    assert (other.offset, other.counts()) == (3, {0: 1, 1: 1, 2: 1})
    other.step(final=True)
    other.pump()
    assert rows_in(tmp_path / "other" / "out") == rows(6), "the rows that were staged at the savepoint too"
    assert other.home.storage.verify(read_snapshot(str(path))) == [], "it belongs to the user"


def test_without_checkpoints_a_savepoint_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_INLINE", 0)
    driver = Driver(tmp_path / "job", interval_ms=None, exactly_once=False)
    driver.step()
    answer = request(driver, CheckpointKind.SAVEPOINT, tmp_path / "savepoints")
    driver.pump()
    answer.result(0)
    assert driver.checkpoints.registry.holders() == ()
    driver.step(final=True)
    assert rows_in(tmp_path / "job" / "out") == rows(6)
    assert staged_files(tmp_path / "job" / "out") == [], "no snapshot holds on to them"


@FORMATS
def test_the_first_checkpoint_frees_the_savepoint_it_started_from(format: SavepointFormatType, tmp_path: Path) -> None:
    driver = Driver(tmp_path / "job", inline_threshold=0)
    driver.step()
    answer = request(driver, CheckpointKind.SAVEPOINT, tmp_path / "savepoints", format)
    driver.pump()
    other = Driver(tmp_path / "other", restore_path=answer.result(0), inline_threshold=0)
    other.step()
    pointer = other.checkpoint()
    shutil.rmtree(tmp_path / "savepoints")
    assert whole(other, pointer)
    assert all(os.path.exists(path) for path in other.truth.book.live_files())
    other.die()
    third = Driver(tmp_path / "other", restore_path="latest")
    assert third.counts() == third.expected_counts()
    assert third.offset == 6


def test_a_savepoint_to_stop_with_commits(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "job")
    driver.step()
    answer = request(driver, CheckpointKind.STOP_WITH_SAVEPOINT, tmp_path / "savepoints")
    assert driver.checkpoints.coordinator.holds
    driver.pump()
    assert driver.checkpoints.stopped_with is CheckpointKind.STOP_WITH_SAVEPOINT
    assert driver.checkpoints.may_end
    assert rows_in(tmp_path / "job" / "out") == rows(3)
    assert not answer.done(), "the job has not ended yet"
    driver.checkpoints.answer_the_end(JobStatus.FINISHED)
    assert whole(driver, answer.result(0))


def consume(folder: Path) -> list[str]:
    """Take everything away that is visible."""
    found = rows_in(folder)
    for path in folder.rglob("part-*"):
        path.unlink()
    return found


def test_what_was_taken_away_after_a_stop_does_not_come_back(tmp_path: Path) -> None:
    """The job stops with a savepoint, whoever reads its files takes them, and the job goes on from the savepoint."""
    driver = Driver(tmp_path)
    driver.step()
    answer = request(driver, CheckpointKind.STOP_WITH_SAVEPOINT, tmp_path / "savepoints")
    driver.pump()
    driver.checkpoints.answer_the_end(JobStatus.FINISHED)
    resumable = driver.close(End.STOPPED)
    driver.sinks.close(discard=not resumable)
    assert consume(tmp_path / "out") == rows(3)
    for _ in range(2):  # and fails at once, and is started again
        other = Driver(tmp_path, restore_path=answer.result(0))
        assert rows_in(tmp_path / "out") == []
    other.step()
    other.checkpoint()
    assert rows_in(tmp_path / "out") == sorted(set(rows(6)) - set(rows(3)))


def test_who_starts_from_a_savepoint_publishes_what_the_stopped_job_could_not(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.step()
    request(driver, CheckpointKind.STOP_WITH_SAVEPOINT, tmp_path / "savepoints")
    while not (found := list((tmp_path / "savepoints").glob("savepoint-*/_metadata"))):
        time.sleep(0.01)
    driver.die()  # when the savepoint is there, and before its output is
    assert rows_in(tmp_path / "out") == []
    Driver(tmp_path, restore_path=str(found[0]))
    assert consume(tmp_path / "out") == rows(3)
    Driver(tmp_path, restore_path=str(found[0]))
    assert rows_in(tmp_path / "out") == []


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_savepoint_outlives_a_job_that_can_not_publish(goes_on: bool, tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.step()
    answer = request(driver, CheckpointKind.STOP_WITH_SAVEPOINT, tmp_path / "savepoints", NATIVE)
    driver.cluster.fail = OSError("the disk is away")
    with pytest.raises(JobExecutionError, match="the disk is away"):
        driver.pump()
    driver.cluster.fail = None
    if goes_on:
        driver.go_back()
        driver.step()
        driver.trigger()
        driver.written()
    driver.checkpoints.answer_the_end(JobStatus.FINISHED)
    driver.close(End.FAILED)
    driver.sinks.close(discard=True)
    assert rows_in(tmp_path / "out") == []
    Driver(tmp_path, restore_path=str(next((tmp_path / "savepoints").glob("savepoint-*"))))
    assert rows_in(tmp_path / "out") == rows(3)
    assert answer.done()


@pytest.mark.parametrize("kind", [CheckpointKind.SAVEPOINT, CheckpointKind.CANCEL_WITH_SAVEPOINT])
def test_a_savepoint_leaves_out_what_is_being_published(kind: CheckpointKind, tmp_path: Path) -> None:
    """Its checkpoint has completed, and it appears: from the savepoint it would come again."""
    driver = Driver(tmp_path)
    driver.step()
    driver.trigger()
    driver.checkpoints._publish = lambda id, ready: None  # type: ignore[method-assign]
    driver.handle(driver.written())
    assert rows_in(tmp_path / "out") == []
    driver.step()
    answer = request(driver, kind, tmp_path / "savepoints")
    driver.pump()
    driver.checkpoints.answer_the_end(JobStatus.CANCELED)
    assert consume(tmp_path / "out") == rows(3), "before the savepoint is there"
    other = Driver(tmp_path, restore_path=answer.result(0))
    other.checkpoint()
    assert rows_in(tmp_path / "out") == sorted(set(rows(6)) - set(rows(3)))


def test_a_driver_that_is_fenced_while_it_goes_back_takes_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paused after it looked at its lease. The next driver goes on from a checkpoint that it did not hear of, and
    has not published the output yet."""
    driver = Driver(tmp_path)
    driver.step()
    driver.trigger()
    driver.written()  # nobody hears of it

    def paused(self: Any, ready: Any) -> None:
        """The next driver comes to where it publishes what it has restored."""
        driver.checkpoints.job_failed()
        with pytest.raises(Fenced):
            driver.go_back()
        publish(self, ready)

    publish = Sinks.publish
    with monkeypatch.context() as patch:
        patch.setattr(driver.lease, "check", _passes_once(driver.lease.check))
        patch.setattr(Sinks, "publish", paused)
        Driver(tmp_path, restore_path=driver.lease.folder)
    assert rows_in(tmp_path / "out") == rows(3)


def _passes_once(check: Any) -> Any:
    calls = iter([True])
    return lambda: None if next(calls, False) else check()


def test_a_savepoint_to_cancel_with_commits_nothing(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "job")
    driver.step()
    answer = request(driver, CheckpointKind.CANCEL_WITH_SAVEPOINT, tmp_path / "savepoints")
    assert driver.checkpoints.coordinator.holds, "no step runs behind it"
    driver.pump()
    assert driver.checkpoints.may_end
    driver.checkpoints.answer_the_end(JobStatus.CANCELED)
    assert rows_in(tmp_path / "job" / "out") == []
    Driver(tmp_path / "other", restore_path=answer.result(0)).checkpoint()
    assert rows_in(tmp_path / "other" / "out") == rows(3), "who goes on from it commits"


def test_a_job_that_fails_after_the_savepoint_to_stop_with_says_where_it_is(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "job")
    driver.step()
    answer = request(driver, CheckpointKind.STOP_WITH_SAVEPOINT, tmp_path / "savepoints")
    driver.pump()
    driver.checkpoints.job_failed()
    with pytest.raises(BeadlineError, match=r"the savepoint was written to .*/savepoint-.*, but the job failed"):
        answer.result(0)


@FORMATS
def test_a_savepoint_that_fails_leaves_nothing_and_the_job_goes_on(
    format: SavepointFormatType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path / "job", tolerable_failures=0, inline_threshold=0)
    driver.step()
    os.truncate(next(iter(driver.truth.book.live_files())), 20)
    answer = request(driver, CheckpointKind.SAVEPOINT, tmp_path / "savepoints", format)
    driver.pump()
    with pytest.raises(BeadlineError, match=r"the savepoint failed: .*cut short"):
        answer.result(0)
    assert os.listdir(tmp_path / "savepoints") == []
    assert driver.checkpoints.registry.holders() == ()


def test_files_that_a_savepoint_reads_are_no_garbage_meanwhile(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "job", inline_threshold=0)
    for _ in range(3):
        driver.step()
    read = driver.truth.book.live_files()
    begun, go_on = threading.Event(), threading.Event()
    export_now = driver.savepoints.worker()

    def slow(task: Any) -> Any:
        begun.set()
        assert go_on.wait(20)
        return export_now(task)

    driver.savepoints.worker = lambda: slow
    answer = request(driver, CheckpointKind.SAVEPOINT, tmp_path / "savepoints")
    assert begun.wait(20)
    driver.merge_all()
    driver.trigger()
    driver.handle(driver.written())  # a checkpoint completes while the savepoint is under way
    assert driver.savepoints.busy
    assert sorted(driver.checkpoints.pointers) == [2]
    assert all(os.path.exists(path) for path in read)
    go_on.set()
    driver.pump()
    assert whole(driver, answer.result(0))
    driver.drop_garbage()
    assert not any(os.path.exists(path) for path in read)


@FORMATS
@pytest.mark.parametrize("heard_of", [True, False])
def test_a_savepoint_that_is_written_too_late_goes_away(
    heard_of: bool, format: SavepointFormatType, tmp_path: Path
) -> None:
    driver = Driver(tmp_path / "job", inline_threshold=0)
    driver.step()
    answer = request(driver, CheckpointKind.SAVEPOINT, tmp_path / "savepoints", format)
    late = driver.written()
    assert isinstance(late, Written)
    assert os.listdir(tmp_path / "savepoints") != []
    if heard_of:
        driver.checkpoints.job_failed()
        driver.handle(late)
    else:
        driver.close(End.CANCELLED)
    with pytest.raises(BeadlineError, match="the savepoint failed"):
        answer.result(0)
    assert os.listdir(tmp_path / "savepoints") == []


def test_a_savepoint_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "job", inline_threshold=0)
    driver.step()
    begun, go_on = threading.Event(), threading.Event()
    export_now = driver.savepoints.worker()

    def slow(task: Any) -> Any:
        begun.set()
        assert go_on.wait(20)
        return export_now(task)

    driver.savepoints.worker = lambda: slow
    answer = request(driver, CheckpointKind.SAVEPOINT, tmp_path / "savepoints")
    assert begun.wait(20)
    driver.checkpoints.job_failed()
    with pytest.raises(BeadlineError, match="the savepoint failed: The job failed"):
        answer.result(0)
    go_on.set()
    driver.pump()
    assert os.listdir(tmp_path / "savepoints") == []
    assert driver.checkpoints.registry.holders() == ()


# -- fencing, failure, the end


def test_a_fenced_driver_publishes_nothing(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.step()
    driver.checkpoint()
    driver.step()
    answer = request(driver, CheckpointKind.CHECKPOINT)
    event = driver.written()
    driver.handle(event)  # completed before it was fenced: it counts for ever
    assert answer.done()
    driver.pump()
    other = Driver(tmp_path, restore_path=answer.result(0))
    assert other.offset == 6
    driver.step()
    waiting = request(driver, CheckpointKind.CHECKPOINT)
    with pytest.raises(Fenced):
        driver.pump()
    driver.checkpoints.abandon()
    with pytest.raises(BeadlineError):
        waiting.result(0)
    assert rows_in(tmp_path / "out") == rows(6)
    other.step()
    other.checkpoint()
    assert rows_in(tmp_path / "out") == rows(9)
    assert other.counts() == other.expected_counts()


def test_a_fenced_driver_deletes_nothing(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.step()
    pointer = driver.checkpoint()
    Lease.acquire(driver.lease.folder)
    with pytest.raises(Fenced):
        driver.checkpoints.leave_behind(0)
    driver.drop_garbage(frozenset(read_snapshot(pointer).files()))
    assert whole(driver, pointer)


def test_going_back_beyond_a_checkpoint_takes_it_away(tmp_path: Path) -> None:
    """Its output is taken back too: nobody may go on from it, however the job ends."""
    driver = Driver(tmp_path, retained=3)
    for _ in range(3):
        driver.step()
        driver.checkpoint()
    driver.checkpoints.job_failed()
    first = driver.checkpoints.pointers[1]
    driver.restore(read_snapshot(first))
    assert rows_in(tmp_path / "out") == rows(3)
    driver.die()
    other = Driver(tmp_path, restore_path="latest", retained=3)
    assert other.home.pointer == first
    other.step()
    other.checkpoint()
    assert len(other.checkpoints.pointers) == 2
    assert rows_in(tmp_path / "out") == rows(6)


ENDS_THAT_CLOSE = [end for end in End if end.checkpoints is not Fate.UNTOUCHED]


@pytest.mark.parametrize("retention", Retention)
@pytest.mark.parametrize("end", ENDS_THAT_CLOSE)
def test_what_stays_when_the_job_ends(end: End, retention: Retention, tmp_path: Path) -> None:
    driver = Driver(tmp_path, retention=retention)
    driver.step()
    pointer = driver.checkpoint()
    driver.step()
    driver.trigger()  # is written while the job ends, and nobody hears of it
    resumable = driver.close(end)
    driver.sinks.close(discard=not resumable)
    driver.home.close(resumable)
    assert resumable == retention.keeps(end)
    assert os.path.exists(pointer) == resumable
    folder = Path(pointer).parent
    assert folder.exists() == resumable, [path.name for path in folder.glob("*")] if folder.exists() else ""
    if resumable:
        assert driver.checkpoints.newest == str(folder / "chk-2")
        other = Driver(tmp_path, restore_path="latest")
        assert other.home.pointer == driver.checkpoints.newest, "who resumes takes what was named"
        assert other.offset == 6
        assert rows_in(tmp_path / "out") == rows(6)
    else:
        assert driver.checkpoints.newest is None


@pytest.mark.parametrize("retention", Retention)
def test_a_driver_that_lost_its_job_or_was_killed_deletes_nothing(retention: Retention, tmp_path: Path) -> None:
    fenced = Driver(tmp_path, retention=retention)
    fenced.step()
    pointer = fenced.checkpoint()
    killed = Driver(tmp_path, restore_path=str(Path(pointer).parent), retention=retention)
    fenced.checkpoints.abandon()
    assert killed.home.pointer == pointer
    assert whole(killed, pointer)
    killed.step()
    newer = killed.checkpoint()
    killed.die()
    assert Driver(tmp_path, restore_path="latest").home.pointer == newer


def _raises(error: Exception) -> Any:
    def raising(*_: Any, **__: Any) -> None:
        raise error

    return raising
