"""The engine in this process: tasks run one after the other, here; rows, seals, state and files are the real ones.

For a first look, a debugger, and tests: there is no JVM to start, and a step takes milliseconds. One process does all
the work, so nothing runs at the same time, and an operator that crashes the process ends the program.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import pickle
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from typing import Any, TypeVar

import cloudpickle

from beadline import pyflink_alias
from beadline.errors import JobExecutionError, StepError, UnsupportedFeatureError
from beadline.graph.plan import Plan
from beadline.master.engines.engine import Deployment, Descriptor, Engine
from beadline.master.engines.threads import Threads
from beadline.master.shipping.dependencies import Dependencies, requirements_archive
from beadline.master.shipping.shipment import make_shipment, put_on_own_path
from beadline.runtime.exchange.rows import ACK, DESCRIPTOR, DESCRIPTOR_SEQ, DRIVER, WireRow
from beadline.runtime.functions import printed
from beadline.runtime.messages import RunContext, StepHeader, TaskAck, TaskInput
from beadline.runtime.task.task import Task
from beadline.runtime.worker import garbage, worker
from beadline.runtime.worker.surroundings import CachedFile, Packed, Surroundings, Unpacked
from beadline.runtime.worker.worker import WorkerExecution

_QUIET_SECONDS = 60.0
# One process is one worker, which does one thing at a time: what a task may unpickle, and where what it prints goes, is
# the process's. Steps, merges and savepoints of whatever jobs take turns, a task each.
one_at_a_time = threading.RLock()
R = TypeVar("R")
# So long a call that was cancelled may take to come to its end. One that sleeps or waits does not notice before.
PATIENCE = 2.0
_LOOK_EVERY = 0.1


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
        super().__init__(group, shipped)
        self._engine = engine
        self._widths = [plan.width(level) for level in range(len(plan.levels))]
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
        task = Task(self._engine.enter(header.context, self._shipment), header, *place)
        with printed.gathered_here(task.printed):
            return [row for chunk in task.work(iter(rows), own) for row in chunk]

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


class Cancelled(StepError):
    """Nobody wants the result any more."""


class Interrupted(SystemExit):
    """Raised in work that is cancelled. Neither an event loop nor code that catches :class:`Exception` keeps it."""


class Call:
    """One piece of work in a thread of a pool, that can be interrupted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None  # that does the work now
        self._cancelled_at: float | None = None

    def run(self, pool: Threads, function: Callable[..., R], *args: Any) -> R:
        """What the function returns or raises; soon after :meth:`cancel`, Cancelled. Leave the pool alone then."""
        self.check()
        future = pool.submit(self._work, function, args)
        while not future.done():
            wait([future], _LOOK_EVERY)
            cancelled_at = self._cancelled_at
            if cancelled_at is not None and time.monotonic() - cancelled_at > PATIENCE:
                break
        self.check()
        try:
            return future.result()
        except SystemExit as error:
            raise JobExecutionError(f"a function of the program called sys.exit({error.code!r})") from None

    def cancel(self) -> None:
        """Nobody wants the result: interrupt the work where it is."""
        with self._lock:
            if self._cancelled_at is not None:
                return
            self._cancelled_at = time.monotonic()
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(Interrupted))

    def check(self) -> None:
        """Raise if nobody wants the result any more."""
        if self._cancelled_at is not None:
            raise Cancelled("the tasks were cancelled") from None

    def _work(self, function: Callable[..., R], args: tuple[Any, ...]) -> R:
        with self._lock:
            self.check()
            self._thread = threading.get_ident()
        try:
            return function(*args)
        finally:
            with self._lock:
                self._thread = None


def surroundings_here(wanted: Dependencies) -> Surroundings:
    """Give this process what the program asked for its workers."""
    wanted.check()
    if wanted.archives:
        raise UnsupportedFeatureError(
            f"add_python_archive({wanted.archives[0].path!r}): workers find archives in a working directory of their "
            "own, but the local engine runs functions in this process, in its directory. Use the Spark engine."
        )
    put_on_own_path(wanted.python_files)
    if wanted.requirements is not None:
        folder = tempfile.mkdtemp(prefix="beadline-packages-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        shutil.unpack_archive(requirements_archive(wanted.requirements), folder)
        sys.path.insert(0, folder)
    cached = tuple(CachedFile(file.name, Unpacked(file.path), file.executable) for file in wanted.cached_files)
    return Surroundings(pyflink_names=pyflink_alias.is_installed(), cached_files=cached)
