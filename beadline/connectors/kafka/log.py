"""Kafka without transactions: rows are appended, and may come twice after a failure."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from beadline.connectors.kafka.producers import Producing
from beadline.connectors.kafka.topics import check_topics
from beadline.connectors.transactions import Entry, Log
from beadline.errors import ConfigurationError

_DURABLE = ("all", "-1")


@dataclass(repr=False)
class KafkaLog(Log):
    """Topics of a cluster.

    :ivar config: settings of librdkafka
    :ivar topics: those that are known beforehand
    :ivar log_failures_only: records that can't be delivered are reported and left out
    """

    config: dict[str, Any]
    topics: tuple[str, ...] = ()
    log_failures_only: bool = False
    exactly_once: bool = field(default=False, init=False)

    def __repr__(self) -> str:
        return f"<KafkaLog at {self.config.get('bootstrap.servers')}>"

    def check(self) -> None:
        check_topics(self._producing(), self.topics)

    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        producing = self._producing()
        try:
            producing.send(batches)
        except (OSError, ConfigurationError) as error:
            if not self.log_failures_only:
                raise
            producing.report(error)

    def _producing(self) -> Producing:
        return kept(self.producer_config())

    def producer_config(self) -> dict[str, Any]:
        """Idempotent, so that the client's own retries leave neither doubles nor another order; unless the program wants
        fewer acknowledgements than that needs."""
        acks = str(self.config.get("acks", "all")).lower()
        return {"enable.idempotence": acks in _DURABLE, **self.config}


_KEPT: dict[tuple[int, frozenset[tuple[str, str]]], Producing] = {}
_LOCK = threading.Lock()


def kept(config: dict[str, Any]) -> Producing:
    """The producer with these settings that this process keeps. A forked process makes its own."""
    key = os.getpid(), frozenset((name, str(value)) for name, value in config.items())
    with _LOCK:
        if key not in _KEPT:
            _KEPT[key] = Producing(config)
        return _KEPT[key]
