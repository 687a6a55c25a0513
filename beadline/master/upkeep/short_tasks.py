"""Tasks that run while steps do: merging state, writing savepoints. And deleting files that nobody needs.

Spark does not pre-empt, so a long task would keep a step waiting. Therefore such work is cut into tasks of about a
third of a second, which take all slots but one at most.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.errors import BeadlineError, EngineLostError
from beadline.master.engines.engine import Engine, OutOfTries, tried
from beadline.master.engines.threads import Threads
from beadline.master.reporting.telling import first_line
from beadline.master.upkeep.handles import StateBook
from beadline.runtime.messages import MergeRequest, MergeResult

_LOG = logging.getLogger("beadline")

# How long tasks that run when a job ends may take to finish.
_LAST_TASKS_SECONDS = 3.0
_TRIES = 3
# More threads than this do not submit jobs any faster; each then submits jobs of several tasks.
_THREADS = 8
T = TypeVar("T")
R = TypeVar("R")


class GivenUp(BeadlineError):
    """The work was stopped."""


class ShortTasks(Generic[T, R]):
    """Runs a function on items, each in a task of its own, ``slots`` at a time. ``worker`` gives the function, again
    for every few tasks, because what it must know changes."""

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
        """The results in the order of the items. ``until_quiet``: return or raise only when no task is active any more.
        One may have run twice, and the second one may still write."""
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
        """The results are not needed any more. ``at_once`` cancels running tasks too, which costs their workers."""
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


class Merger:
    """One round of merging at a time, in a thread, over immutable files. Results count when the book takes them in."""

    def __init__(self, engine: Engine, group: str, worker: Callable[[], Callable[[MergeRequest], MergeResult]]) -> None:
        self._engine = engine
        self._worker = worker
        self._thread: threading.Thread | None = None
        self._tasks: ShortTasks[MergeRequest, MergeResult] | None = None
        self._results: list[MergeResult] = []
        self._closed = False
        self._group = group

    @property
    def idle(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    def results(self) -> list[MergeResult]:
        """What the last round merged, once."""
        results, self._results = self._results, []
        return results

    def submit(self, requests: list[MergeRequest]) -> None:
        if requests:
            self._thread = threading.Thread(target=self._merge, args=(requests,), name="beadline-merge", daemon=True)
            self._thread.start()

    def _merge(self, requests: list[MergeRequest]) -> None:
        try:
            slots = max(1, self._engine.slots - 1)
            self._tasks = ShortTasks(self._engine, self._group, "merge segments of state", slots, self._worker)
            self._results = self._tasks.run(requests)
        except EngineLostError:
            return  # the job ends by that, and says so
        except Exception as error:
            if self._closed:
                return
            # The handles still name the unmerged segments: nothing is lost but the work.
            _LOG.warning("merging segments of state failed and is tried again later: %s", first_line(error))

    def close(self) -> None:
        self._closed = True
        if self._engine.loss is not None:
            return
        for at_once, patience in ((False, _LAST_TASKS_SECONDS), (True, 30.0)):
            if self._thread is not None and self._thread.is_alive():
                if self._tasks is not None:
                    self._tasks.stop(at_once)
                self._thread.join(patience)


def drop_garbage(
    book: StateBook, needed: frozenset[str], delete: Callable[[set[str]], None], freed: frozenset[str] = frozenset()
) -> str | None:
    """Delete files that neither the running job nor its checkpoints need. Gives why they stay for now, if they do."""
    book.own(freed)
    garbage = book.garbage(needed)
    try:
        delete(garbage)
    except (SnapshotError, OSError) as error:
        book.own(garbage)  # to be tried again
        return f"unneeded files could not be deleted yet: {error}"
    return None
