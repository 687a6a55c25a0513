"""Processes that die, as if by ``kill -9``, in the middle of Kafka's transactions: drivers on the local engine, where
they write transactions themselves, and workers of Spark."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

from beadline.connectors.kafka.coordinator import Coordinator
from beadline.connectors.kafka.transactions import KafkaTransactions
from beadline.datastream.connectors import kafka_sink
from beadline.master.snapshots import calls
from tests.recovery.jobs import Accident

#: The folder where it is noted that workers died. If it is set, tasks write the transactions, and some of them die.
WORKERS_DIE = "BEADLINE_TEST_WORKERS_DIE"
DEATHS = 3

POINTS = (
    "in the middle of writing a transaction",
    "after one of several transactions was written",
    "after one of several transactions was committed",
)
# Of two for each checkpoint: the first of the second checkpoint that has anything to write.
_CALLS = 3


def prepare(point: str) -> None:
    """Die at that point, in the third transaction."""
    if point == "in the middle of writing a transaction":
        _patch_write(rows_first=True)
    elif point == "after one of several transactions was written":
        _patch_write(rows_first=False)
    else:
        _patch_commit()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _patch_write(rows_first: bool) -> None:
    original, calls = KafkaTransactions.write, 0

    def write(self: KafkaTransactions, id: str, batches: Iterator[list[Any]]) -> Any:
        nonlocal calls
        calls += 1
        if calls < _CALLS:
            return original(self, id, batches)
        handle = original(self, id, _then_die(batches) if rows_first else batches)
        _die()
        return handle

    KafkaTransactions.write = write  # type: ignore[method-assign]


def _then_die(batches: Iterator[list[Any]]) -> Iterator[list[Any]]:
    """What was given to the client by then is on its way, or not."""
    yield next(batches)
    _die()


def _patch_commit() -> None:
    original, calls = Coordinator.end, 0

    def end(self: Coordinator, id: str, producer_id: int, epoch: int, commit: bool) -> bool:
        nonlocal calls
        done = original(self, id, producer_id, epoch, commit)
        calls += commit
        if calls >= _CALLS:
            _die()
        return done

    Coordinator.end = end  # type: ignore[method-assign]


def let_workers_die(folder: str) -> None:
    """Tasks write transactions, however small they are, and three times a worker dies in the middle of one."""
    calls._LIGHT = -1
    WorkersDie.folder = folder
    kafka_sink.KafkaTransactions = WorkersDie  # type: ignore[misc]


class WorkersDie(KafkaTransactions):
    folder = ""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self._folder = self.folder  # goes to the workers

    def write(self, id: str, batches: Iterator[list[Any]]) -> Any:
        return super().write(id, _then_die(batches) if self._dies() else batches)

    def _dies(self) -> bool:
        """Not twice in a second: what died must be written before another dies."""
        for number in range(DEATHS):
            before = os.path.join(self._folder, f"accident-worker-{number - 1}")
            if number and (not os.path.exists(before) or time.time() - os.stat(before).st_mtime < 1):
                return False
            if Accident(self._folder, f"worker-{number}", gate=None).happens():
                return True
        return False
