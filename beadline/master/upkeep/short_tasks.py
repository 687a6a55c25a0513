"""Tasks that run while steps do: merging state, writing savepoints.

Spark does not pre-empt, so a long task would keep a step waiting. Therefore such work is cut into tasks of about a
third of a second, which take all slots but one at most.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from beadline.errors import BeadlineError
from beadline.master.engine import Engine
from beadline.master.telling import first_line
from beadline.master.threads import Threads
from beadline.master.tries import OutOfTries, tried

_LOG = logging.getLogger("beadline")

_TRIES = 3
# More threads than this do not submit jobs any faster; each then submits jobs of several tasks.
_THREADS = 8

T = TypeVar("T")
R = TypeVar("R")


class GivenUp(BeadlineError):
    """The work was stopped."""


class ShortTasks(Generic[T, R]):
    """Runs a function on items, each in a task of its own, a few at a time.

    :param group: names the tasks
    :param slots: how many tasks there are at a time
    :param worker: gives the function; asked again for every few tasks, because what it must know changes
    """

    def __init__(
        self, engine: Engine, group: str, description: str, slots: int, worker: Callable[[], Callable[[T], R]]
    ) -> None:
        self._engine = engine
        self._group = group
        self._description = description
        self._threads = min(slots, _THREADS)
        self._tasks_at_once = slots // self._threads
        self._worker = worker
        self._waiting: deque[tuple[int, T]] = deque()
        self._results: dict[int, R] = {}
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []

    def run(self, items: list[T], until_quiet: bool = False) -> list[R]:
        """The results in the order of the items.

        :param until_quiet: return or raise only when no task is active any more. One may have run twice, and the
            second one may still write.
        """
        self._waiting.extend(enumerate(items))
        with Threads(self._threads, "beadline-beside") as threads:
            for _ in range(min(self._threads, len(items))):
                threads.submit(self._work)
        if self._errors or self._stopped.is_set():
            self._engine.cancel(self._group)
        if items and until_quiet:
            self._engine.wait_until_quiet(self._group)
        if self._errors:
            raise self._errors[0]
        if self._stopped.is_set():
            raise GivenUp(f"{self._description}: given up")
        return [self._results[number] for number in range(len(items))]

    def stop(self, at_once: bool = True) -> None:
        """The results are not needed any more.

        :param at_once: cancel running tasks too, which costs them their workers
        """
        self._stopped.set()
        if at_once:
            self._engine.cancel(self._group)

    def _work(self) -> None:
        try:
            while not self._stopped.is_set():
                job = self._next()
                if not job:
                    return
                results = self._submit([item for _, item in job])
                self._results.update(zip((number for number, _ in job), results, strict=True))
        except BaseException as error:
            self._errors.append(error)
            self._stopped.set()

    def _next(self) -> list[tuple[int, T]]:
        job: list[tuple[int, T]] = []
        while len(job) < self._tasks_at_once:
            try:
                job.append(self._waiting.popleft())
            except IndexError:
                break
        return job

    def _submit(self, items: list[T]) -> list[Any]:
        """Run some tasks at once; if the engine gives up on them, again."""

        def run() -> list[Any]:
            return self._engine.run_each(self._worker(), items, self._group, self._description, len(items))

        def again(number: int, error: Exception) -> None:
            _LOG.warning("%s: a part is done again: %s", self._description, first_line(error))

        try:
            return tried(run, _TRIES, self._engine, self._stopped.is_set, again, _worth_another_try)[0]
        except OutOfTries as out:
            if self._stopped.is_set():
                raise GivenUp(f"{self._description}: given up") from out.error
            raise out.error from None


def _worth_another_try(error: Exception) -> bool:
    """Beadline's own errors about given files come again every time."""
    return not isinstance(error, BeadlineError)
