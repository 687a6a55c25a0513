"""The Kafka consumer of PyFlink 1.x."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from beadline.api.function import SourceFunction
from beadline.common.serialization import DeserializationSchema
from beadline.common.typeinfo import TypeInformation
from beadline.connectors.clients import require_kafka
from beadline.connectors.kafka.offsets import Offsets, Reset, Subscription
from beadline.connectors.kafka.properties import as_texts, number, truth
from beadline.connectors.kafka.source import KafkaReading, KafkaStepSource
from beadline.datastream.connectors.base import Source
from beadline.datastream.connectors.kafka_reading import (
    ANY_TOPIC,
    MINUTE,
    OLD_DISCOVERY,
    TIMEOUT,
    auto_commit_of,
    check_group,
    every,
    keeps_its_type,
    reset_of,
    settings_of,
    without_group,
)
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError

__all__ = ["FlinkKafkaConsumer", "FlinkKafkaConsumerBase"]


class FlinkKafkaConsumerBase(Source, SourceFunction):
    """What old consumers share."""

    _schema: DeserializationSchema
    _start: Offsets
    _reset: Reset
    _commits = True
    _drops_partitions = True

    def __init__(self, j_flink_kafka_consumer: Any) -> None:
        raise UnsupportedFeatureError(
            f"{type(self).__name__} can't wrap a Java consumer: Beadline runs without Java. Make a FlinkKafkaConsumer."
        )

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Whether the group hears how far completed checkpoints have got."""
        self._commits = commit_on_checkpoints
        return self

    def set_start_from_earliest(self) -> Self:
        return self._starting(Offsets("earliest", self._reset))

    def set_start_from_latest(self) -> Self:
        return self._starting(Offsets("latest", self._reset))

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        if startup_offsets_timestamp < 0:
            raise ConfigurationError(f"set_start_from_timestamp({startup_offsets_timestamp}): it can't be negative.")
        return self._starting(Offsets("timestamp", self._reset, timestamp=startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> Self:
        return self._starting(Offsets("committed", self._reset))

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> Self:
        """Go on with partitions that a checkpoint has, also if the program does not ask for their topics any more."""
        self._drops_partitions = False
        return self

    def _starting(self, offsets: Offsets) -> Self:
        self._start = offsets
        return self

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Reads topics of Kafka, for programs of PyFlink 1.x: ``env.add_source(FlinkKafkaConsumer(…))``.

    It starts from what the group has committed, unless told otherwise. Without ``group.id`` it starts where
    ``auto.offset.reset`` says, and commits no offsets.

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
        self._reset: Reset = reset_of(self._properties)
        self._start = Offsets("committed", self._reset)
        self._settings = settings_of(self._properties, "FlinkKafkaConsumer", OLD_DISCOVERY)
        self._produced_type = deserialization_schema.get_produced_type()
        self._keeps_its_type = keeps_its_type(deserialization_schema)

    def __repr__(self) -> str:
        return f"<FlinkKafkaConsumer of {self._subscription} at {self._settings['bootstrap.servers']}>"

    def _make_source(self) -> KafkaStepSource:
        require_kafka()
        reading = KafkaReading(
            settings=self._settings,
            subscription=self._subscription,
            start=self._start if "group.id" in self._properties else without_group(self._start),
            stop=None,
            bounded=False,
            reset=self._reset,
            schema=self._schema,
            discovery_seconds=every(number(self._properties, OLD_DISCOVERY, -1)),
            commits=self._commits,
            auto_commit_seconds=auto_commit_of(self._properties, default="group.id" in self._properties),
            patience=number(self._properties, TIMEOUT, MINUTE) / 1000,
            drops_partitions=self._drops_partitions,
            any_topic=truth(self._properties, ANY_TOPIC, False),
        )
        check_group(reading)
        return KafkaStepSource(reading)
