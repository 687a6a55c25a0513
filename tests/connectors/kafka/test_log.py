"""Kafka without transactions, on a real broker."""

from __future__ import annotations

import logging
import pickle

import pytest

from beadline.connectors.kafka.log import KafkaLog
from beadline.connectors.transactions import Entry
from beadline.errors import ConfigurationError
from beadline.services import KafkaServer
from tests.connectors.kafka.topics import make_topic, values

pytestmark = pytest.mark.kafka

ENTRY = Entry("writer", 0, 1)
LARGE = bytes(3 << 20)


def row(topic: str, value: bytes) -> tuple[object, ...]:
    return (topic, value, None, -1, 0, None)


def log_of(kafka: KafkaServer, topic: str, **more: object) -> KafkaLog:
    # The client lets large records pass, so that it is the broker who refuses them.
    return KafkaLog({"bootstrap.servers": kafka.bootstrap_servers, "message.max.bytes": 4 << 20}, (topic,), **more)  # type: ignore[arg-type]


def test_rows_are_appended_in_order(kafka: KafkaServer) -> None:
    topic = make_topic(kafka, "log")
    log: KafkaLog = pickle.loads(pickle.dumps(log_of(kafka, topic)))
    log.check()
    numbers = [str(number) for number in range(250_000)]
    rows = [row(topic, number.encode()) for number in numbers]
    log.append(ENTRY, (rows[first : first + 5000] for first in range(0, len(rows), 5000)))
    assert values(kafka, topic) == numbers


def test_a_row_that_can_not_be_delivered_is_an_error(kafka: KafkaServer) -> None:
    topic = make_topic(kafka, "strict")
    log = log_of(kafka, topic)
    with pytest.raises(ConfigurationError, match=rf"not be written to Kafka, the first to {topic}-0.*max.request"):
        log.append(ENTRY, iter([[row(topic, LARGE)]]))
    log.append(ENTRY, iter([[row(topic, b"small")]]))
    assert values(kafka, topic) == ["small"], "what has failed once does not fail the next"


def test_failures_are_only_logged_if_so_wanted(kafka: KafkaServer, caplog: pytest.LogCaptureFixture) -> None:
    topic = make_topic(kafka, "lenient")
    log = log_of(kafka, topic, log_failures_only=True)
    with caplog.at_level(logging.ERROR, "beadline.kafka"):
        log.append(ENTRY, iter([[row(topic, b"1"), row(topic, LARGE)], [row(topic, b"2")]]))
    assert values(kafka, topic) == ["1", "2"]
    assert "1 records could not be written to Kafka" in caplog.text


def test_fewer_acknowledgements_turn_idempotence_off(kafka: KafkaServer) -> None:
    topic = make_topic(kafka, "quick")
    log = KafkaLog({"bootstrap.servers": kafka.bootstrap_servers, "acks": "1"}, (topic,))
    assert log.producer_config()["enable.idempotence"] is False
    log.append(ENTRY, iter([[row(topic, b"1")]]))
    assert values(kafka, topic) == ["1"]
