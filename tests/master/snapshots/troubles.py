"""Calls that wait, fail or happen twice when a test says so; and waiting for what follows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from beadline.graph.plan import Plan
from beadline.master.engines.local import LocalDeployment, LocalEngine
from beadline.runtime.messages import StepHeader, TaskAck

#: A test that has to wait for longer fails.
PATIENCE_SECONDS = 20.0


def until(condition: Callable[[], Any], what: str = "it") -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.001)


class Gate:
    """Calls wait here until the test lets them go on.

    :param calls: how many are stopped
    """

    def __init__(self, calls: int = 1) -> None:
        self._reached, self._open = threading.Event(), threading.Event()
        self._calls = iter(range(calls))

    def come(self) -> None:
        if next(self._calls, None) is not None:
            self._reached.set()
            assert self._open.wait(PATIENCE_SECONDS), "nobody opened the gate"

    def reached(self) -> None:
        """Wait until a call has come."""
        assert self._reached.wait(PATIENCE_SECONDS), "nobody came to the gate"

    def open(self) -> None:
        self._open.set()

    def after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose calls wait here when they are done."""

        def waiting(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self.come()
            return result

        return waiting


def fails(times: int, error: Exception, function: Any) -> Any:
    """The function, which raises some times before it works."""
    left = iter(range(times))

    def failing(*args: Any, **kwargs: Any) -> Any:
        if next(left, None) is not None:
            raise error
        return function(*args, **kwargs)

    return failing


class TwiceEngine(LocalEngine):
    """Runs everything twice: nothing may have an effect that a second run doubles.

    :ivar failures: what is raised instead, by what the group's name ends with, in this order
    :ivar gates: where calls wait, by the same
    :ivar lost: what happened to it
    :ivar groups: of the items that were handed over
    :ivar headers: of the steps
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[str, list[Exception]] = {}
        self.gates: dict[str, Gate] = {}
        self.lost: str | None = None
        self.groups: list[str] = []
        self.headers: list[StepHeader] = []

    @property
    def loss(self) -> str | None:
        return self.lost

    @property
    def calls(self) -> int:
        """How many items were handed over."""
        return len(self.groups)

    def come(self, kind: str) -> None:
        if kind in self.gates:
            self.gates[kind].come()
        if self.failures.get(kind):
            raise self.failures[kind].pop(0)

    def run_each(
        self,
        function: Callable[[Any], Any],
        items: list[Any],
        group: str = "",
        what: str = "",
        width: int | None = None,
    ) -> list[Any]:
        self.groups += [group] * len(items)
        self.come(next((part for part in group.split("-") if part in ("publish", "savepoint", "merge")), ""))
        super().run_each(function, items, group, what, width)
        return super().run_each(function, items, group, what, width)

    def deploy(self, plan: Plan, dependencies: Any, group: str) -> LocalDeployment:
        return _TwiceDeployment(self, super().deploy(plan, dependencies, group))


class _TwiceDeployment(LocalDeployment):
    def __init__(self, engine: TwiceEngine, made: LocalDeployment) -> None:
        self.__dict__.update(made.__dict__)
        self._twice = engine

    def run_step(self, header: StepHeader, inputs: list[Any]) -> list[TaskAck]:
        self._twice.headers.append(header)
        self._twice.come("step")
        super().run_step(header, inputs)
        return super().run_step(header, inputs)
