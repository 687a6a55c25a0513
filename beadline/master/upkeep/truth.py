"""What holds after the last sealed step: positions, state, watermarks, timers. It changes when a step is sealed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import xxhash

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot, SnapshotError
from beadline.checkpoint.coordinator.actions import Take
from beadline.errors import SerializationError
from beadline.graph.plan import Plan, PlanNode
from beadline.master.upgrade.comparison import no_operator_for
from beadline.master.upgrade.compatibility import check_declared, has_state
from beadline.master.upkeep.handles import StateBook
from beadline.master.upkeep.parts import Parts
from beadline.runtime.messages import SubtaskAck, SubtaskInput
from beadline.state.codec import check
from beadline.state.description import StateDescription, text_of
from beadline.state.key_groups import key_group_range
from beadline.state.operator.handles import redistribute_handles
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.version import KeyedStateHandle, next_version, root_version

Subtask = tuple[int, int]


class Truth:
    """What holds after the last sealed step. Tasks read it, a checkpoint is a copy of it."""

    def __init__(self, job_id: str, plan: Plan, files: SegmentFiles) -> None:
        self._job_id = job_id
        self._plan = plan
        self.step = 0
        self.records = 0
        self.positions: dict[int, dict[str, Any]] = {}
        self.parts = Parts(plan)
        self.book = StateBook(job_id, plan, files)
        self._locals: dict[Subtask, bytes] = {}
        self._timers: dict[Subtask, int] = {}
        self.keys_by_subtask: dict[Subtask, int] = {}
        # By node, then by scope and name.
        self._descriptions: dict[int, dict[tuple[str, str], StateDescription]] = {}
        self._restored: dict[tuple[int, str, str], StateDescription] = {}

    def __repr__(self) -> str:
        return f"<Truth after step {self.step}: {self.records} records, {self.book!r}>"

    @property
    def keys(self) -> int:
        return sum(self.keys_by_subtask.values())

    @property
    def next_timer(self) -> int | None:
        """When the earliest processing-time timer is due."""
        return min(self._timers.values(), default=None)

    def input_of(self, node: PlanNode, subtask: int, **more: Any) -> SubtaskInput:
        """What a subtask starts the next step from."""
        place = (node.id, subtask)
        return SubtaskInput(
            handle=self.book.handles.get(place),
            local=self._locals.get(place),
            states=self.book.states_for(*place),
            **self.parts.input_of(node, subtask),
            **more,
        )

    def seal(self, step: int, subtasks: list[SubtaskAck], ends: Mapping[int, dict[str, Any]]) -> int:
        """A step is consistent: its results become the truth. Gives the number of records its sources read."""
        for ack in subtasks:
            if ack.descriptions:
                self._declare(ack.node, ack.descriptions)
        self.step = step
        self.positions.update(ends)
        self.book.advance(((s.node, s.subtask), s.delta) for s in subtasks if s.delta is not None)
        self.book.advance_states(((s.node, s.subtask), s.states) for s in subtasks if s.states is not None)
        records = 0
        for ack in subtasks:
            place = (ack.node, ack.subtask)
            if ack.local is not None:
                self._locals[place] = ack.local
            self._timers.pop(place, None)
            if ack.next_timer is not None:
                self._timers[place] = ack.next_timer
            if self._plan.nodes[ack.node].is_source:
                records += ack.records_in
            self.keys_by_subtask[place] = ack.keys
        self.parts.seal(subtasks)
        self.records += records
        return records

    def _declare(self, node: int, descriptions: Iterable[StateDescription]) -> None:
        """Note what functions declared; a state that was restored must be what it is declared to be."""
        known = self._descriptions.setdefault(node, {})
        for description in descriptions:
            place = (description.scope, description.name)
            restored = self._restored.get((node, *place))
            if restored is not None and restored != description:
                check_declared(self._plan.nodes[node], restored, description)
            known[place] = description

    # -- checkpoints

    def snapshot(
        self, take: Take, now: int, sinks: Mapping[str, Any], in_flight: Mapping[int, dict[str, Any]]
    ) -> Snapshot:
        """A copy of all this as a checkpoint holds it."""
        return Snapshot(
            checkpoint_id=take.id,
            job_id=self._job_id,
            job_name=self._plan.job_name,
            step=self.step,
            timestamp=now,
            operators=tuple(self._operator(node, sinks) for node in self._plan.nodes.values()),
            unaligned=take.unaligned,
            in_flight={self._plan.nodes[node].uid: position for node, position in in_flight.items()},
            counters={"records": self.records},
            topology=topology(self._plan),
            program=self._plan.program,
        )

    def _operator(self, node: PlanNode, sinks: Mapping[str, Any]) -> OperatorSnapshot:
        places = [(node.id, subtask) for subtask in range(node.parallelism)]
        states = tuple(self.book.states.get(place) for place in places)
        return OperatorSnapshot(
            uid=node.uid,
            name=node.name,
            parallelism=node.parallelism,
            max_parallelism=node.max_parallelism,
            generated_uid=node.generated_uid,
            keyed=tuple(self.book.handles.get(place) for place in places) if node.keyed else (),
            locals=tuple(self._locals.get(place) for place in places),
            operator_state=states if any(states) else (),
            position=self.positions.get(node.id),
            committables=sinks.get(node.uid),
            next_timers=tuple(self._timers.get(place) for place in places),
            state_descriptions=tuple(d for _, d in sorted(self._descriptions.get(node.id, {}).items())),
            key_type=text_of(node.key_type) if node.keyed else "",
            parts=self.parts.snapshot(node.id),
        )

    def restore(
        self, snapshot: Snapshot, files: SegmentFiles, inline_limit: int, ignore_unclaimed: bool, skip_in_flight: bool
    ) -> None:
        """Start from a snapshot, which may be of another parallelism or of a program that was changed.

        1. match operators by uid; state that no operator claims is refused, unless that was asked for
        2. keyed state by key group, operator state by its mode
        3. watermarks and other small state only into the very same graph: they belong to its channels. What is known of
           the parts of a source belongs to the parts, whoever reads them

        :param skip_in_flight: leave out the step that was running when the snapshot was taken
        """
        _check_claimed(snapshot, self._plan, ignore_unclaimed)
        same_graph = snapshot.topology == topology(self._plan)
        self.step = snapshot.step
        self.records = snapshot.counters.get("records", 0)
        for node in self._plan.nodes.values():
            held = snapshot.operator(node.uid)
            if held is None:
                continue
            position = snapshot.in_flight.get(node.uid) if skip_in_flight else None
            if position is None:
                position = held.position
            if position is not None:
                self.positions[node.id] = position
            if node.keyed and any(held.keyed):
                self._restore_keyed(node, held)
            if any(held.operator_state):
                self.book.advance_states(
                    ((node.id, subtask), handle)
                    for subtask, handle in enumerate(
                        redistribute_handles(
                            held.operator_state, node.parallelism, node.max_parallelism, files, inline_limit
                        )
                    )
                )
            check_pickles(held)
            if same_graph:
                self._locals.update(_by_subtask(node, held.locals))
            self.parts.restore(node.id, held.parts, same_graph)
            self._restore_timers(node, held)
            # Also of states that are not declared any more: they are kept, and somebody may want to read them.
            self._descriptions[node.id] = {(d.scope, d.name): d for d in held.state_descriptions}
            self._restored.update(((node.id, d.scope, d.name), d) for d in held.state_descriptions)

    def _restore_keyed(self, node: PlanNode, held: OperatorSnapshot) -> None:
        if held.max_parallelism != node.max_parallelism:
            raise SnapshotError(
                f"operator '{node.name}' (uid {node.uid}) has max parallelism {node.max_parallelism}, and its state "
                f"was written with {held.max_parallelism}, which decides where each key belongs: "
                f"set_max_parallelism({held.max_parallelism})"
            )
        for subtask in range(node.parallelism):
            groups = key_group_range(subtask, node.parallelism, node.max_parallelism)
            if held.parallelism == node.parallelism:
                handle = held.keyed[subtask]
            else:
                handle = _rescaled(KeyedStateHandle(root_version(self._job_id, node.uid, groups)), groups, held)
            if handle is not None:
                self.book.handles[node.id, subtask] = handle

    def _restore_timers(self, node: PlanNode, held: OperatorSnapshot) -> None:
        if held.parallelism == node.parallelism:
            self._timers.update(_by_subtask(node, held.next_timers))
            return
        # A subtask learns in its first step which timers it has; the earliest of all wakes everybody.
        known = [timer for timer in held.next_timers if timer is not None]
        if known:
            self._timers.update({(node.id, subtask): min(known) for subtask in range(node.parallelism)})


def topology(plan: Plan) -> str:
    """Equal for graphs whose channels mean the same."""
    nodes = sorted((n.id, n.uid, n.parallelism, n.level) for n in plan.nodes.values())
    edges = sorted((e.index, e.source, e.target, e.input_index, e.exchange) for e in plan.edges.values())
    return xxhash.xxh3_128_hexdigest(repr((nodes, edges)).encode())


def _by_subtask(node: PlanNode, values: Iterable[Any]) -> dict[Subtask, Any]:
    return {(node.id, subtask): value for subtask, value in enumerate(values) if value is not None}


def _rescaled(root: KeyedStateHandle, groups: range, held: OperatorSnapshot) -> KeyedStateHandle:
    """The segments that hold something of some key groups. In each, only what its subtask owned counts: subtasks that
    were once one share older segments, in which the other's keys are out of date."""
    handle = root
    for subtask, theirs in enumerate(held.keyed):
        owned = key_group_range(subtask, held.parallelism, held.max_parallelism)
        shared = range(max(groups.start, owned.start), min(groups.stop, owned.stop))
        for segment in theirs.segments if theirs is not None and shared else ():
            part = segment.restricted(shared)
            if not part.key_groups:
                continue  # a slice of other key groups
            version = next_version(handle.version, repr(part.content).encode())
            handle = handle.plus(replace(part, version=version))
    return handle


def check_pickles(held: OperatorSnapshot) -> None:
    """What operators load in each step is looked at once. Keyed and operator state is, where it is read."""
    parts = [part.get("own") for part in held.parts.values() if isinstance(part, dict)]
    for data in (*held.locals, *parts):
        if data is not None:
            try:
                if data.__class__ is not bytes:
                    raise SerializationError(f"{data!r} is no pickle")
                check(data)
            except SerializationError as error:
                raise SnapshotError(f"operator '{held.name}' (uid {held.uid}) can't be restored: {error}") from error


def _check_claimed(snapshot: Snapshot, plan: Plan, ignore_unclaimed: bool) -> None:
    known = {node.uid for node in plan.nodes.values()}
    lost = [o for o in snapshot.operators if o.uid not in known and has_state(o)]
    if lost and not ignore_unclaimed:
        raise SnapshotError(no_operator_for([(operator.name, operator.uid) for operator in lost]))
