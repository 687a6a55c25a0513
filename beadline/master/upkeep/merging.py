"""Merging runs of state beside the steps, in a thread that submits Spark jobs of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from beadline.errors import EngineLostError
from beadline.master.spark.session import Cluster, StepSubmitter
from beadline.master.stepping import first_line
from beadline.master.upkeep.short_tasks import ShortTasks
from beadline.runtime.messages import MergeRequest, MergeResult, StepHeader

_LOG = logging.getLogger("beadline")

# The tasks that run when a job ends may take so long to come to their end.
_LAST_TASKS_SECONDS = 3.0


class Merger:
    """One round of merging at a time. It reads and writes immutable files; its results count only when the book takes
    them in."""

    def __init__(self, cluster: Cluster, submitter: StepSubmitter, header: Callable[[], StepHeader]) -> None:
        self._cluster = cluster
        self._submitter = submitter
        self._header = header
        self._thread: threading.Thread | None = None
        self._tasks: ShortTasks[MergeRequest, MergeResult] | None = None
        self._results: list[MergeResult] = []
        self._closed = False
        self._group = submitter.group + "-merge"

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
        worker = lambda: self._submitter.merger(self._header())  # noqa: E731
        try:
            slots = max(1, self._cluster.slots - 1)
            self._tasks = ShortTasks(self._cluster, self._group, "merge runs of state", slots, worker)
            self._results = self._tasks.run(requests)
        except EngineLostError:
            return  # the job ends by that, and says so
        except Exception as error:
            if self._closed:
                return
            # The handles still name the unmerged runs: nothing is lost but the work.
            _LOG.warning("merging runs of state failed and is tried again later: %s", first_line(error))

    def close(self) -> None:
        self._closed = True
        if self._cluster.engine.loss is not None:
            return
        for at_once, patience in ((False, _LAST_TASKS_SECONDS), (True, 30.0)):
            if self._thread is not None and self._thread.is_alive():
                if self._tasks is not None:
                    self._tasks.stop(at_once)
                self._thread.join(patience)
