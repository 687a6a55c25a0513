"""Whom the snapshot belongs to that a job started from: the user (no claim) or the job (claim)."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint import metadata
from beadline.checkpoint.actions import CheckpointKind
from beadline.checkpoint.ends import End
from beadline.checkpoint.lease import Lease
from beadline.checkpoint.lookup import read_snapshot
from beadline.checkpoint.settings import ClaimMode, Retention
from beadline.checkpoint.snapshot import SnapshotError
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.master.events import Request
from tests.checkpoint.snapshots import all_files
from tests.master.snapshots.stages import Driver, rows_in

FORMATS = pytest.mark.parametrize("format", SavepointFormatType)
CLAIM: dict[str, Any] = {"claim_mode": ClaimMode.CLAIM, "inline_threshold": 0}


def a_savepoint(folder: Path, format: SavepointFormatType) -> Path:
    """Of a job that has read six records, and has died since."""
    driver = Driver(folder / "old", inline_threshold=0)
    driver.step()
    driver.step()
    answer: Future[str] = Future()
    driver.do(
        driver.checkpoints.request(Request(CheckpointKind.SAVEPOINT, answer, str(folder / "savepoints"), format=format))
    )
    driver.pump()
    driver.die()
    return Path(answer.result(0))


def a_checkpoint(folder: Path, count: int = 1) -> list[Path]:
    """The retained checkpoints of a job that was cancelled."""
    driver = Driver(folder / "old", inline_threshold=0, retained=count, retention=Retention.RETAIN_ON_CANCELLATION)
    pointers = []
    for _ in range(count):
        driver.step()
        pointers.append(Path(driver.checkpoint()))
    driver.die()
    driver.home.close(resumable=True)
    return pointers


@FORMATS
def test_a_claimed_savepoint_goes_when_nothing_needs_it_any_more(format: SavepointFormatType, tmp_path: Path) -> None:
    path = a_savepoint(tmp_path, format)
    driver = Driver(tmp_path / "new", restore_path=str(path), **CLAIM)
    assert list(driver.checkpoints.pointers.values()) == [str(path)]
    driver.step()
    pointer = driver.checkpoint()
    assert not (path / "_metadata").exists(), "nobody can start from it"
    assert driver.home.storage.verify(read_snapshot(pointer)) == [], "but its files are needed"
    assert any(file.startswith(str(path)) for file in read_snapshot(pointer).files())
    driver.merge_all()
    assert path.exists(), "a checkpoint needs it"
    driver.step()
    driver.checkpoint()
    assert not path.exists()
    assert path.parent.exists()
    assert driver.counts() == driver.expected_counts()
    assert driver.offset == 12


@FORMATS
def test_a_failed_attempt_goes_back_to_the_claimed_savepoint(format: SavepointFormatType, tmp_path: Path) -> None:
    path = a_savepoint(tmp_path, format)
    driver = Driver(tmp_path / "new", restore_path=str(path), **CLAIM)
    driver.step()
    driver.go_back()
    assert driver.offset == 6
    assert driver.counts() == driver.expected_counts()
    assert driver.home.storage.verify(read_snapshot(str(path))) == []


@FORMATS
@pytest.mark.parametrize("claim", ClaimMode)
def test_as_long_as_no_newer_one_completed_it_stays(
    claim: ClaimMode, format: SavepointFormatType, tmp_path: Path
) -> None:
    path = a_savepoint(tmp_path, format)
    before = all_files(path)
    driver = Driver(tmp_path / "new", restore_path=str(path), claim_mode=claim, inline_threshold=0)
    driver.step()
    end(driver, End.CANCELLED)
    assert all_files(path) == before
    assert os.listdir(tmp_path / "new" / "checkpoints") == []


def end(driver: Driver, by: End) -> None:
    """As the job master ends a job."""
    resumable = driver.close(by)
    driver.sinks.close(discard=not resumable)
    driver.home.drop_claimed(driver.checkpoints.needed())
    driver.home.close(resumable)


@FORMATS
def test_a_job_that_ends_takes_what_it_claimed_with_it(format: SavepointFormatType, tmp_path: Path) -> None:
    path = a_savepoint(tmp_path, format)
    driver = Driver(tmp_path / "new", restore_path=str(path), **CLAIM)
    driver.step(final=True)
    driver.pump()
    end(driver, End.FINISHED)
    assert not path.exists()
    assert os.listdir(tmp_path / "new" / "checkpoints") == []


@FORMATS
def test_what_retained_checkpoints_need_of_it_stays_and_is_the_next_runs_own(
    format: SavepointFormatType, tmp_path: Path
) -> None:
    path = a_savepoint(tmp_path, format)
    retain = {"retention": Retention.RETAIN_ON_CANCELLATION}
    driver = Driver(tmp_path / "new", restore_path=str(path), **CLAIM, **retain)
    driver.step()
    pointer = driver.checkpoint()
    end(driver, End.CANCELLED)
    assert driver.home.storage.verify(read_snapshot(pointer)) == []
    assert path.exists()
    for claim in (ClaimMode.CLAIM, ClaimMode.NO_CLAIM):
        driver = Driver(tmp_path / "new", restore_path="latest", claim_mode=claim, inline_threshold=0, **retain)
        assert driver.counts() == driver.expected_counts()
        if claim is ClaimMode.CLAIM:
            assert path.exists()
            driver.die()
    driver.checkpoint()  # copies what it needs
    driver.drop_garbage()
    assert not path.exists(), "a run that does not know of the claim removes it too"
    assert driver.counts() == driver.expected_counts()


def test_no_claim_never_touches_it(tmp_path: Path) -> None:
    for format in SavepointFormatType:
        folder = tmp_path / format.value
        path = a_savepoint(folder, format)
        before = all_files(path)
        driver = Driver(folder / "new", restore_path=str(path), inline_threshold=0)
        for _ in range(3):
            driver.step()
            driver.checkpoint()
            driver.merge_all()
        end(driver, End.FINISHED)
        assert all_files(path) == before


def test_a_claimed_checkpoint_of_another_job_brings_its_shared_files(tmp_path: Path) -> None:
    (pointer,) = a_checkpoint(tmp_path)
    files = read_snapshot(str(pointer)).files()
    (pointer.parent / "shared" / "notes").write_text("not named")
    driver = Driver(tmp_path / "new", restore_path=str(pointer), **CLAIM)
    assert driver.home.job_id != pointer.parent.name
    driver.step()
    driver.checkpoint()
    assert not pointer.exists()
    driver.merge_all()
    driver.step()
    driver.checkpoint()
    assert not any(os.path.exists(file) for file in files)
    assert (pointer.parent / "shared" / "notes").exists()
    assert driver.counts() == driver.expected_counts()


def test_files_that_other_checkpoints_of_that_job_need_stay(tmp_path: Path) -> None:
    older, newer = a_checkpoint(tmp_path, 2)
    kept = read_snapshot(str(older))
    driver = Driver(tmp_path / "new", restore_path=str(newer), **CLAIM)
    for _ in range(2):
        driver.step()
        driver.checkpoint()
        driver.merge_all()
    driver.checkpoint()
    assert driver.home.storage.verify(kept) == []
    left = {str(path) for path in (older.parent / "shared").rglob("*") if path.is_file()}
    assert left == kept.files()


def test_the_checkpoint_of_a_running_job_is_not_claimed(tmp_path: Path) -> None:
    (pointer,) = a_checkpoint(tmp_path)
    lease = Lease.acquire(str(pointer.parent), owner="somebody")
    before = all_files(tmp_path)
    with pytest.raises(SnapshotError, match=r"chk-1 can't be claimed: its job still runs .*somebody.*NO_CLAIM"):
        Driver(tmp_path / "new", restore_path=str(pointer), **CLAIM)
    assert all_files(tmp_path) == before
    lease.release()
    Driver(tmp_path / "new", restore_path=str(pointer), **CLAIM)


@FORMATS
def test_a_fenced_driver_deletes_nothing_of_what_it_claimed(format: SavepointFormatType, tmp_path: Path) -> None:
    path = a_savepoint(tmp_path, format)
    driver = Driver(tmp_path / "new", restore_path=str(path), **CLAIM)
    driver.step()
    Lease.acquire(driver.lease.folder)
    before = all_files(path)
    driver.checkpoints._discard(driver.home.start.checkpoint_id)  # type: ignore[union-attr]
    driver.home.delete(driver.home.claimed_files)
    driver.home.drop_claimed(frozenset())
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
        Driver(tmp_path / "new", restore_path=str(path), claim_mode=claim)
    assert all_files(tmp_path) == before
    assert not (tmp_path / "new").exists()


@FORMATS
def test_a_crash_before_the_claimed_one_was_discarded_leaves_nothing_that_looks_complete(
    format: SavepointFormatType, tmp_path: Path
) -> None:
    path = a_savepoint(tmp_path, format)
    driver = Driver(tmp_path / "new", restore_path=str(path), **CLAIM)
    driver.step()
    driver.trigger()
    driver.written()  # it is complete on disk, and the driver dies before it hears of it
    driver.die()
    assert (path / "_metadata").exists()
    driver = Driver(tmp_path / "new", restore_path="latest", **CLAIM)
    assert (driver.offset, driver.counts()) == (9, driver.expected_counts())
    driver.merge_all()
    driver.step()
    driver.checkpoint()
    driver.drop_garbage()
    assert not path.exists()


def test_names_that_are_not_ours_are_never_claimed(tmp_path: Path) -> None:
    """A stranger's savepoint may name any file."""
    path = a_savepoint(tmp_path, SavepointFormatType.NATIVE)
    run = next(file for file in read_snapshot(str(path)).files())
    treasure = tmp_path / "treasure.txt"
    shutil.copy(run, treasure)
    snapshot = read_snapshot(str(path))
    planted = snapshot.with_runs(lambda each: replace(each, path=str(treasure)) if each.path == run else each)
    (path / "_metadata").write_bytes(metadata.encode(planted, str(path)))
    driver = Driver(tmp_path / "new", restore_path=str(path), **CLAIM)
    assert str(treasure) not in driver.home.claimed_files
    for _ in range(2):
        driver.step()
        driver.checkpoint()
        driver.merge_all()
    driver.checkpoint()
    assert treasure.exists()
    assert not (path / "_metadata").exists()
    assert rows_in(tmp_path / "new" / "out")
