"""One keyed subtask over many steps, without a job around it: workers with caches, a handle, and attempts that may be
lost."""

from __future__ import annotations

from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.common.typeinfo import Types
from beadline.state.access.backend import KeyedBackend
from beadline.state.heap.store import HeapStore
from beadline.state.segments.segment import (
    SegmentContent,
    count_entries,
    decode_segment,
    encode_segment,
    merge_contents,
    without_tombstones,
)
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, next_version, root_version
from beadline.state.store import open_store

MAX_PARALLELISM = 8
ALL_GROUPS = range(MAX_PARALLELISM)
ANY = Types.PICKLED_BYTE_ARRAY()


class Worker:
    """A worker's backend and its cached store."""

    def __init__(self) -> None:
        self.store: HeapStore | None = None
        self.forget_functions()

    def forget_functions(self) -> None:
        self.backend = KeyedBackend("op")
        self.value = self.backend.state(ValueStateDescriptor("value", ANY))
        self.list = self.backend.state(ListStateDescriptor("list", ANY))
        self.map = self.backend.state(MapStateDescriptor("map", ANY, ANY))


class Subtask:
    """What the driver knows of a subtask: its handle. Segments are kept in memory, inline."""

    def __init__(self, job: str = "job") -> None:
        self.handle = KeyedStateHandle(root_version(job, "op", ALL_GROUPS))
        self.reads = 0

    def read(self, segment: SegmentRef) -> bytes:
        self.reads += 1
        assert segment.inline is not None
        return segment.inline

    def begin(self, worker: Worker, now: int = 0) -> None:
        worker.store = open_store(worker.store, self.handle, ALL_GROUPS, self.read)
        assert worker.store.version == self.handle.version
        worker.backend.begin(worker.store, now)

    def finish(self, worker: Worker) -> SegmentRef | None:
        """End an attempt: the worker keeps its overlay, the delta waits to be sealed."""
        content = worker.backend.finish()
        segment = as_segment(content, self.handle.version)
        if segment is not None:
            assert worker.store is not None
            worker.store.keep(segment.version, content)
        return segment

    def seal(self, segment: SegmentRef | None) -> None:
        if segment is not None:
            self.handle = self.handle.plus(segment)

    def merge(self, start: int, end: int) -> None:
        """Replace some segments of the handle by one."""
        segments = self.handle.segments[start:end]
        content = merge_contents(decode_segment(self.read(segment)) for segment in segments)
        if start == 0:
            content = without_tombstones(content)
        data = encode_segment(content, MAX_PARALLELISM)
        merged = SegmentRef(segments[-1].version, count_entries(content), len(data), inline=data)
        self.handle = self.handle.replacing(start, end, merged)


def as_segment(content: SegmentContent, base: str) -> SegmentRef | None:
    data = encode_segment(content, MAX_PARALLELISM)
    return SegmentRef(next_version(base, data), count_entries(content), len(data), inline=data) if data else None
