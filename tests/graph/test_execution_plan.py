"""The execution plan as JSON: what Flink's own tools read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from beadline.common import WatermarkStrategy
from beadline.common.typeinfo import Types
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.number_seq import NumberSequenceSource
from beadline.datastream.functions import CoMapFunction
from beadline.graph import specs
from beadline.graph.plan import execution_plan
from tests.graph.programs import Program, by

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def nodes_of(program: Program, **descriptions: str) -> dict[str, Any]:
    by_name = {node.name: node.id for node in program.nodes}
    plan = execution_plan(program.plan(2), {by_name[name]: text for name, text in descriptions.items()})
    return {node["type"]: node for node in json.loads(plan)["nodes"]}


def test_a_source_an_operator_and_a_sink() -> None:
    program = Program()
    program.collect(program.map(program.source(parallelism=1)))
    text = execution_plan(program.plan(2), {2: "doubles"})
    assert json.loads(text) == {
        "nodes": [
            {
                "id": 1,
                "type": "Source: source",
                "pact": "Data Source",
                "contents": "Source: source",
                "parallelism": 1,
            },
            {
                "id": 2,
                "type": "map",
                "pact": "Operator",
                "contents": "doubles",
                "parallelism": 2,
                "predecessors": [{"id": 1, "ship_strategy": "REBALANCE", "side": "second"}],
            },
            {
                "id": 3,
                "type": "Sink: out",
                "pact": "Data Sink",
                "contents": "Sink: out",
                "parallelism": 2,
                "predecessors": [{"id": 2, "ship_strategy": "FORWARD", "side": "second"}],
            },
        ]
    }


SHIP_STRATEGIES = [
    (specs.Forward(), "FORWARD"),
    (by(str), "HASH"),
    (specs.Rebalance(), "REBALANCE"),
    (specs.Rescale(), "RESCALE"),
    (specs.Shuffle(), "SHUFFLE"),
    (specs.Broadcast(), "BROADCAST"),
    (specs.Custom(max, str), "CUSTOM"),
]


@pytest.mark.parametrize(("partitioning", "name"), SHIP_STRATEGIES)
def test_every_partitioning_has_its_name(partitioning: specs.Partitioning, name: str) -> None:
    program = Program()
    program.map((program.source(), partitioning))
    assert nodes_of(program)["map"]["predecessors"][0]["ship_strategy"] == name


def test_no_partitioning_is_forgotten() -> None:
    assert {type(partitioning) for partitioning, _ in SHIP_STRATEGIES} == set(specs.Partitioning.__subclasses__())


class Either(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


def test_a_program_of_several_branches_as_flink_shows_it() -> None:
    """Types, pacts, parallelism and strategies are those that PyFlink 2.3.0 gives for the same program."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    one = env.from_collection([("a", 1)], PAIR)
    two = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
    pairs = two.map(lambda n: ("n", n), PAIR).name("pair")
    united = one.map(lambda r: r, PAIR).union(pairs).filter(lambda r: True)
    united.broadcast().map(lambda r: r).set_parallelism(3).set_description("wide").rescale().print("x")
    one.connect(pairs).map(Either()).shuffle().print()
    before = repr(env)
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert repr(env) == before, "asking for the plan takes nothing from the program"
    names = {node["id"]: node["type"] for node in nodes}
    shown = [
        (
            node["type"],
            node["pact"],
            node["contents"],
            node["parallelism"],
            [(names[edge["id"]], edge["ship_strategy"]) for edge in node.get("predecessors", [])],
        )
        for node in nodes
    ]
    out = "Sink: Print to Std. Out"
    assert shown == [
        ("Source: Collection Source", "Data Source", "Source: Collection Source", 1, []),
        ("Source: numbers", "Data Source", "Source: numbers", 2, []),
        ("pair", "Operator", "pair", 2, [("Source: numbers", "FORWARD")]),
        ("Map", "Operator", "Map", 2, [("Source: Collection Source", "REBALANCE")]),
        ("Filter", "Operator", "Filter", 2, [("Map", "FORWARD"), ("pair", "FORWARD")]),
        ("Map", "Operator", "wide", 3, [("Filter", "BROADCAST")]),
        (
            "Co-Map",
            "Operator",
            "Co-Map",
            2,
            [("Source: Collection Source", "REBALANCE"), ("pair", "FORWARD")],
        ),
        (out, "Data Sink", out, 2, [("Map", "RESCALE")]),
        (out, "Data Sink", out, 2, [("Co-Map", "SHUFFLE")]),
    ]
