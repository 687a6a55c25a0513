"""The elements of a stream, brought to the program."""

from __future__ import annotations

import queue
from collections import deque
from typing import TYPE_CHECKING, Any

from beadline.errors import GraphError
from beadline.graph.specs import CollectSpec, Forward
from beadline.master.client.control import MasterControl

if TYPE_CHECKING:
    from beadline.datastream.data_stream import DataStream


class CloseableIterator:
    """Elements of a stream in the order in which steps were sealed. Closing it cancels a job that still runs."""

    def __init__(self, collector: str) -> None:
        self._collector = collector
        self._batches: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
        self._ready: deque[Any] = deque()
        self._client: MasterControl
        self._closed = False

    def _offer(self, collector: str, records: list[Any]) -> None:
        if collector == self._collector:
            self._batches.put(records)

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self) -> Any:
        while not self._ready:
            ended = self._client.has_ended()
            try:
                self._ready.extend(self._batches.get(timeout=0 if ended else 0.02))
            except queue.Empty:
                if ended:
                    if not self._closed:
                        self._client.result()
                    raise StopIteration from None
        return self._ready.popleft()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt) and not self._client.has_ended():
            # Ctrl-C is no cancel: the job can be resumed.
            self._closed = True
            self._client.suspend()
            self._client.wait()
        self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if not self._client.has_ended():
                self._client.cancel().result()


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
