"""Storage of checkpoints on real files: what is written comes back, and damage of any kind is named, never used."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot, SnapshotError, SnapshotKind
from beadline.checkpoint.directory.jobs import CheckpointDirectory
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.storage import durable
from beadline.checkpoint.storage.durable import verify
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.checkpoint.storage.memory import MemoryJobStorage
from beadline.checkpoint.storage.storage import SharedFiles
from beadline.errors import VersionError
from beadline.state.segments import files as state_files
from beadline.state.segments.files import SegmentFiles, read_file, read_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef
from tests.checkpoint.snapshots import JOB, all_files, latest, make_snapshot, place_in, segment_bytes
from tests.disks import small_disk_at


def store(storage: FileJobStorage, number: int, **changes: object) -> Snapshot:
    snapshot = make_snapshot(number, storage.prepare(), **changes)
    return storage.write(snapshot).snapshot


def without_checksums(snapshot: Snapshot) -> Snapshot:
    return snapshot.with_segments(lambda segment: replace(segment, checksum=None))


@pytest.fixture
def storage(tmp_path: Path) -> FileJobStorage:
    return place_in(tmp_path / "checkpoints")


# -- what is written comes back


def test_a_checkpoint_comes_back_as_it_was(storage: FileJobStorage) -> None:
    snapshot = make_snapshot(3, storage.prepare())
    stored = storage.write(snapshot)
    assert stored.pointer == f"{storage.folder}/chk-3"
    for pointer in (stored.pointer, f"{stored.pointer}/", f"{stored.pointer}/_metadata", f"file://{stored.pointer}",
                    f"file:{stored.pointer}"):  # fmt: skip
        assert storage.read(pointer) == stored.snapshot
    written = replace(snapshot, lineage=storage.lineage.name)
    assert without_checksums(stored.snapshot) == without_checksums(written)
    assert all(segment.checksum for segment in stored.snapshot.segments)
    assert verify(stored.snapshot) == []


def test_checksums_that_writers_left_out_are_computed(storage: FileJobStorage) -> None:
    without = make_snapshot(3, storage.prepare(), with_checksum=False, inline=None)
    computed = {segment.version: segment.checksum for segment in storage.write(without).snapshot.segments}
    given = {
        segment.version: segment.checksum
        for segment in make_snapshot(3, storage.prepare(), inline=None).segments
        if segment.path
    }
    assert {version: computed[version] for version in given} == given
    assert None not in computed.values()


def test_a_checkpoint_pays_for_what_is_new(storage: FileJobStorage) -> None:
    stored = [storage.write(make_snapshot(n, storage.prepare(), segments=3, inline=None)) for n in (3, 4)]
    sizes = [os.path.getsize(f"{each.pointer}/_metadata") for each in stored]
    segment = len(segment_bytes(8))
    assert stored[0].written == sizes[0] + sum(segment.size for segment in stored[0].snapshot.segments if segment.path)
    assert stored[1].written == pytest.approx(sizes[1] + 2 * segment, abs=40)
    assert len(stored[0].snapshot.files() & stored[1].snapshot.files()) == 4


def test_every_new_file_is_synced_once_and_before_the_checkpoint_appears(
    storage: FileJobStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def watching(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        assert not os.path.exists(f"{storage.folder}/chk-2") or path.endswith(JOB)
        synced.append(path)
        fsync(descriptor)

    snapshot = make_snapshot(2, storage.prepare(), inline=None)
    monkeypatch.setattr(os, "fsync", watching)
    storage.write(snapshot)
    assert {path for path in synced if path.endswith(".run")} == snapshot.files()
    assert f"{storage.folder}/shared" in synced
    assert any("/.chk-2." in path and "_metadata" in path for path in synced)
    assert synced[-1] == f"{storage.folder}"
    synced.clear()
    monkeypatch.setattr(os, "fsync", lambda d: (synced.append(os.readlink(f"/proc/self/fd/{d}")), fsync(d))[1])
    storage.write(replace(snapshot, checkpoint_id=3))
    assert not [path for path in synced if path.endswith(".run")]
    synced.clear()
    again = sorted(snapshot.files())[0]
    state_files.write_file(again, read_file(again))  # a task that ran twice
    storage.write(replace(snapshot, checkpoint_id=4))
    assert [path for path in synced if path.endswith(".run")] == [again]


def test_a_file_whose_sync_failed_is_written_again(storage: FileJobStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sync of the same pages succeeds although the disk never got them."""
    snapshot = make_snapshot(1, storage.prepare(), inline=None)
    bad = sorted(snapshot.files())[0]
    inode = os.stat(bad).st_ino

    def failing(path: str) -> None:
        if path == bad:
            raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(durable, "sync", failing)
    with pytest.raises(SnapshotError, match="Input/output error"):
        storage.write(snapshot)
    monkeypatch.undo()
    before = read_file(bad)
    storage.write(snapshot)
    assert os.stat(bad).st_ino != inode
    assert read_file(bad) == before


def test_inline_segments_over_the_threshold_become_one_file_that_is_written_once(tmp_path: Path) -> None:
    storage = place_in(tmp_path, inline_threshold=100)
    first = storage.write(make_snapshot(1, storage.prepare(), inline=b"x" * 500))
    second = storage.write(make_snapshot(2, storage.prepare(), inline=b"x" * 500))
    packs = {path for path in first.snapshot.files() if path.endswith(".pack")}
    assert len(packs) == 1
    assert packs == {path for path in second.snapshot.files() if path.endswith(".pack")}
    assert [len(h.segments) for h in first.snapshot.operators[1].keyed if h] == [2, 2]
    assert [read_segment(h.segments[-1]) for h in first.snapshot.operators[1].keyed if h] == [
        b"x" * 500 + b"\0",
        b"x" * 500 + b"\1",
    ]
    small = storage.write(make_snapshot(3, storage.prepare(), inline=b"x" * 99))
    assert not [path for path in small.snapshot.files() - second.snapshot.files() if path.endswith(".pack")]


def test_a_deleted_file_that_is_written_again_is_made_durable_again(tmp_path: Path) -> None:
    storage = place_in(tmp_path, inline_threshold=100)
    first = storage.write(make_snapshot(1, storage.prepare(), inline=b"x" * 500)).snapshot
    storage.delete(first.files())
    assert {problem.why for problem in verify(first)} == {"the file is missing"}
    second = storage.write(make_snapshot(2, storage.prepare(), inline=b"x" * 500)).snapshot
    assert verify(second) == []


def test_a_moved_job_folder_is_still_a_checkpoint(tmp_path: Path) -> None:
    storage = place_in(tmp_path / "a", inline_threshold=0)
    stored = store(storage, 3)
    shutil.move(str(tmp_path / "a"), tmp_path / "b")
    moved = read_snapshot(str(tmp_path / "b" / JOB / "chk-3"))
    assert verify(moved) == []
    assert [read_segment(segment) for segment in moved.segments] == [
        read_segment(replace(segment, path=segment.path and segment.path.replace("/a/", "/b/")))
        for segment in stored.segments
    ]


def test_a_savepoint_holds_everything_and_can_be_moved(storage: FileJobStorage, tmp_path: Path) -> None:
    snapshot = make_snapshot(3, storage.prepare())
    stored = storage.write_savepoint(snapshot, str(tmp_path / "saves"))
    assert stored.snapshot.kind is SnapshotKind.SAVEPOINT
    assert os.path.basename(stored.pointer).startswith("savepoint-a1b2c3-")
    contents = [read_segment(segment) for segment in snapshot.segments]
    shutil.rmtree(storage.folder)
    shutil.move(stored.pointer, tmp_path / "moved")
    moved = read_snapshot(str(tmp_path / "moved"))
    assert [read_segment(segment) for segment in moved.segments] == contents
    assert all(path.startswith(str(tmp_path / "moved")) for path in moved.files())
    assert storage.completed() == []
    storage.discard(str(tmp_path / "moved"))
    assert not (tmp_path / "moved").exists()


def test_foreign_segments_can_be_copied_so_that_their_origin_may_go(tmp_path: Path) -> None:
    old = place_in(tmp_path / "old")
    restored = store(old, 2)
    new = place_in(tmp_path / "new", "other")
    referring = new.write(replace(restored, job_id="other"))
    assert referring.snapshot.files() == restored.files()
    copied = new.write(replace(restored, job_id="other", checkpoint_id=3), copy_foreign=True)
    again = new.write(replace(restored, job_id="other", checkpoint_id=4), copy_foreign=True)
    assert copied.snapshot.files() == again.snapshot.files()
    assert again.written < copied.written - sum(segment.size for segment in restored.segments if segment.path) + 100
    shutil.rmtree(tmp_path / "old")
    assert verify(read_snapshot(again.pointer)) == []
    assert [p.why for p in verify(referring.snapshot)] == ["the file is missing"] * 4


# -- finding


def test_the_jobs_of_a_directory_with_their_newest_checkpoints(tmp_path: Path) -> None:
    directory = CheckpointDirectory(str(tmp_path))
    for job_id, name, numbers in (("j1", "a", (9, 10)), ("j2", "a", (1, 2)), ("j3", "b", (5,))):
        for number in numbers:
            when = {"j1": 100, "j2": 200, "j3": 300}[job_id] + number
            storage = FileJobStorage(directory, job_id)
            storage.write(make_snapshot(number, storage.prepare(), job_id, name, timestamp=when))
    found = {(job.job_id, job.name, job.time, job.newest.pointer if job.newest else "") for job in directory.jobs()}
    assert found == {
        ("j1", "a", 110, f"{tmp_path}/j1/chk-10"),
        ("j2", "a", 202, f"{tmp_path}/j2/chk-2"),
        ("j3", "b", 305, f"{tmp_path}/j3/chk-5"),
    }
    assert [listed.checkpoint_id for listed in directory.completed("j1")] == [10, 9]
    shutil.copytree(tmp_path / "j1", tmp_path / "copy-of-j1")
    assert len(directory.jobs()) == 3, "a folder with another name is not the job's"


def test_a_damaged_checkpoint_is_listed_with_its_problem_and_is_not_the_latest(
    storage: FileJobStorage,
) -> None:
    store(storage, 1)
    store(storage, 2)
    os.truncate(f"{storage.folder}/chk-2/_metadata", 300)
    listed = storage.completed()
    assert [entry.checkpoint_id for entry in listed] == [2, 1]
    assert listed[0].snapshot is None
    assert "chk-2/_metadata is cut short or altered" in (listed[0].problem or "")
    assert latest(storage).endswith("chk-1")


def test_without_a_folder_of_its_own_a_job_uses_the_directory_itself(tmp_path: Path) -> None:
    storage = place_in(tmp_path, create_subdir=False)
    store(storage, 4)
    assert (tmp_path / "chk-4" / "_metadata").exists()
    assert latest(storage) == f"{tmp_path}/chk-4"
    assert storage.orphans() == []


def test_paths_that_are_no_checkpoint(storage: FileJobStorage, tmp_path: Path) -> None:
    store(storage, 1)
    with pytest.raises(SnapshotError, match=r"no checkpoint or savepoint at /nowhere/chk-1: the path does not exist"):
        storage.read("/nowhere/chk-1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SnapshotError, match=r"empty is a directory and not a checkpoint .* Name a directory like chk"):
        storage.read(str(tmp_path / "empty"))
    with pytest.raises(SnapshotError, match=rf"not a checkpoint or savepoint: .* Did you mean .*{JOB}/chk-1\?"):
        storage.read(f"{storage.folder}")
    saved = storage.write_savepoint(make_snapshot(1, storage.prepare()), str(tmp_path / "saves")).pointer
    with pytest.raises(SnapshotError, match=rf"saves is a directory and not .* Did you mean {saved}\?"):
        storage.read(str(tmp_path / "saves"))
    unfinished = tmp_path / ".savepoint-a1b2c3-0123456789ab.01234567"
    unfinished.mkdir()
    with pytest.raises(SnapshotError, match="it has no _metadata, because it was never completed"):
        storage.read(str(unfinished))
    (tmp_path / "file").write_text("hello")
    with pytest.raises(SnapshotError, match="file is not the metadata of a Beadline checkpoint"):
        storage.read(str(tmp_path / "file"))


# -- damage


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda path: os.unlink(path), "the file is missing"),
        (lambda path: os.truncate(path, os.path.getsize(path) - 1), r"bytes and should have at least"),
        (lambda path: os.truncate(path, 0), r"the file has 0 bytes"),
        (lambda path: _flip(path), "the checksum of .* bytes at 0 is .* and should be"),
    ],
)
def test_verify_names_the_file_and_what_is_wrong(storage: FileJobStorage, damage: object, why: str) -> None:
    stored = store(storage, 2)
    victim = sorted(stored.files())[1]
    damage(victim)  # type: ignore[operator]
    (problem,) = verify(storage.read(latest(storage)))
    assert problem.path == victim
    assert str(problem).startswith(victim + ": ")
    assert re.search(why, problem.why)


def _flip(path: str) -> None:
    data = bytearray(Path(path).read_bytes())
    position = random.randrange(len(data))
    data[position] ^= 1 << random.randrange(8)
    Path(path).write_bytes(data)


def test_any_flipped_bit_of_a_segment_is_found(storage: FileJobStorage) -> None:
    stored = store(storage, 1, inline=None)
    path = min(stored.files())
    good = bytearray(Path(path).read_bytes())
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 1 << (position % 8)
        Path(path).write_bytes(bad)
        assert [problem.path for problem in verify(stored)] == [path]
    Path(path).write_bytes(good)
    assert verify(stored) == []


def test_reading_a_damaged_segment_says_so(storage: FileJobStorage) -> None:
    stored = store(storage, 1)
    segment = next(segment for segment in stored.segments if segment.path)
    _flip(segment.path or "")
    with pytest.raises(VersionError, match=r"checksum is .* and should be"):
        read_segment(segment)


def test_a_checkpoint_with_a_missing_or_short_file_does_not_complete(storage: FileJobStorage) -> None:
    for number, damage in enumerate((os.unlink, lambda path: os.truncate(path, 10)), 1):
        snapshot = make_snapshot(number, storage.prepare())
        victim = sorted(snapshot.files())[0]
        damage(victim)
        with pytest.raises(SnapshotError, match=f"{victim} (is missing|has 10 bytes and should have at least)"):
            storage.write(snapshot)
        os.unlink(victim) if os.path.exists(victim) else None
    assert storage.completed() == []


def test_a_checkpoint_is_never_overwritten(storage: FileJobStorage) -> None:
    store(storage, 1)
    before = all_files(Path(storage.folder))
    with pytest.raises(SnapshotError, match=r"chk-1 exists already"):
        store(storage, 1)
    assert all_files(Path(storage.folder)) == before
    assert storage.highest_number() == 1


# -- a disk that is full, a directory that can't be written


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk", "256k") as folder:
        yield folder


def test_a_full_disk_fails_the_checkpoint_and_keeps_the_last(small_disk: Path) -> None:
    storage = place_in(small_disk, inline_threshold=100)
    good = storage.write(make_snapshot(1, storage.prepare(), inline=b"x" * 1000))
    before = all_files(small_disk)
    with pytest.raises(SnapshotError, match=r"can't write checkpoint 2 to .*chk-2: .*No space left.* Free some space"):
        storage.write(replace(good.snapshot, checkpoint_id=2, operators=(_with_inline(400_000),)))
    assert all_files(small_disk) == before
    assert latest(storage) == good.pointer
    # Too little room for the metadata, enough for the segments: the same.
    storage_inline = place_in(small_disk, inline_threshold=1 << 20)
    with pytest.raises(SnapshotError, match="No space left"):
        storage_inline.write(replace(good.snapshot, checkpoint_id=2, operators=(_with_inline(200_000),)))
    assert all_files(small_disk) == before
    with pytest.raises(SnapshotError, match="No space left"):
        storage.write_savepoint(replace(good.snapshot, operators=(_with_inline(400_000),)), str(small_disk))
    assert all_files(small_disk) == before
    assert [entry.checkpoint_id for entry in storage.completed()] == [1]
    assert storage.write(make_snapshot(2, storage.prepare())).pointer == latest(storage)


def _with_inline(size: int) -> OperatorSnapshot:
    data = random.randbytes(size)
    return OperatorSnapshot("u", "n", 1, 128, keyed=(KeyedStateHandle("r", (SegmentRef("v", 1, size, inline=data),)),))


def test_a_full_disk_at_any_moment_leaves_nothing_that_looks_complete(small_disk: Path) -> None:
    """Fill the disk to every level around what a checkpoint needs."""
    storage = place_in(small_disk, inline_threshold=2000)
    store(storage, 1)
    outcomes = set()
    for number in range(2, 40):
        filler = small_disk / "filler"
        filler.write_bytes(b"")
        free = os.statvfs(small_disk).f_bavail * 4096
        filler.write_bytes(b"f" * max(0, free - 4096 * (number % 14)))
        try:
            storage.write(make_snapshot(number, storage.prepare(), segments=1, inline=b"y" * 9000 + bytes([number])))
            outcomes.add("written")
        except (SnapshotError, OSError):
            outcomes.add("failed")
        latest = storage.completed()[0]
        assert latest.snapshot is not None
        assert verify(latest.snapshot) == []
        if latest.checkpoint_id == number:
            for entry in storage.completed()[1:]:
                storage.discard(entry.pointer)
        storage.delete(storage.orphans())
    assert outcomes == {"written", "failed"}


def test_a_directory_that_cannot_be_written(small_disk: Path, tmp_path: Path) -> None:
    storage = place_in(small_disk / "c")
    store(storage, 1)
    snapshot = make_snapshot(2, str(tmp_path / "elsewhere"))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(
        SnapshotError, match=r"can't write checkpoint 2 .*Read-only file system.* must be one that this"
    ):
        storage.write(snapshot)
    assert latest(storage).endswith("chk-1")
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert storage.write(snapshot).pointer == latest(storage)


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    storage = place_in(tmp_path / "file")
    with pytest.raises(SnapshotError, match=r"can't use .*/file for checkpoints: .*must be one that this process"):
        storage.prepare()
    with pytest.raises(SnapshotError, match="can't use"):
        storage.write(make_snapshot(1, str(tmp_path / "runs")))
    assert (tmp_path / "file").read_text() == "mine"


# -- removing


def test_discard_removes_the_checkpoint_and_nothing_else(storage: FileJobStorage) -> None:
    first, second = store(storage, 1), store(storage, 2)
    folder = Path(storage.folder)
    (folder / "chk-1" / "notes.txt").write_text("mine")
    storage.discard(f"{folder}/chk-1/_metadata")
    assert not (folder / "chk-1" / "_metadata").exists()
    assert (folder / "chk-1" / "notes.txt").exists()
    assert verify(first) == []
    storage.discard(str(folder / "chk-2"))
    storage.discard(str(folder / "chk-2"))
    assert not (folder / "chk-2").exists()
    assert verify(second) == []
    with pytest.raises(SnapshotError, match="neither a checkpoint nor a savepoint, so it is not removed"):
        storage.discard(str(folder / "shared"))
    assert verify(second) == []


def test_orphans_are_what_nobody_needs_and_only_names_of_ours(storage: FileJobStorage) -> None:
    job = Path(storage.folder)
    live = make_snapshot(9, storage.prepare(2), segments=1, inline=None).files()
    kept = store(storage, 2)
    gone = store(storage, 8).files() - kept.files()
    storage.discard(str(job / "chk-8"))
    shared = job / "shared"
    orphans = {
        shared / f".{'a' * 32}.run.12345678",
        shared / "1" / f"{'b' * 32}-{'c' * 12}.run",
        shared / f"{'d' * 32}.pack",
        shared / f"{'f' * 32}-0-17.state",
    }
    orphans |= {job / ".fence-3.12345678"}
    strangers = {
        shared / "README",
        shared / f"{'e' * 32}.txt",
        shared / "x" / f"{'b' * 32}.run",
        job / "notes",
        job / "x.run",
    }
    strangers |= {job / "chk-old" / "_metadata", job / "lease-1", job / "fence-1"}
    for path in orphans | strangers:
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"checkpoints": [[2, 0]]}')
    for folder in (".chk-9.12345678", "chk-7"):
        (job / folder).mkdir()
        orphans.add(job / folder)
    found = storage.orphans(live)
    assert set(found) == {str(path) for path in orphans} | gone
    storage.delete(found)
    assert storage.orphans(live) == []
    assert all(path.exists() for path in strangers)
    assert all(os.path.exists(path) for path in live | kept.files())
    assert not any(path.exists() for path in orphans)
    assert set(storage.orphans()) == live


def test_while_a_checkpoint_is_damaged_no_segment_is_an_orphan(storage: FileJobStorage) -> None:
    store(storage, 1)
    damaged = store(storage, 5)
    path = f"{storage.folder}/chk-5/_metadata"
    good = Path(path).read_bytes()
    os.truncate(path, 100)
    assert storage.orphans() == []
    Path(path).write_bytes(good)
    assert verify(damaged) == []
    storage.discard(f"{storage.folder}/chk-5")
    assert set(storage.orphans()) == damaged.files()


def test_a_job_that_kept_nothing_leaves_nothing(storage: FileJobStorage) -> None:
    store(storage, 1)
    assert storage.remove() is False
    storage.discard(f"{storage.folder}/chk-1")
    assert storage.remove() is True
    assert os.listdir(os.path.dirname(storage.folder)) == []


def test_retaining_two_checkpoints_keeps_exactly_their_files(storage: FileJobStorage) -> None:
    registry = SharedFiles([storage.shared_folder()])
    stored: list[Snapshot] = []
    for number in range(1, 9):
        stored.append(store(storage, number, segments=3))
        registry.register(number, stored[-1].files())
        if number > 2:
            storage.discard(f"{storage.folder}/chk-{number - 2}")
            storage.delete(registry.release(number - 2))
    assert {str(p) for p in Path(storage.folder, "shared").iterdir()} == stored[-1].files() | stored[-2].files()
    assert verify(stored[-1]) == verify(stored[-2]) == []
    assert storage.orphans() == []


# -- a file system that is not local


@pytest.fixture
def remote() -> Iterator[FileJobStorage]:
    state_files._file_system.cache_clear()
    yield place_in(f"mock:///{uuid.uuid4().hex}/checkpoints", inline_threshold=100)
    state_files._file_system.cache_clear()


def _remote_snapshot(storage: FileJobStorage, number: int) -> Snapshot:
    files = SegmentFiles(storage.prepare())
    data = segment_bytes(number)
    segments = (
        SegmentRef(f"{number:032x}", 50, len(data), path=files.write(f"{number:032x}.run", data)),
        SegmentRef("w", 1, 300, inline=b"z" * 300),
    )
    operator = OperatorSnapshot("u", "n", 1, 128, keyed=(KeyedStateHandle("r", segments),))
    return Snapshot(number, JOB, "necklace", number, number, (operator,))


def test_the_same_on_a_remote_file_system(remote: FileJobStorage) -> None:
    snapshots = [_remote_snapshot(remote, number) for number in (1, 2)]
    stored = [remote.write(snapshot) for snapshot in snapshots]
    assert latest(remote) == stored[1].pointer == f"{remote.folder}/chk-2"
    read = remote.read(stored[1].pointer)
    assert read == stored[1].snapshot
    assert verify(read) == []
    assert [read_segment(segment) for segment in read.segments] == [segment_bytes(2), b"z" * 300]
    with pytest.raises(SnapshotError, match="chk-2 exists already"):
        remote.write(snapshots[1])
    save = remote.write_savepoint(snapshots[0], state_files.parent(remote.folder))
    assert verify(remote.read(save.pointer)) == []
    remote.discard(stored[1].pointer)
    assert [entry.checkpoint_id for entry in remote.completed()] == [1]
    (orphan,) = remote.orphans()
    assert orphan == snapshots[1].operators[0].keyed[0].segments[0].path  # type: ignore[union-attr]
    remote.delete([orphan])
    assert [str(p).endswith("the file is missing") for p in verify(read)] == [True]
    with pytest.raises(SnapshotError, match="the path does not exist"):
        remote.read(f"{remote.folder}/chk-9")


# -- in the driver's memory


def test_memory_keeps_all_content_and_needs_no_files(tmp_path: Path) -> None:
    storage = MemoryJobStorage(JOB)
    snapshot = make_snapshot(2, str(tmp_path))
    contents = [read_segment(segment) for segment in snapshot.segments]
    stored = storage.write(snapshot)
    shutil.rmtree(tmp_path)
    read = storage.read(stored.pointer)
    assert read.files() == frozenset()
    assert [read_segment(segment) for segment in read.segments] == contents
    assert [h and h.version for h in read.operators[1].keyed] == [h and h.version for h in snapshot.operators[1].keyed]
    assert [entry.pointer for entry in storage.completed()] == [stored.pointer]
    storage.discard(stored.pointer)
    assert storage.completed() == []
    with pytest.raises(SnapshotError, match="there is no checkpoint memory:a1b2c3d4/chk-2 in this driver's memory"):
        storage.read(stored.pointer)


def test_memory_has_a_limit_for_each_subtask() -> None:
    storage = MemoryJobStorage(JOB, 1000)
    base = Snapshot(1, JOB, "n", 1, 1, ())
    storage.write(replace(base, operators=(_with_inline(1000),)))
    with pytest.raises(
        SnapshotError,
        match=r"operator 'n', subtask 0, has 1001 bytes.* at most 1000 per subtask \(beadline.checkpointing.jobmanager"
        r".max-state-size\).*execution.checkpointing.dir",
    ):
        storage.write(replace(base, checkpoint_id=2, operators=(_with_inline(1001),)))
    assert [entry.checkpoint_id for entry in storage.completed()] == [1]
    five = 5 << 20
    MemoryJobStorage(JOB).write(replace(base, operators=(_with_inline(five),)))
    with pytest.raises(SnapshotError, match=f"{five + 1} bytes"):
        MemoryJobStorage(JOB).write(replace(base, operators=(_with_inline(five + 1),)))
