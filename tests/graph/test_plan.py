"""How a program becomes levels, channels and ids."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.common import WatermarkStrategy
from beadline.common.typeinfo import Types
from beadline.errors import ConfigurationError, GraphError
from beadline.graph.plan import CHANNEL_BITS
from beadline.graph.specs import Broadcast, Forward, Hash, Rebalance, Rescale, Shuffle, TimestampsSpec
from tests.graph.programs import Program, by, levels, same


def exchanges(program: Program, **options: Any) -> dict[tuple[int, int], bool]:
    return {(edge.source, edge.target): edge.exchange for edge in program.plan(**options).edges.values()}


def test_forward_edges_are_calls() -> None:
    program = Program()
    program.collect(program.map(program.map(program.source())))
    plan = program.plan()
    assert levels(plan) == [["source", "map", "map", "out"]]
    assert not any(edge.exchange for edge in plan.edges.values())


@pytest.mark.parametrize("partitioning", [by(same), Rebalance(), Rescale(), Shuffle(), Broadcast()])
def test_other_edges_are_exchanges(partitioning: Any) -> None:
    program = Program()
    program.collect((program.source(), partitioning))
    assert levels(program.plan()) == [["source"], ["out"]]


def test_a_change_of_parallelism_rebalances() -> None:
    program = Program()
    program.map(program.map(program.source(single=True)))
    plan = program.plan(parallelism=3)
    assert levels(plan) == [["source"], ["map", "map"]]
    assert isinstance(plan.nodes[2].inputs[0].partitioning, Rebalance)
    assert isinstance(plan.nodes[3].inputs[0].partitioning, Forward)
    assert [plan.width(level) for level in range(2)] == [1, 3]


def test_an_explicit_forward_does_not_rebalance() -> None:
    program = Program()
    program.map((program.source(single=True), Forward(explicit=True)))
    assert levels(program.plan(parallelism=1)) == [["source", "map"]]
    with pytest.raises(GraphError, match=r"'source' \(parallelism 1\) to 'map' \(parallelism 3\)"):
        program.plan(parallelism=3)


def test_a_diamond_joins_at_the_deepest() -> None:
    program = Program()
    source = program.source()
    keyed = program.map((program.map((source, by(same))), by(same)))
    program.collect(keyed, source, program.map(source))
    plan = program.plan()
    assert levels(plan) == [["source", "map"], ["map"], ["map", "out"]]
    joined = {edge.source: edge for edge in plan.nodes[program.nodes[-1].id].inputs}
    assert not joined[keyed.id].exchange
    # The same parallelism, but the level is another: subtask i sends to subtask i through the exchange.
    assert joined[source.id].exchange
    assert isinstance(joined[source.id].partitioning, Forward)
    assert plan.nodes[keyed.id].level == 2


def test_a_union_of_equal_depth_is_called_from_both_sides() -> None:
    program = Program()
    program.collect(program.map(program.source()), program.source())
    plan = program.plan()
    assert levels(plan) == [["source", "map", "source", "out"]]
    assert not any(edge.exchange for edge in plan.edges.values())


def test_two_edges_between_the_same_nodes_stay_apart() -> None:
    program = Program()
    source = program.source()
    program.collect((source, by(same), 0), (source, Broadcast(), 1), (source, None, 0, "side"))
    edges = program.plan().nodes[2].inputs
    assert [(edge.input_index, edge.tag) for edge in edges] == [(0, None), (1, None), (0, "side")]
    assert len({edge.channel(subtask) for edge in edges for subtask in range(2)}) == 6
    assert all(edge.channel(1) >> CHANNEL_BITS == edge.index for edge in edges)


def test_inputs_come_first_in_whatever_order_nodes_are_given() -> None:
    program = Program()
    program.collect(program.map(program.source()))
    program.nodes[0].id, program.nodes[2].id = 3, 1
    program.nodes.reverse()
    assert levels(program.plan()) == [["source", "map", "out"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([{}, {}], [["source", "map", "map"]]),
        ([{"starts_chain": True}, {}], [["source"], ["map", "map"]]),
        ([{}, {"starts_chain": True}], [["source", "map"], ["map"]]),
        ([{"never_chained": True}, {}], [["source"], ["map"], ["map"]]),
        ([{}, {"never_chained": True}], [["source", "map"], ["map"]]),
    ],
)
def test_chains_are_cut_where_asked(options: list[dict[str, Any]], expected: list[list[str]]) -> None:
    program = Program()
    node = program.source()
    for chosen in options:
        node = program.map(node, **chosen)
    assert levels(program.plan()) == expected


def test_without_chaining_every_edge_is_an_exchange() -> None:
    program = Program()
    program.collect(program.map(program.source()))
    assert all(exchanges(program, chaining=False).values())
    assert levels(program.plan(chaining=False)) == [["source"], ["map"], ["out"]]


def test_the_watermark_strategy_of_a_source_is_never_cut_off_from_it() -> None:
    program = Program()
    spec = TimestampsSpec(WatermarkStrategy.for_monotonous_timestamps(), 1, at_source=True)
    program.collect(program.add("marks", spec, program.source(), never_chained=True))
    for chaining in (True, False):
        assert levels(program.plan(chaining=chaining)) == [["source", "marks"], ["out"]]


def test_parallelism_is_the_nodes_own_or_the_default() -> None:
    program = Program()
    program.collect((program.map((program.source(single=True), by(same)), parallelism=5), by(same)))
    plan = program.plan(parallelism=3)
    assert [plan.nodes[i].parallelism for i in (1, 2, 3)] == [1, 5, 3]
    assert [node.name for node in plan.nodes_of(1, 4)] == ["map"]
    assert plan.nodes_of(2, 3) == []


def test_what_cannot_run_in_parallel_says_so() -> None:
    program = Program()
    program.source(single=True, parallelism=2)
    with pytest.raises(ConfigurationError, match="'source' can't run in parallel, but its parallelism was set to 2"):
        program.plan()


def test_max_parallelism_is_the_nodes_own_the_default_or_derived() -> None:
    program = Program()
    program.map(program.source(max_parallelism=7))
    assert [n.max_parallelism for n in program.plan(default_max=50).nodes.values()] == [7, 50]
    assert [n.max_parallelism for n in program.plan(parallelism=4).nodes.values()] == [7, 128]
    with pytest.raises(ConfigurationError, match="'source': parallelism 8 is higher than its max parallelism 7"):
        program.plan(parallelism=8)
    with pytest.raises(ConfigurationError, match="32768"):
        program.plan(default_max=1 << 16)


def test_uids_are_unique() -> None:
    program = Program()
    program.map(program.map(program.source(), uid="same"), uid="same")
    with pytest.raises(GraphError, match="have the same uid 'same'"):
        program.plan()


def test_a_uid_hash_goes_before_a_uid() -> None:
    program = Program()
    program.map(program.source(uid="u", uid_hash="h"), uid="v")
    nodes = program.plan().nodes
    assert [(n.uid, n.generated_uid) for n in nodes.values()] == [("h", False), ("v", False)]


def generated(change: str = "") -> list[str]:
    program = Program()
    source = program.source()
    first = program.function("map", same, source, name="renamed" if change == "name" else "map")
    if change == "more before":
        first = program.map(first)
    shape = "filter" if change == "shape" else "map"
    second = program.function(shape, same, source if change == "inputs" else first)
    program.collect(second)
    if change == "more behind":
        program.collect(second)
    plan = program.plan(parallelism=5 if change == "parallelism" else 2)
    return [node.uid for node in plan.nodes.values()]


@pytest.mark.parametrize("change", ["parallelism", "more behind", "name"])
def test_generated_uids_survive_what_leaves_the_topology_before_them(change: str) -> None:
    assert generated(change)[:4] == generated()
    assert len(set(generated())) == 4


@pytest.mark.parametrize(("change", "same_until"), [("shape", 2), ("inputs", 2)])
def test_generated_uids_follow_the_topology(change: str, same_until: int) -> None:
    before, after = generated(), generated(change)
    assert before[:same_until] == after[:same_until]
    assert not set(before[same_until:]) & set(after[same_until:])


def test_generated_uids_change_behind_what_is_put_in() -> None:
    assert generated("more before")[-1] not in generated()


def test_generated_uids_can_be_refused_with_the_names_of_all_operators_that_lack_one() -> None:
    program = Program()
    program.collect(program.map(program.source(uid="a")))
    with pytest.raises(GraphError, match=r"these operators have no uid: 'map', 'out'; call \.uid"):
        program.plan(refuse_generated_uids=True)
    program.nodes[1].uid_hash = "b"
    program.nodes[2].uid = "c"
    program.plan(refuse_generated_uids=True)


def test_an_empty_program_is_refused() -> None:
    with pytest.raises(GraphError, match="no operators"):
        Program().plan()


def test_max_parallelism_is_chosen_by_the_operator_or_for_all_or_left_open() -> None:
    program = Program()
    program.collect(program.source(max_parallelism=7))
    assert [n.chosen_max for n in program.plan().nodes.values()] == [True, False]
    assert [n.chosen_max for n in program.plan(default_max=9).nodes.values()] == [True, True]


def test_the_key_type_is_what_key_by_declares() -> None:
    program = Program()
    source = program.source()
    program.function("process", None, (source, Hash(same, Types.STRING())))
    program.function("process", None, (source, Hash(same, None)))
    program.function("co_map", None, (source, Hash(same, None)), (source, Hash(same, Types.INT()), 1))
    types = [n.key_type for n in program.plan().nodes.values()]
    assert types == [None, Types.STRING(), None, Types.INT()]
