"""The graph that the user's calls build."""

from __future__ import annotations

from dataclasses import dataclass, field

from beadline.common.typeinfo import TypeInformation
from beadline.graph.specs import Partitioning, Spec


@dataclass
class Edge:
    """Records of ``source`` (of its side output ``tag``, if any) that go to one input of a node."""

    source: Node
    partitioning: Partitioning
    tag: str | None = None
    input_index: int = 0


@dataclass
class Node:
    """One operator of the program, as declared."""

    id: int
    name: str
    spec: Spec
    output_type: TypeInformation
    inputs: list[Edge] = field(default_factory=list)
    parallelism: int | None = None
    max_parallelism: int | None = None
    uid: str | None = None
    uid_hash: str | None = None
    description: str | None = None
    starts_chain: bool = False
    never_chained: bool = False
    single: bool = False
    side_types: dict[str, TypeInformation] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Node {self.id} '{self.name}'>"
