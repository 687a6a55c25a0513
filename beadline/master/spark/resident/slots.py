"""Which of Spark's slots a gang may have. Spark would wait without a word for slots that are not there, so they are
counted before."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from beadline.errors import EnvironmentSetupError

if TYPE_CHECKING:
    from beadline.master.spark.resident.engine import ResidentEngine

_LOG = logging.getLogger("beadline")
# Executors of a cluster register one after the other.
_REGISTER_SECONDS = 10.0

_lock = threading.Lock()
_taken: dict[str, int] = defaultdict(int)  # by application


class Slots:
    """The slots of one gang. The last free slot is left to everything else that runs on Spark: merges and savepoints of
    this job, DataFrames, other jobs."""

    def __init__(self, engine: ResidentEngine, width: int) -> None:
        wanted = min(width, engine.slots)
        there = self._count(engine, wanted)
        self._application = engine.application
        with _lock:
            others = _taken[self._application]
            self.size = min(wanted, there - others - 1)
            if self.size < 1:
                raise EnvironmentSetupError(_too_few(there, others))
            _taken[self._application] += self.size
        if self.size < wanted:
            _LOG.warning(
                "resident workers: %d, because Spark has %d slots%s and one stays free for other work; for %d "
                "workers give it %d (local: master local[%d])",
                self.size,
                there,
                f", {others} of them for workers of other jobs," if others else "",
                wanted,
                wanted + others + 1,
                wanted + others + 1,
            )
        else:
            _LOG.info("resident workers: %d of Spark's %d slots", self.size, there)

    @staticmethod
    def _count(engine: ResidentEngine, wanted: int) -> int:
        there = engine.all_slots()
        deadline = time.monotonic() + _REGISTER_SECONDS
        while not engine.is_local and there <= wanted and time.monotonic() < deadline:
            time.sleep(0.1)
            there = engine.all_slots()
        return there

    def release(self) -> None:
        """The gang is over, and no other follows it."""
        with _lock:
            _taken[self._application] -= self.size
            self.size = 0


def _too_few(there: int, others: int) -> str:
    used = f", {others} of which are taken by resident workers of other jobs" if others else ""
    return (
        f"too few slots for resident workers: Spark has {there}{used}; a job needs one, and one stays free for merges, "
        f"savepoints and DataFrames. Start Spark with at least {others + 2} (local: master local[{others + 2}]; on a "
        "cluster: more executors or spark.executor.cores), or set beadline.engine: spark."
    )
