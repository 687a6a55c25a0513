"""Topics to test with, and what consumers see in them."""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

from beadline.services import KafkaServer

_NUMBERS = itertools.count(1)


def fresh(name: str) -> str:
    """A name that no other test has."""
    return f"{name}-{os.getpid()}-{next(_NUMBERS)}"


def make_topic(kafka: KafkaServer, name: str, partitions: int = 1) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = fresh(name)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    return topic


def fill(kafka: KafkaServer, topic: str, values: list[str], keys: list[str] | None = None) -> None:
    """Write values, and wait until they are there."""
    from confluent_kafka import Producer

    # Idempotent: otherwise a batch that is sent again comes after those that were sent after it.
    settings = {"enable.idempotence": True, "partitioner": "murmur2_random"}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
    for number, value in enumerate(values):
        while True:
            try:
                producer.produce(topic, value.encode(), keys[number].encode() if keys is not None else None)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def messages(kafka: KafkaServer, topic: str, isolation: str = "read_committed") -> list[Any]:
    """All that a consumer sees, partition by partition, in order. It waits for nothing that comes later."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": fresh("reader"),
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            # A broker that has just been restarted may not know its topics yet.
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: dict[int, list[Any]] = {partition: [] for partition in partitions}
        open_ones, until = set(partitions), time.monotonic() + 120
        while open_ones:
            assert time.monotonic() < until, f"{topic} has no end in partitions {open_ones}"
            for message in consumer.consume(5000, 1.0):
                error = message.error()
                if error is None:
                    found[message.partition()].append(message)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    open_ones.discard(message.partition())
        return [message for partition in partitions for message in found[partition]]
    finally:
        consumer.close()


def values(kafka: KafkaServer, topic: str, isolation: str = "read_committed") -> list[str]:
    """The values that a consumer sees."""
    return [message.value().decode() for message in messages(kafka, topic, isolation)]
