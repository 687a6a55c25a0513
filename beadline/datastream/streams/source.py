"""The stream that ``from_source`` gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from beadline.api.output_tag import OutputTag
from beadline.datastream.data_stream import DataStream
from beadline.datastream.streams.operator_settings import checked_parallelism
from beadline.graph.specs import Edge, Forward, Node

if TYPE_CHECKING:
    from beadline.datastream.stream_execution_environment import StreamExecutionEnvironment


class SourceStream(DataStream):
    """A source with its watermark strategy: two operators that the program sees as one."""

    def __init__(self, env: StreamExecutionEnvironment, timed: DataStream, source: Node) -> None:
        super().__init__(env, timed._edges, timed._type)
        self._source = source

    def _node(self, what: str) -> Node:
        return (
            self._source if what.startswith(("name", "get_name", "uid", "set_uid", "set_desc")) else super()._node(what)
        )

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """What either operator sent there: records of a source can be poison for both."""
        of_source = DataStream(self._env, [Edge(self._source, Forward())], self._type).get_side_output(output_tag)
        return super().get_side_output(output_tag).union(of_source)

    def uid(self, uid: str) -> Self:
        self._edges[0].source.uid = f"{uid}-watermarks"
        return super().uid(uid)

    def set_parallelism(self, parallelism: int) -> Self:
        self._source.parallelism = checked_parallelism(parallelism, self._source.name)
        return super().set_parallelism(parallelism)

    def force_non_parallel(self) -> DataStream:
        self._source.single = True
        return super().force_non_parallel()

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        self._source.max_parallelism = checked_parallelism(max_parallelism, self._source.name)
        return super().set_max_parallelism(max_parallelism)
