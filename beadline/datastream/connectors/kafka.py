"""Kafka: the names of ``pyflink.datastream.connectors.kafka``.

No jar is needed. Properties have the names of Java's clients; what can't be translated is refused by name.
"""

from beadline.api.function import SourceFunction as SourceFunction
from beadline.api.sinks import SinkFunction as SinkFunction
from beadline.common.serialization import DeserializationSchema as DeserializationSchema
from beadline.common.serialization import SerializationSchema as SerializationSchema
from beadline.common.typeinfo import TypeInformation as TypeInformation
from beadline.common.typeinfo import Types as Types
from beadline.common.types import Row as Row
from beadline.datastream.connectors.base import Sink as Sink
from beadline.datastream.connectors.base import Source as Source
from beadline.datastream.connectors.base import StreamTransformer as StreamTransformer
from beadline.datastream.connectors.base import SupportsPreprocessing as SupportsPreprocessing
from beadline.datastream.connectors.kafka_consumer import (
    FlinkKafkaConsumer,
    FlinkKafkaConsumerBase,
)
from beadline.datastream.connectors.kafka_offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from beadline.datastream.connectors.kafka_sink import (
    DeliveryGuarantee,
    FlinkKafkaProducer,
    FlinkKafkaProducerBase,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
    Semantic,
)
from beadline.datastream.connectors.kafka_source import (
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
)

__all__ = [
    "DeliveryGuarantee",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
]
