"""What a Spark Python worker keeps between steps: per execution, the plan, the opened operators and the state
stores."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from beadline.graph.plan import Plan
from beadline.runtime.messages import RunContext
from beadline.runtime.operators import Operator, Setup, make_operator
from beadline.runtime.task.stopwatch import Ledger
from beadline.runtime.worker.classes import Classes
from beadline.runtime.worker.garbage import walk_everything_next
from beadline.runtime.worker.surroundings import Packed
from beadline.state.segments.files import SegmentFiles
from beadline.state.store import Store


@dataclass(frozen=True)
class Shipment:
    """What is broadcast to the workers once per execution, in one pickle: classes keep their identity across its parts.

    :ivar plan: the plan with the user's functions
    :ivar classes: what state may hold
    """

    plan: Plan
    classes: Classes


class WorkerExecution:
    def __init__(self, execution: str, packed: Packed, state_root: str) -> None:
        self.execution = execution
        self._packed = packed
        shipment: Shipment = packed.open()
        self.plan = shipment.plan
        self._classes = shipment.classes
        self.files = SegmentFiles(state_root)
        self.operators: dict[tuple[int, int], list[Operator[Any]]] = {}
        self.stores: dict[tuple[int, int], Store] = {}
        self.reported: set[tuple[int, str]] = set()
        self.ledger = Ledger()

    def enter(self) -> None:
        """Enter this execution's surroundings, with its script's classes; two executions may have different scripts."""
        self._packed.surroundings.enter()
        self._classes.enter()

    def make_operators(self, level: int, partition: int, attempt: int) -> list[Operator[Any]]:
        """New operators for one task. Each subtask gets function objects of its own."""
        plan: Plan = self._packed.open().plan
        return [
            make_operator(Setup(node, partition, plan.job_parameters, attempt))
            for node in plan.nodes_of(level, partition)
        ]

    def close(self) -> None:
        """Close functions in good order and release everything. Nobody is left to hear of an error in close()."""
        for operators in self.operators.values():
            for operator in operators:
                with contextlib.suppress(Exception):
                    operator.close()
        self.operators.clear()
        for store in self.stores.values():
            with contextlib.suppress(Exception):
                store.close()
        self.stores.clear()


_EXECUTIONS: dict[str, WorkerExecution] = {}


def enter_execution(context: RunContext, shipment: Any) -> WorkerExecution:
    """The worker's view of an execution, made at first touch; those that have ended are closed and dropped."""
    forget_all_but(context.live)
    known = _EXECUTIONS.get(context.execution)
    if known is None:
        known = _EXECUTIONS[context.execution] = WorkerExecution(context.execution, shipment.value, context.state_root)
    known.enter()
    return known


def forget_all_but(live: tuple[str, ...]) -> None:
    ended = [name for name in _EXECUTIONS if name not in live]
    for name in ended:
        _EXECUTIONS.pop(name).close()
    if ended:
        walk_everything_next()
