"""What dead drivers have left is found and removed; what anybody could go on from stays."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from beadline.checkpoint.cleanup.pruning import job_folders, leftovers_in, remove
from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ownership.lease import Lease
from beadline.checkpoint.storage.durable import verify
from beadline.checkpoint.storage.file_system import FileJobStorage
from tests.checkpoint.snapshots import all_files, make_snapshot, place_in

SEGMENT = f"{'a' * 32}.run"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def storage(directory: Path) -> FileJobStorage:
    return place_in(directory, inline_threshold=0)


@pytest.fixture
def job(storage: FileJobStorage) -> Path:
    """The folder of a dead job with two checkpoints, and what its driver has left."""
    for number in (1, 2):
        storage.write(make_snapshot(number, storage.prepare()))
    folder = Path(storage.folder)
    (folder / "shared" / "1").mkdir(exist_ok=True)
    (folder / "shared" / "1" / SEGMENT).write_bytes(b"x" * 100)
    (folder / ".chk-3.0123abcd").mkdir()
    (folder / ".chk-3.0123abcd" / "_metadata").write_bytes(b"half")
    (folder / "chk-4").mkdir()
    return folder


def test_orphans_and_unfinished_checkpoints_go_and_the_rest_stays(directory: Path, job: Path) -> None:
    (job / "notes.txt").write_text("the user's")
    (job / "shared" / "README").write_text("the user's")
    before = all_files(directory)
    (found,) = leftovers_in(str(directory))
    assert {Path(leftover.path).name for leftover in found.found} == {SEGMENT, ".chk-3.0123abcd", "chk-4"}
    assert (found.bytes, found.checkpoints, found.whole, found.kept) == (104, 2, False, "")
    assert all_files(directory) == before, "finding removes nothing"

    assert remove(found)

    gone = set(before) - set(all_files(directory))
    assert {Path(path).name for path in gone} == {SEGMENT, "_metadata"}
    for number in (1, 2):
        assert verify(read_snapshot(str(job / f"chk-{number}"))) == []
    assert leftovers_in(str(directory))[0].found == ()


def test_a_job_whose_driver_is_alive_is_left_alone(directory: Path, job: Path) -> None:
    lease = Lease.acquire(str(job))
    try:
        (found,) = leftovers_in(str(directory))
        assert found.found == ()
        assert found.kept.startswith("the job runs: ")
    finally:
        lease.release()
    (found,) = leftovers_in(str(directory))
    assert found.found


def test_nothing_goes_if_a_driver_comes_after_they_were_found(directory: Path, job: Path) -> None:
    (found,) = leftovers_in(str(directory))
    before = all_files(directory)
    lease = Lease.acquire(str(job))
    try:
        assert not remove(found)
    finally:
        lease.release()
    assert before.items() <= all_files(directory).items()


def test_files_that_another_job_has_claimed_stay(directory: Path, job: Path, storage: FileJobStorage) -> None:
    """Its checkpoints name them, wherever they lie."""
    claimed = read_snapshot(str(job / "chk-2"))
    for number in (1, 2):
        shutil.rmtree(job / f"chk-{number}")
    other = directory / "other"
    (other / "chk-1").mkdir(parents=True)
    taken = replace(claimed, job_id="other", checkpoint_id=1, epoch=0)
    (other / "chk-1" / "_metadata").write_bytes(metadata.encode(taken, str(other / "chk-1")))
    for each in leftovers_in(str(directory)):
        assert remove(each)
    assert verify(read_snapshot(str(other / "chk-1"))) == []
    assert not (job / "shared" / "1" / SEGMENT).exists()


def test_segments_stay_if_a_checkpoint_can_not_be_read(directory: Path, job: Path) -> None:
    (job / "chk-1" / "_metadata").write_bytes(b"{}")
    (found,) = leftovers_in(str(directory))
    assert {Path(leftover.path).name for leftover in found.found} == {".chk-3.0123abcd", "chk-4"}
    assert "nobody knows which of them" in found.kept
    assert "chk-1" in found.kept


def test_a_job_without_checkpoints_goes_as_a_whole(directory: Path) -> None:
    folder = directory / ("0" * 32)
    folder.mkdir(parents=True)
    Lease.acquire(str(folder)).release()
    (folder / "shared" / "1").mkdir(parents=True)
    (folder / "shared" / "1" / SEGMENT).write_bytes(b"x")
    (found,) = leftovers_in(str(directory))
    assert found.whole
    assert remove(found)
    assert not folder.exists()


def test_references_of_others_count(directory: Path, job: Path) -> None:
    (found,) = leftovers_in(str(directory), referenced=[str(job / "shared" / "1" / SEGMENT)])
    assert SEGMENT not in {Path(leftover.path).name for leftover in found.found}


def test_what_is_no_job_is_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / SEGMENT).write_bytes(b"x")
    assert job_folders(str(tmp_path)) == []
    assert leftovers_in(str(tmp_path)) == []


def test_what_can_not_be_removed_is_told(directory: Path, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    def failing(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    (found,) = leftovers_in(str(directory))
    monkeypatch.setattr(os, "unlink", failing)
    with pytest.raises(SnapshotError, match="can't remove what is left in"):
        remove(found)
