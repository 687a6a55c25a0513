"""Amazon Kinesis: the names of ``pyflink.datastream.connectors.kinesis``, of PyFlink 1.x and 2.x.

It needs ``pip install 'beadline[kinesis]'``, and no jar.
"""

from beadline.datastream.connectors.kinesis_sink import (
    KinesisFirehoseSink,
    KinesisFirehoseSinkBuilder,
    KinesisStreamsSink,
    KinesisStreamsSinkBuilder,
    PartitionKeyGenerator,
)
from beadline.datastream.connectors.kinesis_source import (
    FlinkKinesisConsumer,
    KinesisDeserializationSchema,
    KinesisShardAssigner,
    KinesisStreamsSource,
    KinesisStreamsSourceBuilder,
)

__all__ = [
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "KinesisStreamsSource",
    "KinesisStreamsSourceBuilder",
    "PartitionKeyGenerator",
]
