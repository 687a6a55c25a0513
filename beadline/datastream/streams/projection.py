"""Some fields of a stream of tuples."""

from __future__ import annotations

from typing import Any

from beadline.api.function import MapFunction
from beadline.common.typeinfo import TupleTypeInfo, Types
from beadline.datastream.data_stream import DataStream
from beadline.errors import GraphError, TypeMismatchError
from beadline.graph.specs import FunctionSpec


def project(stream: DataStream, field_indexes: tuple[int, ...]) -> DataStream:
    known = stream.get_type()
    if not isinstance(known, TupleTypeInfo):
        raise TypeMismatchError(
            f"Only Tuple DataStreams can be projected; this one is of {known}. Declare Types.TUPLE([…])."
        )
    types = known.get_field_types()
    for index in field_indexes:
        if not isinstance(index, int) or not 0 <= index < len(types):
            raise GraphError(f"project(): there is no field {index!r}, the tuple has fields 0 to {len(types) - 1}")
    return stream._apply(
        "Projection",
        FunctionSpec("map", _Projection(field_indexes), keyed=False),
        Types.TUPLE([types[i] for i in field_indexes]),
        stream._edges[0].source.parallelism,
    )


class _Projection(MapFunction):
    def __init__(self, indexes: tuple[int, ...]) -> None:
        self._indexes = indexes

    def map(self, value: Any) -> Any:
        return tuple(value[i] for i in self._indexes)
