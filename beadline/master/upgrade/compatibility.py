"""A snapshot compared with a program: where its state goes, and whether the job may start from it.

Nothing is changed here, and nothing is read but the snapshot's metadata. The answer is a
:class:`~.comparison.Comparison`: a table for the log and the command line, the reasons why the job can't
start, and the plan with what only the snapshot knows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from beadline.api.state_descriptors import StateMigration
from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.common.type_description import readable
from beadline.errors import StateMismatchError
from beadline.graph.plan import Plan, PlanNode
from beadline.graph.specs import SinkSpec
from beadline.master.upgrade.comparison import (
    Comparison,
    Fate,
    Migration,
    OperatorComparison,
    StateComparison,
    changes_of,
    described,
    shown_name,
    type_of,
)
from beadline.runtime.operators.describe import DeclaredStates, declared_states
from beadline.state.description import StateDescription, text_of
from beadline.state.evolution import Verdict, compatible
from beadline.state.heap.timers import TimerTable
from beadline.state.operator.handles import KEYED_RAW

_LOG = logging.getLogger("beadline")


def compare(
    snapshot: Snapshot, plan: Plan, declared: Mapping[int, DeclaredStates], allow_unclaimed: bool = False
) -> Comparison:
    """What happens to a snapshot's state in a program; ``declared``: by node, what functions declare in ``open``."""
    operators: list[OperatorComparison] = []
    nodes = dict(plan.nodes)
    for node in plan.nodes.values():
        states = declared.get(node.id, DeclaredStates())
        held = snapshot.operator(node.uid)
        if held is None:
            operators.append(_new(node, states))
        else:
            nodes[node.id] = _with_max_of(node, held)
            operators.append(_matched(node, held, states, allow_unclaimed))
    claimed = {node.uid for node in plan.nodes.values()}
    for held in snapshot.operators:
        if held.uid not in claimed and has_state(held):
            dropped = tuple(StateComparison(shown_name(d), Fate.DROPPED, d) for d in held.state_descriptions)
            operators.append(
                OperatorComparison(held.uid, held.name, Fate.DROPPED, dropped, generated=held.generated_uid)
            )
    return Comparison(snapshot, replace(plan, nodes=nodes), tuple(operators), allow_unclaimed)


class Acceptance:
    """Logs how the snapshot that a job is about to start from fits, refuses what can't work, and gives the plan to
    run."""

    def __init__(self, plan: Plan, allow_unclaimed: bool) -> None:
        self.plan = plan
        self.comparison: Comparison | None = None
        self._given = plan
        self._allow_unclaimed = allow_unclaimed
        self._declared: Mapping[int, DeclaredStates] | None = None

    def __call__(self, pointer: str, snapshot: Snapshot) -> None:
        if self._declared is None:
            self._declared = declared_states(self._given, snapshot.step)
        made = compare(snapshot, self._given, self._declared, self._allow_unclaimed)
        _LOG.info("%r and the program:\n%s", snapshot, made.text())
        made.check(pointer)
        for warning in made.warnings:
            _LOG.warning("%s", warning)
        self.comparison, self.plan = made, made.plan

    def migrations(self, snapshot: Snapshot) -> list[Migration]:
        """What is to be rewritten before the job goes on from a snapshot, which an earlier program may have written."""
        if self._declared is None:
            return []  # it began with nothing: all its checkpoints are its own
        made = compare(snapshot, self._given, self._declared, allow_unclaimed=True)
        refusals = [state.refusal for operator in made.operators for state in operator.states if state.refusal]
        if refusals:
            raise StateMismatchError(f"the job can't go on from {snapshot!r}: {'; '.join(refusals)}")
        return made.migrations


def has_state(operator: OperatorSnapshot) -> bool:
    """Also of a source or sink: without its position records come again, without its committables they are lost."""
    if any(handle is not None and handle.segments for handle in operator.keyed) or any(operator.operator_state):
        return True
    return operator.position is not None or operator.committables is not None


# -- operators


def _new(node: PlanNode, declared: DeclaredStates) -> OperatorComparison:
    stateful = bool(declared.states or declared.unknown) or node.is_source or isinstance(node.spec, SinkSpec)
    states = tuple(StateComparison(shown_name(d), Fate.NEW, None, d, type_of(d)) for d in declared.states)
    return OperatorComparison(
        node.uid,
        node.name,
        Fate.NEW if stateful else Fate.STATELESS,
        states,
        _unknown(declared),
        generated=node.generated_uid,
    )


def _matched(
    node: PlanNode, held: OperatorSnapshot, declared: DeclaredStates, allow_unclaimed: bool
) -> OperatorComparison:
    notes, refusals = list(_unknown(declared)), list[str]()
    if held.parallelism != node.parallelism:
        notes.append(f"parallelism {held.parallelism} → {node.parallelism}")
    if _by_key_group(held):
        _compare_max(node, held, notes, refusals)
    if any(held.keyed) and node.keyed:
        _compare_keys(node, held, notes, refusals)
    if not allow_unclaimed:
        refusals += _lost(node, held)
    states = tuple(_compare_states(node, held, declared))
    fate = Fate.RESTORED if has_state(held) else Fate.NEW if declared.states else Fate.STATELESS
    if refusals:
        fate = Fate.REFUSED
    return OperatorComparison(
        node.uid, node.name, fate, states, tuple(notes), tuple(refusals), generated=node.generated_uid
    )


def _unknown(declared: DeclaredStates) -> tuple[str, ...]:
    return (f"its states are not known before it runs ({declared.unknown})",) if declared.unknown else ()


def _by_key_group(held: OperatorSnapshot) -> bool:
    """Whether max parallelism decides where its state belongs."""
    modes = {ref.mode for handle in held.operator_state if handle is not None for ref in handle.states.values()}
    return any(held.keyed) or KEYED_RAW in modes


def _with_max_of(node: PlanNode, held: OperatorSnapshot) -> PlanNode:
    """The node with the max parallelism of its state, if the program leaves it open."""
    if node.chosen_max or not _by_key_group(held) or node.parallelism > held.max_parallelism:
        return node
    return replace(node, max_parallelism=held.max_parallelism)


def _compare_max(node: PlanNode, held: OperatorSnapshot, notes: list[str], refusals: list[str]) -> None:
    theirs = held.max_parallelism
    if node.parallelism > theirs:
        refusals.append(
            f"{_name(node)} has parallelism {node.parallelism}, and its state was written with max parallelism "
            f"{theirs}, so no more than {theirs} subtasks can share it: set a parallelism of at most {theirs}"
        )
    elif node.chosen_max and node.max_parallelism != theirs:
        notes.append(f"max parallelism {theirs} → {node.max_parallelism}")
        refusals.append(
            f"{_name(node)} has max parallelism {node.max_parallelism}, and its state was written with {theirs}, which "
            f"decides where each key belongs: set_max_parallelism({theirs}), or leave it open"
        )
    elif node.max_parallelism != theirs:
        notes.append(f"max parallelism {theirs}, as in the state")


def _compare_keys(node: PlanNode, held: OperatorSnapshot, notes: list[str], refusals: list[str]) -> None:
    now = text_of(node.key_type)
    if held.key_type and now and held.key_type != now:
        notes.append(f"key type {readable(held.key_type)} → {readable(now)}")
        refusals.append(
            f"{_name(node)} has keys of type {readable(now)}, and its state was written with keys of type "
            f"{readable(held.key_type)}. The key decides where state is, so its type can't change: declare the type it "
            "had in key_by(), or give the operator another uid to start without this state"
        )


def _lost(node: PlanNode, held: OperatorSnapshot) -> list[str]:
    """What the operator of that uid can no longer use."""
    lost = []
    if any(handle is not None and handle.segments for handle in held.keyed) and not node.keyed:
        lost.append("state by key")
    if held.position is not None and not node.is_source:
        lost.append("the position of a source")
    if held.committables is not None and not isinstance(node.spec, SinkSpec):
        lost.append("the output of a sink")
    if not lost:
        return []
    text = (
        f"{_name(node)} has {' and '.join(lost)} in the snapshot, but is no longer such an operator. Give it another "
        "uid, or drop this state with --allow-non-restored-state"
    )
    return [text]


# -- states


def _compare_states(node: PlanNode, held: OperatorSnapshot, declared: DeclaredStates) -> list[StateComparison]:
    before = {(d.scope, d.name): d for d in held.state_descriptions}
    now = {(d.scope, d.name): d for d in declared.states}
    undescribed = has_state(held) and not before
    found = []
    for place, new in now.items():
        if place in before:
            found.append(_compare_state(node, before[place], new, declared.hooks.get(place, ())))
        elif undescribed:
            found.append(
                StateComparison(shown_name(new), Fate.RESTORED, None, new, "if it is there; it is not described")
            )
        else:
            found.append(StateComparison(shown_name(new), Fate.NEW, None, new, type_of(new)))
    for place, old in before.items():
        if place not in now:
            found.append(_undeclared(node, old, declared))
    return found


def _compare_state(
    node: PlanNode, old: StateDescription, new: StateDescription, hooks: tuple[StateMigration, ...]
) -> StateComparison:
    verdict = compatible(old, new, hooks)
    changed = changes_of(old, new)
    if verdict.refusal:
        return StateComparison(shown_name(new), Fate.REFUSED, old, new, changed, mismatch(node, old, new, verdict))
    fate = Fate.MIGRATED if verdict.migrate else Fate.RESTORED
    return StateComparison(shown_name(new), fate, old, new, changed or type_of(new), hooks=hooks)


def _undeclared(node: PlanNode, old: StateDescription, declared: DeclaredStates) -> StateComparison:
    if old.kind == TimerTable.kind:
        if node.keyed and old.namespaced != node.spec.windowed:
            whose = {True: "windows", False: "keys"}
            refusal = (
                f"{_name(node)}: its timers belong to {whose[old.namespaced]} in the snapshot and to "
                f"{whose[node.spec.windowed]} in the program; give the operator another uid"
            )
            return StateComparison(shown_name(old), Fate.REFUSED, old, None, "", refusal)
        return StateComparison(shown_name(old), Fate.RESTORED, old)
    later = declared.unknown or node.spec.windowed
    return StateComparison(shown_name(old), Fate.LATER if later else Fate.UNUSED, old, None, type_of(old))


def check_declared(node: PlanNode, old: StateDescription, new: StateDescription) -> None:
    """Refuse a state that was declared when the job already ran, and is not what the snapshot has."""
    # Values without a declared type are taken as they are: nothing says that they don't fit.
    verdict = compatible(old if old.type else replace(old, type=new.type), new)
    if verdict.migrate:
        verdict = Verdict("it could be migrated before the job starts, if it were declared in open()")
    if verdict.refusal:
        raise StateMismatchError(mismatch(node, old, new, verdict))


def mismatch(node: PlanNode, old: StateDescription, new: StateDescription, verdict: Verdict) -> str:
    """Why a state can't be what the program declares, with both types."""
    return (
        f"{_name(node)}: state '{new.name}' is {described(old)} in the snapshot and {described(new)} in the program: "
        f"{verdict.refusal}"
    )


def _name(node: PlanNode) -> str:
    return f"operator '{node.name}' (uid {node.uid})"
