"""KafkaSource and its builder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from beadline.common.serialization import DeserializationSchema
from beadline.common.typeinfo import TypeInformation, Types
from beadline.connectors.clients import require_kafka
from beadline.connectors.kafka.offsets import Offsets, Subscription
from beadline.connectors.kafka.properties import as_texts, number, truth
from beadline.connectors.kafka.records import KafkaRecord
from beadline.connectors.kafka.source import KafkaReading, KafkaStepSource
from beadline.datastream.connectors.base import Source
from beadline.datastream.connectors.kafka_offsets import KafkaOffsetsInitializer, KafkaTopicPartition
from beadline.datastream.connectors.kafka_reading import (
    ANY_TOPIC,
    CLIENT_ID_PREFIX,
    COMMIT,
    DISCOVERY,
    MINUTE,
    RESET,
    TIMEOUT,
    auto_commit_of,
    check_group,
    every,
    keeps_its_type,
    reset_of,
    settings_of,
)
from beadline.errors import ConfigurationError, TypeMismatchError

__all__ = ["KafkaRecord", "KafkaRecordDeserializationSchema", "KafkaSource", "KafkaSourceBuilder"]


class KafkaRecordDeserializationSchema:
    """Turns a whole record of Kafka, with its key, headers, timestamp, partition and offset, into one of the stream.
    Derive from it and override :meth:`deserialize`. PyFlink has no such thing in Python."""

    def deserialize(self, record: KafkaRecord) -> Any:
        """The record of the stream; None for none. Called in the workers."""
        raise NotImplementedError(f"{type(self).__name__} must override deserialize(record)")

    def deserializer(self) -> Callable[[KafkaRecord], Any]:
        """What is called for every record; asked for once per task."""
        return self.deserialize

    def get_produced_type(self) -> TypeInformation:
        """The type of the records; any Python object unless overridden."""
        return Types.PICKLED_BYTE_ARRAY()


class KafkaSource(Source):
    """Reads topics of Kafka::

        source = (
            KafkaSource.builder()
            .set_bootstrap_servers("localhost:9092")
            .set_topics("orders")
            .set_group_id("shop")
            .set_starting_offsets(KafkaOffsetsInitializer.earliest())
            .set_value_only_deserializer(SimpleStringSchema())
            .build()
        )

    Each partition has its own watermark generator. The timestamps of Kafka's records are those of the stream's,
    unless a timestamp assigner gives others.
    """

    def __init__(self, reading: KafkaReading) -> None:
        self._reading = reading
        self._produced_type = reading.schema.get_produced_type()
        self._keeps_its_type = keeps_its_type(reading.schema)

    def __repr__(self) -> str:
        return f"<KafkaSource of {self._reading.subscription} at {self._reading.settings['bootstrap.servers']}>"

    def _make_source(self) -> KafkaStepSource:
        require_kafka()
        return KafkaStepSource(self._reading)

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        return KafkaSourceBuilder()


class KafkaSourceBuilder:
    """Sets up a :class:`KafkaSource`. Topics or partitions, a deserializer and ``bootstrap.servers`` are needed."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._subscription: Subscription | None = None
        self._start = Offsets("earliest", "earliest")
        self._stop: Offsets | None = None
        self._bounded = False
        self._schema: DeserializationSchema | KafkaRecordDeserializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """The consumer group that hears how far completed checkpoints have got."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        if not topics or not all(isinstance(topic, str) and topic for topic in topics):
            raise ConfigurationError(f"set_topics(…) takes names of topics, got {topics!r}.")
        return self._subscribe(Subscription(topics=tuple(dict.fromkeys(topics))))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """All topics whose whole name matches a regular expression, also those that come later."""
        try:
            re.compile(topic_pattern)
        except re.error as error:
            raise ConfigurationError(f"set_topic_pattern({topic_pattern!r}): {error}") from None
        return self._subscribe(Subscription(pattern=topic_pattern))

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder:
        if not partitions or not all(isinstance(each, KafkaTopicPartition) for each in partitions):
            raise ConfigurationError(f"set_partitions(…) takes a set of KafkaTopicPartition, got {partitions!r}.")
        return self._subscribe(Subscription(partitions=tuple(sorted(each._plain() for each in partitions))))

    def _subscribe(self, subscription: Subscription) -> KafkaSourceBuilder:
        if self._subscription is not None:
            raise ConfigurationError(
                f"KafkaSource reads {self._subscription} already: only one of set_topics, set_topic_pattern and "
                "set_partitions may be called, once."
            )
        self._subscription = subscription
        return self

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Where a new job starts; the earliest offsets unless set. A restored one goes on from its checkpoint."""
        self._start = starting_offsets_initializer._offsets
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop at these offsets; until then the source counts as one that does not end."""
        self._stop, self._bounded = _stopping(stopping_offsets_initializer), False
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """End at these offsets. ``latest()``: at those that are the last when the job starts."""
        self._stop, self._bounded = _stopping(stopping_offsets_initializer), True
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """What turns the value of a record into a record of the stream. Keys are not read."""
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise TypeMismatchError(f"a DeserializationSchema is needed, got {deserialization_schema!r}")
        self._schema = deserialization_schema
        return self

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder:
        """What turns a record with its key, headers, timestamp, partition and offset into a record of the stream."""
        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            raise TypeMismatchError(f"a KafkaRecordDeserializationSchema is needed, got {record_deserializer!r}")
        self._schema = record_deserializer
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        return self.set_property(CLIENT_ID_PREFIX, prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """A property of Kafka's Java consumer."""
        self._properties.update(as_texts({key: value}))
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        self._properties.update(as_texts(props))
        return self

    def build(self) -> KafkaSource:
        if self._subscription is None:
            raise ConfigurationError("KafkaSource: what is to be read? Call set_topics(…).")
        if self._schema is None:
            raise ConfigurationError("KafkaSource: no deserializer; call set_value_only_deserializer(…).")
        if truth(self._properties, COMMIT, False) and "group.id" not in self._properties:
            raise ConfigurationError(f"KafkaSource: {COMMIT} needs a group; call set_group_id(…).")
        reset = reset_of(self._properties) if RESET in self._properties else self._start.reset
        reading = KafkaReading(
            settings=settings_of(self._properties, "KafkaSource", DISCOVERY, COMMIT),
            subscription=self._subscription,
            start=self._start,
            stop=self._stop,
            bounded=self._bounded,
            reset=reset,
            schema=self._schema,
            whole_records=isinstance(self._schema, KafkaRecordDeserializationSchema),
            discovery_seconds=every(number(self._properties, DISCOVERY, 5 * MINUTE)),
            commits=truth(self._properties, COMMIT, True),
            auto_commit_seconds=auto_commit_of(self._properties, default=False),
            patience=number(self._properties, TIMEOUT, MINUTE) / 1000,
            any_topic=truth(self._properties, ANY_TOPIC, False),
        )
        check_group(reading)
        return KafkaSource(reading)


def _stopping(initializer: KafkaOffsetsInitializer) -> Offsets:
    if initializer._offsets.kind == "earliest":
        raise ConfigurationError("KafkaSource can't stop at the earliest offsets: there would be nothing to read.")
    return initializer._offsets
