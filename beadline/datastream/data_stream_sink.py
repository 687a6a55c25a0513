"""The end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beadline.common.without_java import WithoutJava
from beadline.datastream.slot_sharing_group import SlotSharingGroup
from beadline.graph.nodes import Node

if TYPE_CHECKING:
    from beadline.datastream.stream_execution_environment import StreamExecutionEnvironment


class DataStreamSink(WithoutJava):
    """Names and sets up the operator at the end of a stream."""

    def __init__(self, env: StreamExecutionEnvironment, node: Node) -> None:
        self._env = env
        self._node = node

    def __repr__(self) -> str:
        return f"<DataStreamSink '{self._node.name}'>"

    def name(self, name: str) -> DataStreamSink:
        self._node.name = name
        return self

    def uid(self, uid: str) -> DataStreamSink:
        self._node.uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        self._node.uid_hash = uid_hash
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        from beadline.datastream.data_stream import checked_parallelism

        self._node.parallelism = checked_parallelism(parallelism, self._node.name)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        self._node.description = description
        return self

    def disable_chaining(self) -> DataStreamSink:
        self._node.never_chained = True
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        self._env._without_effect("slot_sharing_group", "Spark schedules the tasks")
        return self
