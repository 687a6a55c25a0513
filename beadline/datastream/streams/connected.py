from __future__ import annotations

from typing import Any

from beadline.api.function import CoFlatMapFunction, CoMapFunction
from beadline.api.process import CoProcessFunction, KeyedCoProcessFunction
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.data_stream import DataStream, Selector
from beadline.datastream.streams.keyed import KeyedStream
from beadline.datastream.streams.operator_settings import check_process_function
from beadline.errors import GraphError
from beadline.graph.specs import FunctionSpec


class ConnectedStreams:
    """Two streams whose elements meet in one operator, with shared state if both are keyed."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def __repr__(self) -> str:
        return f"<ConnectedStreams of {self.stream1!r} and {self.stream2!r}>"

    def key_by(
        self, key_selector1: Selector, key_selector2: Selector, key_type: TypeInformation | None = None
    ) -> ConnectedStreams:
        """Elements of both streams with equal keys meet in one subtask."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        check_process_function(func, CoMapFunction, "map() of connected streams")
        return self._apply("Co-Map", "co_map", func, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        check_process_function(func, CoFlatMapFunction, "flat_map() of connected streams")
        return self._apply("Co-Flat Map", "co_flat_map", func, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Elements with their timestamps and the current time; if both streams are keyed, with state and timers.

        The streams decide about state and timers, not the class of the function.
        """
        keyed = self._is_keyed()
        check_process_function(func, (KeyedCoProcessFunction, CoProcessFunction), "process() of connected streams")
        return self._apply("Keyed Co-Process" if keyed else "Co-Process", "co_process", func, output_type)

    def _is_keyed(self) -> bool:
        keyed = (isinstance(self.stream1, KeyedStream), isinstance(self.stream2, KeyedStream))
        if keyed[0] != keyed[1]:
            raise GraphError("two connected streams must both be keyed, or neither: call key_by() on the other one too")
        return keyed[0]

    def _apply(self, name: str, shape: str, func: Any, output_type: TypeInformation | None) -> DataStream:
        spec = FunctionSpec(shape, func, keyed=self._is_keyed())
        return self.stream1._apply_with(self.stream2, name, spec, output_type)
