"""The engine in this process: tasks run one after the other, here; rows, seals, state and files are the real ones.

For a first look, a debugger, and tests: there is no JVM to start, and a step takes milliseconds. One process does all
the work, so nothing runs at the same time, and an operator that crashes the process ends the program.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import cloudpickle

from beadline.errors import StepError
from beadline.graph.plan import Plan
from beadline.master.engine import Deployment, Descriptor, Engine
from beadline.master.shipping.dependencies import Dependencies
from beadline.master.shipping.here import surroundings_here
from beadline.master.shipping.shipment import make_shipment
from beadline.runtime import garbage, printed, worker
from beadline.runtime.messages import RunContext, StepHeader, TaskAck, TaskInput
from beadline.runtime.rows import ACK, DESCRIPTOR, DESCRIPTOR_SEQ, DRIVER, Row
from beadline.runtime.surroundings import Packed
from beadline.runtime.task import Task
from beadline.runtime.worker import WorkerRun

_QUIET_SECONDS = 60.0


class Cancelled(StepError):
    """Nobody wants the result any more."""


class _Call:
    """Tasks of one group that run now."""

    def __init__(self) -> None:
        self.cancelled = False

    def check(self) -> None:
        if self.cancelled:
            raise Cancelled("the tasks were cancelled")


class Shipped:
    """What a broadcast is to a worker."""

    def __init__(self, value: Packed) -> None:
        self.value = value


class LocalEngine(Engine):
    """Runs every task in the thread that asks for it."""

    slots = 1
    one_machine = True

    def __init__(self) -> None:
        self._calls: dict[str, set[_Call]] = {}
        self._changed = threading.Condition()
        garbage.leave_alone()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {sum(map(len, self._calls.values()))} calls run>"

    def deploy(self, plan: Plan, dependencies: Dependencies, group: str) -> LocalDeployment:
        return LocalDeployment(self, plan, Shipped(make_shipment(plan, surroundings_here(dependencies))), group)

    def run_each(
        self,
        function: Callable[[Any], Any],
        items: list[Any],
        group: str = "",
        what: str = "",
        width: int | None = None,
    ) -> list[Any]:
        function = cloudpickle.loads(cloudpickle.dumps(function, 5))
        results = []
        with self.calling(group) as call:
            for item in items:
                call.check()
                results.append(function(cloudpickle.loads(cloudpickle.dumps(item, 5))))
        return results

    @contextlib.contextmanager
    def calling(self, group: str) -> Iterator[_Call]:
        """Tasks of a group run in here."""
        call = _Call()
        with self._changed:
            self._calls.setdefault(group, set()).add(call)
        try:
            yield call
        finally:
            with self._changed:
                self._calls[group].discard(call)
                self._changed.notify_all()

    def cancel(self, group: str) -> None:
        """A task that runs ends when it has made its next batch of rows."""
        with self._changed:
            for call in self._calls.get(group, ()):
                call.cancelled = True

    def wait_until_quiet(self, group: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._calls.get(group), _QUIET_SECONDS)

    def enter(self, context: RunContext, shipped: Shipped) -> WorkerRun:
        """The worker that the next task runs in."""
        return worker.enter_run(context, shipped)


class LocalDeployment(Deployment):
    """A plan that runs in this process. Each exchange deals rows out and sorts them as Spark would."""

    def __init__(self, engine: LocalEngine, plan: Plan, shipped: Shipped, group: str) -> None:
        self._engine = engine
        self._shipped = shipped
        self._widths = [plan.width(level) for level in range(len(plan.levels))]
        self.group = group

    def run_step(self, header: StepHeader, inputs: list[Descriptor]) -> list[TaskAck]:
        acks: list[TaskAck] = []
        with self._engine.calling(self.group) as call:
            rows = [
                Row(number, level, 0, DESCRIPTOR_SEQ, DESCRIPTOR, data) for level, number, data in inputs if level > 0
            ]
            own = {number: pickle.loads(data) for level, number, data in inputs if level == 0}
            for level, width in enumerate(self._widths):
                made: list[Row] = []
                for partition, mine in enumerate(self.exchanged(level, width, rows)):
                    given = own[partition] if level == 0 else None
                    made += self.run_task(header, (level, partition), mine, given, call)
                acks += [pickle.loads(row.payload) for row in made if row.target == DRIVER and row.kind == ACK]
                rows = [row for row in made if row.target != DRIVER]
        return acks

    def exchanged(self, level: int, width: int, rows: list[Row]) -> list[list[Row]]:
        """What each task of a level gets."""
        dealt: list[list[Row]] = [[] for _ in range(width)]
        for row in rows:
            dealt[row.dest % width].append(row)
        for mine in dealt:
            mine.sort(key=lambda row: (row.seq, row.channel))
        return dealt

    def run_task(
        self, header: StepHeader, place: tuple[int, int], rows: list[Row], own: TaskInput | None, call: _Call
    ) -> list[Row]:
        """Run one task. ``own``: of level 0, what it is to do; deeper ones find it among their rows."""
        call.check()
        task = Task(self._engine.enter(header.context, self._shipped), header, *place)
        made: list[Row] = []
        with printed.gathered_here(task.printed):
            for chunk in task.work(iter(rows), own):
                call.check()
                made += chunk
        return made

    def bind(self, function: Callable[..., Any], *args: Any) -> Callable[[Any], Any]:
        return partial(function, self._shipped, *args)

    def end(self, live: tuple[str, ...]) -> None:
        worker.forget_all_but(live)
