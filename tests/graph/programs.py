"""Small programs as graphs, built by hand."""

from __future__ import annotations

from typing import Any

from beadline.common.typeinfo import Types
from beadline.graph.plan import Plan, make_plan
from beadline.graph.specs import (
    Broadcast,
    BroadcastSpec,
    CollectSpec,
    Edge,
    Forward,
    FunctionSpec,
    Hash,
    Node,
    Partitioning,
    SourceSpec,
    Spec,
)

ANY = Types.PICKLED_BYTE_ARRAY()


class Program:
    """Nodes in the making: each method adds one and returns it."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, name: str, spec: Spec, *inputs: Node | tuple[Any, ...], **options: Any) -> Node:
        """An input is a node, or ``(node, partitioning)``, or ``(node, partitioning, input index, tag)``."""
        edges = []
        for given in inputs:
            source, partitioning, index, tag = (*(given if isinstance(given, tuple) else (given,)), *(None,) * 3)[:4]
            edges.append(Edge(source, partitioning or Forward(), tag, index or 0))
        node = Node(len(self.nodes) + 1, name, spec, options.pop("output_type", ANY), edges, **options)
        self.nodes.append(node)
        return node

    def source(self, source: Any = None, **options: Any) -> Node:
        return self.add("source", SourceSpec(source), **options)

    def map(self, *inputs: Node | tuple[Any, ...], function: Any = None, **options: Any) -> Node:
        return self.add("map", FunctionSpec("map", function or same, False), *inputs, **options)

    def function(self, shape: str, function: Any, *inputs: Node | tuple[Any, ...], **options: Any) -> Node:
        """Keyed if its first input comes by key."""
        keyed = isinstance(inputs[0], tuple) and isinstance(inputs[0][1], Hash)
        batch = options.pop("batch", False)
        name = options.pop("name", shape)
        return self.add(name, FunctionSpec(shape, function, keyed, batch), *inputs, **options)

    def broadcast(self, function: Any, descriptors: tuple[Any, ...], stream: Any, rules: Node, **options: Any) -> Node:
        """A stream, keyed if it comes by key, beside a broadcast one."""
        keyed = isinstance(stream, tuple) and isinstance(stream[1], Hash)
        spec = BroadcastSpec(function, descriptors, keyed)
        return self.add("broadcast", spec, stream, (rules, Broadcast(), 1), **options)

    def collect(self, *inputs: Node | tuple[Any, ...], name: str = "out", **options: Any) -> Node:
        return self.add(name, CollectSpec(name), *inputs, **options)

    def plan(self, parallelism: int = 2, **options: Any) -> Plan:
        return make_plan("job", self.nodes, parallelism, options.pop("default_max", None), **options)


def same(value: Any) -> Any:
    return value


def by(selector: Any) -> Partitioning:
    return Hash(selector, None)


def levels(plan: Plan) -> list[list[str]]:
    return [[plan.nodes[node].name for node in level] for level in plan.levels]
