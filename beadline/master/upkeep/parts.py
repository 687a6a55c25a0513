"""The parts of sources: which subtask reads each, and what is known of each in event time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beadline.connectors.source import PartSplit
from beadline.errors import ConfigurationError
from beadline.graph.plan import Plan, PlanNode
from beadline.graph.specs import TimestampsSpec
from beadline.runtime.messages import PartState, SubtaskAck


class Parts:
    """Part of the truth. A part stays with its subtask: moved to another one, whose watermark is ahead of it, its
    records would be late. New parts go to the subtasks that have the fewest. Only when the graph has changed are all
    dealt again, for then every subtask starts without a watermark."""

    def __init__(self, plan: Plan) -> None:
        # By source: the subtask of each part. By watermark strategy: its source, and what it knows of each part.
        self._subtasks: dict[int, dict[str, int]] = {}
        self._sources = {
            node.id: node.inputs[0].source
            for node in plan.nodes.values()
            if isinstance(node.spec, TimestampsSpec) and node.spec.at_source
        }
        self._states: dict[int, dict[str, PartState]] = {}

    def __repr__(self) -> str:
        return f"<Parts: {sum(map(len, self._subtasks.values()))} of {len(self._subtasks)} sources>"

    # -- for a step

    def assign(self, node: PlanNode, names: Iterable[str], splits: Sequence[Any]) -> None:
        """Give each part of a source a subtask, if it has none yet.

        :param splits: those of the next step; their parts may be the last that is seen of them
        """
        subtasks = self._subtasks.setdefault(node.id, {})
        for split in splits:
            if not isinstance(split, PartSplit):
                raise ConfigurationError(
                    f"source '{node.name}' has parts, so its plan() must give PartSplit(part, split), not {split!r}"
                )
        loads = [0] * node.parallelism
        for subtask in subtasks.values():
            loads[subtask] += 1
        for name in (*names, *(split.part for split in splits)):
            if name not in subtasks:
                subtasks[name] = loads.index(min(loads))
                loads[subtasks[name]] += 1

    def dealt(self, source: int, subtask: int, splits: Sequence[PartSplit]) -> tuple[PartSplit, ...]:
        """The splits of one subtask."""
        subtasks = self._subtasks[source] if splits else {}
        return tuple(split for split in splits if subtasks[split.part] == subtask)

    def input_of(self, node: PlanNode, subtask: int) -> dict[str, Any]:
        """What a subtask of a watermark strategy must know of the parts that it reads."""
        subtasks = self._subtasks.get(self._sources.get(node.id, -1))
        if subtasks is None:
            return {}
        known = self._states.get(node.id, {})
        parts = {name: known.get(name) for name, reader in subtasks.items() if reader == subtask}
        return {"parts": parts, "spare": bool(subtasks) and not parts}

    def seal(self, subtasks: Iterable[SubtaskAck]) -> None:
        for ack in subtasks:
            if ack.parts:
                self._states.setdefault(ack.node, {}).update(ack.parts)

    def keep(self, source: int, names: Iterable[str]) -> None:
        """Forget the parts of a source that have ended."""
        kept = frozenset(names)
        subtasks = self._subtasks.get(source, {})
        ended = [name for name in subtasks if name not in kept]
        known = [self._states.get(node, {}) for node, its in self._sources.items() if its == source]
        for name in ended:
            del subtasks[name]
            for states in known:
                states.pop(name, None)

    # -- looking

    def states(self, node: int) -> Mapping[str, PartState]:
        """What a watermark strategy knows of the parts that have given something so far."""
        return self._states.get(node, {})

    def names(self, source: int) -> Iterable[str]:
        """The parts that a source has now."""
        return self._subtasks.get(source, {})

    # -- checkpoints

    def snapshot(self, node: int) -> dict[str, Any]:
        """What is held for an operator, as plain data."""
        states = self._states.get(node, {})
        known = {name: {"watermark": s.watermark, "idle": s.idle, "own": s.own} for name, s in states.items()}
        return known or dict(self._subtasks.get(node, {}))

    def restore(self, node: int, held: Mapping[str, Any], same_graph: bool) -> None:
        """Take up what :meth:`snapshot` gave.

        :param same_graph: subtasks go on where they were; otherwise parts are dealt again
        """
        if node in self._sources:
            self._states[node] = {name: PartState(**state) for name, state in held.items()}
        elif held and same_graph:
            self._subtasks[node] = dict(held)
