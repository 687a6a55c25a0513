"""The executable plan: parallelism and ids resolved, the graph cut into levels.

A level holds the nodes that run between two exchanges. Nodes of one level that are joined by a plain forward edge
call each other; all other edges are exchanges. A DAG is linearised by depth: rows for a deeper level pass through
the levels between.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from beadline.common.typeinfo import TypeInformation
from beadline.errors import ConfigurationError, GraphError
from beadline.graph.program import Program
from beadline.graph.specs import (
    AsyncSpec,
    BroadcastSpec,
    CollectSpec,
    Edge,
    Forward,
    FunctionSpec,
    Hash,
    Node,
    Partitioning,
    PrintSpec,
    Rebalance,
    SinkSpec,
    SourceSpec,
    Spec,
    TimestampsSpec,
)
from beadline.state.key_groups import check_parallelism, default_max_parallelism

# A channel's number is its edge's number and the upstream subtask in the low bits.
CHANNEL_BITS = 16


@dataclass(frozen=True)
class PlanEdge:
    """An edge of the plan; ``exchange`` if records travel through Spark's shuffle."""

    index: int
    source: int
    target: int
    input_index: int
    tag: str | None
    partitioning: Partitioning
    exchange: bool

    def channel(self, upstream_subtask: int) -> int:
        return self.index << CHANNEL_BITS | upstream_subtask


@dataclass(frozen=True)
class PlanNode:
    """An operator of the plan.

    :ivar chosen_max: the program names its max parallelism; otherwise it follows from the parallelism, or from the
        state that the operator is restored with
    :ivar made_at: the line of the program that made it, ``job.py:17``
    :ivar lets_through: a result that does not fit ``output_type`` goes to the next operator as it is
    """

    id: int
    name: str
    uid: str
    generated_uid: bool
    spec: Spec
    parallelism: int
    max_parallelism: int
    level: int
    output_type: TypeInformation
    side_types: dict[str, TypeInformation]
    inputs: tuple[PlanEdge, ...]
    outputs: tuple[PlanEdge, ...]
    chosen_max: bool = False
    made_at: str = ""
    lets_through: bool = False

    @property
    def key_type(self) -> TypeInformation | None:
        """The type that ``key_by`` declares, None if it declares none."""
        hashes = [edge.partitioning for edge in self.inputs if isinstance(edge.partitioning, Hash)]
        return next((each.key_type for each in hashes if each.key_type is not None), None)

    @property
    def keyed(self) -> bool:
        return self.spec.keyed

    @property
    def is_source(self) -> bool:
        return isinstance(self.spec, SourceSpec)


@dataclass(frozen=True)
class Plan:
    """What the job master submits and workers build operators from.

    :ivar program: where it comes from, by which an earlier run of it is found
    """

    job_name: str
    nodes: dict[int, PlanNode]
    edges: dict[int, PlanEdge]
    levels: tuple[tuple[int, ...], ...]
    job_parameters: dict[str, str] = field(default_factory=dict)
    program: Program = field(default_factory=Program)

    def width(self, level: int) -> int:
        """How many tasks a level has: the highest parallelism of its nodes."""
        return max(self.nodes[node].parallelism for node in self.levels[level])

    def nodes_of(self, level: int, partition: int) -> list[PlanNode]:
        """The nodes that have a subtask in this task, in the order in which records flow."""
        return [n for n in (self.nodes[i] for i in self.levels[level]) if n.parallelism > partition]


def make_plan(
    job_name: str,
    nodes: Iterable[Node],
    default_parallelism: int,
    default_max: int | None,
    chaining: bool = True,
    job_parameters: dict[str, str] | None = None,
    refuse_generated_uids: bool = False,
    strict_types: bool = False,
) -> Plan:
    """Resolve and cut a program.

    1. order the nodes so that inputs come first
    2. resolve parallelism, max parallelism and uid of each
    3. give each its level: one deeper than its inputs across an exchange
    4. number the edges and mark the exchanges
    """
    ordered = flow_order(nodes)
    if not ordered:
        raise GraphError("the program has no operators: add a source and a sink before execute()")
    parallelism = {n.id: _parallelism_of(n, default_parallelism) for n in ordered}
    uids = _uids(ordered, refuse_generated_uids)
    depth: dict[int, int] = {}
    links: dict[int, list[tuple[Edge, Partitioning, bool]]] = {}
    for node in ordered:
        resolved = [(edge, _resolve(edge, node, parallelism)) for edge in node.inputs]
        links[node.id] = [(edge, how, _chained(edge, node, how, chaining)) for edge, how in resolved]
        depths = [depth[edge.source.id] + (0 if chained else 1) for edge, _, chained in links[node.id]]
        depth[node.id] = max(depths, default=0)
    edges: dict[int, PlanEdge] = {}
    inputs: dict[int, list[PlanEdge]] = {n.id: [] for n in ordered}
    outputs: dict[int, list[PlanEdge]] = {n.id: [] for n in ordered}
    for node in ordered:
        for edge, how, chained in links[node.id]:
            exchange = not chained or depth[edge.source.id] != depth[node.id]
            made = PlanEdge(len(edges), edge.source.id, node.id, edge.input_index, edge.tag, how, exchange)
            edges[made.index] = made
            inputs[node.id].append(made)
            outputs[edge.source.id].append(made)
    planned = {}
    by_id = {n.id: n for n in ordered}
    for node in ordered:
        max_parallelism = node.max_parallelism or default_max or default_max_parallelism(parallelism[node.id])
        check_parallelism(parallelism[node.id], max_parallelism, node.name)
        uid, generated = uids[node.id]
        planned[node.id] = PlanNode(
            node.id,
            node.name,
            uid,
            generated,
            node.spec,
            parallelism[node.id],
            max_parallelism,
            depth[node.id],
            node.output_type,
            dict(node.side_types),
            tuple(inputs[node.id]),
            tuple(outputs[node.id]),
            bool(node.max_parallelism or default_max),
            node.made_at,
            not strict_types and _lets_through(node, outputs[node.id], by_id),
        )
    levels = tuple(tuple(n.id for n in ordered if depth[n.id] == level) for level in range(max(depth.values()) + 1))
    return Plan(job_name, planned, edges, levels, job_parameters or {})


def flow_order(nodes: Iterable[Node]) -> list[Node]:
    """The nodes and all that they get records from, inputs first."""
    ordered: list[Node] = []
    seen: set[int] = set()

    def visit(node: Node) -> None:
        if node.id in seen:
            return
        seen.add(node.id)
        for edge in node.inputs:
            visit(edge.source)
        ordered.append(node)

    for node in sorted(nodes, key=lambda n: n.id):
        visit(node)
    return ordered


def _parallelism_of(node: Node, default: int) -> int:
    if node.single:
        if node.parallelism not in (None, 1):
            raise ConfigurationError(
                f"operator '{node.name}' can't run in parallel, but its parallelism was set to {node.parallelism}"
            )
        return 1
    return node.parallelism or default


def _resolve(edge: Edge, node: Node, parallelism: dict[int, int]) -> Partitioning:
    same = parallelism[edge.source.id] == parallelism[node.id]
    if isinstance(edge.partitioning, Forward) and not same:
        if edge.partitioning.explicit:
            raise GraphError(
                f"forward() from '{edge.source.name}' (parallelism {parallelism[edge.source.id]}) to '{node.name}' "
                f"(parallelism {parallelism[node.id]}) needs equal parallelism; use rebalance() or rescale()"
            )
        return Rebalance()
    return edge.partitioning


def _chained(edge: Edge, node: Node, partitioning: Partitioning, chaining: bool) -> bool:
    if isinstance(node.spec, TimestampsSpec) and node.spec.at_source:
        return isinstance(partitioning, Forward)  # it is part of its source
    alone = node.starts_chain or node.never_chained or edge.source.never_chained
    return chaining and isinstance(partitioning, Forward) and not alone


def _lets_through(node: Node, outputs: list[PlanEdge], nodes: Mapping[int, Node]) -> bool:
    """Whether the results of a node go to one Python function that is called directly, and nowhere else.

    PyFlink applies a declared type where a value leaves Python, which is not between functions that it has chained. It
    chains none that has two inputs or two consumers.
    """
    if not isinstance(node.spec, FunctionSpec | BroadcastSpec | AsyncSpec) or len(outputs) != 1:
        return False
    (edge,) = outputs
    after = nodes[edge.target]
    if not isinstance(after.spec, FunctionSpec) or after.spec.keyed or after.spec.end or len(after.inputs) != 1:
        return False
    return not edge.exchange and edge.tag is None


def _uids(ordered: list[Node], refuse_generated: bool) -> dict[int, tuple[str, bool]]:
    uids: dict[int, tuple[str, bool]] = {}
    by_uid: dict[str, Node] = {}
    nameless = [f"'{node.name}'" for node in ordered if node.uid is None and node.uid_hash is None]
    if nameless and refuse_generated:
        raise GraphError(
            f"generated uids are disabled (pipeline.auto-generate-uids), and these operators have no uid: "
            f"{', '.join(nameless)}; call .uid('…') on each"
        )
    for node in ordered:
        generated = node.uid is None and node.uid_hash is None
        uid = node.uid_hash or node.uid or _generated_uid(node, uids)
        if uid in by_uid:
            raise GraphError(
                f"operators '{by_uid[uid].name}' and '{node.name}' have the same uid '{uid}'; uids "
                "must be unique in a job"
            )
        by_uid[uid] = node
        uids[node.id] = (uid, generated)
    return uids


def _generated_uid(node: Node, known: dict[int, tuple[str, bool]]) -> str:
    """Depends on the topology: the node's kind, its inputs, and how many nodes came before it."""
    shape = getattr(node.spec, "shape", type(node.spec).__name__)
    parts = [str(len(known)), shape, *(known[edge.source.id][0] for edge in node.inputs)]
    return xxhash.xxh3_128_hexdigest("|".join(parts).encode())


def execution_plan(plan: Plan, descriptions: Mapping[int, str], **more: str) -> str:
    """The plan as JSON in the shape of Flink's ``getExecutionPlan()``, which its plan visualizer and other tools read:
    one node per operator, in the order in which records flow, sinks at the end.

    :param descriptions: by node id, where the program gave one; they are the ``contents``, else the name is
    :param more: further facts about the job
    """
    nodes = [plan.nodes[number] for level in plan.levels for number in level]
    # Levels count exchanges; ids grow from input to output within a level and across them.
    ordered = sorted(nodes, key=lambda node: (is_sink(node), node.id))
    return json.dumps({"nodes": [_node(node, descriptions.get(node.id)) for node in ordered], **more}, indent=2)


def is_sink(node: PlanNode) -> bool:
    return isinstance(node.spec, PrintSpec | CollectSpec | SinkSpec)


def without_sink(plan: Plan) -> list[str]:
    """A warning if results go nowhere; functions may write them somewhere themselves."""
    if any(map(is_sink, plan.nodes.values())):
        return []
    last = [node for node in plan.nodes.values() if not node.outputs]
    named = ", ".join(f"'{node.name}'" + (f" ({node.made_at})" if node.made_at else "") for node in last)
    return [f"the job has no sink: what comes out of {named} is dropped. Add print(), sink_to() or add_sink()"]


def _node(node: PlanNode, description: str | None) -> dict[str, Any]:
    pact, prefix = "Operator", ""
    if node.is_source:
        pact, prefix = "Data Source", "Source: "
    elif is_sink(node):
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
