"""Amazon Kinesis: the names of ``pyflink.datastream.connectors.kinesis``, of PyFlink 1.x and 2.x.

It needs ``pip install 'beadline[kinesis]'``, and no jar.
"""

from beadline.api.function import SourceFunction as SourceFunction
from beadline.common.serialization import DeserializationSchema as DeserializationSchema
from beadline.common.serialization import SerializationSchema as SerializationSchema
from beadline.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper as AssignerWithPeriodicWatermarksWrapper,
)
from beadline.datastream.connectors.base import Sink as Sink
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
    WatermarkTracker,
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
    "WatermarkTracker",
]
