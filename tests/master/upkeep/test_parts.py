"""Which subtask reads which part of a source."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import WatermarkStrategy
from beadline.connectors.source import PartSplit
from beadline.errors import ConfigurationError
from beadline.graph.plan import Plan
from beadline.graph.specs import TimestampsSpec
from beadline.master.upkeep.parts import Parts
from beadline.runtime.messages import PartState, SubtaskAck
from tests.graph.programs import Program

SOURCE, STRATEGY = 1, 2


def make_plan(parallelism: int) -> Plan:
    program = Program()
    spec = TimestampsSpec(WatermarkStrategy.for_monotonous_timestamps(), 1, at_source=True)
    program.collect(program.add("marks", spec, program.source()))
    return program.plan(parallelism)


def assigned(parts: Parts, plan: Plan) -> list[list[str]]:
    strategy = plan.nodes[STRATEGY]
    return [list(parts.input_of(strategy, subtask)["parts"]) for subtask in range(strategy.parallelism)]


def known(watermark: int) -> PartState:
    return PartState(watermark, False, b"own")


def test_parts_are_dealt_evenly_and_stay() -> None:
    plan = make_plan(2)
    parts = Parts(plan)
    parts.assign(plan.nodes[SOURCE], ["a", "b", "c"], [])
    assert assigned(parts, plan) == [["a", "c"], ["b"]]
    parts.keep(SOURCE, ["b", "c"])
    parts.assign(plan.nodes[SOURCE], ["d", "e", "b", "c"], [])
    assert assigned(parts, plan) == [["c", "d"], ["b", "e"]]


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=8), st.integers(1, 4))
def test_no_part_moves_and_none_is_read_twice(lists: list[list[str]], parallelism: int) -> None:
    plan = make_plan(parallelism)
    parts = Parts(plan)
    before: dict[str, int] = {}
    for names in lists:
        parts.assign(plan.nodes[SOURCE], names, [])
        parts.keep(SOURCE, names)
        now = {name: subtask for subtask, mine in enumerate(assigned(parts, plan)) for name in mine}
        assert sorted(now) == sorted(names)
        assert all(now[name] == subtask for name, subtask in before.items() if name in now)
        before = now


def test_splits_go_where_their_parts_are() -> None:
    plan = make_plan(2)
    parts = Parts(plan)
    splits = [PartSplit("b", 1), PartSplit("a", 2), PartSplit("b", 3), PartSplit("last words", 4)]
    parts.assign(plan.nodes[SOURCE], ["a", "b"], splits)
    assert [split.split for split in parts.dealt(SOURCE, 0, splits)] == [2, 4]
    assert [split.split for split in parts.dealt(SOURCE, 1, splits)] == [1, 3]
    assert parts.dealt(SOURCE, 0, []) == ()
    with pytest.raises(ConfigurationError, match=r"source 'source' has parts.*not 5"):
        parts.assign(plan.nodes[SOURCE], ["a"], [5])


def test_who_has_nothing_to_read_is_spare_if_others_have() -> None:
    plan = make_plan(2)
    parts = Parts(plan)
    assert parts.input_of(plan.nodes[STRATEGY], 0) == {}, "it has no parts"
    parts.assign(plan.nodes[SOURCE], [], [])
    assert parts.input_of(plan.nodes[STRATEGY], 1) == {"parts": {}, "spare": False}
    parts.assign(plan.nodes[SOURCE], ["a"], [])
    assert parts.input_of(plan.nodes[STRATEGY], 0) == {"parts": {"a": None}, "spare": False}
    assert parts.input_of(plan.nodes[STRATEGY], 1) == {"parts": {}, "spare": True}


def restored(parts: Parts, plan: Plan, same_graph: bool) -> Parts:
    made = Parts(plan)
    for node in plan.nodes:
        made.restore(node, parts.snapshot(node), same_graph)
    return made


@pytest.mark.parametrize("parallelism", [2, 3])
def test_what_is_known_follows_the_part(parallelism: int) -> None:
    plan = make_plan(2)
    parts = Parts(plan)
    parts.assign(plan.nodes[SOURCE], ["a", "b", "c"], [])
    parts.seal([SubtaskAck(STRATEGY, 0, parts={"a": known(1), "c": known(3)})])
    parts.seal([SubtaskAck(STRATEGY, 1, parts={"b": known(2)})])
    parts.keep(SOURCE, ["b", "c"])
    assert parts.states(STRATEGY) == {"b": known(2), "c": known(3)}
    other = make_plan(parallelism)
    again = restored(parts, other, same_graph=parallelism == 2)
    again.assign(other.nodes[SOURCE], ["b", "c"], [])
    found: dict[str, Any] = {}
    for subtask in range(parallelism):
        found |= again.input_of(other.nodes[STRATEGY], subtask)["parts"]
    assert found == {"b": known(2), "c": known(3)}
    assert assigned(again, other) == ([["c"], ["b"]] if parallelism == 2 else [["b"], ["c"], []])
