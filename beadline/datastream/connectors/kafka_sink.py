"""Records to Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from beadline.api.sinks import SinkFunction
from beadline.common.serialization import SerializationSchema
from beadline.common.typeinfo import TypeInformation
from beadline.connectors.clients import require_client, require_kafka
from beadline.connectors.kafka.encoding import Headers, RecordEncoder
from beadline.connectors.kafka.log import KafkaLog
from beadline.connectors.kafka.producers import producer_settings
from beadline.connectors.kafka.transactions import KafkaTransactions
from beadline.connectors.sink import StagedSink
from beadline.connectors.transactions import LogSink, TransactionalSink
from beadline.datastream.connectors.base import DeliveryGuarantee, Sink, StreamTransformer, SupportsPreprocessing
from beadline.errors import ConfigurationError, TypeMismatchError, UnsupportedFeatureError

__all__ = [
    "DeliveryGuarantee",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaTopicSelector",
    "Semantic",
]

# Kafka keeps the length of an id in two bytes, and each id has more after the prefix.
_LONGEST_PREFIX = 32_000


class KafkaTopicSelector(ABC):
    """Says which topic a record goes to."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """The name of the topic for this record. Called in the workers, for every record."""


class KafkaRecordSerializationSchema(SerializationSchema):
    """How records become records of Kafka; made with :meth:`builder`."""

    def __init__(
        self, j_serialization_schema: Any = None, topic_selector: KafkaTopicSelector | None = None, **parts: Any
    ) -> None:
        super().__init__(j_serialization_schema)
        self._topic_selector = topic_selector
        self._topic: str | None = parts.get("topic")
        self._value: SerializationSchema | None = parts.get("value")
        self._key: SerializationSchema | None = parts.get("key")
        self._headers: Callable[[Any], Headers] | None = parts.get("headers")
        self._partition: Callable[[Any], int | None] | None = parts.get("partition")

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        return KafkaRecordSerializationSchemaBuilder()

    def _encoder(self) -> RecordEncoder:
        if self._value is None:
            raise ConfigurationError("A KafkaRecordSerializationSchema is made with its builder().")
        selector = self._topic_selector
        return RecordEncoder(
            self._topic,
            selector.apply if selector is not None else None,
            self._value,
            self._key,
            self._headers,
            self._partition,
        )


class KafkaRecordSerializationSchemaBuilder:
    """Sets up a :class:`KafkaRecordSerializationSchema`: where records go, and how their parts become bytes."""

    def __init__(self) -> None:
        self._topic: str | None = None
        self._topic_selector: KafkaTopicSelector | None = None
        self._parts: dict[str, Any] = {}

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """All records go to this topic."""
        self._check_no_topic()
        if not isinstance(topic, str) or not topic:
            raise ConfigurationError(f"set_topic() takes the name of a topic, got {topic!r}.")
        self._topic = topic
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Each record goes to the topic that this says; a function does as well."""
        self._check_no_topic()
        if not isinstance(topic_selector, KafkaTopicSelector):
            if not callable(topic_selector):
                raise TypeMismatchError(f"set_topic_selector() takes a KafkaTopicSelector, got {topic_selector!r}.")
            topic_selector = _FunctionSelector(topic_selector)
        self._topic_selector = topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """How a record gives its key. Records with the same key go to the same partition."""
        return self._set("key", key_serialization_schema, SerializationSchema, "set_key_serialization_schema")

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """How a record gives its value. None for no value: it removes the key from a compacted topic."""
        return self._set("value", value_serialization_schema, SerializationSchema, "set_value_serialization_schema")

    def set_header_provider(self, header_provider: Callable[[Any], Headers]) -> KafkaRecordSerializationSchemaBuilder:
        """A function that gives a record's headers: a dict, or pairs, of names and bytes. PyFlink has no such thing."""
        return self._set("headers", header_provider, Callable, "set_header_provider")

    def set_partitioner(self, partitioner: Callable[[Any], int | None]) -> KafkaRecordSerializationSchemaBuilder:
        """A function that gives a record's partition, or None to leave it to the key. PyFlink has no such thing."""
        return self._set("partition", partitioner, Callable, "set_partitioner")

    def build(self) -> KafkaRecordSerializationSchema:
        if self._topic is None and self._topic_selector is None:
            raise ConfigurationError("Say where records go: set_topic() or set_topic_selector().")
        if "value" not in self._parts:
            raise ConfigurationError("Say how records become bytes: set_value_serialization_schema().")
        return KafkaRecordSerializationSchema(None, self._topic_selector, topic=self._topic, **self._parts)

    def _set(self, part: str, value: Any, kind: Any, method: str) -> KafkaRecordSerializationSchemaBuilder:
        if part in self._parts:
            raise ConfigurationError(f"{method}() was called already.")
        if not isinstance(value, kind):
            wanted = "a function" if kind is Callable else f"a {kind.__name__}"
            raise TypeMismatchError(f"{method}() takes {wanted}, got {value!r}.")
        self._parts[part] = value
        return self

    def _check_no_topic(self) -> None:
        if self._topic is not None or self._topic_selector is not None:
            raise ConfigurationError("The topic is set already: use set_topic() or set_topic_selector(), and once.")


class _FunctionSelector(KafkaTopicSelector):
    def __init__(self, function: Callable[[Any], str]) -> None:
        self._function = function

    def apply(self, data: Any) -> str:
        return self._function(data)


class KafkaSink(Sink, SupportsPreprocessing):
    """Writes to Kafka: ``KafkaSink.builder().set_bootstrap_servers(…).set_record_serializer(…).build()``.

    With ``DeliveryGuarantee.EXACTLY_ONCE`` records become visible to ``read_committed`` consumers when the checkpoint
    after them has completed, each once. A transaction that the broker aborts for its age loses nothing: its records are
    written again. With the other guarantees they are written when a step is sealed, and may come twice after a failure.
    """

    def __init__(self, j_kafka_sink: Any, transformer: StreamTransformer | None = None) -> None:
        if not isinstance(j_kafka_sink, KafkaSinkBuilder):
            raise UnsupportedFeatureError("KafkaSink can't wrap a Java object: make it with KafkaSink.builder().")
        self._builder = j_kafka_sink
        self._transformer = transformer

    def __repr__(self) -> str:
        return f"<KafkaSink to {self._builder._properties.get('bootstrap.servers')}>"

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        return KafkaSinkBuilder()

    def get_transformer(self) -> StreamTransformer | None:
        return self._transformer

    def _make_sink(self, type_info: TypeInformation) -> StagedSink:
        builder = self._builder
        assert builder._serializer is not None
        made = _make(builder._properties, builder._guarantee, builder._prefix, builder._serializer._encoder())
        made.needs_checkpoints = builder._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        return made


class KafkaSinkBuilder:
    """Sets up a :class:`KafkaSink`. Brokers and a record serializer are needed."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix: str | None = None
        self._serializer: KafkaRecordSerializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Where the brokers are: ``host:port``, several with commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """``NONE`` unless set, which Beadline treats like ``AT_LEAST_ONCE``. ``EXACTLY_ONCE`` needs checkpoints and a
        transactional id prefix."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeMismatchError(f"set_delivery_guarantee() takes a DeliveryGuarantee, got {delivery_guarantee!r}.")
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """How the ids of this sink's transactions begin. What follows names the job, so that jobs don't meet."""
        if not isinstance(transactional_id_prefix, str) or not transactional_id_prefix:
            raise ConfigurationError(
                f"set_transactional_id_prefix() takes a text that is not empty, got {transactional_id_prefix!r}."
            )
        if len(transactional_id_prefix.encode()) > _LONGEST_PREFIX:
            raise ConfigurationError(f"The transactional id prefix has more than {_LONGEST_PREFIX} bytes.")
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Where records go, and how they become bytes."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise TypeMismatchError(
                f"set_record_serializer() takes a KafkaRecordSerializationSchema, got {record_serializer!r}."
            )
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """A property of Kafka's Java producer, such as ``compression.type``."""
        self._properties[key] = value
        return self

    def build(self) -> KafkaSink:
        if not self._properties.get("bootstrap.servers"):
            raise ConfigurationError("KafkaSink: say where the brokers are: set_bootstrap_servers('host:port').")
        if self._serializer is None:
            raise ConfigurationError("KafkaSink: say how records are written: set_record_serializer().")
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE and self._prefix is None:
            raise ConfigurationError(
                "KafkaSink: DeliveryGuarantee.EXACTLY_ONCE needs set_transactional_id_prefix(), with a text that no "
                "other sink of this Kafka cluster uses."
            )
        _settings(self._properties, self._guarantee)  # what can't work is refused here
        return KafkaSink(self)


class Semantic(Enum):
    """What a :class:`FlinkKafkaProducer` promises."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class FlinkKafkaProducerBase(SinkFunction, ABC):
    """What the producers of PyFlink 1.x share."""

    _log_failures_only = False
    _write_timestamps = False

    def set_log_failures_only(self, log_failures_only: bool) -> None:
        """Records that can't be delivered are reported in the log and left out, instead of failing the job. Not with
        ``Semantic.EXACTLY_ONCE``."""
        self._log_failures_only = log_failures_only

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> None:
        """Beadline always waits for deliveries before a checkpoint completes: without it records could get lost, and
        it would not be faster."""

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> None:
        """Write the records' timestamps; otherwise Kafka takes the time of writing."""
        self._write_timestamps = write_timestamp_to_kafka


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """PyFlink 1.x's sink for Kafka, for ``add_sink()``. It writes what a :class:`KafkaSink` writes.

    :param producer_config: properties of Kafka's Java producer; ``bootstrap.servers`` is needed
    :param kafka_producer_pool_size: has no effect: Beadline needs no pool, and checkpoints don't wait for one
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, str],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        if not isinstance(semantic, Semantic):
            raise TypeMismatchError(f"FlinkKafkaProducer: semantic must be a Semantic, got {semantic!r}.")
        if not producer_config.get("bootstrap.servers"):
            raise ConfigurationError("FlinkKafkaProducer: producer_config needs 'bootstrap.servers'.")
        if not isinstance(serialization_schema, SerializationSchema):
            raise TypeMismatchError(
                f"FlinkKafkaProducer: serialization_schema must be a SerializationSchema, got {serialization_schema!r}."
            )
        self._topic = topic
        self._schema = serialization_schema
        self._properties = dict(producer_config)
        self._guarantee = DeliveryGuarantee[semantic.name]
        _settings(self._properties, self._guarantee)

    def __repr__(self) -> str:
        return f"<FlinkKafkaProducer to {self._topic} at {self._properties['bootstrap.servers']}>"

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """Nothing is to be ignored: what a transaction held that timed out is written again."""
        return self

    def _make_sink(self, type_info: TypeInformation) -> StagedSink:
        encoder = RecordEncoder(self._topic, None, self._schema, timestamps=self._write_timestamps)
        return _make(self._properties, self._guarantee, "flink-kafka-producer", encoder, self._log_failures_only)


def _settings(properties: Mapping[str, str], guarantee: DeliveryGuarantee) -> tuple[dict[str, Any], int | None]:
    """The client's settings, and the transaction timeout if one is set."""
    settings = producer_settings(properties)
    timeout = settings.pop("transaction.timeout.ms", None)
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        if str(settings.get("acks", "all")).lower() not in ("all", "-1"):
            raise ConfigurationError(f"acks={settings['acks']}: exactly-once delivery needs acks=all.")
        if str(settings.get("enable.idempotence", "true")).lower() != "true":
            raise ConfigurationError("enable.idempotence=false: exactly-once delivery needs idempotence.")
    return settings, int(timeout) if timeout is not None else None


def _make(
    properties: Mapping[str, str],
    guarantee: DeliveryGuarantee,
    prefix: str | None,
    encoder: RecordEncoder,
    log_failures_only: bool = False,
) -> StagedSink:
    require_kafka()
    settings, timeout = _settings(properties, guarantee)
    topics = (encoder.topic,) if encoder.topic is not None else ()
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        assert prefix is not None
        if log_failures_only:
            raise ConfigurationError("set_log_failures_only(True) loses records: it can't be had with EXACTLY_ONCE.")
        require_client("kafka", "kafka", "Exactly-once delivery to Kafka")
        return TransactionalSink(KafkaTransactions(settings, topics, timeout), encoder, prefix)
    return LogSink(KafkaLog(settings, topics, log_failures_only), encoder)
