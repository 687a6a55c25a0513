"""Where a job lives, and what it starts from."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.directory.jobs import CheckpointDirectory
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ends import End
from beadline.checkpoint.ownership.lease import Fenced
from beadline.checkpoint.settings import CheckpointSettings, Storage
from beadline.checkpoint.storage.durable import verify
from beadline.checkpoint.storage.memory import MemoryJobStorage
from beadline.errors import ConfigurationError
from beadline.master.snapshots.home import Home
from tests.master.snapshots.drivers import killed
from tests.master.snapshots.local_jobs import PROGRAM, LocalJob, rows, rows_in, whole
from tests.master.snapshots.troubles import until


def settings(folder: Path | str, **more: Any) -> CheckpointSettings:
    return CheckpointSettings(interval_ms=1000, storage=Storage.FILESYSTEM, directory=str(folder), **more)


def home(folder: Path, path: str | None, name: str = "job", **more: Any) -> Home:
    return Home(settings(folder / "checkpoints", restore_path=path, **more), name, program=PROGRAM)


def test_a_new_job_has_a_folder_of_its_own(tmp_path: Path) -> None:
    homes = [home(tmp_path, None) for _ in range(2)]
    assert homes[0].job_id != homes[1].job_id
    for made in homes:
        assert (made.start, made.completed, made.next_id) == (None, [], 1)
        folder = made.storage.state_folder(1, one_machine=False)
        assert Path(folder).parent == Path(made.storage.owned_folder())
        assert Path(folder).parent.parent.name == made.job_id
        assert made.storage.state_folder(2, one_machine=False) == folder
        assert made.storage.epoch == 1
        made.close(resumable=False)
    assert os.listdir(tmp_path / "checkpoints") == []


@pytest.mark.parametrize("spelling", ["{}", "{}/", "{}/_metadata", "file://{}"])
def test_a_job_that_is_resumed_goes_on_in_its_folder(spelling: str, tmp_path: Path) -> None:
    job = LocalJob(tmp_path, retained=10)
    for _ in range(3):
        job.step()
        pointer = job.checkpoint()
    made = home(tmp_path, spelling.format(pointer))
    assert made.job_id == job.home.job_id
    assert made.start is not None
    assert made.start.checkpoint_id == 3
    assert [stored.snapshot.checkpoint_id for stored in made.completed] == [1, 2, 3]
    assert made.next_id == 4
    assert made.storage.epoch == 2
    assert made.storage.state_folder(1, False).endswith("/shared/2"), "a fenced driver's workers write elsewhere"
    with pytest.raises(Fenced):
        job.storage.check()
    job.cancel()
    assert whole(pointer), "it is not its any more"


def test_a_snapshot_that_is_not_accepted_fences_nobody(tmp_path: Path) -> None:
    job = LocalJob(tmp_path)
    job.step()
    pointer = job.checkpoint()
    before = times(tmp_path)
    seen = []

    def accept(pointer: str, snapshot: Snapshot) -> None:
        seen.append((pointer, snapshot.checkpoint_id))
        raise SnapshotError("not this one")

    with pytest.raises(SnapshotError, match="not this one"):
        Home(settings(tmp_path / "checkpoints", restore_path=pointer), "job", accept, PROGRAM)
    assert seen == [(pointer, 1)]
    job.storage.check()
    assert times(tmp_path) == before
    job.cancel()


def times(folder: Path) -> list[tuple[Path, int]]:
    """When each file was changed, but for the beat of a driver that is alive."""
    return sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*") if "beat-" not in path.name)


def test_the_one_before_a_damaged_one_must_be_accepted_too(tmp_path: Path) -> None:
    pointers = killed(tmp_path, 3, retained=10)
    damage(pointers[2], "missing")
    seen: list[int] = []
    made = Home(
        settings(tmp_path / "checkpoints", restore_path="latest"),
        "job",
        lambda pointer, snapshot: seen.append(snapshot.checkpoint_id),
        PROGRAM,
    )
    assert seen == [3, 2]
    assert made.start is not None
    assert made.start.checkpoint_id == 2


def test_an_older_checkpoint_may_be_named(tmp_path: Path) -> None:
    pointers = killed(tmp_path, 3, retained=10)
    made = home(tmp_path, pointers[0])
    assert made.start is not None
    assert made.start.checkpoint_id == 1
    assert [stored.snapshot.checkpoint_id for stored in made.completed] == [1, 2, 3]
    assert made.next_id == 4


def test_latest_is_the_newest_checkpoint_of_the_job(tmp_path: Path) -> None:
    pointers = killed(tmp_path, 2, retained=10)
    made = home(tmp_path, "latest")
    assert (made.pointer, made.job_id) == (pointers[1], Path(pointers[1]).parent.name)
    with pytest.raises(SnapshotError, match="the path does not exist"):
        home(tmp_path, str(tmp_path / "chk-1"))


def test_latest_needs_a_directory() -> None:
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir, which is not set"):
        Home(CheckpointSettings(restore_path="latest"), "job")


def damage(pointer: str, how: str) -> str:
    """Spoil the newest segment of a checkpoint, or its metadata; gives the file."""
    path = Path(pointer) / "_metadata"
    if not how.startswith("metadata"):
        path = Path(next(iter(read_snapshot(pointer).operators[1].keyed)).segments[-1].path)  # type: ignore[union-attr, arg-type]
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how in ("truncated", "metadata truncated"):
        path.write_bytes(data[:-1])
    else:
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    return str(path)


DAMAGES = ["missing", "truncated", "one bit", "metadata truncated", "metadata one bit"]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_newest_one_is_named_and_the_one_before_is_used(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pointers = killed(tmp_path, 3, retained=10)
    path = damage(pointers[2], how)
    with caplog.at_level(logging.WARNING, "beadline"):
        made = home(tmp_path, "latest")
    assert made.pointer == pointers[1]
    assert any(
        path in record.getMessage() and "the one before it is tried" in record.message for record in caplog.records
    )
    assert made.next_id == 4
    made.storage.check()


@pytest.mark.parametrize("how", DAMAGES)
def test_the_output_of_a_damaged_checkpoint_comes_again(how: str, tmp_path: Path) -> None:
    pointers = killed(tmp_path, 3, retained=10)
    assert len(rows_in(tmp_path / "out")) == 9
    damage(pointers[2], how)
    job = LocalJob(tmp_path, restore_path="latest", retained=10)
    until(lambda: rows_in(job.out) == rows(6))
    job.give(11)
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(11)


def test_if_none_can_be_read_the_job_does_not_start(tmp_path: Path) -> None:
    pointers = killed(tmp_path, 2, retained=10)
    damage(pointers[0], "metadata one bit")
    damage(pointers[1], "missing")
    with pytest.raises(SnapshotError, match=r"none of the 2 checkpoints in .* can be read"):
        home(tmp_path, "latest")


def test_a_checkpoint_that_was_named_is_not_replaced_by_another(tmp_path: Path) -> None:
    pointers = killed(tmp_path, 2, retained=10)
    path = damage(pointers[1], "missing")
    with pytest.raises(SnapshotError, match=r"can't be restored: .*the file is missing") as caught:
        home(tmp_path, pointers[1])
    assert path in str(caught.value)


def test_a_savepoint_starts_a_new_job(tmp_path: Path) -> None:
    job = LocalJob(tmp_path)
    job.step()
    made = home(tmp_path, str(job.savepoint(tmp_path / "savepoints")))
    assert made.job_id != job.home.job_id
    assert made.start is not None
    assert (made.start.checkpoint_id, made.next_id, made.completed) == (1, 2, [])
    job.storage.check()
    job.cancel()


def test_a_checkpoint_elsewhere_starts_a_new_job(tmp_path: Path) -> None:
    job = LocalJob(tmp_path / "there")
    job.step()
    job.checkpoint()
    pointer = job.checkpoint()
    made = home(tmp_path / "here", pointer)
    assert made.job_id != job.home.job_id
    assert made.start is not None
    assert (made.next_id, made.completed) == (3, [])
    job.storage.check()
    made.drop_orphans(set())
    made.close(resumable=False)
    assert verify(made.start) == [], "what it started from stays untouched"
    job.cancel()


def test_the_former_driver_may_complete_one_more_before_it_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LocalJob(tmp_path, retained=2)
    job.step()
    job.checkpoint()
    job.storage.let_go()  # it is elsewhere and seems to be dead
    jobs = CheckpointDirectory.jobs

    def slow(self: CheckpointDirectory) -> Any:
        found = jobs(self)
        job.step()
        job.checkpoint()
        return found

    monkeypatch.setattr(CheckpointDirectory, "jobs", slow)
    made = home(tmp_path, "latest")
    assert made.start is not None
    assert made.start.checkpoint_id == 2
    assert [stored.snapshot.checkpoint_id for stored in made.completed] == [1, 2]
    job.cancel()
    assert verify(made.start) == []


def test_without_a_directory_checkpoints_are_in_memory() -> None:
    made = Home(CheckpointSettings(interval_ms=1000), "job")
    assert isinstance(made.storage, MemoryJobStorage)
    assert (made.storage.epoch, made.start, made.next_id) == (0, None, 1)
    with pytest.raises(ConfigurationError, match=r"set execution\.checkpointing\.dir"):
        made.storage.state_folder(1, one_machine=False)
    first = Path(made.storage.state_folder(1, one_machine=True))
    (first / "run").write_bytes(b"of an attempt that failed")
    second = Path(made.storage.state_folder(2, one_machine=True))
    assert second.is_dir()
    assert not first.exists()
    made.drop_orphans(set())
    made.close(resumable=False)
    assert not second.parent.exists()


def test_one_job_may_have_the_directory_to_itself(tmp_path: Path) -> None:
    (pointer,) = killed(tmp_path, create_subdirectory=False)
    assert pointer == str(tmp_path / "checkpoints" / "chk-1")
    made = home(tmp_path, "latest", create_subdirectory=False)
    assert made.job_id == read_snapshot(pointer).job_id
    assert made.next_id == 2


def test_orphans_of_a_driver_that_died_are_removed(tmp_path: Path) -> None:
    (pointer,) = killed(tmp_path)
    lost = Path(pointer).parent / "shared" / "1" / f"{7:032x}.run"
    lost.write_bytes(b"of a step that was never sealed")
    (kept,) = read_snapshot(pointer).files()
    made = home(tmp_path, "latest")
    made.drop_orphans(set())
    assert not os.path.exists(lost)
    assert os.path.exists(kept)
    assert os.path.exists(pointer)
