"""Drivers that die, as if by ``kill -9``, in the middle of Kafka's transactions. For the local engine, where the driver
writes them itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from beadline.connectors.kafka.coordinator import Coordinator
from beadline.connectors.kafka.transactions import KafkaTransactions

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
