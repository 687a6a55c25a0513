"""Which drivers of a job's folder belong together, and which folder is a copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from beadline.checkpoint.ownership import lineage as lineages
from beadline.checkpoint.ownership.lease import Lease
from beadline.checkpoint.ownership.lineage import Lineage, Place, records_in
from tests.checkpoint.snapshots import make_snapshot


def driver(folder: Path, is_new: bool = False, notes: bool = True) -> Lineage:
    """Another driver takes the folder."""
    epoch = Lease.acquire(str(folder)).epoch
    found = Lineage.of_driver(str(folder), epoch, is_new)
    if notes:
        found.note(str(folder), {"sink": ["/out", "part", ".txt"]})
    return found


def test_drivers_that_go_on_are_of_one_lineage(tmp_path: Path) -> None:
    first, second, third = (driver(tmp_path, is_new=number == 0) for number in range(3))
    assert first.name == second.name == third.name
    assert len({each.driver.name for each in (first, second, third)}) == 3
    assert [record.epoch for record in third.former] == [1, 2]
    assert third.former[0].outputs == {"sink": ["/out", "part", ".txt"]}


def test_a_job_that_begins_again_is_of_another_lineage_and_knows_its_namesake(tmp_path: Path) -> None:
    first, second = driver(tmp_path, is_new=True), driver(tmp_path, is_new=True)
    assert first.name != second.name
    assert [record.lineage for record in second.former] == [first.name]


def test_a_driver_that_died_before_it_left_a_record_wrote_nothing(tmp_path: Path) -> None:
    first = driver(tmp_path, is_new=True)
    driver(tmp_path, notes=False)
    third = driver(tmp_path)
    assert third.name == first.name
    assert [record.epoch for record in third.former] == [1]


def test_the_same_names_are_never_given_in_two_folders(tmp_path: Path) -> None:
    one, other = driver(tmp_path / "one", is_new=True), driver(tmp_path / "other", is_new=True)
    assert one.name != other.name
    assert one.driver.name != other.driver.name


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(folder, folder.with_name("copy")))


def moved_and_copied(folder: Path) -> Path:
    """The folder has gone elsewhere, and a copy is in its place."""
    folder.rename(folder.with_name("old"))
    return Path(shutil.copytree(folder.with_name("old"), folder))


def moved_from(folder: Path) -> Path:
    """The same, seen from the folder that has gone elsewhere."""
    moved_and_copied(folder)
    return folder.with_name("old")


@pytest.mark.parametrize("act", [copied, moved_and_copied, moved_from])
def test_a_copy_is_another_lineage(
    act: Callable[[Path], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And touches nothing of what the drivers before it wrote: the original may still run."""
    first = driver(tmp_path / "job", is_new=True)
    driver(tmp_path / "job")
    folder = act(tmp_path / "job")
    copy = driver(folder)
    assert copy.name != first.name
    assert copy.former == ()
    assert f"{folder} is not the folder in which the last driver of the job ran" in caplog.text
    again = driver(folder)
    assert again.name == copy.name, "it goes on as a job of its own"
    assert [record.epoch for record in again.former] == [3]


def test_a_folder_that_was_moved_is_the_same(tmp_path: Path) -> None:
    first = driver(tmp_path / "job", is_new=True)
    (tmp_path / "job").rename(tmp_path / "moved")
    assert driver(tmp_path / "moved").name == first.name


def test_where_folders_have_no_numbers_the_path_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineages, "_file_system", lambda path: "fuse.sshfs")
    first = driver(tmp_path / "job", is_new=True)
    assert driver(tmp_path / "job").name == first.name
    assert driver(copied(tmp_path / "job")).name != first.name
    assert Place.of("s3://bucket/job?region=x") == Place("s3://bucket/job")


def test_the_file_system_of_a_path_is_known() -> None:
    if not os.path.exists("/proc/self/mountinfo"):
        pytest.skip("Linux only")
    assert lineages._file_system("/proc/self") == "proc"


def test_a_damaged_record_is_told_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    driver(tmp_path, is_new=True)
    driver(tmp_path)
    (tmp_path / "driver-1").write_text("{")
    assert [record.epoch for record in records_in(str(tmp_path), 9)] == [2]
    assert "driver-1 is damaged" in caplog.text


def test_drivers_without_names_belong_to_the_job_that_goes_on_after_them(tmp_path: Path) -> None:
    for _ in range(2):
        Lease.acquire(str(tmp_path))
    old = replace(make_snapshot(1, str(tmp_path)), lineage="")
    after = driver(tmp_path)
    assert (after.driver.nameless, after.has_taken(old)) == (2, True)
    assert (driver(tmp_path).driver.nameless, driver(tmp_path).has_taken(old)) == (2, True)
    assert not driver(tmp_path, is_new=True).has_taken(old)
