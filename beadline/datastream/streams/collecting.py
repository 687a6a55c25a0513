"""The elements of a stream, brought to the program."""

from __future__ import annotations

from typing import Any

from beadline.datastream.data_stream import DataStream
from beadline.datastream.streams.closeable_iterator import CloseableIterator
from beadline.errors import GraphError
from beadline.graph.specs import CollectSpec, Forward


def collect(stream: DataStream, job_name: str | None, limit: int | None) -> CloseableIterator | list[Any]:
    """See :meth:`DataStream.execute_and_collect`."""
    if limit is not None and limit < 1:
        raise GraphError(f"execute_and_collect(): limit must be at least 1, got {limit}")
    env = stream._env
    collector = f"collect-{env._next_number()}"
    node = stream._apply("Collect Stream Sink", CollectSpec(collector), stream._type)._node("uid()")
    node.uid = collector
    # Flink collects in one subtask. If each subtask's elements can be collected where they are, nothing has to move:
    # their order is the same.
    edge = stream._edges[0]
    if len(stream._edges) == 1 and isinstance(edge.partitioning, Forward):
        node.parallelism, node.single = edge.source.parallelism, edge.source.single
    else:
        node.single = True
    results = CloseableIterator(collector)
    results._client = env._start(job_name, collected=results._offer)
    if limit is None:
        return results
    with results:
        return [element for _, element in zip(range(limit), results, strict=False)]
