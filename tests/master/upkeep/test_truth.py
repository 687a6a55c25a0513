"""What holds after a step goes into a checkpoint and comes out of it, also at another parallelism."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.coordinator.actions import CheckpointKind, Take
from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import TypeInformation, Types
from beadline.errors import StateMismatchError
from beadline.graph.plan import Plan
from beadline.graph.specs import Hash
from beadline.master.upkeep.truth import Truth, topology
from beadline.runtime.messages import SubtaskAck
from beadline.state.description import StateDescription
from beadline.state.key_groups import key_group_of, key_group_range, subtask_of_key_group
from beadline.state.operator.handles import LIST, OperatorStateHandle, StateContent, StateRef, encode, read_ref, store
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.segment import (
    TableChanges,
    encode_segment,
)
from beadline.state.segments.version import SegmentRef, next_version
from beadline.state.store import open_store
from tests.graph.programs import Program, by, same

GROUPS = 16
WATERMARK = pickle.dumps(4711)


def make_plan(
    parallelism: int = 1,
    max_parallelism: int = GROUPS,
    uid: str = "sums",
    more: bool = False,
    key_type: TypeInformation | None = None,
) -> Plan:
    program = Program()
    source = program.source(uid="numbers")
    summed = program.function("reduce", max, (source, Hash(same, key_type)), max_parallelism=max_parallelism, uid=uid)
    if more:
        summed = program.map(summed, uid="more")
    program.collect(summed, uid="out")
    return program.plan(parallelism=parallelism)


def take(number: int = 1, step: int = 0, in_flight: int | None = None) -> Take:
    return Take(number, step, CheckpointKind.CHECKPOINT, in_flight)


def node_of(plan: Plan, uid: str) -> int:
    return next(node.id for node in plan.nodes.values() if node.uid == uid)


class Counts:
    """A keyed operator with a value and a list a key, whose content is known."""

    def __init__(self, plan: Plan, folder: Path, job: str = "job") -> None:
        self.plan = plan
        self.files = SegmentFiles(str(folder))
        self.truth = Truth(job, plan, self.files)
        self.node = plan.nodes[node_of(plan, "sums")]
        self.truth.positions[node_of(plan, "numbers")] = {"offset": 0}
        self.values: dict[str, int] = {}
        self.lists: dict[str, list[int]] = {}

    def step(self, changes: dict[str, int | None], to_file: bool = False) -> None:
        """Set values, or remove them, and append them to the lists of their keys."""
        number = self.truth.step + 1
        acks = []
        for subtask in range(self.node.parallelism):
            mine = {k: v for k, v in changes.items() if self.subtask_of(k) == subtask}
            acks.append(self._ack(subtask, mine, to_file))
        self.truth.seal(number, acks, {node_of(self.plan, "numbers"): {"offset": number}})
        for key, value in changes.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
                self.lists.setdefault(key, []).append(value)

    def subtask_of(self, key: str) -> int:
        return subtask_of_key_group(key_group_of(key, GROUPS), self.node.parallelism, GROUPS)

    def _ack(self, subtask: int, changes: dict[str, int | None], to_file: bool) -> SubtaskAck:
        ack = SubtaskAck(self.node.id, subtask, keys=len(changes))
        appended = {key: (False, [value]) for key, value in changes.items() if value is not None}
        tables = {"v": TableChanges("value", False, dict(changes)), "l": TableChanges("list", False, appended)}
        data = encode_segment({name: table for name, table in tables.items() if table.changes}, GROUPS)
        if data:
            version = next_version(self.truth.book.handles[self.node.id, subtask].version, data)
            place: dict[str, Any] = {"inline": data}
            if to_file:
                place = {"path": self.files.write(f"{version}.run", data)}
            ack.delta = SegmentRef(version, len(changes), len(data), **place)
        return ack

    def content(self) -> tuple[dict[str, int], dict[str, list[int]]]:
        """What all subtasks see; each must see its own keys only."""
        values: dict[str, int] = {}
        lists: dict[str, list[int]] = {}
        for subtask in range(self.node.parallelism):
            groups = key_group_range(subtask, self.node.parallelism, GROUPS)
            found = open_store(None, self.truth.book.handles[self.node.id, subtask], groups)
            for name, kind, into in (("v", "value", values), ("l", "list", lists)):
                base = found.table(name, kind).base
                assert {self.subtask_of(key) for key in base} <= {subtask}
                assert not base.keys() & into.keys()
                into.update(base)
        return values, lists

    def snapshot(self, folder: Path, number: int = 1) -> Snapshot:
        """Through the bytes of ``_metadata``."""
        made = self.truth.snapshot(take(number, self.truth.step), 17, {}, {})
        read = metadata.decode(metadata.encode(made, str(folder)), f"{folder}/_metadata")
        assert read == made
        return read

    def rescaled(self, parallelism: int, folder: Path, job: str = "job") -> Counts:
        other = Counts(make_plan(parallelism), folder, job)
        other.truth.restore(self.snapshot(folder), other.files, 0, ignore_unclaimed=False, skip_in_flight=False)
        other.values, other.lists = dict(self.values), {key: list(items) for key, items in self.lists.items()}
        return other

    def check(self) -> None:
        values, lists = self.content()
        assert values == self.values
        assert {key: items for key, items in lists.items() if items} == self.lists


def test_a_truth_comes_back_as_it_was(tmp_path: Path) -> None:
    counts = Counts(make_plan(2), tmp_path)
    counts.step({f"k{i}": i for i in range(20)}, to_file=True)
    counts.step({"k3": None, "k4": 44})
    truth, node = counts.truth, counts.node.id
    acks = [
        SubtaskAck(node, 0, local=WATERMARK, next_timer=99, keys=7),
        SubtaskAck(node, 1, keys=3),
        SubtaskAck(node_of(counts.plan, "numbers"), 0, records_in=12),
    ]
    truth.seal(3, acks, {node_of(counts.plan, "numbers"): {"offset": 7}})
    again = counts.rescaled(2, tmp_path)
    assert again.truth.step == 3
    assert again.truth.records == 12
    assert again.truth.positions == truth.positions
    assert again.truth.book.handles == truth.book.handles
    assert again.truth.next_timer == 99
    for subtask in range(2):
        before, after = (t.input_of(counts.node, subtask) for t in (truth, again.truth))
        assert before == after
    assert again.truth.input_of(counts.node, 0).local == WATERMARK
    assert again.snapshot(tmp_path) == counts.snapshot(tmp_path)
    again.check()


def test_one_chain_names_a_version_once(tmp_path: Path) -> None:
    """A cached store finds its place by the version it stands at."""
    counts = Counts(make_plan(1), tmp_path)
    counts.step({f"k{i}": i for i in range(30)})
    for size in (2, 1, 3, 1):
        counts = counts.rescaled(size, tmp_path)
        for handle in counts.truth.book.handles.values():
            versions = [handle.root, *(segment.version for segment in handle.segments)]
            assert len(set(versions)) == len(versions)
    counts.check()


def test_operator_state_is_dealt_out(tmp_path: Path) -> None:
    counts = Counts(make_plan(2), tmp_path)
    acks = []
    for subtask, items in enumerate(([1, 2, 3], [4, 5])):
        ref = store(encode(StateContent(LIST, list(items))), len(items), counts.files, 0)
        acks.append(SubtaskAck(counts.node.id, subtask, states=OperatorStateHandle({"s": StateRef(LIST, (ref,))})))
    counts.truth.seal(1, acks, {})
    for size, expected in ((2, [[1, 2, 3], [4, 5]]), (1, [[1, 2, 3, 4, 5]]), (3, [[1, 2], [3, 4], [5]])):
        other = counts.rescaled(size, tmp_path)
        states = [other.truth.book.states[counts.node.id, i].states["s"] for i in range(size)]
        assert [read_ref(ref).items for ref in states] == expected
        assert other.truth.book.live_files() == set().union(
            *(handle.paths for handle in other.truth.book.states.values())
        )


def test_another_job_has_its_own_versions(tmp_path: Path) -> None:
    """Two jobs that start from one savepoint, at another parallelism, must not take each other's stores."""
    counts = Counts(make_plan(2), tmp_path)
    counts.step({f"k{i}": i for i in range(30)})
    one, two = (counts.rescaled(1, tmp_path, job) for job in ("one", "two"))
    assert one.truth.book.handles[one.node.id, 0].version != two.truth.book.handles[one.node.id, 0].version
    one.check()
    two.check()


# -- programs that were changed


def restored(snapshot: Snapshot, plan: Plan, folder: Path, ignore: bool = False, skip: bool = False) -> Truth:
    truth = Truth("job", plan, SegmentFiles(str(folder)))
    truth.positions[node_of(plan, "numbers")] = {"offset": -1}
    truth.restore(snapshot, SegmentFiles(str(folder)), 0, ignore, skip)
    return truth


def test_small_state_stays_only_in_the_same_graph(tmp_path: Path) -> None:
    """Watermarks belong to channels."""
    counts = Counts(make_plan(2), tmp_path)
    node = counts.node
    counts.truth.seal(1, [SubtaskAck(node.id, i, local=pickle.dumps(i), next_timer=50 + i) for i in range(2)], {})
    snapshot = counts.snapshot(tmp_path)
    same_again = restored(snapshot, make_plan(2), tmp_path)
    assert [same_again.input_of(node, i).local for i in range(2)] == [pickle.dumps(0), pickle.dumps(1)]
    for plan in (make_plan(2, more=True), make_plan(1)):
        other = restored(snapshot, plan, tmp_path)
        mine = plan.nodes[node_of(plan, "sums")]
        assert [other.input_of(mine, i).local for i in range(mine.parallelism)] == [None] * mine.parallelism
        assert other.next_timer == 50, "timers are in keyed state, and wake who has them now"
    assert topology(make_plan(2)) == topology(make_plan(2))
    assert len({topology(p) for p in (make_plan(2), make_plan(1), make_plan(2, more=True), make_plan(2, 32))}) == 3


def test_the_step_that_was_running_may_be_left_out(tmp_path: Path) -> None:
    counts = Counts(make_plan(1), tmp_path)
    counts.step({"k": 1})
    source = node_of(counts.plan, "numbers")
    made = counts.truth.snapshot(take(4, 1, in_flight=2), 0, {}, {source: {"offset": 77}})
    assert made.unaligned
    assert restored(made, counts.plan, tmp_path).positions == {source: {"offset": 1}}
    assert restored(made, counts.plan, tmp_path, skip=True).positions == {source: {"offset": 77}}
    aligned = counts.snapshot(tmp_path)
    assert restored(aligned, counts.plan, tmp_path, skip=True).positions == {source: {"offset": 1}}


def test_a_source_that_is_new_begins_at_its_beginning(tmp_path: Path) -> None:
    counts = Counts(make_plan(1), tmp_path)
    counts.step({"k": 1})
    program = Program()
    source = program.source(uid="numbers")
    other = program.source(uid="letters")
    program.function("reduce", max, (source, by(same)), max_parallelism=GROUPS, uid="sums")
    program.collect(other, uid="out")
    plan = program.plan(1)
    truth = Truth("job", plan, counts.files)
    truth.positions.update({source.id: {"offset": 0}, other.id: {"offset": 0}})
    truth.restore(counts.snapshot(tmp_path), counts.files, 0, ignore_unclaimed=False, skip_in_flight=False)
    assert truth.positions == {source.id: {"offset": 1}, other.id: {"offset": 0}}


# -- what the states are


def value_of(type_info: TypeInformation, name: str = "v", **more: Any) -> StateDescription:
    return StateDescription(name, "value", type_to_text(type_info), descriptor="ValueState", **more)


def described(counts: Counts, *descriptions: StateDescription, subtask: int = 0) -> None:
    ack = SubtaskAck(counts.node.id, subtask, descriptions=descriptions)
    counts.truth.seal(counts.truth.step + 1, [ack], {})


def states_of(snapshot: Snapshot, uid: str = "sums") -> list[StateDescription]:
    operator = snapshot.operator(uid)
    assert operator is not None
    return list(operator.state_descriptions)


def test_a_snapshot_describes_what_any_subtask_declared(tmp_path: Path) -> None:
    counts = Counts(make_plan(2), tmp_path)
    seen = StateDescription("v", LIST, scope="operator")
    described(counts, value_of(Types.LONG()))
    described(counts, value_of(Types.LONG()), seen, value_of(Types.STRING(), "late"), subtask=1)
    assert states_of(counts.snapshot(tmp_path)) == [value_of(Types.STRING(), "late"), value_of(Types.LONG()), seen]
    assert states_of(counts.snapshot(tmp_path), "numbers") == []


def test_a_snapshot_tells_the_type_of_the_keys(tmp_path: Path) -> None:
    plan = make_plan(1)
    declared = make_plan(1, key_type=Types.STRING())
    for made, expected in ((plan, ""), (declared, '"STRING"')):
        operator = Counts(made, tmp_path).snapshot(tmp_path).operator("sums")
        assert operator is not None
        assert operator.key_type == expected


def test_descriptions_stay_until_somebody_declares_the_state_anew(tmp_path: Path) -> None:
    counts = Counts(make_plan(2), tmp_path)
    described(counts, value_of(Types.LONG()), value_of(Types.STRING(), "unused"))
    again = counts.rescaled(1, tmp_path)
    assert states_of(again.snapshot(tmp_path)) == states_of(counts.snapshot(tmp_path))
    described(again, value_of(Types.LONG(), ttl_ms=None), StateDescription("unused", "value"))
    assert states_of(again.snapshot(tmp_path)) == [StateDescription("unused", "value"), value_of(Types.LONG())]


def test_a_state_that_is_declared_late_must_be_what_was_restored(tmp_path: Path) -> None:
    counts = Counts(make_plan(1), tmp_path)
    described(counts, value_of(Types.LONG()), value_of(Types.STRING(), "w"))
    again = counts.rescaled(1, tmp_path)
    step, before = again.truth.step, states_of(again.snapshot(tmp_path))
    wrong = SubtaskAck(again.node.id, 0, records_in=3, descriptions=(value_of(Types.STRING()),))
    with pytest.raises(StateMismatchError, match="'v' is a value of LONG in the snapshot and a value of STRING in the"):
        again.truth.seal(step + 1, [wrong], {node_of(again.plan, "numbers"): {"offset": 99}})
    assert again.truth.step == step, "nothing of that step counts"
    assert again.truth.positions == counts.truth.positions
    assert states_of(again.snapshot(tmp_path)) == before
    list_instead = StateDescription("w", "list", '"STRING"', descriptor="ListState")
    with pytest.raises(
        StateMismatchError, match="a value of STRING in the snapshot and a list of STRING in the program"
    ):
        described(again, list_instead)
    described(again, StateDescription("v", "value"), value_of(Types.STRING(), "w"))
