"""Which program a job is: by this a later run of it is recognised."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from beadline.common.secrets import masked_arguments
from beadline.graph.specs import Forward, Partitioning, Rebalance

if TYPE_CHECKING:
    from beadline.graph.plan import Plan

#: What a job is called that nobody gave a name. Many programs share it, so it says nothing about which one it is.
DEFAULT_JOB_NAME = "Flink Streaming Job"


@dataclass(frozen=True)
class Program:
    """Where a job comes from.

    :ivar script: the real path of its file, or its module if it was started with ``python -m``; empty in a notebook
    :ivar arguments: of its command line; values that look like passwords are left out
    :ivar graph: a digest of its operators and how they are connected, whatever their parallelism is
    """

    script: str = ""
    arguments: tuple[str, ...] = ()
    graph: str = ""

    def __str__(self) -> str:
        return shlex.join((self.script, *self.arguments)) if self.script else "a program without a file"


def this_program(plan: Plan) -> Program:
    """The program of this process, with the graph of a plan that it made."""
    script = _script()
    return Program(script, masked_arguments(sys.argv[1:]) if script else (), graph_digest(plan))


def _script() -> str:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return os.path.realpath(file) if file else ""


def graph_digest(plan: Plan) -> str:
    """Equal for programs whose operators are the same and connected in the same way.

    An operator is what its uid says. An operator without a uid of its own is identified by its name too.
    """
    uids = {node.id: node.uid for node in plan.nodes.values()}
    nodes = sorted(
        (node.uid, getattr(node.spec, "shape", type(node.spec).__name__), node.name if node.generated_uid else "")
        for node in plan.nodes.values()
    )
    edges = sorted(
        (uids[edge.source], uids[edge.target], edge.input_index, edge.tag or "", _kind(edge.partitioning))
        for edge in plan.edges.values()
    )
    return xxhash.xxh3_128_hexdigest(repr((nodes, edges)).encode())


def _kind(partitioning: Partitioning) -> str:
    # Whether records are handed on or dealt out round robin may depend on the parallelism alone.
    return "" if isinstance(partitioning, Forward | Rebalance) else type(partitioning).__name__
