"""Handles, versions and files of state; what stores do with them is in the contract suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from beadline.api.state_descriptors import ListStateDescriptor, ValueStateDescriptor
from beadline.common.typeinfo import Types
from beadline.errors import StateAccessError, VersionError
from beadline.state.access.backend import KeyedBackend
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, next_version, root_version


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
    backend = KeyedBackend("op")
    value = ValueStateDescriptor("value", Types.LONG())
    assert backend.state(value) is backend.state(value)
    with pytest.raises(StateAccessError, match="'value' is already registered by a ValueStateDescriptor"):
        backend.state(ListStateDescriptor("value", Types.LONG()))


def test_files_are_written_whole_and_read_in_part(tmp_path: Path) -> None:
    files = SegmentFiles(f"file://{tmp_path}")
    path = files.write("a.pack", b"0123456789")
    assert files.write("a.pack", b"0123456789") == path
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.pack"]
    assert files.read(SegmentRef("v", 1, 4, path=path, offset=3)) == b"3456"
    assert files.read(SegmentRef("v", 1, 2, inline=b"in")) == b"in"
    with pytest.raises(VersionError, match="is cut short: 1 bytes"):
        files.read(SegmentRef("v", 1, 4, path=path, offset=9))
    files.delete(path)
    files.delete(path)
    with pytest.raises(VersionError, match="can't read"):
        files.read(SegmentRef("v", 1, 4, path=path))
