"""What a job starts from and under which id, and when it is refused: without Spark, before anybody is fenced."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ends import End
from beadline.checkpoint.ownership.lease import Fenced, Lease
from beadline.checkpoint.settings import CheckpointSettings, Storage
from beadline.errors import JobFinishedError
from beadline.graph.program import DEFAULT_JOB_NAME, Program
from beadline.master.snapshots.home import Beginning, Home, find_beginning
from tests.checkpoint.snapshots import all_files
from tests.master.snapshots.drivers import KILLED, Drive, Trap, killed, run
from tests.master.snapshots.local_jobs import PROGRAM, LocalJob

OTHER = Program("/jobs/other.py", (), "other")


def find(folder: Path, path: str | None, program: Program = PROGRAM, name: str = "job", **more: Any) -> Beginning:
    def never(seconds: float) -> None:
        raise AssertionError("nobody has to wait for this")

    return find_beginning(settings(folder, path, **more), name, program, never)


def settings(folder: Path, path: str | None, **more: Any) -> CheckpointSettings:
    more = {"interval_ms": 1000, **more}
    directory = str(folder / "checkpoints")
    return CheckpointSettings(storage=Storage.FILESYSTEM, directory=directory, restore_path=path, **more)


def running(folder: Path, **more: Any) -> tuple[LocalJob, str]:
    """A job with a checkpoint."""
    job = LocalJob(folder, **more)
    job.step()
    return job, job.checkpoint()


def id_of(pointer: str) -> str:
    return Path(pointer).parent.name


def finished(folder: Path, **more: Any) -> LocalJob:
    job, _ = running(folder, **more)
    job.clock.now = 5000
    assert job.finish() is End.FINISHED
    return job


def refused(folder: Path, path: str | None, match: str, **more: Any) -> str:
    """The refusal, which changes nothing."""
    before = still_files(folder)
    with pytest.raises(SnapshotError, match=match) as caught:
        find(folder, path, **more)
    assert still_files(folder) == before
    assert len(str(caught.value).splitlines()) <= 9
    return str(caught.value)


def still_files(folder: Path) -> dict[str, Any]:
    """All files, but for the beats of drivers that are alive, and what they note of their history."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_file() and not re.search(r"/\.?(beat-|history)", name):
            found[name] = path.read_bytes()
    return found


# -- latest


def test_a_killed_job_goes_on_whoever_else_runs(tmp_path: Path) -> None:
    (pointer,) = killed(tmp_path)
    Lease.acquire(str(tmp_path / "checkpoints" / "another"))
    found = find(tmp_path, "latest")
    assert (found.job_id, found.pointer, found.own) == (id_of(pointer), pointer, True)
    refused(tmp_path, "latest", "found no checkpoint of this program", program=OTHER)
    text = refused(tmp_path, "latest", "found no checkpoint of this program", name=DEFAULT_JOB_NAME)
    assert f"{id_of(pointer)}: 'job', /jobs/count.py: {pointer} of " in text


def test_a_job_whose_driver_is_alive_is_not_taken_from_it(tmp_path: Path) -> None:
    job, pointer = running(tmp_path)
    text = refused(tmp_path, "latest", r"which still runs: \S+@\S+ \(process \d+\) since 20")
    folder = str(Path(pointer).parent)
    assert f"take the job from it by naming the folder: -s {folder}" in text
    assert find(tmp_path, pointer).own, "whoever names it means it"
    found = find(tmp_path, folder)
    assert (found.pointer, found.own) == (pointer, True)
    job.storage.check()
    job.master.suspend(at_once=True)
    assert job.ended() is End.SUSPENDED
    assert find(tmp_path, "latest").pointer == pointer


def test_several_runs_of_a_program_are_several_jobs(tmp_path: Path) -> None:
    runs = [killed(tmp_path)[0] for _ in range(3)]
    text = refused(tmp_path, "latest", "could mean any of 3 jobs of this program")
    for pointer in runs:
        assert f"{id_of(pointer)}: 'job', /jobs/count.py: {pointer} of 1970-01-01" in text
    assert find(tmp_path, runs[0]).job_id == id_of(runs[0])
    for pointer in runs[1:]:
        shutil.rmtree(Path(pointer).parent)
    assert find(tmp_path, "latest").pointer == runs[0]


def test_who_comes_first_while_spark_starts(tmp_path: Path) -> None:
    (pointer,) = killed(tmp_path)
    found = find(tmp_path, "latest")
    assert found.holds
    first = Home(settings(tmp_path, "latest"), "job", None, PROGRAM, found)
    assert first.pointer == pointer
    assert not found.holds
    with pytest.raises(SnapshotError, match="which still runs"):
        Home(settings(tmp_path, "latest"), "job", None, PROGRAM, found)
    first.storage.check()


def test_a_folder_stands_for_the_newest_checkpoint_in_it(tmp_path: Path) -> None:
    job, pointer = running(tmp_path, job_id="orders")
    folder = str(Path(pointer).parent)
    found = find(tmp_path, f"{folder}/")
    job.step()
    job.checkpoint()
    assert not os.path.exists(pointer), "the driver is alive and removes what it does not need"
    made = Home(settings(tmp_path, folder), "job", None, OTHER, found)
    assert made.pointer == f"{folder}/chk-2"
    with pytest.raises(Fenced):
        job.storage.check()
    job.cancel()
    refused(tmp_path, folder, r"is a directory and not a checkpoint .* Did you mean .*/chk-2\?", job_id="another")
    refused(tmp_path, str(tmp_path / "checkpoints"), "is a directory and not a checkpoint or savepoint")


# -- a job that has finished


def test_a_job_that_has_finished_leaves_a_note_and_nothing_else(tmp_path: Path) -> None:
    job = finished(tmp_path)
    assert list(all_files(tmp_path / "checkpoints")) == [f"{job.home.job_id}/ended"]
    before = all_files(tmp_path)
    with pytest.raises(JobFinishedError, match=rf"job 'job' \({job.home.job_id}\) finished at 1970-01-01 00:00:05"):
        find(tmp_path, "latest")
    assert all_files(tmp_path) == before
    with pytest.raises(JobFinishedError):
        find(tmp_path, str(tmp_path / "checkpoints" / job.home.job_id))
    refused(tmp_path, "latest", "found no checkpoint of this program", program=OTHER)


def test_running_it_again_removes_the_note(tmp_path: Path) -> None:
    finished(tmp_path)
    (pointer,) = killed(tmp_path)
    assert os.listdir(tmp_path / "checkpoints") == [id_of(pointer)]
    assert find(tmp_path, "latest").pointer == pointer


def test_a_run_that_was_killed_and_one_that_has_finished(tmp_path: Path) -> None:
    (pointer,) = killed(tmp_path)
    second = finished(tmp_path)
    text = refused(tmp_path, "latest", "could mean any of 2 jobs")
    assert f"  {second.home.job_id}: 'job', /jobs/count.py: 1970-01-01 00:00:05 UTC, finished" in text
    assert f"  {id_of(pointer)}: 'job', /jobs/count.py: {pointer} of " in text


def test_a_fenced_driver_that_finishes_leaves_no_note(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    job, _ = running(tmp_path)
    Lease.acquire(job.storage.folder)
    job.home.note_finish(5000)
    assert not list((tmp_path / "checkpoints").rglob("ended"))
    assert "could not record that" in caplog.text
    job.cancel()


def test_without_checkpoints_there_is_nothing_to_note(tmp_path: Path) -> None:
    made = Home(settings(tmp_path, None, interval_ms=None), "job", None, PROGRAM)
    made.note_finish(5000)
    made.close(resumable=False)
    assert os.listdir(tmp_path / "checkpoints") == []


# -- an id that the user chose


def test_a_chosen_id_names_the_folder_and_the_job(tmp_path: Path) -> None:
    (pointer,) = killed(tmp_path, job_id="orders")
    assert pointer == str(tmp_path / "checkpoints" / "orders" / "chk-1")
    killed(tmp_path)  # another run, without an id
    assert find(tmp_path, "latest", job_id="orders").pointer == pointer
    assert find(tmp_path, "latest", job_id="orders", program=OTHER, name="renamed").pointer == pointer
    refused(tmp_path, "latest", "could mean any of 2 jobs")
    text = refused(tmp_path, "latest", r"found no checkpoint of job 'payments' \(beadline\.job-id\)", job_id="payments")
    assert "  orders: 'job', " in text


def test_an_id_is_not_given_twice(tmp_path: Path) -> None:
    job, pointer = running(tmp_path, job_id="orders")
    text = refused(tmp_path, None, "job id 'orders' is taken, and there is a checkpoint already", job_id="orders")
    assert pointer in text
    assert "-s latest" in text
    assert f"remove {tmp_path}/checkpoints/orders first" in text
    refused(tmp_path, "latest", "which still runs", job_id="orders")
    job.storage.check()
    assert find(tmp_path, None, job_id="payments").job_id == "payments"
    job.cancel()


def test_a_driver_that_has_no_checkpoint_yet_has_its_id_too(tmp_path: Path) -> None:
    job = LocalJob(tmp_path, job_id="orders")
    refused(tmp_path, None, r"job id 'orders' is taken, and a driver runs there: .* since 20", job_id="orders")
    job.cancel()
    assert killed(tmp_path, checkpoints=0, job_id="orders") == []
    job = LocalJob(tmp_path, job_id="orders")
    assert job.storage.epoch == 3
    job.cancel()


def test_a_job_with_an_id_runs_again_when_it_has_finished(tmp_path: Path) -> None:
    finished(tmp_path, job_id="orders")
    folder = tmp_path / "checkpoints" / "orders"
    assert sorted(os.listdir(folder)) == ["driver-1", "ended", "fence-1", "lease-1"], "an epoch is never given twice"
    with pytest.raises(JobFinishedError, match=r"job 'job' \(orders\) finished at"):
        find(tmp_path, "latest", job_id="orders")
    finished(tmp_path)
    assert (folder / "ended").exists(), "it is another job"
    (pointer,) = killed(tmp_path, job_id="orders")
    assert read_snapshot(pointer).epoch == 2
    assert not (folder / "ended").exists()
    assert find(tmp_path, "latest", job_id="orders").pointer == pointer


def test_what_a_job_left_that_died_while_it_cleaned_up_is_not_the_next_ones(tmp_path: Path) -> None:
    assert run(Drive(tmp_path, traps=(Trap("after noting the finish"),), checkpoints={"job_id": "orders"})) == KILLED
    assert list((tmp_path / "checkpoints" / "orders").glob("chk-*"))
    with pytest.raises(JobFinishedError):
        find(tmp_path, "latest", job_id="orders")
    killed(tmp_path, checkpoints=0, job_id="orders")
    refused(tmp_path, "latest", "found no checkpoint of job 'orders'", job_id="orders")


def test_a_job_gets_an_id_when_it_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    (pointer,) = killed(tmp_path)
    found = find(tmp_path, pointer, job_id="orders")
    assert (found.job_id, found.own) == ("orders", False)
    (own,) = killed(tmp_path, given=3, restore_path=pointer, job_id="orders")
    assert read_snapshot(own).counters["records"] == 6
    assert find(tmp_path, own, job_id="orders").own
    refused(tmp_path, pointer, "job id 'orders' is taken", job_id="orders")


# -- one job for a directory


def test_a_directory_without_subfolders_is_for_one_job(tmp_path: Path) -> None:
    own = {"create_subdirectory": False}
    job, pointer = running(tmp_path, **own)
    for program in (PROGRAM, OTHER):
        text = refused(
            tmp_path, None, r"is for one job, because execution\.checkpointing\.create-subdir", program=program, **own
        )
        assert pointer in text
        assert "another execution.checkpointing.dir" in text
    refused(tmp_path, "latest", "which still runs", **own)
    job.master.suspend(at_once=True)
    assert job.ended() is End.SUSPENDED
    refused(tmp_path, "latest", "found no checkpoint of this program", program=OTHER, **own)
    assert find(tmp_path, "latest", **own).pointer == pointer


def test_and_for_another_one_when_that_has_finished(tmp_path: Path) -> None:
    own = {"create_subdirectory": False}
    finished(tmp_path, **own)
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["driver-1", "ended", "fence-1", "lease-1"]
    with pytest.raises(JobFinishedError):
        find(tmp_path, "latest", **own)
    job = LocalJob(tmp_path, **own)
    assert job.storage.epoch == 2
    assert "ended" not in os.listdir(tmp_path / "checkpoints")
    job.cancel()


def test_in_memory_nothing_of_this_applies() -> None:
    memory = CheckpointSettings(interval_ms=1000, job_id="orders")
    made = Home(memory, "job", None, PROGRAM)
    assert made.job_id == "orders"
    made.storage.show_life()
    made.note_finish(5000)
    made.storage.let_go()
    made.close(resumable=False)
    assert find_beginning(replace(memory, job_id=None), "job", PROGRAM).job_id != "orders"
