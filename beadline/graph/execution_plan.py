"""A plan as JSON in the shape of Flink's ``getExecutionPlan()``, which its plan visualizer and other tools read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from beadline.graph.plan import Plan, PlanEdge, PlanNode
from beadline.graph.specs import CollectSpec, PrintSpec, SinkSpec

_SINKS = (PrintSpec, CollectSpec, SinkSpec)


def execution_plan(plan: Plan, descriptions: Mapping[int, str], **more: str) -> str:
    """One node per operator, in the order in which records flow, sinks at the end.

    :param descriptions: by node id, where the program gave one; they are the ``contents``, else the name is
    :param more: further facts about the job
    """
    nodes = [plan.nodes[number] for level in plan.levels for number in level]
    # Levels count exchanges; ids grow from input to output within a level and across them.
    ordered = sorted(nodes, key=lambda node: (_is_sink(node), node.id))
    return json.dumps({"nodes": [_node(node, descriptions.get(node.id)) for node in ordered], **more}, indent=2)


def _is_sink(node: PlanNode) -> bool:
    return isinstance(node.spec, _SINKS)


def _node(node: PlanNode, description: str | None) -> dict[str, Any]:
    pact, prefix = "Operator", ""
    if node.is_source:
        pact, prefix = "Data Source", "Source: "
    elif _is_sink(node):
        pact, prefix = "Data Sink", "Sink: "
    name = node.name if node.name.startswith(prefix) else prefix + node.name
    entry: dict[str, Any] = {
        "id": node.id,
        "type": name,
        "pact": pact,
        "contents": name if description is None else description,
        "parallelism": node.parallelism,
    }
    if node.inputs:
        entry["predecessors"] = [_predecessor(edge) for edge in node.inputs]
    return entry


def _predecessor(edge: PlanEdge) -> dict[str, Any]:
    # Partitionings have the names that Flink gives them. "side" is left over from Flink's batch plans: it says "second"
    # for every edge.
    return {"id": edge.source, "ship_strategy": type(edge.partitioning).__name__.upper(), "side": "second"}
