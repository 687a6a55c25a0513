"""The driver's book of state over thousands of steps."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from beadline.graph.plan import Plan
from beadline.master.upkeep import tiers
from beadline.master.upkeep.handles import StateBook
from beadline.runtime.messages import MergeRequest, MergeResult
from beadline.state.key_groups import key_group_of
from beadline.state.operator.handles import OperatorStateHandle, StateRef
from beadline.state.segments import version as versions
from beadline.state.segments.files import SegmentFiles, delete_file, read_segment
from beadline.state.segments.merging import merged
from beadline.state.segments.segment import (
    TableChanges,
    count_entries,
    decode_segment,
    encode_segment,
    merge_contents,
    without_tombstones,
)
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, layers_of, next_version
from beadline.state.store import open_store
from tests.graph.programs import Program, by, same


@pytest.fixture
def plan() -> Plan:
    program = Program()
    program.function("reduce", max, (program.source(), by(same)), max_parallelism=8)
    return program.plan(parallelism=2)


class Fleet:
    """A book, its files, and the truth about one subtask."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.files = SegmentFiles(str(folder))
        self.folder = folder
        self.book = StateBook("job", plan, self.files)
        self.truth: dict[str, dict[str, object]] = {"0": {}, "1": {}}
        self.step = 0

    def seal(self, subtask: int, changes: dict[str, object], to_file: bool = False) -> None:
        self.step += 1
        handle = self.book.handles[2, subtask]
        data = encode_segment({"v": TableChanges("value", False, dict(changes))}, 8)
        version = next_version(handle.version, data)
        if to_file:
            segment = SegmentRef(version, len(changes), len(data), path=self.files.write(f"{version}.run", data))
        else:
            segment = SegmentRef(version, len(changes), len(data), inline=data)
        self.book.advance([((2, subtask), segment)])
        truth = self.truth[str(subtask)]
        truth.update(changes)
        self.truth[str(subtask)] = {key: value for key, value in truth.items() if value is not None}

    def merge(self, request: MergeRequest) -> MergeResult:
        content = merge_contents(decode_segment(read_segment(segment)) for segment in request.segments)
        if request.from_root:
            content = without_tombstones(content)
        data = encode_segment(content, request.max_parallelism)
        path = self.files.write(f"{self.step}-{request.subtask}.merged", data)
        return MergeResult(request, SegmentRef("", count_entries(content), len(data), path=path))

    def tidy(self) -> int:
        self.book.take_merges([self.merge(request) for request in self.book.merges()])
        return self.drop_garbage()

    def drop_garbage(self, needed: frozenset[str] = frozenset()) -> int:
        garbage = self.book.garbage(needed)
        for path in garbage:
            delete_file(path)
        return len(garbage)

    def check(self, subtask: int) -> None:
        store = open_store(None, self.book.handles[2, subtask], range(8))
        assert store.table("v", "value").base == self.truth[str(subtask)]

    def on_disk(self) -> set[str]:
        return {str(path) for path in self.folder.iterdir()}

    def named(self) -> set[str]:
        return {
            segment.path
            for handle in self.book.handles.values()
            for segment in handle.segments
            if segment.path is not None
        }


@pytest.fixture
def fleet(plan: Plan, tmp_path: Path) -> Fleet:
    return Fleet(plan, tmp_path)


def test_only_keyed_subtasks_have_state(fleet: Fleet) -> None:
    assert fleet.book.handles.keys() == {(2, 0), (2, 1)}
    assert fleet.book.handles[2, 0].root != fleet.book.handles[2, 1].root


def test_small_segments_ride_along_until_they_are_many(fleet: Fleet) -> None:
    for number in range(8):
        fleet.seal(0, {"k": number})
        fleet.seal(1, {"k": -number})
    assert fleet.on_disk() == set()
    versions = [segment.version for segment in fleet.book.handles[2, 0].segments]
    fleet.seal(0, {"k": "the ninth"})
    assert len(fleet.on_disk()) == 1, "one file for all subtasks"
    assert all(segment.inline is None for handle in fleet.book.handles.values() for segment in handle.segments)
    assert [segment.version for segment in fleet.book.handles[2, 0].segments][:8] == versions
    fleet.check(0)
    fleet.check(1)


def test_small_segments_are_packed_when_they_are_large_together(fleet: Fleet) -> None:
    fleet.seal(0, {"k": "x" * 10_000})
    assert fleet.on_disk() == set()
    fleet.seal(0, {"k": "y" * 10_000})
    assert len(fleet.on_disk()) == 1
    fleet.check(0)


def test_merges_are_asked_for_when_segments_are_many(fleet: Fleet) -> None:
    for number in range(13):
        fleet.seal(0, {f"k{number}": number}, to_file=True)
    assert fleet.book.merges() == []
    fleet.seal(0, {"k": 1}, to_file=True)
    (request,) = fleet.book.merges()
    assert (request.node, request.subtask, len(request.segments), request.from_root) == (2, 0, 10, True)
    assert [segment.path for segment in request.segments] == [
        segment.path for segment in fleet.book.handles[2, 0].segments[:10]
    ]


def test_a_merge_of_segments_that_are_gone_is_garbage(fleet: Fleet) -> None:
    for number in range(14):
        fleet.seal(0, {f"k{number}": number}, to_file=True)
    request = fleet.book.merges()[0]
    first, fleet.step = fleet.merge(request), 1000
    second = fleet.merge(request)
    fleet.book.take_merges([first, second])
    before = fleet.book.handles[2, 0]
    assert before.segments[0].path in (first.segment.path, second.segment.path)
    assert fleet.drop_garbage() == 11
    assert fleet.on_disk() == fleet.named()
    fleet.check(0)


def test_garbage_is_only_what_no_handle_names(fleet: Fleet) -> None:
    """Both subtasks' segments lie in one pack; it stays until neither needs it."""
    for number in range(9):
        fleet.seal(1, {"k": number})
        fleet.seal(0, {"k": number})
    packs = fleet.on_disk()
    for number in range(40):
        fleet.seal(0, {"k": number}, to_file=True)
        fleet.tidy()
        fleet.check(1)
    assert packs & fleet.on_disk() == packs & fleet.named() != set()
    for number in range(40):
        fleet.seal(1, {"k": number}, to_file=True)
        fleet.tidy()
    assert not packs & fleet.on_disk()
    assert fleet.on_disk() == fleet.named()


def test_what_checkpoints_need_is_garbage_later(fleet: Fleet) -> None:
    for number in range(14):
        fleet.seal(0, {f"k{number}": number}, to_file=True)
    needed = frozenset(fleet.named())
    fleet.book.take_merges([fleet.merge(request) for request in fleet.book.merges()])
    old = needed - fleet.named()
    assert len(old) == 10
    assert fleet.book.garbage(needed) == set()
    assert fleet.book.garbage(frozenset(list(old)[:3])) == set(list(old)[3:])
    assert fleet.book.garbage() == set(list(old)[:3])
    assert fleet.book.garbage() == set(), "each once"


def test_files_of_a_restored_job_become_garbage_once_they_are_owned(plan: Plan, fleet: Fleet) -> None:
    fleet.seal(0, {"k": 1}, to_file=True)
    foreign = fleet.named()
    restored = StateBook("job", plan, fleet.files)
    restored.handles.update(fleet.book.handles)
    assert restored.live_files() == foreign
    restored.handles[2, 0] = StateBook("job", plan, fleet.files).handles[2, 0]
    assert restored.garbage() == set(), "not its own"
    restored.own(foreign)
    assert restored.garbage(frozenset(foreign)) == set()
    assert restored.garbage() == foreign


def test_packed_segments_keep_their_key_groups(fleet: Fleet) -> None:
    fleet.seal(0, {"k": 1})
    (segment,) = fleet.book.handles[2, 0].segments
    fleet.book.handles[2, 0] = KeyedStateHandle(fleet.book.handles[2, 0].root, (segment.restricted(range(3, 5)),))
    for number in range(9):
        fleet.seal(0, {"k": number})
    packed = fleet.book.handles[2, 0].segments[0]
    assert packed.path is not None
    assert packed.groups == (3, 5)


@pytest.mark.parametrize("shape", ["steady", "bursts", "few keys", "large"])
def test_chains_stay_short_over_thousands_of_steps(fleet: Fleet, shape: str) -> None:
    """And what a worker that missed a few steps stands at is still there."""
    chance = random.Random(shape)
    recent: list[str] = []
    longest = 0
    steps = 400 if shape == "large" else 2000
    for number in range(steps):
        count = chance.choice({"steady": [5], "bursts": [1, 1, 200], "few keys": [1], "large": [400]}[shape])
        names = [str(chance.randrange(3 if shape == "few keys" else 3000)) for _ in range(count)]
        changes: dict[str, object] = {name: None if chance.random() < 0.2 else number for name in names}
        fleet.seal(0, changes, to_file=shape == "large")
        handle = fleet.book.handles[2, 0]
        recent.append(handle.version)
        for version in recent[-4:]:
            assert handle.after(version) is not None
        longest = max(longest, len(handle.segments))
        if number % 3 == 0:
            fleet.tidy()
            after = fleet.book.handles[2, 0]
            assert all(after.after(version) is not None for version in recent[-4:])
    assert longest < 60
    fleet.tidy()
    fleet.check(0)
    assert fleet.on_disk() == fleet.named()


def test_a_large_segment_is_not_rewritten_for_a_small_change(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_SMALL", 1 << 7)
    fleet.seal(0, {str(number): f"{number:050}" for number in range(2000)}, to_file=True)
    base = fleet.book.handles[2, 0].segments[0]
    written = 0
    for number in range(200):
        fleet.seal(0, {str(number): None if number % 3 == 0 else number}, to_file=True)
        for request in fleet.book.merges():
            result = fleet.merge(request)
            written += result.segment.size
            fleet.book.take_merges([result])
        fleet.drop_garbage()
    assert fleet.book.handles[2, 0].segments[0] == base
    assert written < base.size
    fleet.check(0)


def test_repr_and_size(fleet: Fleet) -> None:
    fleet.seal(0, {"k": 1}, to_file=True)
    size = fleet.book.handles[2, 0].segments[0].size
    assert repr(fleet.book) == f"<StateBook of 2 subtasks, {size} bytes in 1 files>"


def test_operator_state_that_did_not_change_is_not_the_jobs_to_delete(plan: Plan, tmp_path: Path) -> None:
    """A subtask tells all its states, also those that still lie in the savepoint the job was restored from."""
    files = SegmentFiles(str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    (tmp_path / "theirs").mkdir()
    theirs = SegmentFiles(str(tmp_path / "theirs")).store(f"{1:032x}.state", b"theirs", "v1", 1)
    before, after = (files.store(f"{n:032x}.state", b"ours", f"v{n}", 1) for n in (2, 3))
    book = StateBook("job", plan, files)
    for segment in (before, after):
        handle = OperatorStateHandle({"changing": StateRef("list", (segment,)), "still": StateRef("list", (theirs,))})
        book.advance_states([((1, 0), handle)])
    assert book.garbage() == {before.path}
    book.states.clear()
    assert book.garbage() == {after.path}


def merge_part(fleet: Fleet, request: MergeRequest) -> MergeResult:
    """As a worker does it."""
    groups = range(request.max_parallelism) if request.groups is None else range(*request.groups)
    content: dict[str, TableChanges] = {}
    for _, part in merged(request.segments, groups, from_root=request.from_root):
        for name, table in part.items():
            known = content.setdefault(name, replace(table, changes={}))
            known.changes.update(table.changes)
    data = encode_segment(content, 8, by_key=True)
    segment = fleet.files.store(f"{uuid.uuid4().hex}.run", data, "", count_entries(content))
    return MergeResult(request, replace(segment, groups=request.groups))


def test_large_merges_are_cut_into_slices_that_make_one_layer(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PIECE_ENTRIES", 100)
    monkeypatch.setattr(tiers, "_SMALL", 1 << 7)
    mine = [key for key in map(str, range(3000)) if key_group_of(key, 8) < 4]
    dice = random.Random(3)
    cut = 0
    for _ in range(120):
        changes = {key: dice.choice([None, 1, 2, 3]) for key in dice.sample(mine, 40)}
        fleet.seal(0, dict(changes), to_file=True)
        recent = [segment.version for segment in fleet.book.handles[2, 0].segments[-4:]]
        results = [merge_part(fleet, request) for request in fleet.book.merges()]
        if len(results) > 1:
            cut += 1
            (layer,) = layers_of([result.segment for result in results])
            assert [group for segment in layer for group in segment.key_groups or ()] == [0, 1, 2, 3]
        fleet.book.take_merges(results)
        handle = fleet.book.handles[2, 0]
        assert all(handle.after(version) is not None for version in recent)
        assert len(layers_of(handle.segments)) < 40
        fleet.drop_garbage()
        fleet.check(0)
    assert cut > 3
    assert fleet.on_disk() == fleet.named()


def test_the_tables_of_a_savepoint_are_not_merged_for_a_small_change(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table lies in several files side by side, which are one layer."""
    monkeypatch.setattr(tiers, "_SMALL", 0)
    keys = [key for key in map(str, range(4000)) if key_group_of(key, 8) < 4]
    handle = fleet.book.handles[2, 0]
    for group in range(4):
        table = TableChanges("value", False, {key: key * 9 for key in keys if key_group_of(key, 8) == group})
        data = encode_segment({"v": table}, 8, by_key=True)
        segment = fleet.files.store(f"base-{group}", data, f"base {group}", len(table.changes))
        handle = handle.plus(replace(segment, groups=(group, group + 1)))
    fleet.book.handles[2, 0] = handle
    fleet.truth["0"] = {key: key * 9 for key in keys}
    for number in range(30):
        fleet.seal(0, {keys[number]: number}, to_file=True)
        fleet.book.take_merges([merge_part(fleet, request) for request in fleet.book.merges()])
    assert fleet.book.handles[2, 0].segments[:4] == handle.segments
    assert len(fleet.book.handles[2, 0].segments) < 20
    fleet.check(0)
