"""Merging runs of state beside the steps, in a thread that submits Spark jobs of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from beadline.master.spark import Cluster, StepSubmitter
from beadline.runtime.messages import MergeRequest, MergeResult, StepHeader

_LOG = logging.getLogger("beadline")


class Merger:
    """One merge job at a time. It reads and writes immutable files; its results count only when the book takes them
    in."""

    def __init__(self, cluster: Cluster, submitter: StepSubmitter, header: Callable[[], StepHeader]) -> None:
        self._cluster = cluster
        self._submitter = submitter
        self._header = header
        self._thread: threading.Thread | None = None
        self._results: list[MergeResult] = []
        self._closed = False
        self._group = submitter.group + "-merge"

    @property
    def idle(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    def results(self) -> list[MergeResult]:
        """What the last job merged, once."""
        results, self._results = self._results, []
        return results

    def submit(self, requests: list[MergeRequest]) -> None:
        if requests:
            self._thread = threading.Thread(target=self._merge, args=(requests,), name="beadline-merge", daemon=True)
            self._thread.start()

    def _merge(self, requests: list[MergeRequest]) -> None:
        try:
            self._cluster.in_group(self._group, "merge runs of state")
            self._results = self._submitter.merge(self._header(), requests)
        except Exception as error:
            if self._closed:
                return
            # The handles still name the unmerged runs: nothing is lost but the work.
            _LOG.warning("merging runs of state failed and is tried again later: %s", str(error)[:300])

    def close(self) -> None:
        self._closed = True
        if not self.idle:
            self._cluster.cancel(self._group)
            assert self._thread is not None
            self._thread.join(30)
