from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

# Methods make streams of all kinds; by the time they are called, the package is complete.
from beadline import datastream
from beadline.api.function import FilterFunction, FlatMapFunction, KeySelector, MapFunction, Partitioner
from beadline.api.join_functions import JoinFunction
from beadline.api.output_tag import OutputTag
from beadline.api.process import ProcessFunction
from beadline.api.state_descriptors import MapStateDescriptor
from beadline.api.windows.assigner import WindowAssigner
from beadline.common import ExecutionConfig, WatermarkStrategy
from beadline.common.typeinfo import TupleTypeInfo, TypeInformation, Types
from beadline.connectors.user_sinks.functions import function_sink
from beadline.datastream.connectors.base import SupportsPreprocessing
from beadline.datastream.environment.lending import lends
from beadline.datastream.environment.options import watermark_every
from beadline.datastream.streams.closeable_iterator import CloseableIterator, collect
from beadline.datastream.streams.functions import Projection
from beadline.datastream.streams.operator_settings import (
    DataStreamSink,
    OperatorSettings,
    check_function,
    check_process_function,
    checked_parallelism,
)
from beadline.errors import GraphError, TypeMismatchError, UnsupportedFeatureError
from beadline.graph import specs
from beadline.graph.specs import Edge, Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from beadline.datastream.stream_execution_environment import StreamExecutionEnvironment
    from beadline.datastream.streams.cached import CachedDataStream
    from beadline.datastream.streams.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
    from beadline.datastream.streams.interval_join import IntervalJoin
    from beadline.datastream.streams.joined import CoGroupedStreams, JoinedStreams
    from beadline.datastream.streams.keyed import KeyedStream
    from beadline.datastream.streams.windowed import AllWindowedStream, WindowedStream
else:
    __getattr__ = lends(
        __name__,
        "beadline.datastream",
        "beadline.datastream.functions",
        "beadline.datastream.state",
        "beadline.datastream.window",
        "beadline.datastream.streams.cached",
        "beadline.datastream.connectors",
        "beadline.common",
        "beadline.common.typeinfo",
        "beadline.common.watermark_strategy",
    )

Selector: TypeAlias = Callable[[Any], Any] | KeySelector

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]


class DataStream(OperatorSettings):
    """A stream of elements of one type. Transformations give new streams; nothing runs before ``env.execute()``."""

    #: Whether functions on it have the state of a key.
    _keyed = False

    def __init__(self, env: StreamExecutionEnvironment, edges: list[Edge], type_info: TypeInformation) -> None:
        self._env = env
        self._edges = edges
        self._type = type_info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._type} from {', '.join(edge.source.name for edge in self._edges)}>"

    # -- building blocks

    def _node(self, what: str) -> Node:
        """The operator that this stream comes out of, for settings that belong to an operator."""
        edge = self._edges[0]
        if len(self._edges) > 1 or edge.tag is not None or edge.partitioning != specs.Forward():
            raise GraphError(
                f"{what} belongs on an operator; call it before union(), get_side_output() or a partitioning"
            )
        return edge.source

    def _apply(
        self, name: str, spec: specs.Spec, output_type: TypeInformation | None, parallelism: int | None = None
    ) -> DataStream:
        output = output_type if output_type is not None else Types.PICKLED_BYTE_ARRAY()
        node = self._env._add_node(name, spec, output, self._input_edges(), parallelism)
        return self._from_node(node)

    def _apply_with(
        self, other: DataStream, name: str, spec: specs.Spec, output_type: TypeInformation | None
    ) -> DataStream:
        """An operator with two inputs; this stream is the first."""
        output = output_type if output_type is not None else Types.PICKLED_BYTE_ARRAY()
        node = self._env._add_node(name, spec, output, [*self._input_edges(0), *other._input_edges(1)])
        return self._from_node(node)

    def _from_node(self, node: Node) -> DataStream:
        return DataStream(self._env, [Edge(node, specs.Forward())], node.output_type)

    def _input_edges(self, input_index: int = 0) -> list[Edge]:
        return [Edge(e.source, e.partitioning, e.tag, input_index) for e in self._edges]

    def _partitioned(self, partitioning: specs.Partitioning) -> DataStream:
        return DataStream(self._env, [Edge(e.source, partitioning, e.tag) for e in self._edges], self._type)

    # -- the operator that the stream comes from

    def get_name(self) -> str:
        return self._node("get_name()").name

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        node = self._node("set_max_parallelism()")
        node.max_parallelism = checked_parallelism(max_parallelism, node.name)
        return self

    def get_type(self) -> TypeInformation:
        return self._type

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        return self._env.get_config()

    def force_non_parallel(self) -> DataStream:
        self._node("force_non_parallel()").single = True
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream:
        self._env._without_effect("set_buffer_timeout", "records travel in steps, not in network buffers")
        return self

    def start_new_chain(self) -> DataStream:
        """Don't call the operator from the one before it: records take an exchange."""
        self._node("start_new_chain()").starts_chain = True
        return self

    # -- transformations

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """One element for each."""
        check_function(func, MapFunction)
        return self._apply("Map", specs.FunctionSpec("map", func, keyed=self._keyed), output_type)

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of elements for each."""
        check_function(func, FlatMapFunction)
        return self._apply("FlatMap", specs.FunctionSpec("flat_map", func, keyed=self._keyed), output_type)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """The elements for which the function says true."""
        check_function(func, FilterFunction)
        return self._apply("Filter", specs.FunctionSpec("filter", func, keyed=self._keyed), self._type)

    def process(self, func: ProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Elements with their timestamps and the current time; side outputs with ``yield tag, value``."""
        check_process_function(func, ProcessFunction, "process() on a stream without key_by()")
        return self._apply("PROCESS", specs.FunctionSpec("process", func, keyed=False), output_type)

    def key_by(self, key_selector: Selector, key_type: TypeInformation | None = None) -> KeyedStream:
        """Elements with equal keys go to the same subtask, where state and timers are kept by key."""
        check_function(key_selector, KeySelector)
        return datastream.KeyedStream(self, specs.Hash(key_selector, key_type))

    def union(self, *streams: DataStream) -> DataStream:
        """The elements of several streams of the same type."""
        edges = [*self._edges]
        for stream in streams:
            other = stream._values() if hasattr(stream, "_values") else stream
            if other._type != self._type:
                raise TypeMismatchError(f"union() needs streams of one type, got {self._type} and {other._type}")
            edges += other._edges
        return DataStream(self._env, edges, self._type)

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Two streams, of any types, into one operator with shared state."""
        if isinstance(ds, datastream.BroadcastStream):
            return datastream.BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        if not isinstance(ds, DataStream):
            raise TypeMismatchError(
                f"connect() takes a DataStream or a BroadcastStream, got {type(ds).__name__}: {ds!r}"
            )
        return datastream.ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Pairs of elements of two streams that share a key and a window:
        ``stream1.join(stream2).where(…).equal_to(…).window(…).apply(…)``."""
        return datastream.JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """Groups of elements of two streams that share a key and a window; one of the groups may be empty."""
        return datastream.CoGroupedStreams(self, other_stream)

    def interval_join(self, other_stream: Any) -> IntervalJoin:
        """Not without keys: see :meth:`KeyedStream.interval_join`."""
        raise GraphError("interval_join() joins two keyed streams: call key_by() on both streams first")

    def lookup(
        self,
        df: DataFrame,
        on: str | Sequence[str],
        key: Selector | None = None,
        how: str = "inner",
        function: Callable[[Any, Any], Any] | JoinFunction | None = None,
        output_type: TypeInformation | None = None,
        max_bytes: int = 512 << 20,
    ) -> DataStream:
        """Join each element with the rows of a DataFrame that have its key, in their order.

        The DataFrame is evaluated once, here, and sent to the executors once per run. Each Python worker holds a copy
        as Python objects, so it should be small: above 64 MB there is a warning, above ``max_bytes`` an error.

        :param on: the column that must equal the key; several columns equal a key of several values. Null equals
            nothing
        :param key: gives the key of an element; by default the fields of a row or dict that have the columns' names
        :param how: ``"inner"`` leaves out elements without a row, ``"left"`` gives them None instead of a row
        :param function: makes a result of an element and a :class:`Row`; by default it is the pair of both
        """
        from beadline.datastream.streams.lookup import Lookup

        return Lookup(df, on, how, max_bytes).join(self, key, function, output_type)

    def project(self, *field_indexes: int) -> DataStream:
        """Some fields of a tuple, in the given order."""
        known = self._type
        if not isinstance(known, TupleTypeInfo):
            raise TypeMismatchError(
                f"Only Tuple DataStreams can be projected; this one is of {known}. Declare Types.TUPLE([…])."
            )
        types = known.get_field_types()
        for index in field_indexes:
            if not isinstance(index, int) or not 0 <= index < len(types):
                raise GraphError(f"project(): there is no field {index!r}, the tuple has fields 0 to {len(types) - 1}")
        spec = specs.FunctionSpec("map", Projection(field_indexes), keyed=False)
        output = Types.TUPLE([types[i] for i in field_indexes])
        return self._apply("Projection", spec, output, self._edges[0].source.parallelism)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Event time begins here, with one generator per subtask. For one per part of a source, such as a partition of
        Kafka, give the strategy to ``from_source``."""
        if isinstance(watermark_strategy, WatermarkStrategy) and watermark_strategy.alignment is not None:
            raise UnsupportedFeatureError(
                f"with_watermark_alignment({watermark_strategy.alignment.group!r}, …) makes sources wait for each "
                "other, and assign_timestamps_and_watermarks() is not at a source: give the strategy to from_source()."
            )
        return self._with_event_time(watermark_strategy)

    def _with_event_time(self, watermark_strategy: WatermarkStrategy, at_source: bool = False) -> DataStream:
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeMismatchError(f"a WatermarkStrategy is needed, got {watermark_strategy!r}")
        if watermark_strategy.kind != "generator" and self.get_execution_config().get_auto_watermark_interval() == 0:
            watermark_strategy = watermark_strategy.without_watermarks()
        node = self._edges[0].source
        spec = specs.TimestampsSpec(watermark_strategy, watermark_every(self._env._configuration), at_source)
        stream = self._apply("Timestamps/Watermarks", spec, self._type, node.parallelism)
        stream._edges[0].source.single = node.single and len(self._edges) == 1
        return stream

    # -- partitioning

    def shuffle(self) -> DataStream:
        """Each element to a random subtask."""
        return self._partitioned(specs.Shuffle())

    def rebalance(self) -> DataStream:
        """Elements to all subtasks in turn."""
        return self._partitioned(specs.Rebalance())

    def rescale(self) -> DataStream:
        """Elements in turn to the subtasks of the sender's own share."""
        return self._partitioned(specs.Rescale())

    def forward(self) -> DataStream:
        """Each subtask to the one with its number; both sides need the same parallelism."""
        return self._partitioned(specs.Forward(explicit=True))

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self, broadcast_state_descriptor: MapStateDescriptor, *other_broadcast_state_descriptors: MapStateDescriptor
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Each element to every subtask. With descriptors: a stream to connect with, whose elements are kept in
        broadcast states."""
        everywhere = self._partitioned(specs.Broadcast())
        if broadcast_state_descriptor is None:
            return everywhere
        return datastream.BroadcastStream(everywhere, [broadcast_state_descriptor, *other_broadcast_state_descriptors])

    def partition_custom(
        self, partitioner: Callable[[Any, int], int] | Partitioner, key_selector: Selector
    ) -> DataStream:
        """Each element where the partitioner says: ``partitioner(key, number of subtasks)``."""
        check_function(partitioner, Partitioner)
        check_function(key_selector, KeySelector)
        return self._partitioned(specs.Custom(partitioner, key_selector))

    # -- ends

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """What the operator yielded as ``(output_tag, value)``."""
        node = self._node("get_side_output()")
        known = node.side_types.setdefault(output_tag.tag_id, output_tag.type_info)
        if known != output_tag.type_info:
            raise GraphError(
                f"side output '{output_tag.tag_id}' is declared with two types: {known} and {output_tag.type_info}"
            )
        return DataStream(self._env, [Edge(node, specs.Forward(), output_tag.tag_id)], output_tag.type_info)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print each element on the driver's standard output."""
        stream = self._apply("Print to Std. Out", specs.PrintSpec(sink_identifier, self._type), None)
        return DataStreamSink(self._env, stream._edges[0].source)

    def sink_to(self, sink: Any) -> DataStreamSink:
        """Write to a sink such as :class:`FileSink`, or one of your own."""
        make = getattr(sink, "_make_sink", None)
        if make is None:
            raise UnsupportedFeatureError(
                f"sink_to() can't write to {type(sink).__name__}; use FileSink, KafkaSink or print(), let "
                "it extend Sink of beadline.datastream.connectors, or add_sink() for a SinkFunction"
            )
        transformer = sink.get_transformer() if isinstance(sink, SupportsPreprocessing) else None
        prepared = self if transformer is None else transformer.apply(self)
        stream = prepared._apply("Sink: Writer", specs.SinkSpec(make(prepared._type)), None)
        return DataStreamSink(self._env, stream._edges[0].source)

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Write to a sink of PyFlink 1.x's kind, such as :class:`StreamingFileSink`, or to a function of your own: see
        :mod:`beadline.api.sinks`."""
        if hasattr(sink_func, "_make_sink"):
            return self.sink_to(sink_func)
        stream = self._apply("Sink: Unnamed", specs.SinkSpec(function_sink(sink_func)), None)
        return DataStreamSink(self._env, stream._edges[0].source)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the job and bring this stream's elements here: as an iterator, or the first ``limit`` as a list.

        Elements of one subtask come in order. With a limit the job ends as soon as it has given that many.
        """
        return collect(self, job_execution_name, limit)

    def to_dataframe(self, job_execution_name: str | None = None) -> DataFrame:
        """Run the job, which must be bounded, and give this stream's elements as a Spark DataFrame.

        Rows and tuples of declared type become columns of those types; other elements need types that Spark can infer.
        """
        from beadline.datastream.environment.dataframes import to_dataframe

        return to_dataframe(self, job_execution_name)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """Windows over the whole stream, evaluated in one subtask."""
        return datastream.AllWindowedStream(self, window_assigner)

    def cache(self) -> CachedDataStream:
        """Keep the elements of a bounded stream: the first job that uses the result computes them, later ones read."""
        from beadline.datastream.streams.cached import CachedDataStream

        return CachedDataStream(self)
