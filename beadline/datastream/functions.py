"""The functions that a program implements, where PyFlink has them, with the names that it imports there."""

from beadline.api.async_functions import (
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
)
from beadline.api.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedRawStateFunction,
    RawStateFunction,
)
from beadline.api.function import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
    SourceFunction,
)
from beadline.api.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from beadline.api.metrics import MetricGroup as MetricGroup
from beadline.api.process import IN1 as IN1
from beadline.api.process import IN2 as IN2
from beadline.api.process import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStateFunction,
    ProcessFunction,
)
from beadline.api.runtime_context import KeyedStateStore, RuntimeContext
from beadline.api.sinks import (
    CheckpointCommitter,
    GenericWriteAheadSink,
    SinkContext,
    SinkFunction,
    TransactionAborted,
    TwoPhaseCommitSinkFunction,
)
from beadline.api.state import AggregatingState as AggregatingState
from beadline.api.state import BroadcastState as BroadcastState
from beadline.api.state import ListState as ListState
from beadline.api.state import MapState as MapState
from beadline.api.state import ReadOnlyBroadcastState as ReadOnlyBroadcastState
from beadline.api.state import ReducingState as ReducingState
from beadline.api.state import ValueState as ValueState
from beadline.api.state_descriptors import AggregatingStateDescriptor as AggregatingStateDescriptor
from beadline.api.state_descriptors import ListStateDescriptor as ListStateDescriptor
from beadline.api.state_descriptors import MapStateDescriptor as MapStateDescriptor
from beadline.api.state_descriptors import ReducingStateDescriptor as ReducingStateDescriptor
from beadline.api.state_descriptors import ValueStateDescriptor as ValueStateDescriptor
from beadline.api.time_domain import TimeDomain as TimeDomain
from beadline.api.timer_service import TimerService
from beadline.api.window_functions import IN as IN
from beadline.api.window_functions import KEY as KEY
from beadline.api.window_functions import OUT as OUT
from beadline.api.window_functions import W2 as W2
from beadline.api.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from beadline.api.window_functions import W as W

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "CheckpointCommitter",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "GenericWriteAheadSink",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedRawStateFunction",
    "KeyedStateFunction",
    "KeyedStateStore",
    "MapFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "RawStateFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkContext",
    "SinkFunction",
    "SourceFunction",
    "TimerService",
    "TransactionAborted",
    "TwoPhaseCommitSinkFunction",
    "WindowFunction",
]
