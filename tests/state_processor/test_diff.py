"""Two snapshots compared: what changed, from what to what, and how little is read for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot, SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.common import Types
from beadline.common.type_description import type_to_text
from beadline.state.description import StateDescription
from beadline.state.key_groups import key_group_of, key_group_range
from beadline.state.segments import files, merging
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.segment import TableChanges, encode_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, next_version, root_version
from beadline.state_processor import slices
from beadline.testing import KeyedHarness
from tests.state_processor.functions import Forgetful
from tests.state_processor.local import keep, reader, rows, save, shop

ORDERS = [(f"c{n}", "tea", n % 3 + 1) for n in range(100)]


def test_added_removed_and_changed(tmp_path: Path) -> None:
    with shop(4, 128) as harness:
        harness.push_all(ORDERS)
        older = save(harness, tmp_path / "older")
        harness.push_all([("c5", "milk", 4), ("c6", "", 0), ("new", "milk", 1), ("gone", "milk", 1), ("gone", "", 0)])
        newer = save(harness, tmp_path / "newer")
    found = reader(newer)
    assert rows(found.diff(older, "function", "pieces")) == [
        ("c5", "changed", 3, 7),
        ("c6", "removed", 1, None),
        ("new", "added", None, 1),
    ]
    assert rows(found.diff(older, "function", "items")) == [
        ("c5", "changed", ["tea"], ["tea", "milk"]),
        ("c6", "removed", ["tea"], None),
        ("new", "added", None, ["milk"]),
    ]
    assert rows(reader(older).diff(newer, "function", "pieces")) == [
        ("c5", "changed", 7, 3),
        ("c6", "added", None, 1),
        ("new", "removed", 1, None),
    ]


def test_equal_snapshots_need_no_task(tmp_path: Path) -> None:
    with shop(4, 128) as harness:
        harness.push_all(ORDERS)
        older, newer = save(harness, tmp_path / "older"), save(harness, tmp_path / "newer")
        harness.push(("c5", "milk", 4))
        one = save(harness, tmp_path / "one")
    found = reader(newer)
    assert rows(found.diff(older, "function", "pieces")) == []
    assert found._tasks.pieces == 0
    found = reader(one)
    assert rows(found.diff(older, "function", "pieces")) == [("c5", "changed", 3, 7)]
    assert found._tasks.pieces == 1  # of four subtasks


def test_a_value_written_again_is_no_change(tmp_path: Path) -> None:
    with KeyedHarness(Forgetful(), lambda pair: pair[0], key_type=Types.STRING()) as harness:
        harness.push_all([("a", 1), ("b", 2)])
        older = save(harness, tmp_path / "older")
        harness.advance_processing_time(1000)
        harness.push_all([("a", 1), ("b", 3)])
        found = reader(save(harness, tmp_path / "newer"))
    assert rows(found.diff(older, "function", "value")) == [("b", "changed", 2, 3)]
    assert rows(found.diff(older, "function", "list")) == [
        ("a", "changed", [1], [1, 1]),
        ("b", "changed", [2], [2, 3]),
    ]


@pytest.mark.parametrize("parallelism", [1, 3, 8])
def test_across_a_rescaling(tmp_path: Path, parallelism: int) -> None:
    with shop(4, 128) as harness:
        harness.push_all(ORDERS)
        older = save(harness, tmp_path / "older")
        harness.rescale(parallelism)
        harness.push_all([("c7", "milk", 4), ("c8", "", 0)])
        found = reader(save(harness, tmp_path / "newer"))
    assert rows(found.diff(older, "function", "pieces")) == [("c7", "changed", 2, 6), ("c8", "removed", 3, None)]


def test_snapshots_that_share_nothing(tmp_path: Path) -> None:
    paths = []
    for name, factor in (("older", 1), ("newer", 2)):
        with shop(4, 128) as harness:
            harness.push_all([(customer, item, factor * pieces) for customer, item, pieces in ORDERS])
            paths.append(save(harness, tmp_path / name))
    found = rows(reader(paths[1]).diff(paths[0], "function", "pieces"))
    assert found == sorted((customer, "changed", n, 2 * n) for customer, _, n in ORDERS)


deltas = st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.none() | st.integers(0, 3), min_size=1), max_size=4)


@given(deltas, deltas, deltas, st.integers(1, 5), st.integers(1, 5))
def test_any_two_snapshots(
    shared: list[dict[str, int | None]],
    before: list[dict[str, int | None]],
    after: list[dict[str, int | None]],
    old_parallelism: int,
    new_parallelism: int,
) -> None:
    """Some segments are shared, some are not, and the state may have been dealt out to other subtasks in between."""
    older = in_memory([*shared, *before], old_parallelism)
    newer = in_memory([*shared, *after], new_parallelism)
    found = {
        slot: (old, new)
        for pair in slices.pairs_of(older, newer, 2)
        for slot, old, new in slices.differences(pair, "count")
    }
    old, new = contents([*shared, *before]), contents([*shared, *after])
    assert found == {k: (old.get(k), new.get(k)) for k in {*old, *new} if old.get(k) != new.get(k)}


def contents(changes: list[dict[str, int | None]]) -> dict[str, int]:
    held: dict[str, int | None] = {}
    for change in changes:
        held.update(change)
    return {key: value for key, value in held.items() if value is not None}


def in_memory(changes: list[dict[str, int | None]], parallelism: int) -> OperatorSnapshot:
    handles = []
    for subtask in range(parallelism):
        groups = key_group_range(subtask, parallelism, 16)
        handle = KeyedStateHandle(root_version("job", "counter", groups))
        for change in changes:
            own = {key: value for key, value in change.items() if key_group_of(key, 16) in groups}
            if own:
                data = encode_segment({"count": TableChanges("value", False, dict(own))}, 16)
                handle = handle.plus(SegmentRef(next_version(handle.version, data), len(own), len(data), inline=data))
        handles.append(handle)
    return OperatorSnapshot("counter", "count", parallelism, 16, keyed=tuple(handles))


# -- how much is read


def snapshot(folder: Path, number: int, changes: list[dict[str, int | None]]) -> str:
    """One subtask whose state is a large segment in a file and small ones behind it."""
    groups = key_group_range(0, 1, 128)
    handle = KeyedStateHandle(root_version("job", "counter", groups))
    store = SegmentFiles(str(folder))
    for change in changes:
        data = encode_segment({"count": TableChanges("value", False, dict(change))}, 128, by_key=True)
        version = next_version(handle.version, data)
        handle = handle.plus(store.store(f"{version}.run", data, version, len(change)))
    state = StateDescription("count", "value", type_to_text(Types.LONG()))
    operator = OperatorSnapshot(
        "counter", "count", 1, 128, keyed=(handle,), state_descriptions=(state,), key_type=type_to_text(Types.STRING())
    )
    return keep(Snapshot(number, "job", "job", number, 0, (operator,)), folder / f"chk-{number}")


def test_only_the_key_groups_of_touched_keys_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base: dict[str, int | None] = {f"k{i}": i for i in range(150_000)}
    older = snapshot(tmp_path, 1, [base])
    newer = snapshot(tmp_path, 2, [base, {"k7": -7, "k8": None}])
    size = max(segment.size for segment in read_snapshot(older).segments)
    read = 0

    def counting(segment: Any, offset: int, length: int) -> Any:
        nonlocal read
        read += length
        return files.read_range(segment, offset, length)

    for module in (slices, merging):
        monkeypatch.setattr(module, "read_range", counting)
    found = rows(reader(newer).diff(older, "counter", "count"))
    assert found == [("k7", "changed", 7, -7), ("k8", "removed", 8, None)]
    assert key_group_of("k7", 128) != key_group_of("k8", 128)
    assert read < size / 2  # of both snapshots together, and each of them has all of it


def test_a_merge_between_the_two_changes_nothing(tmp_path: Path) -> None:
    base: dict[str, int | None] = {f"k{i}": i for i in range(1000)}
    older = snapshot(tmp_path, 1, [base, {"k1": 10}])
    newer = snapshot(tmp_path, 2, [base, {"k1": 10}, {"k2": 20}])
    merged = replace(read_snapshot(newer), checkpoint_id=3)
    (operator,) = merged.operators
    (handle,) = operator.keyed
    assert handle is not None
    _, second, _ = handle.segments
    data = encode_segment({"count": TableChanges("value", False, {**base, "k1": 10})}, 128)
    whole = SegmentFiles(str(tmp_path)).store(f"{0:032x}.run", data, second.version, 1000)
    changed = handle.replacing(0, 2, whole)
    merged = replace(merged, operators=(replace(operator, keyed=(changed,)),))
    found = reader(keep(merged, tmp_path / "chk-3"))
    assert rows(found.diff(older, "counter", "count")) == [("k2", "changed", 2, 20)]
    assert rows(found.diff(newer, "counter", "count")) == []
    assert found._tasks.pieces == 0


# -- what can't be compared


def test_what_can_not_be_compared(tmp_path: Path) -> None:
    one, other = snapshot(tmp_path, 1, [{"a": 1}]), read_snapshot(snapshot(tmp_path, 2, [{"a": 2}]))
    (operator,) = other.operators
    more = keep(replace(other, operators=(replace(operator, max_parallelism=64),)), tmp_path / "more")
    with pytest.raises(SnapshotError, match=r"has max parallelism 128 in .* and 64 in"):
        reader(more).diff(one, "counter", "count")
    state = replace(operator.state_descriptions[0], kind="list")
    listed = keep(replace(other, operators=(replace(operator, state_descriptions=(state,)),)), tmp_path / "listed")
    with pytest.raises(SnapshotError, match=r"is a value state in .* and a list state in"):
        reader(listed).diff(one, "counter", "count")
