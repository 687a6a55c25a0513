"""Where the work of sinks is done that makes output ready or visible: in tasks, or here if it is light."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from beadline.graph.plan import Plan
from beadline.graph.specs import SinkSpec
from beadline.master.engines.engine import Engine, OutOfTries, tried
from beadline.master.engines.threads import Threads
from beadline.master.reporting.telling import first_line
from beadline.master.shipping.shipment import classes_of
from beadline.runtime.short_tasks.publishing import LostFile, call_in_worker
from beadline.runtime.worker.classes import Classes

_LOG = logging.getLogger("beadline")

_TRIES = 3
# Up to this many bytes the driver does it itself, a few items at a time.
_LIGHT = 32 << 20
_THREADS = 8


class Calls:
    """Calls functions of sinks on items."""

    def __init__(self, engine: Engine, job_id: str, plan: Plan) -> None:
        #: What is being done now, for people.
        self.under_way: list[str] = []
        self._engine = engine
        self._job_name = plan.job_name
        # A group for each call: what is run again cancels the tasks of its group, and steps and other calls go on.
        self._group = f"beadline-{job_id}-publish"
        self._numbers = itertools.count(1)
        self._groups: set[str] = set()
        sinks = [node.spec.sink for node in plan.nodes.values() if isinstance(node.spec, SinkSpec)]
        self._classes = Classes()
        if any(sink.stages_in_job_folder for sink in sinks):
            self._classes = classes_of(plan)
            self._classes.trust_too()

    def __repr__(self) -> str:
        return f"<Calls of {self._group}>"

    def on_each(
        self,
        what: str,
        function: Callable[[Any], Any],
        items: list[Any],
        weight: Callable[[Any], int] | None = None,
    ) -> list[Any]:
        """What a function gives for items. A checkpoint must not wait for a slot that a slow step may hold for long."""
        if not items:
            return []
        self.under_way.append(what)
        try:
            return self._on_each(what, function, items, weight)
        finally:
            self.under_way.remove(what)

    def _on_each(
        self, what: str, function: Callable[[Any], Any], items: list[Any], weight: Callable[[Any], int] | None
    ) -> list[Any]:
        if weight is not None and sum(map(weight, items)) <= _LIGHT:
            if len(items) == 1:
                return [function(items[0])]
            # A program that ends does not wait for them: a system outside may never answer.
            with Threads(min(len(items), _THREADS), "beadline-sinks") as threads:
                return list(threads.map(function, items))
        found = self._in_tasks(what, partial(call_in_worker, self._classes, function), items)
        for each in found:
            if isinstance(each, LostFile):
                raise OSError(each.problem)
        return found

    def _in_tasks(self, what: str, call: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        """If a worker dies, do it again, when no task of the last try is left: an attempt of pre-committing makes
        something that no other attempt makes, and publishing twice is publishing once. What the function raises is
        raised at once."""
        group = f"{self._group}-{next(self._numbers)}"
        self._groups.add(group)

        def run() -> list[Any]:
            return self._engine.run_each(call, items, group, f"{self._job_name}: {what}")

        def again(number: int, error: Exception) -> None:
            _LOG.warning("%s: again (try %d of %d): %s", what, number, _TRIES, first_line(error))
            self._engine.cancel(group)
            self._engine.wait_until_quiet(group)

        try:
            found, _ = tried(
                run, _TRIES, self._engine, lambda: group not in self._groups, again, self._engine.lost_work
            )
        except OutOfTries as out:
            raise out.error from None
        self._groups.discard(group)  # that of a failed call stays: a task of it may be left
        return found

    def stop(self) -> None:
        """End what is under way, and what is left of calls that failed."""
        for group in self.give_up():
            self._engine.wait_until_quiet(group)

    def give_up(self) -> list[str]:
        """Nobody waits for what is under way; gives its groups."""
        groups = list(self._groups)
        self._groups.clear()
        for group in groups:
            self._engine.cancel(group)
        return groups
