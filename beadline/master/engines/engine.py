"""What the job master needs of whatever runs its tasks: Spark, or this process.

An engine may run any task twice, give up on a step, or be lost altogether. Running a task twice has no effect that one
run has not, and none that counts before the driver says so: the job master answers the first two by running the same
work again."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from beadline.errors import BeadlineError, EngineLostError, JobExecutionError, StepError
from beadline.graph.plan import Plan
from beadline.master.shipping.dependencies import Dependencies
from beadline.runtime.messages import StepHeader, TaskAck

#: Level, partition and pickled :class:`~beadline.runtime.messages.TaskInput` of one task of a step.
Descriptor = tuple[int, int, bytes]
R = TypeVar("R")


class Deployment(ABC):
    """A plan in an engine's hands; ``group`` names the tasks of its steps, ``shipment`` is what workers need of it."""

    def __init__(self, group: str, shipment: Any) -> None:
        self.group = group
        self._shipment = shipment

    @abstractmethod
    def run_step(self, header: StepHeader, inputs: list[Descriptor]) -> list[TaskAck]:
        """Run one step and give the acknowledgements of its tasks."""

    def bind(self, function: Callable[..., Any], *args: Any) -> Callable[[Any], Any]:
        """What calls ``function(shipment, *args, item)`` in a worker, for :meth:`Engine.run_each`."""
        return partial(function, self._shipment, *args)

    @abstractmethod
    def end(self, live: tuple[str, ...]) -> None:
        """The job has ended: workers close what they hold of it. ``live`` executions still go on."""


class Engine(ABC):
    """Runs tasks of jobs. If it is lost, methods with a result raise :class:`~beadline.errors.EngineLostError`, and
    methods that only end something do nothing: it has ended. Workers without a task for ``keep_alive`` seconds are soon
    lost, with what they keep of a job."""

    keep_alive: float = math.inf

    # -- what it can say of its places and workers

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many tasks run at a time."""

    @property
    @abstractmethod
    def one_machine(self) -> bool:
        """Whether the workers are on the driver's machine, and reach its files."""

    @property
    def application(self) -> str | None:
        """What the cluster that lends the workers calls this user of it; None if there is no cluster."""
        return None

    def warnings(self) -> list[str]:
        """Warnings about settings that hurt Beadline."""
        return []

    def explain(self, error: Exception) -> Exception | None:
        """The error to end a job with if its workers can't do any work; None if another try may help."""
        return None

    def lost_work(self, error: Exception) -> bool:
        """Whether tasks failed because a worker died or the engine gave up, and not because their function raised."""
        return False

    def advice(self, error: Exception) -> str:
        """What to add to the error that a step was given up for."""
        return ""

    # -- whether it is there

    @property
    def loss(self) -> str | None:
        """What happened to it, as far as can be told without asking it."""
        return None

    def ask(self) -> str | None:
        """What happened to it, if it does not answer or says that it was stopped."""
        return self.loss

    def check(self) -> None:
        """Raise if it is known to be lost."""
        if self.loss is not None:
            raise EngineLostError(self.loss)

    # -- tasks

    @abstractmethod
    def deploy(self, plan: Plan, dependencies: Dependencies, group: str) -> Deployment:
        """Send what the workers need of the program. The plan is not changed afterwards."""

    @abstractmethod
    def run_each(
        self,
        function: Callable[[Any], Any],
        items: list[Any],
        group: str = "",
        what: str = "",
        width: int | None = None,
    ) -> list[Any]:
        """Call a function on items in tasks, at most ``width``; it may be called twice for an item. ``group`` names the
        tasks, for :meth:`cancel` and :meth:`wait_until_quiet`; ``what`` says to people what they do."""

    @abstractmethod
    def cancel(self, group: str) -> None:
        """The results of these tasks are not needed any more."""

    @abstractmethod
    def wait_until_quiet(self, group: str) -> None:
        """No task of the group may be active before its work is done again: a task outlives the driver's exception."""


class OutOfTries(Exception):
    """No further try is made."""

    def __init__(self, tries: int, error: Exception) -> None:
        super().__init__(f"after {tries} tries: {error}")
        self.tries = tries
        self.error = error


def worth_another_try(error: Exception) -> bool:
    """Whether the engine or a check gave up; errors of the program or the set-up come the same way every time."""
    if "beadline.errors.StorageError" in str(error):
        return False
    return isinstance(error, StepError) or not isinstance(error, BeadlineError)


def tried(
    call: Callable[[], R],
    most: int,
    engine: Engine,
    unwanted: Callable[[], bool],
    again: Callable[[int, Exception], None],
    worth: Callable[[Exception], bool] = worth_another_try,
) -> tuple[R, int]:
    """What the call gives, and how many tries it took; ``again`` gets the number and the error of each failed one."""
    number = 1
    while True:
        try:
            return call(), number
        except Exception as error:
            explained = None if isinstance(error, JobExecutionError) else engine.explain(error)
            if explained is not None:
                raise explained from error
            if unwanted() or number == most or not worth(error):
                raise OutOfTries(number, error) from error
            again(number, error)
        number += 1
