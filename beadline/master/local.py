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

from beadline.graph.plan import Plan
from beadline.master.calls import PATIENCE, Call, Cancelled
from beadline.master.engine import Deployment, Descriptor, Engine
from beadline.master.shipping.dependencies import Dependencies
from beadline.master.shipping.here import surroundings_here
from beadline.master.shipping.shipment import make_shipment
from beadline.master.threads import Threads
from beadline.runtime.exchange.rows import ACK, DESCRIPTOR, DESCRIPTOR_SEQ, DRIVER, WireRow
from beadline.runtime.functions import printed
from beadline.runtime.messages import RunContext, StepHeader, TaskAck, TaskInput
from beadline.runtime.task.task import Task
from beadline.runtime.worker import garbage, worker
from beadline.runtime.worker.surroundings import Packed
from beadline.runtime.worker.worker import WorkerExecution

_QUIET_SECONDS = 60.0
# One process is one worker, which does one thing at a time: what a task may unpickle, and where what it prints goes, is
# the process's. Steps, merges and savepoints of whatever jobs take turns, a task each.
one_at_a_time = threading.RLock()


class Shipped:
    """What a broadcast is to a worker."""

    def __init__(self, value: Packed) -> None:
        self.value = value


class LocalEngine(Engine):
    """Runs tasks one after the other."""

    slots = 1
    one_machine = True

    def __init__(self) -> None:
        self._calls: dict[str, set[Call]] = {}
        self._changed = threading.Condition()
        garbage.leave_alone()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {sum(map(len, self._calls.values()))} calls run>"

    def deploy(self, plan: Plan, dependencies: Dependencies, group: str) -> LocalDeployment:
        return self.deployment(plan, Shipped(make_shipment(plan, surroundings_here(dependencies))), group)

    def deployment(self, plan: Plan, shipped: Shipped, group: str) -> LocalDeployment:
        """What runs the steps of a plan."""
        return LocalDeployment(self, plan, shipped, group)

    def run_each(
        self,
        function: Callable[[Any], Any],
        items: list[Any],
        group: str = "",
        what: str = "",
        width: int | None = None,
    ) -> list[Any]:
        function = cloudpickle.loads(cloudpickle.dumps(function, 5))
        pool = _one_thread()
        try:
            with self.calling(group) as call:
                return call.run(pool, self._on_each, function, items)
        finally:
            pool.shutdown(wait=False)

    def _on_each(self, function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        results = []
        for item in items:
            with one_at_a_time:
                results.append(function(cloudpickle.loads(cloudpickle.dumps(item, 5))))
        return results

    @contextlib.contextmanager
    def calling(self, group: str) -> Iterator[Call]:
        """Tasks of a group run in here."""
        call = Call()
        with self._changed:
            self._calls.setdefault(group, set()).add(call)
        try:
            yield call
        finally:
            with self._changed:
                self._calls[group].discard(call)
                self._changed.notify_all()

    def cancel(self, group: str) -> None:
        """A task that runs is interrupted; one that sleeps or waits is left to itself."""
        with self._changed:
            calls = list(self._calls.get(group, ()))
        for call in calls:
            call.cancel()

    def wait_until_quiet(self, group: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._calls.get(group), _QUIET_SECONDS)

    def enter(self, context: RunContext, shipped: Shipped) -> WorkerExecution:
        """The worker that the next task runs in."""
        return worker.enter_execution(context, shipped)


class LocalDeployment(Deployment):
    """A plan that runs in this process. Each exchange deals rows out and sorts them as Spark would."""

    def __init__(self, engine: LocalEngine, plan: Plan, shipped: Shipped, group: str) -> None:
        self._engine = engine
        self._shipped = shipped
        self._widths = [plan.width(level) for level in range(len(plan.levels))]
        self.group = group
        # One thread for all steps: functions may hold what only the thread that has made it may use.
        self._pool = _one_thread()

    def run_step(self, header: StepHeader, inputs: list[Descriptor]) -> list[TaskAck]:
        try:
            with self._engine.calling(self.group) as call:
                return call.run(self._pool, self._run_step, header, inputs)
        except Cancelled:
            self._pool.shutdown(wait=False)
            self._pool = _one_thread()
            raise

    def _run_step(self, header: StepHeader, inputs: list[Descriptor]) -> list[TaskAck]:
        acks: list[TaskAck] = []
        rows = [
            WireRow(number, level, 0, DESCRIPTOR_SEQ, DESCRIPTOR, data) for level, number, data in inputs if level > 0
        ]
        own = {number: pickle.loads(data) for level, number, data in inputs if level == 0}
        for level, width in enumerate(self._widths):
            made: list[WireRow] = []
            for partition, mine in enumerate(self.exchanged(level, width, rows)):
                with one_at_a_time:
                    made += self.run_task(header, (level, partition), mine, own[partition] if level == 0 else None)
            acks += [pickle.loads(row.payload) for row in made if row.target == DRIVER and row.kind == ACK]
            rows = [row for row in made if row.target != DRIVER]
        return acks

    def exchanged(self, level: int, width: int, rows: list[WireRow]) -> list[list[WireRow]]:
        """What each task of a level gets."""
        dealt: list[list[WireRow]] = [[] for _ in range(width)]
        for row in rows:
            dealt[row.dest % width].append(row)
        for mine in dealt:
            mine.sort(key=lambda row: (row.seq, row.channel))
        return dealt

    def run_task(
        self, header: StepHeader, place: tuple[int, int], rows: list[WireRow], own: TaskInput | None
    ) -> list[WireRow]:
        """Run one task. ``own``: of level 0, what it is to do; deeper ones find it among their rows."""
        task = Task(self._engine.enter(header.context, self._shipped), header, *place)
        with printed.gathered_here(task.printed):
            return [row for chunk in task.work(iter(rows), own) for row in chunk]

    def bind(self, function: Callable[..., Any], *args: Any) -> Callable[[Any], Any]:
        return partial(function, self._shipped, *args)

    def end(self, live: tuple[str, ...]) -> None:
        ended = self._pool.submit(self._forget_all_but, live)
        self._pool.shutdown(wait=False)
        with contextlib.suppress(TimeoutError):
            ended.result(_QUIET_SECONDS)

    def _forget_all_but(self, live: tuple[str, ...]) -> None:
        """If a task that was left to itself is still in a function that is to be closed, nothing is."""
        if one_at_a_time.acquire(timeout=PATIENCE):
            try:
                worker.forget_all_but(live)
            finally:
                one_at_a_time.release()


def _one_thread() -> Threads:
    return Threads(1, "beadline-task")
