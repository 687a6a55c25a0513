"""Topics to read from, and sources that read them without an engine."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable
from typing import Any

from beadline.common.serialization import SimpleStringSchema
from beadline.connectors.kafka.source import KafkaStepSource
from beadline.connectors.source import Part, Position, StepSource
from beadline.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaSourceBuilder
from beadline.services import KafkaServer

_NUMBERS = itertools.count(1)


def named(name: str) -> str:
    """A name that no other test has."""
    return f"{name}-{os.getpid()}-{next(_NUMBERS)}"


def new_topic(kafka: KafkaServer, partitions: int = 1, name: str | None = None) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = name or named("topic")
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    return topic


def write(
    kafka: KafkaServer, topic: str, values: Iterable[Any], partition: int = 0, timestamp: int = 0, **settings: Any
) -> None:
    """Write values to one partition, and wait until they are there."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 5, **settings})
    for value in values:
        while True:
            try:
                producer.produce(topic, str(value).encode(), partition=partition, timestamp=timestamp)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def in_transaction(kafka: KafkaServer, topic: str, values: Iterable[Any], end: str = "commit") -> Any:
    """Write values in a transaction, and commit it, abort it, or leave it open: then the producer is returned."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": named("writer")})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, str(value).encode(), partition=0)
    producer.flush(30)
    if end == "commit":
        producer.commit_transaction(30)
    elif end == "abort":
        producer.abort_transaction(30)
    else:
        return producer
    return None


def delete_records(kafka: KafkaServer, topic: str, partition: int, before: int) -> None:
    """Delete what is before an offset, as retention does."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka.address})
    for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        future.result(30)


def remake_topic(kafka: KafkaServer, topic: str, partitions: int = 1) -> None:
    """Delete a topic, and make one of the same name."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    admin.delete_topics([topic])[topic].result(30)
    make_again(kafka, topic, partitions)


def make_again(kafka: KafkaServer, topic: str, partitions: int = 1) -> None:
    """Make a topic that is being deleted."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    until = time.monotonic() + 60
    while True:
        try:
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
            return
        except KafkaException:  # it is still there
            assert time.monotonic() < until
            time.sleep(0.05)


def commit(kafka: KafkaServer, group: str, topic: str, partition: int, offset: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


def committed(kafka: KafkaServer, group: str, topic: str, partition: int = 0) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": group})
    try:
        return int(consumer.committed([TopicPartition(topic, partition)], timeout=30)[0].offset)
    finally:
        consumer.close()


def builder(kafka: KafkaServer, *topics: str, start: KafkaOffsetsInitializer | None = None) -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_value_only_deserializer(SimpleStringSchema())
    if topics:
        made.set_topics(*topics)
    return made.set_starting_offsets(start) if start is not None else made


def step_source(made: KafkaSourceBuilder) -> KafkaStepSource:
    source = made.build()._make_source()
    source.prepare(False)
    return source


def split_records(source: StepSource, splits: Iterable[Any]) -> list[Any]:
    """What a task reads, in its order: pairs of the part and the record."""
    part, found = None, []
    for item in source.read_parts(list(splits)):
        if isinstance(item, Part):
            part = item.name
        else:
            found += [(part, record) for record in item[0]]
    return found


def read_on(source: StepSource, position: Position, rows: int = 1000, at_least: int = 0) -> tuple[Position, list[str]]:
    """Read what is there now, and wait for so many records: where that ends, and the records."""
    found: list[str] = []
    until = time.monotonic() + 60
    while True:
        end, splits = source.plan(position, rows, 1)
        if not splits and (len(found) >= at_least or time.monotonic() > until):
            return position, found
        position = end
        found += [record for _, record in split_records(source, splits)]


def read_all(made: KafkaSourceBuilder, rows: int = 1000) -> list[str]:
    """What is there now, for a new job."""
    source = step_source(made)
    try:
        return read_on(source, source.initial(), rows)[1]
    finally:
        source.stop()
