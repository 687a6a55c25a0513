"""State of changed types is rewritten from a snapshot: every kind of table, times to live, operator state, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beadline.api.state_descriptors import StateMigration
from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.common import Row
from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import TypeInformation, Types
from beadline.errors import StateMismatchError
from beadline.master.upgrade.comparison import Migration
from beadline.master.upgrade.migration import migrated
from beadline.runtime.messages import RunContext
from beadline.runtime.short_tasks import migrating
from beadline.state import codec
from beadline.state.codec import freeze, thaw
from beadline.state.description import OPERATOR, StateDescription
from beadline.state.key_groups import key_group_of, key_group_range
from beadline.state.operator.handles import (
    BROADCAST,
    LIST,
    UNION,
    OperatorStateHandle,
    StateContent,
    StateRef,
    encode,
    read_ref,
    store,
)
from beadline.state.segments.files import SegmentFiles, read_segment
from beadline.state.segments.segment import SegmentContent, TableChanges, decode_segment, encode_segment, merge_contents
from beadline.state.segments.version import KeyedStateHandle, next_version, root_version

MAX = 16
NOW = 5000
INT, DOUBLE, STRING = Types.INT(), Types.DOUBLE(), Types.STRING()


@dataclass
class Account:
    owner: str
    cents: int
    tags: list[str] = field(default_factory=list)


class Stage:
    """A snapshot of one operator in a folder, and workers that are plain calls."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files = SegmentFiles(str(folder))
        self.folder = folder
        self.context = RunContext("run", state_root=str(folder), inline_limit=100)
        self.requests: list[Any] = []
        monkeypatch.setattr(migrating.worker, "enter_execution", lambda *_: SimpleNamespace(files=self.files))
        monkeypatch.setattr(codec, "_job_modules", {"__main__", __name__})

    def handle(self, subtask: int, parallelism: int, contents: Sequence[SegmentContent]) -> KeyedStateHandle:
        groups = key_group_range(subtask, parallelism, MAX)
        handle = KeyedStateHandle(root_version("job", "op", groups))
        for content in contents:
            mine = {name: replace(table, changes=_within(table, groups)) for name, table in content.items()}
            data = encode_segment(mine, MAX)
            version = next_version(handle.version, data)
            handle = handle.plus(self.files.store(f"{version}.run", data, version, 1))
        return handle

    def keyed(self, *contents: SegmentContent, parallelism: int = 2, **more: Any) -> Snapshot:
        handles = tuple(self.handle(subtask, parallelism, contents) for subtask in range(parallelism))
        return snapshot_of(OperatorSnapshot("op", "Op", parallelism, MAX, keyed=handles, **more))

    def migrated(self, snapshot: Snapshot, *migrations: Migration) -> Snapshot:
        return migrated(snapshot, migrations, self.run)

    def run(self, requests: list[Any]) -> list[Any]:
        self.requests = requests
        made = [migrating.migrate_in_worker(None, self.context, NOW, request) for request in requests]
        assert made == [
            migrating.migrate_in_worker(None, self.context, NOW, request) for request in requests
        ]  # runs twice
        return made

    def contents(self, snapshot: Snapshot) -> dict[str, Any]:
        """What the tables hold, all subtasks together, thawed."""
        found: dict[str, Any] = {}
        for handle in snapshot.operators[0].keyed:
            assert handle is not None
            segments = [decode_segment(read_segment(segment), segment.key_groups) for segment in handle.segments]
            for name, table in merge_contents(segments).items():
                found.setdefault(name, {}).update({slot: _thawed(table.kind, c) for slot, c in table.changes.items()})
        return found


def _within(table: TableChanges, groups: range) -> dict[Any, Any]:
    keys = ((slot[0] if table.namespaced else slot, slot) for slot in table.changes)
    return {slot: table.changes[slot] for key, slot in keys if key_group_of(key, MAX) in groups}


def _thawed(kind: str, change: Any) -> Any:
    if kind == "list":
        return [thaw(item) for item in change[1]]
    if kind == "map":
        return {key: thaw(value) for key, value in change[1].items()}
    return thaw(change)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def snapshot_of(operator: OperatorSnapshot) -> Snapshot:
    other = OperatorSnapshot("other", "Other", 1, MAX, keyed=(KeyedStateHandle("root"),))
    return Snapshot(3, "job", "a job", 7, 1000, (operator, other))


def described(name: str, info: TypeInformation, kind: str = "value", **more: Any) -> StateDescription:
    return StateDescription(name, kind, type_to_text(info), **more)


def change(name: str, old: TypeInformation, new: TypeInformation, kind: str = "value", **more: Any) -> Migration:
    hooks = more.pop("hooks", ())
    ttl = more.pop("ttl", (None, None))
    before = described(name, old, kind, ttl_ms=ttl[0], **more)
    return Migration("op", before, described(name, new, kind, ttl_ms=ttl[1], **more), hooks)


def table(kind: str, changes: dict[Any, Any], namespaced: bool = False, ttl_ms: int | None = None) -> TableChanges:
    return TableChanges(kind, namespaced, changes, ttl_ms)


KEYS = range(20)


def test_without_changed_types_nothing_happens(stage: Stage) -> None:
    snapshot = stage.keyed({"n": table("value", {1: 2})})
    assert stage.migrated(snapshot) is snapshot
    assert stage.requests == []


def test_values_lists_maps_and_windows(stage: Stage) -> None:
    row = Types.ROW_NAMED(["a", "b"], [INT, STRING])
    new_row = Types.ROW_NAMED(["b", "c", "a"], [STRING, INT, DOUBLE])
    older: SegmentContent = {
        "n": table("value", {k: k for k in KEYS}),
        "gone": table("value", {k: k for k in KEYS}),
        "rows": table("value", {k: freeze(Row(a=k, b="x")) for k in KEYS}),
        "several": table("list", {k: (True, [k]) for k in KEYS}),
        "sums": table("map", {k: (True, {"a": k, "b": None}, []) for k in KEYS}),
        "window": table("value", {(k, (0, 9)): k for k in KEYS}, namespaced=True),
        "timers": table("timer", {k: ([k], []) for k in KEYS}),
    }
    newer: SegmentContent = {
        "n": table("value", {0: 100}),
        "gone": table("value", dict.fromkeys(KEYS)),
        "several": table("list", {k: (False, [k + 1]) for k in KEYS}),
        "sums": table("map", {0: (False, {"c": 7}, ["a"])}),
    }
    snapshot = stage.keyed(older, newer)
    before = sorted(stage.folder.iterdir())
    made = stage.migrated(
        snapshot,
        change("rows", row, new_row),
        change("several", INT, DOUBLE, "list"),
        change("sums", INT, DOUBLE, "map"),
        change("window", INT, DOUBLE, namespaced=True),
    )
    found = stage.contents(made)
    assert found["n"] == {k: k or 100 for k in KEYS}
    assert "gone" not in found
    assert found["rows"] == {k: Row(b="x", c=None, a=float(k)) for k in KEYS}
    assert found["several"] == {k: [float(k), k + 1.0] for k in KEYS}
    assert found["sums"] == {k: {"a": float(k), "b": None} for k in KEYS} | {0: {"b": None, "c": 7.0}}
    assert all(type(v["c"]) is float for v in found["sums"].values() if "c" in v)
    assert found["window"] == {(k, (0, 9)): float(k) for k in KEYS}
    assert found["timers"] == {k: ([k], []) for k in KEYS}
    # The snapshot is as it was, and what was written is named by its content.
    assert set(before) < set(stage.folder.iterdir())
    assert stage.contents(snapshot)["n"][0] == 100
    for old, new in zip(snapshot.operators[0].keyed, made.operators[0].keyed, strict=True):
        assert old is not None
        assert new is not None
        assert new.root == old.root
        assert new.version not in {segment.version for segment in old.segments}
    assert made.operators[1] is snapshot.operators[1]


def test_descriptions_are_those_of_the_program(stage: Stage) -> None:
    states = (described("n", INT), described("m", INT))
    snapshot = stage.keyed({"n": table("value", {1: 2})}, state_descriptions=states)
    made = stage.migrated(snapshot, change("n", INT, DOUBLE))
    assert made.operators[0].state_descriptions == (described("n", DOUBLE), described("m", INT))


def test_subtasks_that_share_segments_keep_to_their_own_key_groups(stage: Stage) -> None:
    whole = stage.keyed({"n": table("value", {k: k for k in KEYS})}, parallelism=1)
    (handle,) = whole.operators[0].keyed
    assert handle is not None
    halves = tuple(
        KeyedStateHandle(root_version("job", "op", g), tuple(r.restricted(g) for r in handle.segments))
        for g in (range(8), range(8, 16))
    )
    split = snapshot_of(OperatorSnapshot("op", "Op", 2, MAX, keyed=halves))
    made = stage.migrated(split, change("n", INT, DOUBLE))
    assert stage.contents(made)["n"] == {k: float(k) for k in KEYS}
    entries = [handle.segments[0].entries for handle in made.operators[0].keyed if handle is not None]
    assert sum(entries) == len(KEYS)
    assert len(entries) == 2


@pytest.mark.parametrize(
    ("ttl", "before", "after"),
    [((900, 900), (77, 3), (77, 3.0)), ((None, 900), 3, (NOW, 3.0)), ((900, None), (77, 3), 3.0)],
)
def test_times_to_live(stage: Stage, ttl: tuple[int | None, int | None], before: Any, after: Any) -> None:
    content: SegmentContent = {
        "one": table("value", {1: before}, ttl_ms=ttl[0]),
        "several": table("list", {1: (True, [before])}, ttl_ms=ttl[0]),
        "sums": table("map", {1: (True, {"a": before}, [])}, ttl_ms=ttl[0]),
    }
    kinds = {"one": "value", "several": "list", "sums": "map"}
    changes = [change(name, INT, DOUBLE, kind, ttl=ttl) for name, kind in kinds.items()]
    made = stage.migrated(stage.keyed(content, parallelism=1), *changes)
    assert stage.contents(made) == {"one": {1: after}, "several": {1: [after]}, "sums": {1: {"a": after}}}
    (handle,) = made.operators[0].keyed
    assert handle is not None
    lives = {t.ttl_ms for t in decode_segment(read_segment(handle.segments[0])).values()}
    assert lives == ({900} if ttl == (900, 900) else {None})


def test_undeclared_values_are_checked_and_become_instances(stage: Stage) -> None:
    content: SegmentContent = {
        "a": table("value", {1: freeze(Account("ann", 5)), 2: freeze({"owner": "bob", "cents": 7})})
    }
    made = stage.migrated(stage.keyed(content), change("a", Types.PICKLED_BYTE_ARRAY(), Types.CLASS(Account)))
    assert stage.contents(made)["a"] == {1: Account("ann", 5), 2: Account("bob", 7)}


def test_a_hook_may_let_go_of_values(stage: Stage) -> None:
    content: SegmentContent = {
        "one": table("value", {k: str(k) for k in KEYS}),
        "several": table("list", {k: (True, [str(k), "17"]) for k in KEYS}),
        "sums": table("map", {k: (True, {"a": str(k)}, []) for k in KEYS}),
    }
    hook = StateMigration(STRING, lambda text: int(text) if int(text) > 9 else None)
    kinds = {"one": "value", "several": "list", "sums": "map"}
    changes = [change(name, STRING, INT, kind, hooks=(hook,)) for name, kind in kinds.items()]
    found = stage.contents(stage.migrated(stage.keyed(content), *changes))
    assert found["one"] == {k: k for k in KEYS if k > 9}
    assert found["several"] == {k: [k, 17] if k > 9 else [17] for k in KEYS}
    assert found["sums"] == {k: {"a": k if k > 9 else None} for k in KEYS}


def test_a_value_that_does_not_fit_is_told_with_all_that_is_known(stage: Stage) -> None:
    snapshot = stage.keyed({"n": table("value", {"k1": "many"})})
    with pytest.raises(StateMismatchError) as told:
        stage.migrated(snapshot, change("n", Types.PICKLED_BYTE_ARRAY(), INT))
    for part in ("'Op' (uid op)", "'n'", "'k1'", "'many'", "type INT", "type PICKLED_BYTE_ARRAY", "can't be converted"):
        assert part in str(told.value)
    hook = StateMigration(STRING, int)
    with pytest.raises(StateMismatchError, match=r"migrate_from\(\) failed on it: ValueError"):
        stage.migrated(snapshot, change("n", STRING, INT, hooks=(hook,)))
    lists = stage.keyed({"l": table("list", {("k", (1, 2)): (True, [1, "many"])}, namespaced=True)})
    with pytest.raises(StateMismatchError, match=r"key 'k', window \(1, 2\), the value is \[1, 'many'\]"):
        stage.migrated(lists, change("l", Types.PICKLED_BYTE_ARRAY(), INT, "list", namespaced=True))


# -- operator state


def _held(stage: Stage, mode: str, *lists: list[Any]) -> list[StateRef]:
    parts = [store(encode(StateContent(mode, items)), len(items), stage.files, 0) for items in lists]
    return [StateRef(mode, (part,)) for part in parts]


def test_operator_state(stage: Stage) -> None:
    lists = _held(stage, LIST, [1, 2], [3])
    broadcast = _held(stage, BROADCAST, [("a", 1), ("b", None)])[0]
    kept = _held(stage, LIST, [9])[0]
    shared = tuple(ref.parts[0] for ref in _held(stage, UNION, [5], [6]))
    handles = tuple(
        OperatorStateHandle({"l": lists[i], "b": broadcast, "kept": kept, "u": StateRef(UNION, shared, (i,))})
        for i in range(2)
    )
    snapshot = snapshot_of(OperatorSnapshot("op", "Op", 3, MAX, operator_state=(*handles, None)))
    modes = {"l": LIST, "b": BROADCAST, "u": UNION}
    changes = [change(name, INT, DOUBLE, mode, scope=OPERATOR) for name, mode in modes.items()]
    made = stage.migrated(snapshot, *changes)
    assert len(stage.requests) == 5  # what is shared is converted once
    states = made.operators[0].operator_state
    assert states[2] is None

    def items(subtask: int, name: str) -> list[Any]:
        held = states[subtask]
        assert held is not None
        return read_ref(held.states[name]).items

    for subtask in range(2):
        assert items(subtask, "l") == [[1.0, 2.0], [3.0]][subtask]
        assert items(subtask, "b") == [("a", 1.0), ("b", None)]
        assert items(subtask, "u") == [5.0, 6.0]
        assert items(subtask, "kept") == [9]
        held = states[subtask]
        assert held is not None
        assert held.states["u"].own == (subtask,)


def test_operator_state_that_does_not_fit(stage: Stage) -> None:
    anything = Types.PICKLED_BYTE_ARRAY()
    for mode, items, where in ((LIST, [1, "x"], "element 1"), (BROADCAST, [("k", "x")], "key 'k'")):
        handle = OperatorStateHandle({"s": _held(stage, mode, items)[0]})
        snapshot = snapshot_of(OperatorSnapshot("op", "Op", 1, MAX, operator_state=(handle,)))
        with pytest.raises(StateMismatchError, match=f"At {where}, the value is 'x'"):
            stage.migrated(snapshot, change("s", anything, INT, mode, scope=OPERATOR))
