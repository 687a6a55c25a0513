"""Handles, versions and files of state; what stores do with them is in the contract suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.api.state_descriptors import ListStateDescriptor, ValueStateDescriptor
from beadline.errors import StateAccessError, VersionError
from beadline.state.segments.files import SegmentFiles, delete_file, read_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, next_version, root_version
from beadline.state.store import open_store
from tests.state.subtask import ALL_GROUPS, ANY, Subtask, Worker


def write(subtask: Subtask, worker: Worker, value: Any) -> None:
    subtask.begin(worker)
    worker.backend.scope.slot = "k"
    worker.value.update(value)
    subtask.seal(subtask.finish(worker))


def read(subtask: Subtask, worker: Worker) -> Any:
    subtask.begin(worker)
    worker.backend.scope.slot = "k"
    return worker.value.value()


def test_everything_removed_merges_to_nothing() -> None:
    subtask, worker = Subtask(), Worker()
    write(subtask, worker, 1)
    write(subtask, worker, None)
    subtask.merge(0, 2)
    assert subtask.handle.segments[0].inline == b""
    assert read(subtask, Worker()) is None
    write(subtask, worker, 5)
    assert read(subtask, Worker()) == 5


def test_versions_name_their_history() -> None:
    root = root_version("job", "uid", range(4))
    assert root != root_version("job", "uid", range(5))
    assert root != root_version("job2", "uid", range(4))
    assert next_version(root, b"") == root
    one, two = next_version(root, b"1"), next_version(root, b"2")
    assert len({root, one, two, next_version(one, b"2"), next_version(two, b"1")}) == 5


def test_a_handle_gives_what_follows_a_version() -> None:
    segments = tuple(SegmentRef(f"v{number}", 1, 1, inline=b"x") for number in range(5))
    handle = KeyedStateHandle("root", segments)
    assert handle.version == "v4"
    assert handle.after("root") == segments
    assert handle.after("v2") == segments[3:]
    assert handle.after("v4") == ()
    assert handle.after("elsewhere") is None
    merged = SegmentRef("v3", 3, 3, inline=b"xxx")
    replaced = handle.replacing(1, 4, merged)
    assert replaced.segments == (segments[0], merged, segments[4])
    assert replaced.after("v2") is None


def test_a_name_belongs_to_one_descriptor() -> None:
    worker = Worker()
    assert worker.backend.state(ValueStateDescriptor("value", ANY)) is worker.value
    with pytest.raises(StateAccessError, match="'value' is already registered by a ValueStateDescriptor"):
        worker.backend.state(ListStateDescriptor("value", ANY))


def test_files_are_written_whole_and_read_in_part(tmp_path: Path) -> None:
    files = SegmentFiles(f"file://{tmp_path}")
    path = files.write("a.pack", b"0123456789")
    assert files.write("a.pack", b"0123456789") == path
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.pack"]
    assert read_segment(SegmentRef("v", 1, 4, path=path, offset=3)) == b"3456"
    assert read_segment(SegmentRef("v", 1, 2, inline=b"in")) == b"in"
    with pytest.raises(VersionError, match="is cut short: 1 bytes"):
        read_segment(SegmentRef("v", 1, 4, path=path, offset=9))
    delete_file(path)
    delete_file(path)
    with pytest.raises(VersionError, match="can't read"):
        read_segment(SegmentRef("v", 1, 4, path=path))


def test_a_store_is_opened_from_files(tmp_path: Path) -> None:
    files, subtask, worker = SegmentFiles(str(tmp_path)), Subtask(), Worker()
    for number in range(3):
        write(subtask, worker, number)
    handle = KeyedStateHandle(subtask.handle.root)
    for segment in subtask.handle.segments:
        assert segment.inline is not None
        path = files.write(f"{segment.version}.run", segment.inline)
        handle = handle.plus(SegmentRef(segment.version, segment.entries, segment.size, path=path))
    store = open_store(None, handle, ALL_GROUPS, read_segment)
    assert store.table("value", "value").base == {"k": 2}
