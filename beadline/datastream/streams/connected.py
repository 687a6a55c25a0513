"""Two streams whose elements meet in one operator; the second may be one that every subtask sees in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from beadline.api.function import CoFlatMapFunction, CoMapFunction
from beadline.api.process import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from beadline.api.state_descriptors import MapStateDescriptor
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.data_stream import DataStream, Selector
from beadline.datastream.streams.keyed import KeyedStream
from beadline.datastream.streams.operator_settings import check_process_function
from beadline.errors import GraphError, StateAccessError, TypeMismatchError
from beadline.graph.specs import BroadcastSpec, FunctionSpec


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


class BroadcastStream:
    """Made by ``stream.broadcast(descriptor, …)``, for ``other.connect(…)``. Its elements are kept in the broadcast
    states that the descriptors name."""

    def __init__(self, input_stream: DataStream, broadcast_state_descriptors: list[MapStateDescriptor]) -> None:
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise TypeMismatchError(
                    f"broadcast() takes MapStateDescriptors, got {type(descriptor).__name__}: {descriptor!r}"
                )
            if descriptor.ttl_config is not None:
                raise StateAccessError(
                    f"broadcast state '{descriptor.name}' can't have a time to live; only keyed state can"
                )
        names = [descriptor.name for descriptor in broadcast_state_descriptors]
        for name in names:
            if names.count(name) > 1:
                raise GraphError(f"broadcast(): two descriptors have the name '{name}'; two states need two names")
        self.input_stream = input_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors

    def __repr__(self) -> str:
        names = ", ".join(f"'{descriptor.name}'" for descriptor in self.broadcast_state_descriptors)
        return f"<BroadcastStream with {names} of {self.input_stream!r}>"


@dataclass(eq=False, repr=False)
class BroadcastConnectedStream:
    """A stream, keyed or not, and a broadcast one: for example events and the rules for them."""

    non_broadcast_stream: DataStream
    broadcast_stream: BroadcastStream
    broadcast_state_descriptors: list[MapStateDescriptor]

    def __repr__(self) -> str:
        return f"<BroadcastConnectedStream of {self.non_broadcast_stream!r} and {self.broadcast_stream!r}>"

    def process(
        self,
        func: BroadcastProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Elements of both sides into one function. Within a step the broadcast side comes first."""
        keyed = isinstance(self.non_broadcast_stream, KeyedStream)
        what = f"process() of a {'keyed' if keyed else 'non-keyed'} stream connected to a broadcast stream"
        check_process_function(func, KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction, what)
        spec = BroadcastSpec(func, tuple(self.broadcast_state_descriptors), keyed)
        name = "Keyed-Co-Process-Broadcast" if keyed else "Co-Process-Broadcast"
        return self.non_broadcast_stream._apply_with(self.broadcast_stream.input_stream, name, spec, output_type)
