"""The durable form of state: what goes in comes out, and damage is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.api.state_descriptors import ListStateDescriptor, ValueStateDescriptor
from beadline.common.typeinfo import Types
from beadline.errors import StateAccessError, VersionError
from beadline.state.access.backend import KeyedBackend
from beadline.state.key_groups import BoxedKey, encode_key, key_group_of, key_group_range
from beadline.state.segments import segment as segment_module
from beadline.state.segments.files import SegmentFiles, delete_file, read_segment
from beadline.state.segments.segment import CODECS, TableChanges, count_entries, decode_segment, encode_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, next_version, root_version

GROUPS = 16


def values(changes: dict[Any, Any], namespaced: bool = False) -> dict[str, TableChanges]:
    return {"v": TableChanges("value", namespaced, changes)}


SAMPLE = {**values({f"key-{i}": i for i in range(50)}), "l": TableChanges("list", False, {"a": (True, [1])})}


def test_nothing_changed_is_no_bytes() -> None:
    assert encode_segment({}, GROUPS) == b""
    assert encode_segment(values({}), GROUPS) == b""
    assert decode_segment(b"") == {}


keys = st.one_of(st.integers(), st.text(max_size=5), st.tuples(st.integers(), st.text(max_size=2)))


@given(st.dictionaries(keys, st.integers(), min_size=1), st.integers(1, 5))
def test_a_segment_is_read_whole_or_by_key_group(changes: dict[Any, Any], parallelism: int) -> None:
    data = encode_segment(values(changes), GROUPS)
    assert decode_segment(data) == values(changes)
    gathered: dict[Any, Any] = {}
    for subtask in range(parallelism):
        own = key_group_range(subtask, parallelism, GROUPS)
        part = decode_segment(data, own).get("v")
        if part is not None:
            assert all(key_group_of(key, GROUPS) in own for key in part.changes)
            gathered.update(part.changes)
    assert gathered == changes


def test_blocks_outside_of_the_range_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "_BLOCK_ENTRIES", 4)
    data = encode_segment(values({f"key-{i}": i for i in range(100)}), GROUPS)
    whole = decode_segment(data)["v"].changes
    decoded = []
    loads = segment_module.loads
    monkeypatch.setattr(segment_module, "loads", lambda block: decoded.append(1) or loads(block))
    part = decode_segment(data, range(4))["v"].changes
    assert part == {k: v for k, v in whole.items() if key_group_of(k, GROUPS) < 4}
    assert len(decoded) < 12, "25 blocks hold everything, a quarter of the groups needs few of them"


def test_slots_with_namespaces_are_placed_by_their_key() -> None:
    changes = {("a", "w1"): 1, ("a", "w2"): 2, ("b", "w1"): 3}
    data = encode_segment(values(changes, namespaced=True), GROUPS)
    assert decode_segment(data)["v"] == TableChanges("value", True, changes)
    group = key_group_of("a", GROUPS)
    found = decode_segment(data, range(group, group + 1))["v"].changes
    assert {("a", "w1"), ("a", "w2")} <= found.keys()


def test_boxed_keys_travel() -> None:
    key = BoxedKey([1], encode_key("stands for it"))
    assert decode_segment(encode_segment(values({key: 1}), GROUPS)) == values({key: 1})


def test_equal_changes_make_equal_bytes_in_whatever_order_when_sorted_by_key() -> None:
    forwards = {i: i for i in range(20)}
    backwards = {i: i for i in reversed(range(20))}
    assert encode_segment(values(forwards), GROUPS, by_key=True) == encode_segment(
        values(backwards), GROUPS, by_key=True
    )
    assert decode_segment(encode_segment(values(forwards), GROUPS)) == decode_segment(
        encode_segment(values(backwards), GROUPS)
    )


def test_entries_are_counted() -> None:
    assert count_entries(SAMPLE) == 51


@pytest.mark.parametrize("position", range(0, len(encode_segment(SAMPLE, GROUPS)), 7))
def test_every_flipped_byte_is_noticed(position: int) -> None:
    data = bytearray(encode_segment(SAMPLE, GROUPS))
    data[position] ^= 0x41
    with pytest.raises(VersionError, match="my segment"):
        decode_segment(bytes(data), where="my segment")


@pytest.mark.parametrize("length", [1, 8, 16, 31, 32, 200])
def test_a_segment_that_is_cut_short_is_noticed(length: int) -> None:
    data = encode_segment(SAMPLE, GROUPS)
    with pytest.raises(VersionError):
        decode_segment(data[:length])
    with pytest.raises(VersionError):
        decode_segment(data[length:])


# -- compressed blocks


CONTENT = {"count": TableChanges("value", False, {f"key {i}": i % 7 for i in range(20_000)})}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("by_key", [True, False])
def test_a_compressed_segment_reads_like_any_other(codec: str, by_key: bool) -> None:
    plain, compressed = encode_segment(CONTENT, 128, by_key), encode_segment(CONTENT, 128, by_key, codec)
    assert decode_segment(compressed) == decode_segment(plain) == CONTENT
    assert decode_segment(compressed, range(10, 20)) == decode_segment(plain, range(10, 20))
    assert len(compressed) < len(plain) / 2
    assert encode_segment({}, 128, codec=codec) == b""


def test_damage_and_unknown_codecs_are_named() -> None:
    data = encode_segment(CONTENT, 128, codec="lz4")
    damaged = bytearray(data)
    damaged[500] ^= 1
    with pytest.raises(VersionError, match="checksum of table 'count'"):
        decode_segment(bytes(damaged))
    other = encode_segment(CONTENT, 128, codec="gzip")
    with pytest.raises(VersionError, match="a segment is compressed with 'gzip', and this Beadline knows lz4 and zstd"):
        decode_segment(other)


# -- handles, versions and files


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
    assert read_segment(SegmentRef("v", 1, 4, path=path, offset=3)) == b"3456"
    assert read_segment(SegmentRef("v", 1, 2, inline=b"in")) == b"in"
    with pytest.raises(VersionError, match="is cut short: 1 bytes"):
        read_segment(SegmentRef("v", 1, 4, path=path, offset=9))
    delete_file(path)
    delete_file(path)
    with pytest.raises(VersionError, match="can't read"):
        read_segment(SegmentRef("v", 1, 4, path=path))
