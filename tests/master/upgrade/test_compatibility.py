"""What becomes of a snapshot's state in a program that may have changed since."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from beadline.api.checkpointed import CheckpointedFunction
from beadline.api.function import MapFunction
from beadline.api.process import KeyedProcessFunction
from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.api.state_ttl import StateTtlConfig
from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot, SnapshotError
from beadline.common import Time
from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import TypeInformation, Types
from beadline.graph.plan import Plan
from beadline.graph.specs import Hash, SinkSpec
from beadline.master.upgrade.comparison import Comparison, Fate, Migration
from beadline.master.upgrade.compatibility import Acceptance, compare
from beadline.runtime.operators.describe import DeclaredStates, declared_states
from beadline.state.description import OPERATOR, StateDescription
from beadline.state.operator.handles import LIST, OperatorStateHandle, StateRef
from beadline.state.segments.version import KeyedStateHandle, SegmentRef
from tests.graph.programs import Program, same

LONG, STRING = Types.LONG(), Types.STRING()
SEGMENT = SegmentRef("v1", 3, 30, inline=b"x")


class Sums(KeyedProcessFunction):
    """Keeps what it is told to keep."""

    def __init__(self, *descriptors: Any) -> None:
        self._descriptors = descriptors

    def open(self, runtime_context: Any) -> None:
        for descriptor in self._descriptors:
            runtime_context._state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        return []


class Seen(MapFunction, CheckpointedFunction):
    def __init__(self, type_info: TypeInformation = STRING, union: bool = False) -> None:
        self._type = type_info
        self._union = union

    def initialize_state(self, context: Any) -> None:
        states = context.get_operator_state_store()
        make = states.get_union_list_state if self._union else states.get_list_state
        self._seen = make(ListStateDescriptor("seen", self._type))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        return value


def program(
    function: Any = None,
    uid: str | None = "sums",
    parallelism: int = 2,
    max_parallelism: int | None = None,
    key_type: TypeInformation | None = None,
    default_max: int | None = None,
    more: bool = False,
    seen: Any = None,
    **options: Any,
) -> Plan:
    made = Program()
    source = made.source(uid="numbers")
    function = function or Sums(ValueStateDescriptor("total", LONG))
    result = made.function(
        "process", function, (source, Hash(same, key_type)), uid=uid, max_parallelism=max_parallelism, **options
    )
    if more:
        result = made.map(result, uid="more", function=seen)
    made.add("out", SinkSpec(None), result, uid="out")
    return made.plan(parallelism, default_max=default_max)


def value(name: str, type_info: TypeInformation | None = LONG, **more: Any) -> StateDescription:
    text = "" if type_info is None else type_to_text(type_info)
    return StateDescription(name, "value", text, descriptor="ValueState", **more)


def sums(*states: StateDescription, **changes: Any) -> OperatorSnapshot:
    held = OperatorSnapshot(
        "sums",
        "process",
        parallelism=2,
        max_parallelism=128,
        keyed=(KeyedStateHandle("root-0", (SEGMENT,)), KeyedStateHandle("root-1")),
        state_descriptions=states or (value("total"),),
    )
    return replace(held, **changes)


def snapshot(*operators: OperatorSnapshot, source: bool = True) -> Snapshot:
    numbers = OperatorSnapshot("numbers", "source", 2, 128, position={"offset": 7})
    return Snapshot(3, "job-id", "job", 12, 0, (*([numbers] if source else []), *(operators or (sums(),))))


def compared(held: Snapshot, plan: Plan, allow: bool = False) -> Comparison:
    return compare(held, plan, declared_states(plan, held.step), allow)


def fates(comparison: Comparison) -> Mapping[str, Fate]:
    return {operator.uid: operator.fate for operator in comparison.operators}


def states(comparison: Comparison, uid: str = "sums") -> Mapping[str, Fate]:
    (operator,) = (o for o in comparison.operators if o.uid == uid)
    return {state.name: state.fate for state in operator.states}


def refusal(comparison: Comparison) -> str:
    (only,) = comparison.refusals
    with pytest.raises(SnapshotError, match="the job can't start from /there: ") as caught:
        comparison.check("/there")
    assert only in str(caught.value)
    return only


# -- operators


def test_the_same_program_is_restored() -> None:
    made = compared(snapshot(), program())
    assert fates(made) == {"numbers": Fate.RESTORED, "sums": Fate.RESTORED, "out": Fate.NEW}
    assert states(made) == {"total": Fate.RESTORED}
    assert made.refusals == []
    assert made.warnings == []
    made.check("/there")


def test_an_operator_without_state_may_come_and_go() -> None:
    gone = OperatorSnapshot("gone", "map", 2, 128)
    made = compared(snapshot(sums(), gone), program(more=True))
    assert fates(made)["more"] is Fate.STATELESS
    assert "gone" not in fates(made)
    assert made.refusals == []


def test_state_that_no_operator_claims_is_refused_unless_it_may_be_dropped() -> None:
    made = compared(snapshot(), program(uid="totals"))
    assert fates(made) == {"numbers": Fate.RESTORED, "totals": Fate.NEW, "out": Fate.NEW, "sums": Fate.DROPPED}
    assert states(made) == {"total": Fate.DROPPED}
    assert "no operator for the state of 'process' (uid sums)" in refusal(made)
    assert "--allow-non-restored-state" in refusal(made)
    allowed = compared(snapshot(), program(uid="totals"), allow=True)
    assert allowed.refusals == []
    assert fates(allowed)["sums"] is Fate.DROPPED


def test_a_keyed_operator_that_never_kept_anything_may_go() -> None:
    empty = sums(keyed=(KeyedStateHandle("root-0"), None), state_descriptions=())
    assert compared(snapshot(empty), program(uid="totals")).refusals == []


@pytest.mark.parametrize(
    ("lost", "what"),
    [
        (OperatorSnapshot("elsewhere", "source", 1, 128, position={"offset": 1}), "'source' (uid elsewhere)"),
        (OperatorSnapshot("elsewhere", "sink", 1, 128, committables=[]), "'sink' (uid elsewhere)"),
    ],
)
def test_positions_and_output_count_as_state(lost: OperatorSnapshot, what: str) -> None:
    assert what in refusal(compared(snapshot(sums(), lost), program()))


def test_a_uid_that_now_belongs_to_another_sort_of_operator() -> None:
    made = Program()
    made.collect(made.map(made.source(uid="numbers"), uid="sums"), uid="out")
    assert "has state by key in the snapshot, but is no longer such an operator" in refusal(
        compared(snapshot(), made.plan(2))
    )
    assert compared(snapshot(), made.plan(2), allow=True).refusals == []


def test_a_generated_uid_comes_with_a_warning_and_the_way_to_take_it_over() -> None:
    plan = program(uid=None)
    generated = next(n.uid for n in plan.nodes.values() if n.generated_uid)
    made = compared(snapshot(sums(uid=generated, generated_uid=True)), plan)
    assert fates(made)[generated] is Fate.RESTORED
    assert f"'process' (uid {generated})" in made.warnings[0]
    moved = compared(snapshot(sums(uid=generated, generated_uid=True)), program())
    assert f".set_uid_hash('{generated}')" in refusal(moved)
    taken_over = compared(snapshot(sums(uid=generated, generated_uid=True)), program(uid=None, uid_hash=generated))
    assert fates(taken_over)[generated] is Fate.RESTORED
    assert taken_over.warnings == []


# -- parallelism


def test_another_parallelism_is_told() -> None:
    made = compared(snapshot(), program(parallelism=5))
    (operator,) = (o for o in made.operators if o.uid == "sums")
    assert operator.notes == ("parallelism 2 → 5",)
    assert made.refusals == []


@pytest.mark.parametrize("theirs", [4, 64, 1024])
def test_max_parallelism_that_is_left_open_is_that_of_the_state(theirs: int) -> None:
    given = program()
    made = compared(snapshot(sums(max_parallelism=theirs)), given)
    assert made.refusals == []
    assert {n.uid: n.max_parallelism for n in made.plan.nodes.values()} == {"numbers": 128, "sums": theirs, "out": 128}
    assert made.plan.edges == given.edges


@pytest.mark.parametrize("chosen", [{"max_parallelism": 64}, {"default_max": 64}])
def test_max_parallelism_that_was_chosen_must_be_that_of_the_state(chosen: dict[str, int]) -> None:
    why = refusal(compared(snapshot(), program(**chosen)))
    assert "has max parallelism 64, and its state was written with 128" in why
    assert "set_max_parallelism(128)" in why
    assert compared(snapshot(sums(max_parallelism=64)), program(**chosen)).refusals == []


def test_max_parallelism_does_not_matter_to_an_operator_without_keys() -> None:
    ref = StateRef(LIST, (SEGMENT,))
    held = OperatorSnapshot("more", "map", 2, 128, operator_state=(OperatorStateHandle({"seen": ref}), None))
    made = compared(snapshot(sums(max_parallelism=64), held), program(default_max=64, more=True, seen=Seen()))
    assert made.refusals == []


def test_more_subtasks_than_the_state_can_be_dealt_out_to() -> None:
    why = refusal(compared(snapshot(sums(max_parallelism=4)), program(parallelism=5)))
    assert "has parallelism 5, and its state was written with max parallelism 4" in why
    assert "at most 4" in why


# -- keys


def test_another_type_of_keys_is_refused_with_both() -> None:
    held = sums(key_type=type_to_text(STRING))
    why = refusal(compared(snapshot(held), program(key_type=Types.INT())))
    assert "keys of type INT, and its state was written with keys of type STRING" in why
    assert compared(snapshot(held), program(key_type=STRING)).refusals == []


def test_keys_without_a_declared_type_fit() -> None:
    assert compared(snapshot(sums(key_type=type_to_text(STRING))), program()).refusals == []
    assert compared(snapshot(), program(key_type=STRING)).refusals == []


# -- states


def test_states_that_come_and_go() -> None:
    function = Sums(ValueStateDescriptor("total", LONG), MapStateDescriptor("names", STRING, LONG))
    made = compared(snapshot(sums(value("total"), value("old", STRING))), program(function))
    assert states(made) == {"total": Fate.RESTORED, "names": Fate.NEW, "old": Fate.UNUSED}
    assert made.refusals == []
    assert "names" in made.text()
    assert "map of STRING → LONG" in made.text()


def test_types_that_do_not_fit_are_refused_with_both() -> None:
    why = refusal(compared(snapshot(sums(value("total", STRING))), program()))
    assert "state 'total' is a value of STRING in the snapshot and a value of LONG in the program" in why


def test_a_state_of_another_kind_is_refused() -> None:
    why = refusal(compared(snapshot(), program(Sums(ListStateDescriptor("total", LONG)))))
    assert "'total' is a value of LONG in the snapshot and a list of LONG in the program" in why


def test_types_that_were_not_declared_fit_everything() -> None:
    anything = Types.PICKLED_BYTE_ARRAY()
    for old, new, fate in ((STRING, anything, Fate.RESTORED), (anything, STRING, Fate.MIGRATED)):
        made = compared(snapshot(sums(value("total", old))), program(Sums(ValueStateDescriptor("total", new))))
        assert states(made) == {"total": fate}, "values that were not declared are checked once"
        assert made.refusals == []


def test_types_that_can_become_each_other_are_migrated() -> None:
    old, new = Types.ROW_NAMED(["name"], [STRING]), Types.ROW_NAMED(["name", "age"], [STRING, LONG])
    made = compared(snapshot(sums(value("total", old))), program(Sums(ValueStateDescriptor("total", new))))
    assert made.refusals == []
    assert made.migrations == [Migration("sums", value("total", old), value("total", new))]
    assert "value of ROW<name STRING> → value of ROW<name STRING, age LONG>" in made.text()


def test_types_that_hold_the_same_values_need_no_migration() -> None:
    made = compared(snapshot(sums(value("total", Types.INT()))), program())
    assert states(made) == {"total": Fate.RESTORED}
    assert made.migrations == []
    assert "value of INT → value of LONG" in made.text()


def test_a_hook_migrates_what_would_be_refused() -> None:
    descriptor = ValueStateDescriptor("total", LONG)
    descriptor.migrate_from(STRING, int)
    made = compared(snapshot(sums(value("total", STRING))), program(Sums(descriptor)))
    assert made.refusals == []
    (migration,) = made.migrations
    assert [(hook.old_type, hook.function) for hook in migration.hooks] == [(STRING, int)]


def test_a_longer_or_shorter_life_is_told() -> None:
    descriptor = ValueStateDescriptor("total", LONG)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(5)).build())
    made = compared(snapshot(sums(value("total", ttl_ms=1000))), program(Sums(descriptor)))
    assert states(made) == {"total": Fate.RESTORED}
    assert "time to live 1000 ms → 5000 ms" in made.text()
    switched_on = compared(snapshot(sums(value("total"))), program(Sums(descriptor)))
    assert states(switched_on) == {"total": Fate.MIGRATED}
    assert "time to live none → 5000 ms" in switched_on.text()


def test_operator_state_and_keyed_state_of_one_name_are_two() -> None:
    ref = StateRef(LIST, (SEGMENT,))
    seen = StateDescription("seen", LIST, type_to_text(STRING), scope=OPERATOR, descriptor="ListState")
    held = OperatorSnapshot(
        "more", "map", 2, 128, operator_state=(OperatorStateHandle({"seen": ref}), None), state_descriptions=(seen,)
    )
    made = compared(snapshot(sums(), held), program(more=True, seen=Seen()))
    assert states(made, "more") == {"seen": Fate.RESTORED}
    why = refusal(compared(snapshot(sums(), held), program(more=True, seen=Seen(union=True))))
    assert "operator list of STRING in the snapshot and a union list of STRING" in why


def test_timers_are_restored_with_their_keys() -> None:
    timers = StateDescription("_event-timers", "timer", descriptor="EventTimeTimers")
    assert states(compared(snapshot(sums(value("total"), timers)), program())) == {
        "total": Fate.RESTORED,
        "event-time timers": Fate.RESTORED,
    }
    of_windows = replace(timers, namespaced=True)
    why = refusal(compared(snapshot(sums(value("total"), of_windows)), program()))
    assert "its timers belong to windows in the snapshot and to keys in the program" in why


def test_a_snapshot_that_does_not_describe_its_states_is_restored() -> None:
    made = compared(snapshot(sums(state_descriptions=())), program())
    assert states(made) == {"total": Fate.RESTORED}
    assert made.refusals == []


def test_states_that_are_not_known_before_the_job_runs() -> None:
    plan = program()
    node = next(n.id for n in plan.nodes.values() if n.uid == "sums")
    made = compare(snapshot(), plan, {node: DeclaredStates(unknown="OSError: no route to host")})
    assert states(made) == {"total": Fate.LATER}
    assert "not known before it runs (OSError: no route to host)" in made.text()
    assert made.refusals == []


# -- all of it


def test_all_reasons_come_at_once() -> None:
    made = compared(
        snapshot(sums(value("total", STRING), key_type=type_to_text(STRING)), sums(uid="gone")),
        program(max_parallelism=16, key_type=LONG),
    )
    assert len(made.refusals) == 4
    with pytest.raises(SnapshotError, match=r"from /there, for 4 reasons:\n  1\. ") as caught:
        made.check("/there")
    assert all(why in str(caught.value) for why in made.refusals)


def test_a_job_logs_the_table_before_it_starts(caplog: pytest.LogCaptureFixture) -> None:
    acceptance = Acceptance(program(), allow_unclaimed=False)
    with caplog.at_level(logging.INFO, "beadline"):
        acceptance("/there", snapshot(sums(max_parallelism=64)))
    table = caplog.messages[0].splitlines()
    assert "checkpoint 3 of 'job'" in table[0]
    assert [line.split()[0] for line in table[1:]] == ["operator", "source", "process", "total", "out"]
    assert "restored" in table[4]
    assert acceptance.comparison is not None
    assert {n.max_parallelism for n in acceptance.plan.nodes.values()} == {64, 128}


def test_a_job_that_is_refused_has_logged_the_table_too(caplog: pytest.LogCaptureFixture) -> None:
    acceptance = Acceptance(program(uid="totals"), allow_unclaimed=False)
    with caplog.at_level(logging.INFO, "beadline"), pytest.raises(SnapshotError, match="no operator for the state"):
        acceptance("/there", snapshot())
    assert "dropped" in caplog.messages[0]
    assert acceptance.comparison is None
