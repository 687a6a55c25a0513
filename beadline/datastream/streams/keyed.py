from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from beadline import datastream
from beadline.api.function import ReduceFunction
from beadline.api.process import KeyedProcessFunction
from beadline.api.windows.assigner import WindowAssigner
from beadline.api.windows.assigners import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from beadline.common import Row
from beadline.common._types.base import same
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.data_stream import DataStream, Selector
from beadline.datastream.streams.functions import FilterWithState, FlatMapWithState, MapWithState, PositionReduce
from beadline.datastream.streams.operator_settings import (
    DataStreamSink,
    check_function,
    check_process_function,
    refuse_settings,
)
from beadline.errors import GraphError
from beadline.graph.specs import FunctionSpec, Hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from beadline.datastream.streams.interval_join import IntervalJoin
    from beadline.datastream.streams.windowed import WindowedStream


class KeyedStream(DataStream):
    """A stream partitioned by key. Functions after it have state and timers of the current key."""

    _keyed = True

    def __init__(self, origin: DataStream, partitioning: Hash) -> None:
        super().__init__(origin._env, origin._partitioned(partitioning)._edges, origin._type)
        self._origin = origin
        self._hash = partitioning

    # -- transformations

    def process(self, func: KeyedProcessFunction, output_type: TypeInformation | None = None) -> DataStream:  # type: ignore[override]
        """Elements with state, timers and side outputs."""
        check_process_function(func, KeyedProcessFunction, "process() after key_by()")
        return self._apply("KEYED PROCESS", FunctionSpec("process", func, keyed=True), output_type)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """A running fold per key: one result for each element, in batch mode the last one of each key."""
        check_function(func, ReduceFunction)
        spec = FunctionSpec("reduce", func, keyed=True, batch=self._env._is_batch())
        return self._apply("Reduce", spec, self._type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """A running sum of one field per key."""
        return self.reduce(PositionReduce("sum", position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """A running minimum of one field per key; the other fields are the first element's."""
        return self.reduce(PositionReduce("min", position_to_min))

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """A running maximum of one field per key; the other fields are the first element's."""
        return self.reduce(PositionReduce("max", position_to_max))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """The element with the smallest field so far; of equal ones the earlier."""
        return self.reduce(PositionReduce("min_by", position_to_min_by))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """The element with the largest field so far; of equal ones the earlier."""
        return self.reduce(PositionReduce("max_by", position_to_max_by))

    def flat_map_with_state(
        self,
        func: Callable[[Any, Any], tuple[Any, Any]],
        output_type: TypeInformation | None = None,
        state_type: TypeInformation | None = None,
    ) -> DataStream:
        """``func(element, state)`` gives ``(elements, new state)``; state is None at first, and None removes it."""
        return self.flat_map(FlatMapWithState(func, state_type), output_type)

    def map_with_state(
        self,
        func: Callable[[Any, Any], tuple[Any, Any]],
        output_type: TypeInformation | None = None,
        state_type: TypeInformation | None = None,
    ) -> DataStream:
        """``func(element, state)`` gives ``(element, new state)``."""
        return self.map(MapWithState(func, state_type), output_type)

    def filter_with_state(
        self, func: Callable[[Any, Any], tuple[bool, Any]], state_type: TypeInformation | None = None
    ) -> DataStream:
        """``func(element, state)`` gives ``(whether to keep the element, new state)``."""
        return self.filter(FilterWithState(func, state_type))

    def key_by(self, key_selector: Selector, key_type: TypeInformation | None = None) -> KeyedStream:
        return self._origin.key_by(key_selector, key_type)

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Pairs of elements with one key whose times lie near each other:
        ``keyed1.interval_join(keyed2).between(Time.seconds(-5), Time.seconds(5)).process(…)``."""
        return datastream.IntervalJoin(self, other_stream)

    # -- without the key

    def _values(self) -> DataStream:
        """The elements, still in the subtasks of their keys."""
        return self.map(same, self._type).name("_keyed_stream_values_operator")

    def project(self, *field_indexes: int) -> DataStream:
        return self._values().project(*field_indexes)

    def union(self, *streams: DataStream) -> DataStream:
        return self._values().union(*streams)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        return self._values().print(sink_identifier)

    def sink_to(self, sink: Any) -> DataStreamSink:
        return self._values().sink_to(sink)

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None) -> Any:
        """Run the job and bring keys and elements here, each pair as ``Row(f0=key, f1=element)``, as PyFlink does.

        For the elements alone, collect the stream before ``key_by()``.
        """
        pairs = self.process(_WithKey()).name("_keyed_stream_pairs_operator")
        pairs._node("force_non_parallel()").single = True  # in the order of the input, as far as it has one
        return pairs.execute_and_collect(job_execution_name, limit)

    def to_dataframe(self, job_execution_name: str | None = None) -> DataFrame:
        return self._values().to_dataframe(job_execution_name)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        return datastream.WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of ``size`` elements of a key, a new one every ``slide`` elements if that is given."""
        if slide == 0:
            return self.window(CountTumblingWindowAssigner.of(size))
        return self.window(CountSlidingWindowAssigner.of(size, slide))

    # -- what a keyed stream refuses

    def _fixed(self, *_: Any, **__: Any) -> NoReturn:
        raise GraphError("Cannot override partitioning for KeyedStream.")

    shuffle = rebalance = rescale = forward = broadcast = partition_custom = _fixed


class _WithKey(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Row]:
        return (Row(f0=ctx.get_current_key(), f1=value),)


refuse_settings(KeyedStream, "call it on the operator before or after key_by().", cache="Cache")
