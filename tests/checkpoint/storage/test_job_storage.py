"""What both kinds of a job's place promise to those who need not know which kind they have."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.directory.jobs import Trace
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.storage.durable import verify
from beadline.checkpoint.storage.memory import MemoryJobStorage
from beadline.checkpoint.storage.storage import JobStorage
from beadline.graph.program import Program
from beadline.state.segments.files import read_segment
from tests.checkpoint.snapshots import JOB, make_snapshot, place_in

PROGRAM = Program("/jobs/necklace.py", (), "graph")


@pytest.fixture(params=["files", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> JobStorage:
    made: JobStorage = MemoryJobStorage(JOB) if request.param == "memory" else place_in(tmp_path / "checkpoints")
    made.acquire(is_new=True)
    made.begin("necklace", PROGRAM)
    made.show_life()
    return made


def snapshot_of(storage: JobStorage, number: int) -> Snapshot:
    return make_snapshot(number, storage.state_folder(1, one_machine=True))


def contents(snapshot: Snapshot) -> list[bytes]:
    return [read_segment(segment) for segment in snapshot.segments]


def test_a_checkpoint_comes_back(storage: JobStorage) -> None:
    assert storage.completed() == []
    assert storage.highest_number() == 0
    for number in (1, 2, 7):
        snapshot = snapshot_of(storage, number)
        stored = storage.write(snapshot, copy_foreign=True)
        read = storage.read(stored.pointer)
        assert read == stored.snapshot
        assert contents(read) == contents(snapshot)
        assert (read.kind, read.epoch) == (SnapshotKind.CHECKPOINT, storage.epoch)
        assert stored.written > 0
        assert verify(read) == []
    listed = storage.completed()
    assert [entry.checkpoint_id for entry in listed] == [7, 2, 1]
    assert [storage.read(entry.pointer) for entry in listed] == [entry.snapshot for entry in listed]
    assert storage.highest_number() == 7


def test_a_checkpoint_that_is_discarded_is_gone(storage: JobStorage) -> None:
    pointers = [storage.write(snapshot_of(storage, number)).pointer for number in (1, 2)]
    storage.discard(pointers[0])
    storage.discard(pointers[0])
    with pytest.raises(SnapshotError, match=re.escape(pointers[0])):
        storage.read(pointers[0])
    assert [entry.pointer for entry in storage.completed()] == [pointers[1]]
    with pytest.raises(SnapshotError, match="so it is not removed"):
        storage.discard("/nowhere")


def test_a_savepoint_needs_nothing_of_the_place(storage: JobStorage, tmp_path: Path) -> None:
    snapshot = snapshot_of(storage, 1)
    before = contents(snapshot)
    saved = storage.write_savepoint(snapshot, str(tmp_path / "saves"))
    assert storage.completed() == [], "it belongs to the user"
    shutil.rmtree(storage.owned_folder())
    read = read_snapshot(saved.pointer)
    assert (contents(read), read.kind) == (before, SnapshotKind.SAVEPOINT)


def test_files_below_the_owned_folder_can_be_deleted(storage: JobStorage) -> None:
    snapshot = snapshot_of(storage, 1)
    assert snapshot.files()
    assert all(path.startswith(storage.owned_folder() + "/") for path in snapshot.files())
    storage.delete(snapshot.files())
    assert not any(os.path.exists(path) for path in snapshot.files())


def test_what_a_checkpoint_or_the_job_needs_is_no_orphan(storage: JobStorage) -> None:
    stored = storage.write(snapshot_of(storage, 1)).snapshot
    running = snapshot_of(storage, 9).files()
    storage.delete(storage.orphans(running))
    assert verify(stored) == []


def test_a_claimed_snapshot_goes_where_no_job_has_its_place(storage: JobStorage, tmp_path: Path) -> None:
    saved = storage.write_savepoint(snapshot_of(storage, 1), str(tmp_path / "saves"))
    storage.discard_claimed(saved.pointer)
    with pytest.raises(SnapshotError, match="it has no _metadata"):
        read_snapshot(saved.pointer)
    storage.delete_claimed(saved.snapshot.files())
    assert os.listdir(tmp_path / "saves") == []


def test_the_driver_that_has_the_job_may_go_on_and_leaves_nothing_at_the_end(
    storage: JobStorage, tmp_path: Path
) -> None:
    pointer = storage.write(snapshot_of(storage, 1)).pointer
    storage.check()
    storage.check_if_reachable()
    storage.leave_trace(Trace(JOB, "necklace", PROGRAM, 5, storage.epoch))
    assert storage.remove() is False, "there is a checkpoint"
    storage.discard(pointer)
    storage.delete(storage.orphans())
    storage.release()
    storage.let_go()
    storage.remove()
    assert not os.path.exists(storage.owned_folder())


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_only_files_outlive_the_driver(kind: str, tmp_path: Path) -> None:
    def driver() -> JobStorage:
        made: JobStorage = MemoryJobStorage(JOB) if kind == "memory" else place_in(tmp_path / "checkpoints")
        made.acquire()
        return made

    first = driver()
    pointer = first.write(snapshot_of(first, 1)).pointer
    first.let_go()
    second = driver()
    assert [entry.pointer for entry in second.completed()] == [pointer] * second.survives_driver
    assert second.epoch == (2 if second.survives_driver else 0)
