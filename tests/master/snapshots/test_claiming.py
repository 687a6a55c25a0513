"""Whom the snapshot belongs to that a job started from: the user (no claim) or the job (claim)."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ends import End
from beadline.checkpoint.ownership.lease import Lease
from beadline.checkpoint.settings import ClaimMode, Retention
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.errors import JobExecutionError
from tests.checkpoint.snapshots import all_files
from tests.master.snapshots.drivers import KILLED, Drive, Trap, run
from tests.master.snapshots.local_jobs import LocalJob, rows, rows_in, whole
from tests.master.snapshots.troubles import Gate, until

FORMATS = pytest.mark.parametrize("format", SavepointFormatType)
CLAIM: dict[str, Any] = {"claim_mode": ClaimMode.CLAIM, "inline_threshold": 0}
RETAIN: dict[str, Any] = {"retention": Retention.RETAIN_ON_CANCELLATION}


def a_savepoint(folder: Path, format: SavepointFormatType) -> Path:
    """Of a job that has read six records, and is over since."""
    job = LocalJob(folder / "old", inline_threshold=0)
    job.step(6)
    path = job.savepoint(folder / "savepoints", format)
    job.cancel()
    return path


def a_checkpoint(folder: Path, count: int = 1) -> list[Path]:
    """The retained checkpoints of a job that was cancelled, one every three records."""
    job = LocalJob(folder / "old", inline_threshold=0, retained=count, **RETAIN)
    pointers = []
    for _ in range(count):
        job.step()
        pointers.append(Path(job.checkpoint()))
    job.cancel()
    return pointers


def start(folder: Path, path: Path | str, given: int = 9, **more: Any) -> LocalJob:
    """A job that goes on from there and has read some more."""
    job = LocalJob(folder, given=given, restore_path=str(path), **{"inline_threshold": 0, **more})
    job.sealed()
    return job


def merge_all(job: LocalJob) -> None:
    """Go on until the job needs none of the files that it needs now, and checkpoints neither."""
    old = set(job.truth.book.live_files())
    for _ in range(80):
        job.step()
        job.checkpoint()
        if not old & (job.truth.book.live_files() | job.checkpoints.registry.files()):
            return
    raise AssertionError("its state is never merged")


@FORMATS
def test_a_claimed_savepoint_goes_when_nothing_needs_it_any_more(format: SavepointFormatType, tmp_path: Path) -> None:
    path = a_savepoint(tmp_path, format)
    job = start(tmp_path / "new", path, **CLAIM)
    assert list(job.checkpoints.pointers.values()) == [str(path)]
    pointer = job.checkpoint()
    assert not (path / "_metadata").exists(), "nobody can start from it"
    assert whole(pointer), "but its files are needed"
    assert any(file.startswith(str(path)) for file in read_snapshot(pointer).files())
    assert path.exists(), "a checkpoint needs it"
    merge_all(job)
    until(lambda: not path.exists())
    assert path.parent.exists()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(job.given), "those that the savepoint held too"


@FORMATS
def test_a_failed_attempt_goes_back_to_the_claimed_savepoint(format: SavepointFormatType, tmp_path: Path) -> None:
    path = a_savepoint(tmp_path, format)
    job = start(tmp_path / "new", path, **CLAIM)
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.step()
    assert len(job.master.history) == 1
    assert whole(path)
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(12)


@FORMATS
@pytest.mark.parametrize("claim", ClaimMode)
def test_as_long_as_no_newer_one_completed_it_stays(
    claim: ClaimMode, format: SavepointFormatType, tmp_path: Path
) -> None:
    path = a_savepoint(tmp_path, format)
    before = all_files(path)
    job = start(tmp_path / "new", path, claim_mode=claim)
    assert job.cancel() is End.CANCELLED
    assert all_files(path) == before
    assert os.listdir(tmp_path / "new" / "checkpoints") == []


@FORMATS
def test_a_job_that_ends_takes_what_it_claimed_with_it(format: SavepointFormatType, tmp_path: Path) -> None:
    path = a_savepoint(tmp_path, format)
    job = start(tmp_path / "new", path, **CLAIM)
    assert job.finish() is End.FINISHED
    assert not path.exists()
    assert list(all_files(tmp_path / "new" / "checkpoints")) == [f"{job.home.job_id}/ended"]


@FORMATS
def test_what_retained_checkpoints_need_of_it_stays_and_is_the_next_runs_own(
    format: SavepointFormatType, tmp_path: Path
) -> None:
    path = a_savepoint(tmp_path, format)
    job = start(tmp_path / "new", path, **CLAIM, **RETAIN)
    pointer = job.checkpoint()
    job.cancel()
    assert whole(pointer)
    assert path.exists()
    job = start(tmp_path / "new", "latest", 12, **CLAIM, **RETAIN)
    assert path.exists()
    job.cancel()
    job = start(tmp_path / "new", "latest", 12, **RETAIN)
    job.checkpoint()  # copies what it needs
    job.step()
    until(lambda: not path.exists(), "the end of it, by a segment that does not know of the claim")
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(15)


def test_no_claim_never_touches_it(tmp_path: Path) -> None:
    for format in SavepointFormatType:
        folder = tmp_path / format.value
        path = a_savepoint(folder, format)
        before = all_files(path)
        job = start(folder / "new", path)
        merge_all(job)
        assert job.finish() is End.FINISHED
        assert all_files(path) == before


def test_a_claimed_checkpoint_of_another_job_brings_its_shared_files(tmp_path: Path) -> None:
    (pointer,) = a_checkpoint(tmp_path)
    files = read_snapshot(str(pointer)).files()
    (pointer.parent / "shared" / "notes").write_text("not named")
    job = start(tmp_path / "new", pointer, 6, **CLAIM)
    assert job.home.job_id != pointer.parent.name
    job.checkpoint()
    assert not pointer.exists()
    merge_all(job)
    until(lambda: not any(os.path.exists(file) for file in files))
    assert (pointer.parent / "shared" / "notes").exists()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(job.given, 3)


def test_files_that_other_checkpoints_of_that_job_need_stay(tmp_path: Path) -> None:
    older, newer = a_checkpoint(tmp_path, 2)
    kept = read_snapshot(str(older))
    job = start(tmp_path / "new", newer, **CLAIM)
    merge_all(job)
    until(lambda: {str(path) for path in (older.parent / "shared").rglob("*") if path.is_file()} == kept.files())
    assert whole(older)
    job.cancel()


def test_the_checkpoint_of_a_running_job_is_not_claimed(tmp_path: Path) -> None:
    (pointer,) = a_checkpoint(tmp_path)
    lease = Lease.acquire(str(pointer.parent), owner="somebody")
    before = all_files(tmp_path)
    with pytest.raises(SnapshotError, match=r"chk-1 can't be claimed: its job still runs .*somebody.*NO_CLAIM"):
        LocalJob(tmp_path / "new", restore_path=str(pointer), **CLAIM)
    assert all_files(tmp_path) == before
    lease.release()
    start(tmp_path / "new", pointer, 6, **CLAIM).cancel()


@FORMATS
def test_a_fenced_driver_deletes_nothing_of_what_it_claimed(
    format: SavepointFormatType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_savepoint(tmp_path, format)
    before = all_files(path)
    job = start(tmp_path / "new", path, **CLAIM)
    gate = Gate()
    monkeypatch.setattr(job.storage, "write", gate.after(job.storage.write))
    job.trigger()
    gate.reached()  # it has completed, which would end the claimed one
    Lease.acquire(job.storage.folder)
    gate.open()
    job.settled()
    job.step()
    job.trigger()
    assert job.ended() is End.FENCED
    job.home.delete(job.home.claimed_files)
    job.home.drop_claimed(frozenset())
    assert all_files(path) == before


@FORMATS
@pytest.mark.parametrize("claim", ClaimMode)
def test_a_savepoint_with_a_missing_file_is_refused_before_anything_is_made(
    claim: ClaimMode, format: SavepointFormatType, tmp_path: Path
) -> None:
    path = a_savepoint(tmp_path, format)
    victim = sorted(read_snapshot(str(path)).files())[0]
    os.unlink(victim)
    before = all_files(tmp_path)
    with pytest.raises(SnapshotError, match=f"{path} can't be restored: {victim}: the file is missing"):
        LocalJob(tmp_path / "new", restore_path=str(path), claim_mode=claim)
    assert all_files(tmp_path) == before
    assert not (tmp_path / "new").exists()


@FORMATS
def test_a_crash_before_the_claimed_one_was_discarded_leaves_nothing_that_looks_complete(
    format: SavepointFormatType, tmp_path: Path
) -> None:
    path = a_savepoint(tmp_path, format)
    new = tmp_path / "new"
    # The first checkpoint is complete on disk, and the driver dies before it hears of it.
    died = Drive(
        new, str(path), records=9, step=9, parallelism=1, traps=(Trap("before hearing of it"),), checkpoints=CLAIM
    )
    assert run(died) == KILLED
    assert (path / "_metadata").exists()
    job = start(new, "latest", 12, **CLAIM)
    merge_all(job)
    until(lambda: not path.exists())
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(job.given)


def naming(path: Path, other: str) -> Path:
    """The savepoint, whose one file of state is another one now."""
    snapshot = read_snapshot(str(path))
    run = next(iter(snapshot.files()))
    planted = snapshot.with_segments(lambda each: replace(each, path=other) if each.path == run else each)
    (path / "_metadata").write_bytes(metadata.encode(planted, str(path)))
    return path


def test_names_that_are_not_ours_are_never_state(tmp_path: Path) -> None:
    """A stranger's savepoint may name any file."""
    path = a_savepoint(tmp_path, SavepointFormatType.NATIVE)
    treasure = tmp_path / "treasure.txt"
    shutil.copy(next(iter(read_snapshot(str(path)).files())), treasure)
    naming(path, str(treasure))
    with pytest.raises(SnapshotError, match=r"names '.*/treasure.txt' as state"):
        start(tmp_path / "new", path, **CLAIM)
    assert treasure.exists()


def test_a_link_is_no_state(tmp_path: Path) -> None:
    path = a_savepoint(tmp_path, SavepointFormatType.NATIVE)
    run = Path(next(iter(read_snapshot(str(path)).files())))
    run.rename(tmp_path / "secret")
    run.symlink_to(tmp_path / "secret")
    with pytest.raises(SnapshotError, match="it is a symbolic link"):
        start(tmp_path / "new", path)


@FORMATS
def test_files_of_another_savepoint_are_never_claimed(format: SavepointFormatType, tmp_path: Path) -> None:
    """A stranger's savepoint may name them, and read them, but they stay."""
    treasure = a_savepoint(tmp_path / "a", format)
    path = a_savepoint(tmp_path / "b", format)
    run = next(iter(read_snapshot(str(path)).files()))
    same = Path(str(treasure), *Path(run).relative_to(path).parts[:-1], Path(run).name)
    shutil.copy(run, same)
    before = all_files(treasure)
    job = start(tmp_path / "new", naming(path, str(same)), **CLAIM)
    assert str(same) not in job.home.claimed_files
    merge_all(job)
    assert job.finish() is End.FINISHED
    assert all_files(treasure) == before
    assert rows_in(job.out) == rows(job.given)
