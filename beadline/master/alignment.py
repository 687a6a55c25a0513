"""Watermark alignment: sources of a group wait for the one that is furthest behind.

Without it, a source that is read faster in event time than the others fills the state of whatever joins or unites them.
The driver compares the watermarks of sealed steps, once per update interval, and sets limits: the lowest watermark of
the group and the drift. Nothing is planned for a source, or for a part of one, that is beyond. The source with the
lowest watermark never waits for the others, so there is always one that goes on, or has nothing to read. If all have
come to their limits, they compare at once. Sources that have ended or are idle don't count.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from beadline.connectors.source import StepSource
from beadline.graph.plan import Plan
from beadline.graph.specs import SourceSpec, TimestampsSpec
from beadline.master.upkeep.truth import Truth
from beadline.runtime.exchange.gate import MIN_WATERMARK
from beadline.runtime.messages import SubtaskAck

_LOG = logging.getLogger("beadline")

# After so long somebody is told that a source waits for one that gives nothing.
_PATIENCE_MS = 30_000
# However near its limit a source is, it reads so much at a time: a step has a cost of its own.
_LEAST_ROWS = 100


@dataclass
class Member:
    """A source in a group.

    :ivar node: the source
    :ivar strategy: the node that makes its watermarks
    :ivar frontier: how far it is in event time; None if that is not known yet, or if it is idle
    :ivar limit: how far it may be, by the watermarks of the others
    :ivar part_limit: how far a part of it may be, by those of its other parts as well
    :ivar held: its parts that are further, if it can leave them out
    :ivar speed: how many records lie in a millisecond of event time, as far as that is known
    """

    name: str
    node: int
    strategy: int
    source: StepSource
    drift: int
    frontier: int | None = None
    limit: int | None = None
    part_limit: int | None = None
    held: frozenset[str] = frozenset()
    speed: float | None = None

    def rows(self, wanted: int) -> int:
        """How many records it may read: as many as will bring it to its limit, none if it is beyond. If it can leave
        parts out, others of its parts may have something to read."""
        if self.limit is None or self.frontier is None or self.frontier == MIN_WATERMARK:
            return wanted
        if self.waits:
            return wanted if self.source.holds_parts else 0
        if self.speed is None:
            return wanted
        return min(wanted, max(_LEAST_ROWS, int((self.limit - self.frontier) * self.speed)))

    @property
    def waits(self) -> bool:
        """Whether it is beyond its limit, with all parts that are not idle."""
        limit = self.part_limit if self.source.holds_parts else self.limit
        return limit is not None and self.frontier is not None and self.frontier > limit


@dataclass
class Group:
    """Sources that wait for each other.

    :ivar interval: how often they compare, in milliseconds
    :ivar stuck_since: since when one waits for another that has given no watermark at all
    """

    name: str
    interval: int
    members: list[Member] = field(default_factory=list)
    compared_at: int | None = None
    stuck_since: int | None = None
    told: bool = False

    def tell(self, there: list[Member], now: int) -> None:
        """Warn, once, if nothing moves because a source is silent: its user may have forgotten to say that it may
        be."""
        silent = [member.name for member in there if member.frontier == MIN_WATERMARK]
        waiting = [member.name for member in there if member.waits]
        if not silent or not waiting:
            self.stuck_since = None
            return
        self.stuck_since = now if self.stuck_since is None else self.stuck_since
        if now - self.stuck_since >= _PATIENCE_MS and not self.told:
            self.told = True
            _LOG.warning(
                "alignment group '%s': %s wait%s for %s, which gave no watermark so far. If a source may be silent, "
                "add with_idleness() to its strategy",
                self.name,
                ", ".join(waiting),
                "s" if len(waiting) == 1 else "",
                ", ".join(silent),
            )


class Alignment:
    """All groups of a job."""

    def __init__(self, plan: Plan) -> None:
        self._groups: dict[str, Group] = {}
        self._members: dict[int, Member] = {}
        # What subtasks of strategies said last: watermark and whether they are idle.
        self._subtasks: dict[int, dict[int, tuple[int, bool]]] = {}
        for node in plan.nodes.values():
            if not isinstance(node.spec, TimestampsSpec) or not node.spec.at_source:
                continue
            asked = node.spec.strategy.alignment
            reader = plan.nodes[node.inputs[0].source]
            if asked is None or not isinstance(reader.spec, SourceSpec):
                continue
            group = self._groups.setdefault(asked.group, Group(asked.group, asked.update_interval_ms))
            group.interval = min(group.interval, asked.update_interval_ms)
            member = Member(reader.name, reader.id, node.id, reader.spec.source, asked.max_drift_ms)
            group.members.append(member)
            self._members[reader.id] = member

    def __repr__(self) -> str:
        return f"<Alignment of {len(self._members)} sources in {len(self._groups)} groups>"

    # -- what follows for a step

    def rows(self, source: int, wanted: int) -> int:
        """How many records a source may read in the next step; 0 if it waits for others."""
        member = self._members.get(source)
        return wanted if member is None else member.rows(wanted)

    def held(self, source: int) -> frozenset[str]:
        """The parts of a source that wait for others."""
        member = self._members.get(source)
        return frozenset() if member is None else member.held

    def wakes_in(self, now: int) -> float | None:
        """In how many seconds to compare again, if somebody waits."""
        due = [
            max(0, (group.compared_at or now) + group.interval - now) / 1000
            for group in self._groups.values()
            if any(member.held or member.waits for member in group.members)
        ]
        return min(due, default=None)

    # -- what is known

    def sealed(self, subtasks: Iterable[SubtaskAck]) -> None:
        """Learn from a step."""
        if not self._members:
            return
        strategies = {member.strategy: member for member in self._members.values()}
        read = dict.fromkeys(self._members, 0)
        before = {node: self._reached(member) for node, member in self._members.items()}
        for ack in subtasks:
            if ack.node in read:
                read[ack.node] += ack.records_in
            if ack.node in strategies and ack.watermark is not None:
                self._subtasks.setdefault(ack.node, {})[ack.subtask] = (ack.watermark, ack.idle)
        for node, member in self._members.items():
            was, now = before[node], self._reached(member)
            if was is not None and now is not None and MIN_WATERMARK < was < now and read[node]:
                member.speed = read[node] / (now - was)

    def _reached(self, member: Member) -> int | None:
        """How far a source is, by what its subtasks said. Those that have read nothing so far don't count beside
        others: which subtask reads a record says nothing about its time."""
        said = self._subtasks.get(member.strategy, {})
        awake = [watermark for watermark, idle in said.values() if not idle]
        return min((w for w in awake if w > MIN_WATERMARK), default=MIN_WATERMARK if awake else None)

    def compare(self, now: int, truth: Truth, finished: Container[int]) -> None:
        """Look where all are, and set new limits in the groups in which it is time to."""
        for group in self._groups.values():
            # A source that has ended waits for nobody, and nobody for it.
            there = [member for member in group.members if member.node not in finished]
            for member in group.members:
                if member in there:
                    self._look_at(member, truth)
                else:
                    member.frontier, member.held = None, frozenset()
            awake = [member for member in there if member.frontier is not None]
            passed = now - group.compared_at if group.compared_at is not None else group.interval
            if not 0 <= passed < group.interval or all(member.waits for member in awake):
                group.compared_at = now
                _set_limits(there)
            for member in there:
                member.held = _too_far(member, truth)
            group.tell(there, now)

    def _look_at(self, member: Member, truth: Truth) -> None:
        if not member.source.parted:
            member.frontier = self._reached(member)
            return
        known = truth.parts.states(member.strategy)
        watermarks = [
            known[name].watermark if name in known else MIN_WATERMARK
            for name in truth.parts.names(member.node)
            if name not in known or not known[name].idle
        ]
        member.frontier = min(watermarks, default=None)


def _set_limits(members: list[Member]) -> None:
    for member in members:
        others = [m.frontier for m in members if m is not member and m.frontier is not None]
        own = [member.frontier] if member.frontier is not None else []
        member.limit = min(others) + member.drift if others else None
        member.part_limit = min(others + own) + member.drift if others or own else None


def _too_far(member: Member, truth: Truth) -> frozenset[str]:
    """The parts that have to wait while others of the same source need not."""
    if member.part_limit is None or not member.source.holds_parts:
        return frozenset()
    known = truth.parts.states(member.strategy)
    return frozenset(name for name, state in known.items() if state.watermark > member.part_limit)
