"""Producers of confluent-kafka, and how rows go through them.

A row is ``(topic, value, key, partition, timestamp, headers)``. Partition -1 and timestamp 0 leave the choice to the
client, which takes the partition from the key as Java's clients do, and the time from the clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from beadline.connectors.clients import require_kafka
from beadline.connectors.kafka.properties import client_settings
from beadline.errors import ConfigurationError

_LOG = logging.getLogger("beadline.kafka")

# Java's default, in milliseconds. librdkafka would go on for five minutes.
DELIVERY_TIMEOUT = 120_000

# What a producer does unless it is told otherwise. Java's clients find partitions in the same way; the rest is for
# speed: whole checkpoints are written at once, so there is always something to fill a batch with.
_DEFAULTS = {
    "partitioner": "murmur2_random",
    # Errors only: what passes by itself is told as "retrying" once per transaction otherwise.
    "log_level": 3,
    "linger.ms": 20,
    "batch.size": 1 << 20,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 << 10,
}

# Errors that no repetition cures: the program or the cluster must change.
_LASTING = {
    "MSG_SIZE_TOO_LARGE": "Raise 'max.request.size' of the sink and 'max.message.bytes' of the topic.",
    "TOPIC_AUTHORIZATION_FAILED": "Give the user of this job the right to write to the topic.",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "Give the user of this job the right to use its transactional ids.",
    "CLUSTER_AUTHORIZATION_FAILED": "Give the user of this job the right to write idempotently to the cluster.",
    "_UNKNOWN_TOPIC": "Create the topic, or let the broker create topics (auto.create.topics.enable).",
    "UNKNOWN_TOPIC_OR_PART": "Create the topic, or let the broker create topics (auto.create.topics.enable).",
    "_UNKNOWN_PARTITION": "The topic has no such partition: look at the partitioner.",
    "TOPIC_EXCEPTION": "The topic's name is not valid.",
    "_AUTHENTICATION": "Look at the user, the password and the mechanism of the log-in.",
    "SASL_AUTHENTICATION_FAILED": "Look at the user, the password and the mechanism of the log-in.",
    "INVALID_TRANSACTION_TIMEOUT": "Lower 'transaction.timeout.ms' or raise the broker's 'transaction.max.timeout.ms'.",
}


def producer_settings(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of librdkafka for these properties of Java's producer."""
    settings: dict[str, Any] = dict(client_settings(properties, "producer"))
    # It has two names there, and only one of them may be given.
    if "delivery.timeout.ms" in settings:
        settings["message.timeout.ms"] = settings.pop("delivery.timeout.ms")
    return settings


class Producing:
    """A producer, and what it could not deliver. For one thread at a time.

    :param config: settings of librdkafka
    :param lenient: records that can't be delivered are reported in the log, and the others are written
    """

    def __init__(self, config: Mapping[str, Any], lenient: bool = False) -> None:
        self._lenient = lenient
        self.servers = str(config.get("bootstrap.servers", ""))
        self._failures: list[tuple[Any, str]] = []
        self._failed = 0
        self.trouble = ""
        # Why the log-in was refused, if it was.
        self.locked_out: Any = None
        self.producer = _make(
            {
                **_DEFAULTS,
                "message.timeout.ms": DELIVERY_TIMEOUT,
                **config,
                "delivery.report.only.error": True,
                "on_delivery": self._not_delivered,
                "error_cb": self._in_trouble,
            }
        )

    def drop(self) -> None:
        """Let the client go, with its threads and connections, now and not when the garbage is collected. It is not
        closed, which would abort its transaction."""
        self.producer = None

    def _not_delivered(self, error: Any, message: Any) -> None:
        self._failed += 1
        if len(self._failures) < 3:
            self._failures.append((error, f"{message.topic()}-{message.partition()}"))

    def _in_trouble(self, error: Any) -> None:
        """The client goes on trying by itself; this is for the message if it ends in failure."""
        self.trouble = error.str()
        if error.name() in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"):
            self.locked_out = error

    def send(self, batches: Iterator[list[Any]]) -> int:
        """Write all rows and wait until they are delivered; gives how many there were.

        :raises OSError: some were not, which may be different next time
        :raises ConfigurationError: some were not, and never will be
        """
        from confluent_kafka import KafkaException

        try:
            return self._send(batches)
        except KafkaException as error:
            raise as_error(error.args[0], f"Records could not be written to Kafka at {self.servers}") from None
        except SystemError as error:
            # What the client's flush() comes to after a fatal error, with the error as its cause or without it.
            what = f"Records could not be written to Kafka at {self.servers}"
            if isinstance(error.__cause__, KafkaException):
                raise as_error(error.__cause__.args[0], what) from None
            raise OSError(f"{what}: the client has failed for good. If the log says no more, it was fenced") from None

    def _send(self, batches: Iterator[list[Any]]) -> int:
        produce, poll, count = self.producer.produce, self.producer.poll, 0
        for rows in batches:
            for topic, value, key, partition, timestamp, headers in rows:
                try:
                    produce(topic, value, key, partition, None, None, timestamp, headers)
                except BufferError:
                    self._produce_when_there_is_room(topic, value, key, partition, None, None, timestamp, headers)
            count += len(rows)
            poll(0)
            if self._failures and not self._lenient:
                break
        self.flush()
        return count

    def _produce_when_there_is_room(self, *message: Any) -> None:
        deadline = time.monotonic() + 2 * DELIVERY_TIMEOUT / 1000
        while True:
            self.producer.poll(0.05)
            self.check()
            try:
                return self.producer.produce(*message)  # type: ignore[no-any-return]
            except BufferError:
                if time.monotonic() > deadline:
                    raise OSError(f"{self.servers} takes no records: the buffer stays full. {self.trouble}") from None

    def flush(self) -> None:
        """Each record is delivered or given up when the delivery timeout is over, so this comes to an end."""
        while self.producer.flush(1.0):
            if self._failures and not self._lenient:
                self.producer.purge()
        self.check()

    def check(self) -> None:
        """Raise if anything could not be delivered."""
        if not self._failures:
            return
        (error, place), failed = self._failures[0], self._failed
        self._failures, self._failed = [], 0
        problem = as_error(error, f"{failed} records could not be written to Kafka, the first to {place}", self.trouble)
        if not self._lenient:
            raise problem
        _LOG.error("%s", problem)


def _make(config: Mapping[str, Any]) -> Any:
    require_kafka()
    from confluent_kafka import KafkaException, Producer

    try:
        return Producer(dict(config), logger=_LOG)
    except KafkaException as error:
        raise ConfigurationError(f"Kafka's client refuses its settings: {error.args[0].str()}") from None


def as_error(error: Any, what: str, trouble: str = "") -> Exception:
    """An error of the client in the user's terms.

    :param error: a KafkaError
    """
    name = error.name()
    detail = error.str() + (f" ({trouble})" if trouble and trouble != error.str() else "")
    if name in _LASTING:
        return ConfigurationError(f"{what}: {detail}. {_LASTING[name]}")
    return OSError(f"{what}: {detail}")
