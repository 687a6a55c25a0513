"""Connectors: the names of ``pyflink.datastream.connectors``."""

from beadline.datastream.connectors.base import CommitRequest, Committer, DeliveryGuarantee, Sink, SinkWriter, Source
from beadline.datastream.connectors.file_system import (
    BucketAssigner,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
    StreamingFileSink,
)
from beadline.datastream.connectors.hybrid_source import HybridSource, HybridSourceBuilder
from beadline.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from beadline.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
    Semantic,
)
from beadline.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisFirehoseSink,
    KinesisStreamsSink,
    KinesisStreamsSource,
)
from beadline.datastream.connectors.number_seq import NumberSequenceSource

__all__ = [
    "BucketAssigner",
    "CommitRequest",
    "Committer",
    "DeliveryGuarantee",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "FlinkKinesisConsumer",
    "HybridSource",
    "HybridSourceBuilder",
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaSink",
    "KafkaSource",
    "KafkaTopicPartition",
    "KinesisFirehoseSink",
    "KinesisStreamsSink",
    "KinesisStreamsSource",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RollingPolicy",
    "Semantic",
    "Sink",
    "SinkWriter",
    "Source",
    "StreamFormat",
    "StreamingFileSink",
]
