"""The lease: one owner per epoch, and a driver that is fenced publishes nothing that counts, however late it wakes."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.checkpoint.ownership.lease import Fenced, Lease, counts, published
from beadline.checkpoint.storage.durable import verify
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.state.segments import files as state_files
from tests.checkpoint.snapshots import JOB, all_files, latest, make_snapshot, place_in, take_over


@pytest.fixture
def storage(tmp_path: Path) -> FileJobStorage:
    """The job as somebody sees it who has no lease."""
    return place_in(tmp_path)


def write(driver: FileJobStorage, number: int) -> Snapshot:
    return driver.write(make_snapshot(number, driver.prepare(driver.epoch))).snapshot


def usable(storage: FileJobStorage) -> list[tuple[int, int]]:
    return [(entry.checkpoint_id, entry.snapshot.epoch) for entry in storage.completed() if entry.snapshot]


# -- one driver after the other


def test_each_owner_has_its_epoch_and_fences_the_last(storage: FileJobStorage, tmp_path: Path) -> None:
    first = take_over(tmp_path, "anna@host")
    assert first.epoch == 1
    assert write(first, 1).epoch == 1
    second = place_in(tmp_path)
    second.hold(Lease.acquire(second.folder, "berta@host", clock=lambda: 1_700_000_000.5))
    assert second.epoch == 2
    second.check()
    with pytest.raises(
        Fenced,
        match=r"epoch 1 of the job in .*, and epoch 2 is held by berta@host since 2023-11-14T22.*the other driver",
    ) as e:
        first.check()
    assert (e.value.epoch, e.value.by_epoch, e.value.by) == (1, 2, "berta@host")
    before = all_files(tmp_path)
    with pytest.raises(Fenced):
        first.write(replace(make_snapshot(1, storage.shared_folder(1)), checkpoint_id=2))
    assert all_files(tmp_path) == before
    write(second, 2)
    assert usable(storage) == [(2, 2), (1, 1)]


def test_the_owner_is_named_by_default(storage: FileJobStorage) -> None:
    lease = Lease.acquire(storage.folder)
    assert f"(process {os.getpid()})" in lease.owner


def test_a_lease_that_is_gone_is_no_lease(storage: FileJobStorage, tmp_path: Path) -> None:
    driver = take_over(tmp_path, "a")
    storage.remove()
    with pytest.raises(FileNotFoundError, match="The folder of the job is away"):
        driver.check()
    driver.check_if_reachable()
    with pytest.raises(Fenced, match="its lease is gone"):
        write(driver, 1)
    assert storage.completed() == []


def test_who_can_not_look_after_publishing_takes_the_job_for_lost(tmp_path: Path) -> None:
    driver = take_over(tmp_path, "a")
    lease = Lease.acquire(driver.folder, "b")
    shutil.rmtree(driver.folder)
    os.symlink(driver.folder, driver.folder)  # a loop: nobody can list it
    with pytest.raises(Fenced, match=r"nobody can tell whether it still has it: .* publishes nothing more\.$"):
        lease.check_after_publishing()


def test_a_fenced_driver_removes_nothing(tmp_path: Path) -> None:
    driver = take_over(tmp_path, "a")
    stored = write(driver, 1)
    take_over(tmp_path, "b")
    before = all_files(tmp_path)
    driver.discard(f"{driver.folder}/chk-1")
    driver.discard_claimed(f"{driver.folder}/chk-1")
    driver.delete(stored.files())
    driver.delete_claimed(stored.files())
    assert driver.remove() is False
    assert all_files(tmp_path) == before
    with pytest.raises(Fenced):
        driver.check_if_reachable()


def test_a_late_checkpoint_of_an_old_epoch_does_not_count_and_is_an_orphan(
    storage: FileJobStorage, tmp_path: Path
) -> None:
    write(take_over(tmp_path, "a"), 1)
    second = take_over(tmp_path, "b")
    storage.write(make_snapshot(2, storage.prepare(1), epoch=1))  # as if no look had been taken
    assert published(storage.folder) == [(1, 1), (2, 1)]
    assert usable(storage) == [(1, 1)]
    assert latest(storage).endswith("chk-1")
    late = f"{storage.folder}/chk-2"
    assert late in storage.orphans()
    stored = write(second, 2)
    assert usable(storage) == [(2, 2), (1, 1)]
    storage.delete(storage.orphans())
    assert verify(stored) == []
    third = take_over(tmp_path, "c")
    assert third.epoch == 3
    assert usable(storage) == [(2, 2), (1, 1)]


def test_a_fence_that_comes_late_changes_nothing(storage: FileJobStorage, tmp_path: Path) -> None:
    """Epoch 2 stalled before its fence; epoch 3 found checkpoint 2 and went on from it."""
    write(take_over(tmp_path, "a"), 1)
    job = Path(storage.folder)
    (job / "lease-2").write_text("{}")
    storage.write(make_snapshot(2, storage.prepare(1), epoch=1))
    take_over(tmp_path, "c")
    assert usable(storage) == [(2, 1), (1, 1)]
    (job / "fence-2").write_text('{"epoch": 2, "checkpoints": [[1, 1]]}')
    assert usable(storage) == [(2, 1), (1, 1)]
    assert take_over(tmp_path, "d").epoch == 4
    assert usable(storage) == [(2, 1), (1, 1)]


def test_a_damaged_fence_is_named(storage: FileJobStorage, tmp_path: Path) -> None:
    write(take_over(tmp_path, "a"), 1)
    take_over(tmp_path, "b")
    (Path(storage.folder) / "fence-2").write_text("{")
    with pytest.raises(SnapshotError, match="fence-2 is damaged, so that nobody knows which checkpoints count"):
        storage.completed()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SnapshotError, match=r"can't acquire the lease of the job in .*must be writable"):
        Lease.acquire(str(tmp_path / "file" / "job"))


def test_who_is_overtaken_while_taking_the_job_finds_itself_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next owner tidies up, and takes the unfinished fence away."""
    write_file = state_files.write_file

    def overtaken(path: str, data: bytes, durable: bool = False) -> str:
        if path.endswith("/fence-1"):
            take_over(tmp_path, "b")
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return write_file(path, data, durable)

    monkeypatch.setattr(state_files, "write_file", overtaken)
    with pytest.raises(Fenced, match=r"this driver had epoch 1 .*, and epoch 2 is held by b"):
        take_over(tmp_path, "a")


# -- many at once


_RACE = """
import sys
from beadline.checkpoint.ownership.lease import Fenced, Lease
for _ in range(int(sys.argv[2])):
    try:
        print(Lease.acquire(sys.argv[1], "racer").epoch, flush=True)
    except Fenced as fenced:
        print(fenced.epoch, flush=True)
"""


def test_processes_that_race_never_share_an_epoch(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen([sys.executable, "-c", _RACE, str(tmp_path), "25"], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    epochs = [[int(line) for line in racer.communicate(timeout=60)[0].split()] for racer in racers]
    assert all(racer.returncode == 0 for racer in racers)
    assert sorted(epochs[0] + epochs[1]) == list(range(1, 51))
    assert all(mine == sorted(mine) for mine in epochs)


@pytest.fixture
def remote() -> Iterator[str]:
    state_files._file_system.cache_clear()
    yield f"mock:///{uuid.uuid4().hex}/job"
    state_files._file_system.cache_clear()


def test_without_exclusive_create_no_epoch_is_held_twice_either(remote: str) -> None:
    state_files.make_folder(remote)

    def take(_: int) -> int:
        try:
            return Lease.acquire(remote, "racer").epoch
        except Fenced as fenced:
            return fenced.epoch

    with ThreadPoolExecutor(4) as pool:
        epochs = list(pool.map(take, range(16)))
    assert len(set(epochs)) == 16
    last = Lease.acquire(remote, "last")
    assert last.epoch > max(epochs)
    last.check()


def test_fencing_on_a_remote_file_system(remote: str) -> None:
    directory = state_files.parent(remote)
    storage = place_in(directory, "job")
    first = take_over(directory, "a", "job")
    first.write(Snapshot(1, "job", "n", 1, 1, ()))
    second = take_over(directory, "b", "job")
    with pytest.raises(Fenced, match="epoch 2 is held by b"):
        first.write(Snapshot(2, "job", "n", 1, 1, ()))
    storage.write(Snapshot(2, "job", "n", 1, 1, (), epoch=1))
    assert [entry.checkpoint_id for entry in storage.completed()] == [1]
    second.write(Snapshot(2, "job", "n", 2, 2, ()))
    assert [entry.snapshot.epoch for entry in storage.completed() if entry.snapshot] == [2, 1]


# -- all orders of events


@dataclass
class Stage:
    """Runs drivers in threads, one file operation at a time, in an order that the test chooses."""

    order: list[tuple[int, int]]
    waiting: dict[str, threading.Event] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=threading.Condition)
    actor: threading.local = field(default_factory=threading.local)

    def gate(self) -> None:
        name = getattr(self.actor, "name", None)
        if name is None:
            return
        go = threading.Event()
        with self.changed:
            self.waiting[name] = go
            self.changed.notify_all()
        assert go.wait(30)

    def gated(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            self.gate()
            return function(*args, **named)

        return call

    def play(self, actors: dict[str, Callable[[], None]]) -> None:
        def run(name: str, act: Callable[[], None]) -> None:
            self.actor.name = name
            try:
                self.gate()
                act()
            finally:
                with self.changed:
                    self.running.discard(name)
                    self.changed.notify_all()

        self.running = set(actors)
        threads = [threading.Thread(target=run, args=actor) for actor in actors.items()]
        for thread in threads:
            thread.start()
        turns = (actor for actor, stretch in self.order for _ in range(stretch))
        while True:
            with self.changed:
                assert self.changed.wait_for(lambda: self.running <= set(self.waiting), 30)
                if not self.running:
                    break
                ready = sorted(self.waiting)
                self.waiting.pop(ready[next(turns, 0) % len(ready)]).set()
        for thread in threads:
            thread.join()


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 30)), max_size=12))
def test_in_every_order_of_events_completed_means_it_counts_and_late_means_it_does_not(
    order: list[tuple[int, int]],
) -> None:
    """One driver publishes while two others take over and publish too; every file operation is a possible pause."""
    stage = Stage(order)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        storage = place_in(folder)
        job = storage.folder
        old = take_over(folder, "a")
        storage.prepare(1)
        completed: list[tuple[int, int]] = []
        views: dict[int, set[tuple[int, int]]] = {}

        def publish(driver: FileJobStorage, count: int) -> None:
            for _ in range(count):
                number = driver.highest_number() + 1
                try:
                    driver.write(Snapshot(number, JOB, "n", 1, 1, ()))
                except SnapshotError as error:
                    if "exists already" not in str(error):  # two drivers chose one number
                        raise
                    continue
                completed.append((number, driver.epoch))
                assert counts(job, number, driver.epoch)

        def old_driver() -> None:
            with contextlib.suppress(Fenced):
                publish(old, 3)

        def new_driver() -> None:
            with contextlib.suppress(Fenced):
                driver = take_over(folder, "another")
                views[driver.epoch] = set(usable(storage))
                publish(driver, 2)

        opened, created = os.open, stage.gated(os.open)

        def either(path: str, flags: int, *mode: int, **named: Any) -> int:
            return int((created if flags & os.O_EXCL else opened)(path, flags, *mode, **named))

        for name in ("scandir", "rename", "replace"):
            patch.setattr(os, name, stage.gated(getattr(os, name)))
        patch.setattr(os, "open", either)
        stage.play({"a": old_driver, "b": new_driver, "c": new_driver})

        final = set(usable(storage))
        assert set(completed) <= final
        last = max(views, default=0)
        if last:
            late = {entry for entry in final if entry[1] < last}
            assert late <= views[last]
        again = take_over(folder, "the last")
        assert set(usable(storage)) == final
        write(again, storage.highest_number() + 1)
        storage.delete(storage.orphans())
        assert {(number, epoch) for number, epoch in published(job) if epoch < again.epoch} == final
