"""The user's surface: the names of ``pyflink.datastream``.

The modules here are PyFlink's, and a program may import each name where PyFlink has it. What they are made of is in two
inner packages: ``streams`` has every kind of stream, ``environment`` has what the environment works with.
"""

from beadline.api.output_tag import OutputTag
from beadline.api.time_domain import TimeDomain
from beadline.api.windows.assigner import MergingWindowAssigner, WindowAssigner
from beadline.api.windows.trigger import Trigger, TriggerResult
from beadline.api.windows.window import CountWindow, GlobalWindow, TimeWindow, Window
from beadline.datastream import functions
from beadline.datastream.async_data_stream import AsyncDataStream
from beadline.datastream.checkpoint_config import CheckpointConfig, ExternalizedCheckpointCleanup
from beadline.datastream.checkpoint_storage import (
    CheckpointStorage,
    CustomCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from beadline.datastream.checkpointing_mode import CheckpointingMode
from beadline.datastream.data_stream import DataStream
from beadline.datastream.execution_mode import RuntimeExecutionMode
from beadline.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from beadline.datastream.functions import *  # noqa: F403 - the functions are listed there
from beadline.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from beadline.datastream.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    StateBackend,
)
from beadline.datastream.stream_execution_environment import StreamExecutionEnvironment
from beadline.datastream.streams.closeable_iterator import CloseableIterator
from beadline.datastream.streams.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from beadline.datastream.streams.interval_join import IntervalJoin, IntervalJoined
from beadline.datastream.streams.joined import CoGroupedStreams, JoinedStreams
from beadline.datastream.streams.keyed import KeyedStream
from beadline.datastream.streams.operator_settings import DataStreamSink
from beadline.datastream.streams.windowed import AllWindowedStream, WindowedStream
from beadline.datastream.time_characteristic import TimeCharacteristic

__all__ = [
    # environment and streams
    "AllWindowedStream",
    "AsyncDataStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoin",
    "IntervalJoined",
    "JoinedStreams",
    "KeyedStream",
    "StreamExecutionEnvironment",
    "WindowedStream",
    # what functions receive
    "OutputTag",
    "TimeDomain",
    # windows
    "CountWindow",
    "GlobalWindow",
    "MergingWindowAssigner",
    "TimeWindow",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    # checkpoints and state backends
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FsStateBackend",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "MemoryStateBackend",
    "PredefinedOptions",
    "RocksDBStateBackend",
    "StateBackend",
    # execution
    "MemorySize",
    "RuntimeExecutionMode",
    "SlotSharingGroup",
    "TimeCharacteristic",
]
__all__ += functions.__all__
# PyFlink has these in functions alone.
__all__.remove("AllWindowFunction")
__all__.remove("AsyncFunctionDescriptor")
__all__.remove("BaseBroadcastProcessFunction")
__all__.remove("Function")
__all__.remove("KeyedStateStore")
__all__.remove("ProcessAllWindowFunction")
