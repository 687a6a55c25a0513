"""Merging segments slice by slice gives what merging them whole gives, and no slice is larger than it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common.typeinfo import Types
from beadline.errors import VersionError
from beadline.state.description import StateDescription
from beadline.state.key_groups import encode_key, key_group_of
from beadline.state.segments import merging
from beadline.state.segments import segment as segment_module
from beadline.state.segments.files import SegmentFiles, read_range, read_segment
from beadline.state.segments.merging import merged
from beadline.state.segments.segment import (
    SegmentContent,
    SegmentWriter,
    TableChanges,
    count_entries,
    decode_segment,
    encode_segment,
    merge_contents,
    without_expired,
    without_tombstones,
)
from beadline.state.segments.version import SegmentRef, checksum_of
from tests.state.parquet_files import encode_parquet

GROUPS = 8
TTL = 50
keys = st.one_of(st.integers(0, 12), st.sampled_from("abcdef"), st.tuples(st.integers(0, 3)))
times = st.lists(st.integers(0, 9), unique=True, max_size=3)
stamped = st.tuples(st.integers(0, 100), st.integers())
contents: st.SearchStrategy[SegmentContent] = st.fixed_dictionaries(
    {},
    optional={
        "value": st.dictionaries(keys, st.one_of(st.none(), st.integers())).map(
            lambda changes: TableChanges("value", False, changes)
        ),
        "old": st.dictionaries(keys, st.one_of(st.none(), stamped)).map(
            lambda changes: TableChanges("value", False, changes, TTL)
        ),
        "list": st.dictionaries(
            st.tuples(keys, st.integers(0, 1)), st.tuples(st.booleans(), st.lists(st.integers(), max_size=3))
        ).map(lambda changes: TableChanges("list", True, changes)),
        "map": st.dictionaries(
            keys,
            st.tuples(
                st.booleans(),
                st.dictionaries(st.integers(0, 4), st.integers(), max_size=3),
                st.lists(st.integers(0, 4)),
            ),
        ).map(lambda changes: TableChanges("map", False, changes)),
        "timer": st.dictionaries(keys, st.tuples(times, times)).map(
            lambda changes: TableChanges("timer", False, changes)
        ),
    },
)


def inline(content: SegmentContent, number: int = 0, **options: Any) -> SegmentRef:
    data = encode_segment(content, GROUPS, **options)
    return SegmentRef(f"v{number}", count_entries(content), len(data), inline=data)


def whole(segments: Sequence[SegmentRef], groups: range, from_root: bool, now: int | None) -> SegmentContent:
    """What merging was before there were slices."""
    content = merge_contents(
        decode_segment(segment.inline or b"", segment.restricted(groups).key_groups) for segment in segments
    )
    if from_root:
        content = without_tombstones(content)
        if now is not None:
            content = without_expired(content, now)
    return {name: table for name, table in content.items() if table.changes}


def gathered(parts: Any, seen: list[range] | None = None) -> SegmentContent:
    content: SegmentContent = {}
    last = 0
    for groups, part in parts:
        assert groups.start >= last, "slices come in the order of key groups"
        last = groups.start
        if seen is not None:
            seen.append(groups)
        for name, table in part.items():
            assert table.changes
            known = content.setdefault(name, replace(table, changes={})).changes
            for slot, change in table.changes.items():
                key = slot[0] if table.namespaced else slot
                assert key_group_of(key, GROUPS) in groups
                assert slot not in known, "an entry comes once"
                known[slot] = change
    return content


@given(
    st.lists(contents, max_size=4),
    st.sampled_from([1, 1500, 1 << 20]),
    st.tuples(st.integers(0, GROUPS), st.integers(0, GROUPS)).map(sorted),
    st.booleans(),
    st.sampled_from([None, 0, 120]),
    st.lists(st.none() | st.tuples(st.integers(0, GROUPS), st.integers(0, GROUPS)), min_size=4, max_size=4),
)
def test_slices_add_up_to_the_whole(
    several: list[SegmentContent],
    budget: int,
    groups: list[int],
    from_root: bool,
    now: int | None,
    counting: list[tuple[int, int] | None],
) -> None:
    segments = [inline(content, number, by_key=number == 0) for number, content in enumerate(several)]
    segments = [replace(segment, groups=counts) for segment, counts in zip(segments, counting, strict=False)]
    own = range(*groups)
    parts = merged(segments, own, budget, from_root=from_root, now=now)
    assert gathered(parts) == whole(segments, own, from_root, now)


@given(st.lists(contents, min_size=1, max_size=3), st.sampled_from([1, 1500, 1 << 20]))
def test_a_segment_written_by_slices_equals_one_written_at_once(several: list[SegmentContent], budget: int) -> None:
    segments = [inline(content, number) for number, content in enumerate(several)]
    pieces: list[bytes] = []
    writer = SegmentWriter(pieces.append, GROUPS, by_key=True)
    for _, content in merged(segments, range(GROUPS), budget):
        writer.add(content)
    writer.finish()
    expected = whole(segments, range(GROUPS), True, None)
    assert decode_segment(b"".join(pieces)) == expected
    assert writer.entries == count_entries(expected)


def test_only_its_own_key_groups_of_a_segment_count() -> None:
    every = {i: i for i in range(100)}
    segment = replace(inline({"v": TableChanges("value", False, every)}), groups=(2, 5))
    content = gathered(merged([segment], range(3, GROUPS)))
    assert content["v"].changes == {i: i for i in every if key_group_of(i, GROUPS) in (3, 4)}


def test_only_the_tables_that_are_asked_for_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {name: TableChanges("value", False, {i: bytes(100) for i in range(50)}) for name in "abc"}
    sizes: list[int] = []

    def counted(ref: SegmentRef, offset: int, size: int) -> bytes | memoryview:
        sizes.append(size)
        return read_range(ref, offset, size)

    monkeypatch.setattr(merging, "read_range", counted)
    segment = inline(content)
    found = gathered(merged([segment], range(GROUPS), tables={"b"}))
    assert found == {"b": content["b"]}
    assert sum(sizes) < segment.size / 2


def test_the_smaller_the_budget_the_more_slices() -> None:
    segment = inline({"v": TableChanges("value", False, {i: i for i in range(2000)})}, by_key=True)
    seen: dict[int, list[range]] = {}
    for budget in (1 << 20, 100_000, 1):
        seen[budget] = []
        gathered(merged([segment], range(GROUPS), budget), seen[budget])
    assert seen[1 << 20] == [range(GROUPS)]
    assert len(seen[1 << 20]) < len(seen[100_000]) < len(seen[1])


def test_one_large_key_group_comes_in_parts_in_the_order_of_its_keys() -> None:
    mine = [key for key in map("key-{}".format, range(40_000)) if key_group_of(key, GROUPS) == 3]
    base = inline({"v": TableChanges("value", False, dict.fromkeys(mine, 1))}, by_key=True)
    delta = inline({"v": TableChanges("value", False, {**dict.fromkeys(mine[::7], 2), **dict.fromkeys(mine[::11])})})
    largest, last, found = 0, b"", {}
    for groups, content in merged([base, delta], range(3, 4), 200_000):
        assert groups == range(3, 4)
        encoded = sorted(map(encode_key, content["v"].changes))
        assert encoded[0] > last
        last = encoded[-1]
        largest = max(largest, len(encoded))
        found.update(content["v"].changes)
    assert largest < len(mine) / 3
    assert found == whole([base, delta], range(3, 4), True, None)["v"].changes


def test_each_block_of_a_sorted_segment_is_read_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "_BLOCK_ENTRIES", 50)
    segment = inline({"v": TableChanges("value", False, {i: i for i in range(2000)})}, by_key=True)
    reads: list[int] = []

    def counted(ref: SegmentRef, offset: int, size: int) -> bytes | memoryview:
        reads.append(offset)
        return read_range(ref, offset, size)

    monkeypatch.setattr(merging, "read_range", counted)
    gathered(merged([segment], range(GROUPS), 100_000))
    assert len(reads) <= 40 + 6, "40 blocks, and the index"


def test_blocks_of_large_values_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {i: bytes(100_000) for i in range(100)}
    segment = inline({"v": TableChanges("value", False, values)})
    reads: list[int] = []

    def counted(ref: SegmentRef, offset: int, size: int) -> bytes | memoryview:
        reads.append(size)
        return read_range(ref, offset, size)

    monkeypatch.setattr(merging, "read_range", counted)
    content = gathered(merged([segment], range(GROUPS)))
    assert content["v"].changes == values
    assert max(reads) <= 4 << 20


def test_parquet_files_and_segments_merge(tmp_path: Any) -> None:
    table = TableChanges("value", False, {i: i for i in range(500)})
    data = encode_parquet(table, StateDescription("v", "value", '"LONG"'), Types.LONG(), GROUPS)
    base = SegmentRef("v0", 500, len(data), inline=data)
    delta = inline({"v": TableChanges("value", False, {7: None, 8: 800, 1000: 1})}, 1)
    content = gathered(merged([base, delta], range(GROUPS), 10_000))
    assert content["v"].changes == {**{i: i for i in range(500) if i != 7}, 8: 800, 1000: 1}


def test_a_draft_is_seen_only_under_its_name(tmp_path: Any) -> None:
    files = SegmentFiles(str(tmp_path))
    with files.draft() as draft:
        draft.write(b"some ")
        draft.write(b"bytes")
        ref = draft.store(f"{draft.digest}.run", "v1", 2)
    assert read_segment(ref) == b"some bytes"
    assert ref.checksum == checksum_of(b"some bytes")
    assert [entry.name for entry in tmp_path.iterdir()] == [f"{draft.digest}.run"]


def test_a_draft_that_is_never_published_leaves_nothing(tmp_path: Any) -> None:
    with SegmentFiles(str(tmp_path)).draft() as draft:
        draft.write(b"some")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_cut_short_is_named(tmp_path: Any) -> None:
    files = SegmentFiles(str(tmp_path))
    data = encode_segment({"v": TableChanges("value", False, {1: 1})}, GROUPS)
    ref = files.store("a.run", data, "v1", 1)
    (tmp_path / "a.run").write_bytes(data[:-3])
    with pytest.raises(VersionError, match=r"a\.run"):
        list(merged([ref], range(GROUPS)))
