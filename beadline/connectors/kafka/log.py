"""Kafka without transactions: rows are appended, and may come twice after a failure."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from beadline.connectors.kafka.producers import Producing
from beadline.connectors.kafka.topics import check_topics
from beadline.connectors.transactions import Entry, Log

_DURABLE = ("all", "-1")


@dataclass(repr=False)
class KafkaLog(Log):
    """Topics of a cluster.

    :ivar config: settings of librdkafka
    :ivar topics: those that are known beforehand
    :ivar log_failures_only: records that can't be delivered are reported in the log and left out
    """

    config: dict[str, Any]
    topics: tuple[str, ...] = ()
    log_failures_only: bool = False
    exactly_once: bool = field(default=False, init=False)

    def __repr__(self) -> str:
        return f"<KafkaLog at {self.config.get('bootstrap.servers')}>"

    def check(self) -> None:
        with self._borrowed() as producing:
            check_topics(producing, self.topics)

    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        with self._borrowed() as producing:
            producing.send(batches)

    def producer_config(self) -> dict[str, Any]:
        """Idempotent, so that the client's own retries leave neither doubles nor another order; unless the program
        wants fewer acknowledgements than that needs."""
        acks = str(self.config.get("acks", "all")).lower()
        return {"enable.idempotence": acks in _DURABLE, **self.config}

    @contextmanager
    def _borrowed(self) -> Iterator[Producing]:
        """A producer that this process keeps, for the time being. One that has failed is not used again; a forked
        process makes its own."""
        config = self.producer_config()
        settings = frozenset((name, str(value)) for name, value in config.items())
        free = _FREE.setdefault((os.getpid(), self.log_failures_only, settings), deque())
        try:
            producing = free.pop()
        except IndexError:
            producing = Producing(config, self.log_failures_only)
        yield producing
        free.append(producing)


_FREE: dict[tuple[int, bool, frozenset[tuple[str, str]]], deque[Producing]] = {}
