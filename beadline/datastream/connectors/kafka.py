"""Kafka: the names of ``pyflink.datastream.connectors.kafka``.

No jar is needed. Properties have the names of Java's clients; what can't be translated is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from beadline.api.function import SourceFunction
from beadline.common.serialization import DeserializationSchema
from beadline.common.typeinfo import TypeInformation, Types
from beadline.connectors.kafka.offsets import Offsets, Partition, Reset, Subscription
from beadline.connectors.kafka.properties import as_texts, consumer_settings, number, truth
from beadline.connectors.kafka.records import KafkaRecord
from beadline.connectors.kafka.source import KafkaReading, KafkaStepSource
from beadline.datastream.connectors.base import Source
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError

__all__ = [
    "FlinkKafkaConsumer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
]

_DISCOVERY = "partition.discovery.interval.ms"
_OLD_DISCOVERY = "flink.partition-discovery.interval-millis"
_CLIENT_ID_PREFIX = "client.id.prefix"
_COMMIT = "commit.offsets.on.checkpoint"
_AUTO_COMMIT = "enable.auto.commit"
_AUTO_COMMIT_INTERVAL = "auto.commit.interval.ms"
_RESET = "auto.offset.reset"
_TIMEOUT = "default.api.timeout.ms"
_OWN = frozenset(
    {
        _DISCOVERY,
        _OLD_DISCOVERY,
        _CLIENT_ID_PREFIX,
        _COMMIT,
        _AUTO_COMMIT,
        _AUTO_COMMIT_INTERVAL,
        _RESET,
        _TIMEOUT,
    }
)
_MINUTE = 60_000


class KafkaOffsetResetStrategy(Enum):
    """What to read where a group has committed nothing, or where what is to be read is gone."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class KafkaTopicPartition:
    """A partition of a topic."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition

    def __repr__(self) -> str:
        return f"KafkaTopicPartition({self._topic!r}, {self._partition})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaTopicPartition) and self._plain() == other._plain()

    def __hash__(self) -> int:
        return hash(self._plain())

    def _plain(self) -> Partition:
        return Partition(self._topic, self._partition)


class KafkaOffsetsInitializer:
    """Where reading starts, or stops."""

    def __init__(self, offsets: Offsets) -> None:
        if not isinstance(offsets, Offsets):
            raise UnsupportedFeatureError(
                "KafkaOffsetsInitializer is made by its static methods: earliest(), latest(), timestamp(…), "
                "committed_offsets(…), offsets(…)."
            )
        self._offsets = offsets

    def __repr__(self) -> str:
        return f"<KafkaOffsetsInitializer {self._offsets.kind}>"

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record that is there."""
        return KafkaOffsetsInitializer(Offsets("earliest", "earliest"))

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """After the last record that is there when the job starts."""
        return KafkaOffsetsInitializer(Offsets("latest", "latest"))

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record with this timestamp, in milliseconds, or a later one; the end if there is none."""
        if timestamp < 0:
            raise ConfigurationError(f"KafkaOffsetsInitializer.timestamp({timestamp}): it can't be negative.")
        return KafkaOffsetsInitializer(Offsets("timestamp", "latest", timestamp=timestamp))

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """What the consumer group has committed."""
        return KafkaOffsetsInitializer(Offsets("committed", _reset_of(offset_reset_strategy)))

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets. For other partitions what the group has committed, or as the strategy says."""
        for offset in offsets.values():
            if offset < 0:
                raise ConfigurationError(f"KafkaOffsetsInitializer.offsets(…): {offset} is not an offset.")
        given = {partition._plain(): offset for partition, offset in offsets.items()}
        return KafkaOffsetsInitializer(Offsets("given", _reset_of(offset_reset_strategy), given=given))


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

    def __repr__(self) -> str:
        return f"<KafkaSource of {self._reading.subscription} at {self._reading.settings['bootstrap.servers']}>"

    def _make_source(self) -> KafkaStepSource:
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
        return self.set_property(_CLIENT_ID_PREFIX, prefix)

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
        if truth(self._properties, _COMMIT, False) and "group.id" not in self._properties:
            raise ConfigurationError(f"KafkaSource: {_COMMIT} needs a group; call set_group_id(…).")
        reset = _reset(self._properties) if _RESET in self._properties else self._start.reset
        reading = KafkaReading(
            settings=_settings(self._properties, "KafkaSource"),
            subscription=self._subscription,
            start=self._start,
            stop=self._stop,
            bounded=self._bounded,
            reset=reset,
            schema=self._schema,
            whole_records=isinstance(self._schema, KafkaRecordDeserializationSchema),
            discovery_seconds=_seconds(number(self._properties, _DISCOVERY, 5 * _MINUTE)),
            commits=truth(self._properties, _COMMIT, True),
            auto_commit_seconds=_auto_commit(self._properties, default=False),
            patience=number(self._properties, _TIMEOUT, _MINUTE) / 1000,
        )
        _check_group(reading)
        return KafkaSource(reading)


class FlinkKafkaConsumer(Source, SourceFunction):
    """Reads topics of Kafka, for programs of PyFlink 1.x: ``env.add_source(FlinkKafkaConsumer(…))``.

    It starts from what the group has committed, unless told otherwise.

    :param topics: one name or several
    :param properties: of Kafka's Java consumer
    """

    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, Any],
    ) -> None:
        names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ConfigurationError(f"FlinkKafkaConsumer(topics=…) takes names of topics, got {topics!r}.")
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise TypeMismatchError(f"a DeserializationSchema is needed, got {deserialization_schema!r}")
        self._subscription = Subscription(topics=names)
        self._schema = deserialization_schema
        self._properties = as_texts(properties)
        self._reset: Reset = _reset(self._properties)
        self._start = Offsets("committed", self._reset)
        self._commits = True
        self._drops_partitions = True
        self._settings = _settings(self._properties, "FlinkKafkaConsumer")
        self._produced_type = deserialization_schema.get_produced_type()

    def __repr__(self) -> str:
        return f"<FlinkKafkaConsumer of {self._subscription} at {self._settings['bootstrap.servers']}>"

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> FlinkKafkaConsumer:
        """Whether the group hears how far completed checkpoints have got."""
        self._commits = commit_on_checkpoints
        return self

    def set_start_from_earliest(self) -> FlinkKafkaConsumer:
        return self._starting(Offsets("earliest", self._reset))

    def set_start_from_latest(self) -> FlinkKafkaConsumer:
        return self._starting(Offsets("latest", self._reset))

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> FlinkKafkaConsumer:
        if startup_offsets_timestamp < 0:
            raise ConfigurationError(f"set_start_from_timestamp({startup_offsets_timestamp}): it can't be negative.")
        return self._starting(Offsets("timestamp", self._reset, timestamp=startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> FlinkKafkaConsumer:
        return self._starting(Offsets("committed", self._reset))

    def set_start_from_specific_offsets(self, offsets: Mapping[KafkaTopicPartition, int]) -> FlinkKafkaConsumer:
        """These offsets; for other partitions, what the group has committed."""
        return self._starting(KafkaOffsetsInitializer.offsets(offsets)._offsets)

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> FlinkKafkaConsumer:
        """Go on with partitions that a checkpoint has, also if the program does not ask for their topics any more."""
        self._drops_partitions = False
        return self

    def _starting(self, offsets: Offsets) -> FlinkKafkaConsumer:
        self._start = offsets
        return self

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()

    def _make_source(self) -> KafkaStepSource:
        reading = KafkaReading(
            settings=self._settings,
            subscription=self._subscription,
            start=self._start,
            stop=None,
            bounded=False,
            reset=self._reset,
            schema=self._schema,
            discovery_seconds=_seconds(number(self._properties, _OLD_DISCOVERY, -1)),
            commits=self._commits,
            auto_commit_seconds=_auto_commit(self._properties, default="group.id" in self._properties),
            patience=number(self._properties, _TIMEOUT, _MINUTE) / 1000,
            drops_partitions=self._drops_partitions,
        )
        _check_group(reading)
        return KafkaStepSource(reading)


def _settings(properties: Mapping[str, str], who: str) -> dict[str, str]:
    if not properties.get("bootstrap.servers"):
        raise ConfigurationError(f"{who}: no broker is named; set 'bootstrap.servers'.")
    settings = consumer_settings(properties, _OWN)
    if _CLIENT_ID_PREFIX in properties:
        settings["client.id"] = properties[_CLIENT_ID_PREFIX]
    return settings


def _check_group(reading: KafkaReading) -> None:
    needing = [each for each in (reading.start, reading.stop) if each is not None and each.kind == "committed"]
    if "group.id" not in reading.settings and needing:
        raise ConfigurationError(
            "committed offsets are those of a consumer group, and none is named: set 'group.id', or start from "
            "earliest or latest offsets."
        )
    if "group.id" not in reading.settings and reading.auto_commit_seconds is not None:
        raise ConfigurationError(f"{_AUTO_COMMIT}=true needs a consumer group: set 'group.id'.")


def _stopping(initializer: KafkaOffsetsInitializer) -> Offsets:
    if initializer._offsets.kind == "earliest":
        raise ConfigurationError("KafkaSource can't stop at the earliest offsets: there would be nothing to read.")
    return initializer._offsets


def _reset_of(strategy: KafkaOffsetResetStrategy) -> Reset:
    strategies: dict[KafkaOffsetResetStrategy, Reset] = {
        KafkaOffsetResetStrategy.LATEST: "latest",
        KafkaOffsetResetStrategy.EARLIEST: "earliest",
        KafkaOffsetResetStrategy.NONE: "none",
    }
    if strategy not in strategies:
        raise TypeMismatchError(f"a KafkaOffsetResetStrategy is needed, got {strategy!r}")
    return strategies[strategy]


def _reset(properties: Mapping[str, str]) -> Reset:
    """What ``auto.offset.reset`` says; Kafka's default is the latest offset."""
    value = properties.get(_RESET, "latest").lower()
    known: dict[str, Reset] = {
        "earliest": "earliest",
        "smallest": "earliest",
        "latest": "latest",
        "largest": "latest",
        "none": "none",
    }
    if value not in known:
        raise ConfigurationError(f"Kafka property '{_RESET}' must be earliest, latest or none, got {value!r}.")
    return known[value]


def _auto_commit(properties: Mapping[str, str], default: bool) -> float | None:
    interval = number(properties, _AUTO_COMMIT_INTERVAL, 5000)
    return interval / 1000 if truth(properties, _AUTO_COMMIT, default) else None


def _seconds(milliseconds: int) -> float | None:
    """How often, in seconds; a negative number means never."""
    return milliseconds / 1000 if milliseconds > 0 else None
