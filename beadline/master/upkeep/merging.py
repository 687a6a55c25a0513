"""Keeping state small while steps run: merging its files, and deleting those that nobody needs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.errors import EngineLostError
from beadline.master.engine import Engine
from beadline.master.telling import first_line
from beadline.master.upkeep.handles import StateBook
from beadline.master.upkeep.short_tasks import ShortTasks
from beadline.runtime.messages import MergeRequest, MergeResult

_LOG = logging.getLogger("beadline")

# How long tasks that run when a job ends may take to finish.
_LAST_TASKS_SECONDS = 3.0


class Merger:
    """One round of merging at a time, in a thread. It reads and writes immutable files; its results count only when
    the book takes them in.

    :param group: names its tasks
    :param worker: gives what merges in a worker
    """

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
    """Delete files that neither the running job nor its checkpoints need.

    :param needed: by checkpoints
    :param freed: what a checkpoint has just released
    :returns: why they stay for now, if they do
    """
    book.own(freed)
    garbage = book.garbage(needed)
    try:
        delete(garbage)
    except (SnapshotError, OSError) as error:
        book.own(garbage)  # to be tried again
        return f"unneeded files could not be deleted yet: {error}"
    return None
