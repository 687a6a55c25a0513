"""Canonical savepoints: what is exported is what was there, in files that a handle chains properly."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from beadline.checkpoint.contents import canonical
from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.storage.durable import Bundle, verify
from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import Types
from beadline.errors import VersionError
from beadline.runtime.short_tasks.exporting import Export, Exported, KeyedExport, export
from beadline.state.description import OPERATOR, StateDescription
from beadline.state.key_groups import key_group_of, key_group_range
from beadline.state.operator.handles import BROADCAST, LIST, UNION, OperatorStateHandle, StateContent, StateRef, decode
from beadline.state.operator.handles import encode as encode_state
from beadline.state.operator.handles import store as store_state
from beadline.state.segments import files as state_files
from beadline.state.segments import version as versions
from beadline.state.segments.files import SegmentFiles, entries_of, part_name, read_segment, safe_name
from beadline.state.segments.segment import SegmentContent, TableChanges, decode_segment, encode_segment, merge_contents
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, next_version, root_version
from tests.checkpoint.snapshots import JOB, place_in

MAX = 16
LONG, STRING = type_to_text(Types.LONG()), type_to_text(Types.STRING())
TOTAL = StateDescription("total", "value", LONG)


def subtask_of(key: Any, parallelism: int) -> int:
    group = key_group_of(key, MAX)
    return next(i for i in range(parallelism) if group in key_group_range(i, parallelism, MAX))


def keyed_operator(folder: str, keys: int = 200, parallelism: int = 2, inline: bool = False) -> OperatorSnapshot:
    """Counts ``total`` and a map ``names`` of keys, in three segments: set, changed, half of them removed again."""
    files = SegmentFiles(folder)
    handles = []
    for subtask in range(parallelism):
        mine = [key for key in range(keys) if subtask_of(key, parallelism) == subtask]
        handle = KeyedStateHandle(root_version(JOB, "count", key_group_range(subtask, parallelism, MAX)))
        for changes in (
            {"total": {key: key for key in mine}, "names": {key: (True, {"n": f"k{key}"}, []) for key in mine}},
            {"total": {key: key * 10 for key in mine if key % 3 == 0}},
            {"total": {key: None for key in mine if key % 2}},
        ):
            content = {
                name: TableChanges("map" if name == "names" else "value", False, dict(table))
                for name, table in changes.items()
            }
            data = encode_segment(content, MAX)
            version = next_version(handle.version, data)
            entries = sum(len(table) for table in changes.values())
            if inline:
                handle = handle.plus(SegmentRef(version, entries, len(data), inline=data))
            else:
                handle = handle.plus(files.store(f"{version}.run", data, version, entries))
        handles.append(handle)
    return OperatorSnapshot(
        "count",
        "count",
        parallelism,
        MAX,
        keyed=tuple(handles),
        key_type=LONG,
        state_descriptions=(TOTAL, StateDescription("names", "map", STRING, STRING)),
    )


def expected(keys: int = 200) -> dict[str, dict[int, Any]]:
    return {
        "total": {key: key * 10 if key % 3 == 0 else key for key in range(0, keys, 2)},
        "names": {key: (True, {"n": f"k{key}"}, []) for key in range(keys)},
    }


def snapshot_of(*operators: OperatorSnapshot) -> Snapshot:
    return Snapshot(7, JOB, "necklace", 70, 1_700_000_000_000, operators)


def exports_of(snapshot: Snapshot, folder: str) -> list[Export]:
    return [each for task in canonical.tasks_of(snapshot, folder) for each in task]


def fill(snapshot: Snapshot, bundle: Bundle) -> tuple[Snapshot, int]:
    """Everything twice, as Spark may do it."""
    exports = exports_of(snapshot, bundle.folder)
    results: list[Exported] = []
    for each in exports:
        export(each, 0)
        results.append(export(each, 0))
    made = canonical.take_in(snapshot, exports, results, bundle.published)
    canonical.settle(bundle.folder, made)
    return made, made.size


def contents(handle: KeyedStateHandle) -> SegmentContent:
    return merge_contents(
        decode_segment(read_segment(segment), segment.key_groups, repr(segment)) for segment in handle.segments
    )


@pytest.fixture
def storage(tmp_path: Path) -> FileJobStorage:
    return place_in(tmp_path / "checkpoints")


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PIECE_ENTRIES", 60)


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.usefixtures("small_tasks")
def test_what_is_exported_is_what_was_there(inline: bool, storage: FileJobStorage, tmp_path: Path) -> None:
    snapshot = snapshot_of(keyed_operator(storage.prepare(), inline=inline))
    stored = storage.write_savepoint(snapshot, str(tmp_path / "savepoints"), fill)
    shutil.rmtree(storage.folder)
    moved = shutil.move(stored.pointer, tmp_path / "moved")
    read = read_snapshot(str(moved))
    assert verify(read) == []
    found: dict[str, dict[int, Any]] = {"total": {}, "names": {}}
    for subtask, handle in enumerate(read.operators[0].keyed):
        assert handle is not None
        versions = [handle.root, *(segment.version for segment in handle.segments)]
        assert len(set(versions)) == len(versions), "every segment leads to a version of its own"
        for name, table in contents(handle).items():
            assert all(subtask_of(key, 2) == subtask for key in table.changes)
            found[name].update(table.changes)
    assert found == expected()
    assert all(str(path).startswith(str(moved)) for path in read.files())
    names = {os.path.relpath(path, moved).rpartition("/")[0] for path in read.files()}
    assert names == {"count/total", "count/names"}


@pytest.mark.usefixtures("small_tasks")
def test_segments_are_slices_of_key_groups_and_a_rescaled_job_reads_its_own(
    storage: FileJobStorage, tmp_path: Path
) -> None:
    from beadline.master.upkeep.truth import _rescaled

    operator = keyed_operator(storage.prepare())
    snapshot = snapshot_of(operator)
    read = storage.write_savepoint(snapshot, str(tmp_path), fill).snapshot.operators[0]
    for subtask, handle in enumerate(read.keyed):
        assert handle is not None
        slices = sorted({segment.groups for segment in handle.segments if segment.groups is not None})
        assert len(slices) > 2
        owned = key_group_range(subtask, 2, MAX)
        assert [start for start, _ in slices] == [owned.start, *(end for _, end in slices[:-1])]
        assert slices[-1][1] == owned.stop
    everything = {segment.path for segment in read.segments}
    total: dict[int, Any] = {}
    needed = []
    for subtask in range(5):
        groups = key_group_range(subtask, 5, MAX)
        handle = _rescaled(KeyedStateHandle(root_version(JOB, "count", groups)), groups, read)
        needed.append({segment.path for segment in handle.segments})
        total |= contents(handle)["total"].changes
    assert total == expected()["total"]
    assert set.union(*needed) == everything
    assert all(len(paths) < len(everything) / 2 for paths in needed), "nobody reads what others own"


def test_a_task_takes_on_a_bounded_part(storage: FileJobStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = snapshot_of(keyed_operator(storage.prepare(), keys=400))
    (one,) = canonical.tasks_of(snapshot, "/s")
    assert [each.groups for each in one if isinstance(each, KeyedExport)] == [(0, 8), (8, 16)]
    monkeypatch.setattr(versions, "PIECE_ENTRIES", 100)
    tasks = canonical.tasks_of(snapshot, "/s")
    entries = sum(segment.entries for segment in snapshot.segments)
    assert len(tasks) >= entries / 100
    for task in tasks:
        assert len(task) == 1
    monkeypatch.setattr(versions, "PIECE_BYTES", 1)
    groups = [each.groups for each in exports_of(snapshot, "/s") if isinstance(each, KeyedExport)]
    assert groups == [(group, group + 1) for group in range(MAX)], "no further than key groups"


def test_what_failed_tries_left_goes(storage: FileJobStorage, tmp_path: Path) -> None:
    snapshot = snapshot_of(keyed_operator(storage.prepare()))

    def messy(each: Snapshot, bundle: Bundle) -> tuple[Snapshot, int]:
        folder = Path(bundle.folder, "count", "total")
        folder.mkdir(parents=True)
        (folder / part_name(0, "e" * 32)).write_text("of a try that did not count")
        (folder / f".{part_name(0, 'f' * 32)}.12345678").write_text("half")
        (folder / ".draft.0123456789ab").write_text("half")
        return fill(each, bundle)

    stored = storage.write_savepoint(snapshot, str(tmp_path / "savepoints"), messy)
    found = {str(path) for path in Path(stored.pointer).rglob("*") if path.is_file()}
    assert found == stored.snapshot.files() | {f"{stored.pointer}/_metadata"}


def test_an_export_into_a_savepoint_that_was_given_up_makes_nothing(storage: FileJobStorage, tmp_path: Path) -> None:
    snapshot = snapshot_of(keyed_operator(storage.prepare()))
    for each in exports_of(snapshot, str(tmp_path / "gone")):
        with pytest.raises(VersionError, match="it was given up"):
            export(each, 0)
    assert not (tmp_path / "gone").exists()


def test_what_has_expired_is_left_out(storage: FileJobStorage, tmp_path: Path) -> None:
    description = StateDescription("living", "value", LONG, ttl_ms=100)
    content = {"living": TableChanges("value", False, {key: (key * 10, key) for key in range(40)}, 100)}
    data = encode_segment(content, MAX)
    handle = KeyedStateHandle("root", (SegmentRef("v", 40, len(data), inline=data),))
    operator = OperatorSnapshot("o", "o", 1, MAX, keyed=(handle,), key_type=LONG, state_descriptions=(description,))
    (each,) = exports_of(snapshot_of(operator), str(tmp_path))
    ((name, segment),) = export(each, now=250)
    assert name == "living"
    alive = decode_segment(read_segment(segment))["living"]
    assert alive.ttl_ms == 100
    assert sorted(alive.changes.values()) == [(time, time // 10) for time in range(160, 400, 10)]


def state(name: str, mode: str, items: list[Any], folder: str) -> StateRef:
    return StateRef(mode, (store_state(encode_state(StateContent(mode, items)), len(items), SegmentFiles(folder), 0),))


def test_operator_state_keeps_its_modes_and_parts(storage: FileJobStorage, tmp_path: Path) -> None:
    folder = storage.prepare()
    handles = tuple(
        OperatorStateHandle(
            {
                "split": state("split", LIST, [subtask, 7], folder),
                "all": state("all", UNION, [1], folder),
                "rules": state("rules", BROADCAST, [("a", 1), ("b", 2)], folder),
                "nothing": state("nothing", LIST, [], folder),
            }
        )
        for subtask in range(3)
    )
    operator = OperatorSnapshot(
        "op",
        "op",
        3,
        MAX,
        operator_state=handles,
        state_descriptions=(
            StateDescription("split", LIST, LONG, scope=OPERATOR),
            StateDescription("rules", BROADCAST, LONG, STRING, scope=OPERATOR),
        ),
    )
    stored = storage.write_savepoint(snapshot_of(operator), str(tmp_path / "savepoints"), fill)
    shutil.rmtree(storage.folder)
    read = read_snapshot(stored.pointer).operators[0]
    for subtask, handle in enumerate(read.operator_state):
        assert handle is not None
        assert handle.version == handles[subtask].version, "equal content has an equal version"
        found = {name: [decode(read_segment(part)).items for part in ref.parts] for name, ref in handle.states.items()}
        assert found == {"split": [[subtask, 7]], "all": [[1]], "rules": [[("a", 1), ("b", 2)]], "nothing": [[]]}
    count = {name: len(list(Path(stored.pointer, "op", name).iterdir())) for name in ("split", "all", "rules")}
    assert count == {"split": 3, "all": 3, "rules": 1}
    table = pq.read_table(Path(stored.pointer, "op", "split"))
    assert sorted(table.column("value").to_pylist()) == [0, 1, 2, 7, 7, 7]
    assert pq.read_table(Path(stored.pointer, "op", "rules")).select(["key", "value"]).to_pylist() == [
        {"key": "a", "value": 1},
        {"key": "b", "value": 2},
    ]


def test_keyed_and_operator_state_of_one_name_have_folders_of_their_own(
    storage: FileJobStorage, tmp_path: Path
) -> None:
    folder = storage.prepare()
    operator = replace(
        keyed_operator(folder, parallelism=1),
        operator_state=(OperatorStateHandle({"total": state("total", LIST, [1], folder)}),),
    )
    stored = storage.write_savepoint(snapshot_of(operator), str(tmp_path / "savepoints"), fill)
    assert sorted(entry.name for entry in entries_of(f"{stored.pointer}/count")) == ["names", "total", "total-keyed"]
    assert verify(read_snapshot(stored.pointer)) == []


def test_a_savepoint_without_state_is_one_file(storage: FileJobStorage, tmp_path: Path) -> None:
    operator = OperatorSnapshot("source", "source", 1, MAX, position={"offset": 3}, keyed=(KeyedStateHandle("r"), None))
    stored = storage.write_savepoint(snapshot_of(operator), str(tmp_path / "savepoints"), fill)
    assert os.listdir(stored.pointer) == ["_metadata"]
    assert read_snapshot(stored.pointer).operators == (operator,)


@pytest.fixture
def remote() -> Iterator[FileJobStorage]:
    state_files._file_system.cache_clear()
    yield place_in(f"mock:///{uuid.uuid4().hex}/checkpoints")
    state_files._file_system.cache_clear()


def test_the_same_on_a_remote_file_system(remote: FileJobStorage) -> None:
    directory = state_files.parent(remote.folder)
    stored = remote.write_savepoint(snapshot_of(keyed_operator(remote.prepare())), directory, fill)
    read = remote.read(stored.pointer)
    assert verify(read) == []
    found: dict[int, Any] = {}
    for handle in read.operators[0].keyed:
        assert handle is not None
        found |= contents(handle)["total"].changes
    assert found == expected()["total"]
    remote.discard(stored.pointer)
    assert entries_of(stored.pointer) == []


@pytest.mark.parametrize("name", ["total", "a.b-c_1", "x" * 100])
def test_safe_names_stay_as_they_are(name: str) -> None:
    assert safe_name(name) == name


def test_other_names_are_made_safe_and_kept_apart() -> None:
    names = [
        "a b",
        "a/b",
        "../a",
        "_hidden",
        ".hidden",
        "a=b",
        "",
        "é",
        "日本",
        "x" * 101,
        "x" * 102,
        "a-b",
        "A B",
        "a.",
    ]
    safe = [safe_name(name) for name in names]
    assert len(set(safe)) == len(names)
    for name in safe:
        assert name[0].isalnum()
        assert "=" not in name
        assert "/" not in name
        assert len(name) <= 110
