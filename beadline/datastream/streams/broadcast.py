"""A stream that every subtask sees in full, and its connection with another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from beadline.api.process import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from beadline.api.state_descriptors import MapStateDescriptor
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.data_stream import DataStream
from beadline.datastream.streams.keyed import KeyedStream
from beadline.datastream.streams.operator_settings import check_process_function
from beadline.errors import GraphError, StateAccessError, TypeMismatchError
from beadline.graph.specs import BroadcastSpec


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
