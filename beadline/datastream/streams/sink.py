"""The end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beadline.datastream.streams.operator_settings import OperatorSettings
from beadline.graph.nodes import Node

if TYPE_CHECKING:
    from beadline.datastream.stream_execution_environment import StreamExecutionEnvironment


class DataStreamSink(OperatorSettings):
    """Names and sets up the operator at the end of a stream."""

    def __init__(self, env: StreamExecutionEnvironment, node: Node) -> None:
        self._env = env
        self._sink = node

    def __repr__(self) -> str:
        return f"<DataStreamSink '{self._sink.name}'>"

    def _node(self, what: str) -> Node:
        return self._sink
