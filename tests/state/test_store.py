"""The one rule of cached stores: a store serves a handle only if it stands in its chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.api.state_descriptors import ListStateDescriptor, ValueStateDescriptor
from beadline.errors import StateAccessError, StateMismatchError, TypeMismatchError, VersionError
from beadline.state.files import RunFiles
from beadline.state.store import HeapStore, open_store
from beadline.state.version import Handle, RunRef, next_version, root_version
from tests.state.subtask import ALL_GROUPS, ANY, Subtask, Worker


def write(subtask: Subtask, worker: Worker, value: Any, seal: bool = True) -> None:
    subtask.begin(worker)
    worker.backend.scope.slot = "k"
    worker.value.update(value)
    run = subtask.finish(worker)
    if seal:
        subtask.seal(run)


def read(subtask: Subtask, worker: Worker) -> Any:
    subtask.begin(worker)
    worker.backend.scope.slot = "k"
    return worker.value.value()


def test_a_sealed_overlay_joins_the_store_without_reading_its_run() -> None:
    subtask, worker = Subtask(), Worker()
    for number in range(5):
        write(subtask, worker, number)
    assert read(subtask, worker) == 4
    assert subtask.reads == 0


def test_an_overlay_that_was_not_sealed_is_dropped() -> None:
    subtask, worker = Subtask(), Worker()
    write(subtask, worker, "sealed")
    write(subtask, worker, "lost", seal=False)
    assert read(subtask, worker) == "sealed"


def test_an_overlay_of_another_attempt_is_not_taken_for_the_sealed_one() -> None:
    subtask, zombie, worker = Subtask(), Worker(), Worker()
    write(subtask, zombie, "zombie", seal=False)
    write(subtask, worker, "sealed")
    assert read(subtask, zombie) == "sealed"
    assert subtask.reads == 1


def test_a_store_ahead_of_a_rollback_is_rebuilt() -> None:
    subtask, worker = Subtask(), Worker()
    write(subtask, worker, 1)
    old = subtask.handle
    write(subtask, worker, 2)
    write(subtask, worker, 3)
    assert read(subtask, worker) == 3
    ahead = worker.store
    subtask.handle = old
    assert read(subtask, worker) == 1
    assert worker.store is not ahead


def test_a_store_behind_takes_what_follows() -> None:
    subtask, behind, worker = Subtask(), Worker(), Worker()
    write(subtask, behind, 1)
    read(subtask, behind)
    store = behind.store
    write(subtask, worker, 2)
    write(subtask, worker, 3)
    subtask.reads = 0
    assert read(subtask, behind) == 3
    assert behind.store is store
    assert subtask.reads == 2


def test_a_store_inside_of_a_merged_range_is_rebuilt() -> None:
    subtask, behind, worker = Subtask(), Worker(), Worker()
    for number in range(4):
        write(subtask, worker, number)
        if number == 1:
            read(subtask, behind)
    subtask.merge(0, 3)
    store = behind.store
    assert read(subtask, behind) == 3
    assert behind.store is not store


def test_jobs_do_not_share_stores() -> None:
    one, two, worker = Subtask("one"), Subtask("two"), Worker()
    write(one, worker, 1)
    read(one, worker)
    assert read(two, worker) is None


def test_everything_removed_merges_to_nothing() -> None:
    subtask, worker = Subtask(), Worker()
    write(subtask, worker, 1)
    write(subtask, worker, None)
    subtask.merge(0, 2)
    assert subtask.handle.runs[0].inline == b""
    assert read(subtask, Worker()) is None
    write(subtask, worker, 5)
    assert read(subtask, Worker()) == 5


def test_reading_changes_no_version() -> None:
    subtask, worker = Subtask(), Worker()
    write(subtask, worker, [1, {"a": 2}])
    before = subtask.handle
    assert read(subtask, worker) == [1, {"a": 2}]
    assert subtask.finish(worker) is None
    assert subtask.handle == before


def test_versions_name_their_history() -> None:
    root = root_version("job", "uid", range(4))
    assert root != root_version("job", "uid", range(5))
    assert root != root_version("job2", "uid", range(4))
    assert next_version(root, b"") == root
    one, two = next_version(root, b"1"), next_version(root, b"2")
    assert len({root, one, two, next_version(one, b"2"), next_version(two, b"1")}) == 5


def test_a_handle_gives_what_follows_a_version() -> None:
    runs = tuple(RunRef(f"v{number}", 1, 1, inline=b"x") for number in range(5))
    handle = Handle("root", runs)
    assert handle.version == "v4"
    assert handle.after("root") == runs
    assert handle.after("v2") == runs[3:]
    assert handle.after("v4") == ()
    assert handle.after("elsewhere") is None
    merged = RunRef("v3", 3, 3, inline=b"xxx")
    replaced = handle.replacing(1, 4, merged)
    assert replaced.runs == (runs[0], merged, runs[4])
    assert replaced.after("v2") is None


def test_a_state_that_changed_its_kind_is_refused() -> None:
    store = HeapStore("root", ALL_GROUPS)
    store.table("x", "value")
    with pytest.raises(StateMismatchError, match="state 'x' is of kind value in the snapshot and list in the program"):
        store.table("x", "list")


def test_a_name_belongs_to_one_descriptor() -> None:
    worker = Worker()
    assert worker.backend.state(ValueStateDescriptor("value", ANY)) is worker.value
    with pytest.raises(StateAccessError, match="'value' is already registered by a ValueStateDescriptor"):
        worker.backend.state(ListStateDescriptor("value", ANY))


def test_a_map_key_must_be_hashable_and_a_list_has_no_none() -> None:
    subtask, worker = Subtask(), Worker()
    subtask.begin(worker)
    worker.backend.scope.slot = "k"
    with pytest.raises(StateAccessError, match="a map key must be hashable, got list"):
        worker.map.put([1], 1)
    with pytest.raises(TypeMismatchError, match="can't hold None"):
        worker.list.add(None)


def test_files_are_written_whole_and_read_in_part(tmp_path: Path) -> None:
    files = RunFiles(f"file://{tmp_path}")
    path = files.write("a.pack", b"0123456789")
    assert files.write("a.pack", b"0123456789") == path
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.pack"]
    assert files.read(RunRef("v", 1, 4, path=path, offset=3)) == b"3456"
    assert files.read(RunRef("v", 1, 2, inline=b"in")) == b"in"
    with pytest.raises(VersionError, match="is cut short: 1 bytes"):
        files.read(RunRef("v", 1, 4, path=path, offset=9))
    files.delete(path)
    files.delete(path)
    with pytest.raises(VersionError, match="can't read"):
        files.read(RunRef("v", 1, 4, path=path))


def test_a_store_is_opened_from_files(tmp_path: Path) -> None:
    files, subtask, worker = RunFiles(str(tmp_path)), Subtask(), Worker()
    for number in range(3):
        write(subtask, worker, number)
    handle = Handle(subtask.handle.root)
    for run in subtask.handle.runs:
        assert run.inline is not None
        path = files.write(f"{run.version}.run", run.inline)
        handle = handle.plus(RunRef(run.version, run.entries, run.size, path=path))
    store = open_store(None, handle, ALL_GROUPS, files.read)
    assert store.table("value", "value").base == {"k": 2}
