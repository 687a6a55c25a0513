"""Which states a program declares, learnt before it runs.

Each operator that can have state is made once more, from a copy of its functions, and opened without state and without
input; the descriptors that it registers are what is known. What a function declares later, for example at its first
record, is not known. If a function can't be opened here, no harm is done: it will be opened where it runs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import cloudpickle

from beadline.api.checkpointed import has_own_state
from beadline.api.state_descriptors import StateMigration
from beadline.graph.plan import Plan, PlanNode
from beadline.graph.specs import BroadcastSpec
from beadline.runtime.failure import UserCodeError
from beadline.runtime.messages import RunContext, StepHeader
from beadline.runtime.operators import Setup, make_operator
from beadline.state.description import StateDescription

# A function may need something that only workers can reach.
_PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class DeclaredStates:
    """What an operator declares when it is opened.

    :ivar unknown: why its states are not known before it runs; empty if they are
    :ivar hooks: by scope and name, what turns values of older types into those of today
    """

    states: tuple[StateDescription, ...] = ()
    unknown: str = ""
    hooks: Mapping[tuple[str, str], tuple[StateMigration, ...]] = field(default_factory=dict)


def may_have_state(node: PlanNode) -> bool:
    parts = [*node.spec.functions(), getattr(node.spec, "source", None), getattr(node.spec, "sink", None)]
    return node.keyed or isinstance(node.spec, BroadcastSpec) or any(map(has_own_state, parts))


def declared_states(plan: Plan, restored_step: int | None = None) -> dict[int, DeclaredStates]:
    """By node, the states of all operators that can have some.

    :param restored_step: the step that the job would go on from; functions are told that they are restored
    """
    header = StepHeader(RunContext(""), 0, 0, base=restored_step)
    return {
        node.id: _opened_aside(node, plan.job_parameters, header)
        for node in plan.nodes.values()
        if may_have_state(node)
    }


def _opened_aside(node: PlanNode, parameters: dict[str, str], header: StepHeader) -> DeclaredStates:
    found: list[DeclaredStates] = []
    thread = threading.Thread(target=lambda: found.append(_opened(node, parameters, header)), daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)
    # The thread may end at any moment; what counts is what is there now.
    return found[0] if found else DeclaredStates(unknown=f"open() takes longer than {_PATIENCE_SECONDS:.0f} s")


def _opened(node: PlanNode, parameters: dict[str, str], header: StepHeader) -> DeclaredStates:
    try:
        copied: PlanNode = cloudpickle.loads(cloudpickle.dumps(node, 5))
        operator = make_operator(Setup(copied, 0, dict(parameters)))
    except Exception as error:
        return DeclaredStates(unknown=_told(error))
    unknown = ""
    try:
        operator.states.begin(header, None)
        operator.states.initialize()
        operator.open()
    except (Exception, SystemExit) as error:
        unknown = _told(error)
    # User code may release what it opened, even if it only came half way.
    operator.opened = True
    with contextlib.suppress(Exception, SystemExit):
        operator.close()
    descriptors = operator.descriptors()
    hooks = {place: tuple(descriptor.migrations) for place, descriptor in descriptors.items() if descriptor.migrations}
    return DeclaredStates(operator.descriptions(), unknown, hooks)


def _told(error: BaseException) -> str:
    cause = error.cause if isinstance(error, UserCodeError) else error
    return f"{type(cause).__name__}: {cause}".splitlines()[0][:200]
