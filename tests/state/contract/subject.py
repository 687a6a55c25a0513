"""One keyed subtask over any backend: steps that are sealed, lost or failed, segments, merges, and other
parallelisms."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.api.state_descriptors import StateDescriptor
from beadline.common.typeinfo import Types
from beadline.state.access.backend import KeyedBackend
from beadline.state.backend_settings import BackendSettings, RocksSettings
from beadline.state.codec import thaw
from beadline.state.heap import store as heap_store
from beadline.state.key_groups import key_group_range
from beadline.state.rocks import folders
from beadline.state.rocks import store as rocks_store
from beadline.state.rocks.store import RocksStore
from beadline.state.segments.files import read_segment
from beadline.state.segments.segment import (
    SegmentContent,
    count_entries,
    decode_segment,
    encode_segment,
    merge_contents,
    without_expired,
    without_tombstones,
)
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, next_version, root_version
from beadline.state.store import Store, StoreOwner, open_store

HEAP, ROCKSDB = "hashmap", "rocksdb"
ANY = Types.PICKLED_BYTE_ARRAY()
MAX_PARALLELISM = 16
Make = Callable[..., "Subject"]


class Step:
    """A step that is going on: pick a key (and window), then a state by its name."""

    def __init__(self, backend: KeyedBackend, handles: dict[str, Any]) -> None:
        self.backend = backend
        self._handles = handles

    def at(self, key: Any, window: Any = None) -> Step:
        self.backend.scope.slot = key
        self.backend.window_scope.slot = (key, window)
        return self

    def __getitem__(self, name: str) -> Any:
        return self._handles[name]

    @property
    def timers(self) -> Any:
        return self.backend.event_timers


class Subject:
    """What the driver knows of a subtask, and the workers that run its steps.

    ``way`` says how a step comes to its store: the last worker ``kept`` it; another worker of the same machine is next
    (``moved``); or everything local is lost and the store is ``rebuilt`` from the segments.
    """

    def __init__(
        self,
        kind: str,
        way: str,
        folder: Path,
        descriptors: Sequence[StateDescriptor],
        windowed: Sequence[StateDescriptor] = (),
        name: str = "run",
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = MAX_PARALLELISM,
        handle: KeyedStateHandle | None = None,
        rocks: RocksSettings | None = None,
    ) -> None:
        self.folder, self.way, self.name = folder, way, name
        self.settings = BackendSettings(kind, replace(rocks or RocksSettings(), directories=(str(folder),)))
        self.descriptors, self.windowed = tuple(descriptors), tuple(windowed)
        self.groups = key_group_range(subtask, parallelism, max_parallelism)
        self.subtask, self.max_parallelism = subtask, max_parallelism
        self.handle = handle or KeyedStateHandle(root_version("job", "op", self.groups))
        self.store: Store | None = None
        self._backend: KeyedBackend | None = None
        self._handles: dict[str, Any] = {}
        self.reads = 0

    # -- steps

    @contextmanager
    def step(self, now: int = 0, fate: str = "sealed") -> Iterator[Step]:
        """One try of a step. Its fate: ``sealed``, ``lost`` behind its end, or ``failed`` in the middle."""
        if self._backend is None:
            self._backend = KeyedBackend("op")
            self._handles = {d.name: self._backend.state(d) for d in self.descriptors}
            self._handles |= {d.name: self._backend.state(d, windowed=True) for d in self.windowed}
        backend = self._backend
        self.open()
        assert self.store is not None
        try:
            backend.begin(self.store, now, namespaced_timers=bool(self.windowed))
            yield Step(backend, self._handles)
            if fate == "failed":
                self._backend = None
                return
            content = backend.finish()
            segment = self.as_segment(content)
            if segment is not None:
                self.store.keep(segment.version, content)
                if fate == "sealed":
                    self.handle = self.handle.plus(segment)
        except BaseException:
            self._backend = None
            raise
        finally:
            self.store.release()
        if self.way != "kept":
            self.lose(files=self.way == "rebuilt")

    def open(self) -> Store:
        place = StoreOwner(self.name, 1, self.subtask, self.max_parallelism)
        with pytest.MonkeyPatch.context() as counting:
            counting.setattr(heap_store, "read_segment", self.read)
            counting.setattr(rocks_store, "read_segment", self.read)
            self.store = open_store(self.store, self.handle, self.groups, self.settings, place)
        assert self.store.version == self.handle.version
        return self.store

    def read(self, segment: SegmentRef) -> bytes:
        self.reads += 1
        return read_segment(segment)

    def as_segment(self, content: SegmentContent) -> SegmentRef | None:
        data = encode_segment(content, self.max_parallelism)
        if not data:
            return None
        return SegmentRef(next_version(self.handle.version, data), count_entries(content), len(data), inline=data)

    def lose(self, files: bool = True) -> None:
        """The worker is gone, and perhaps its disk."""
        if self.store is not None and files:
            self.store.close()
        elif isinstance(self.store, RocksStore):
            self.store._disconnect()  # as the end of a process does
        self.store = self._backend = None

    def close(self) -> None:
        if self.store is None and self.settings.kind == ROCKSDB:
            self.open()
        if self.store is not None:
            self.store.close()

    # -- what the master does

    def merge(self, start: int = 0, end: int | None = None, now: int = 0, by_key: bool = True) -> None:
        """Replace some segments by one."""
        segments = self.handle.segments[start:end]
        content = merge_contents(decode_segment(self.read(segment), segment.key_groups) for segment in segments)
        if start == 0:
            content = without_expired(without_tombstones(content), now)
        data = encode_segment(content, self.max_parallelism, by_key=by_key)
        merged = SegmentRef(segments[-1].version, count_entries(content), len(data), inline=data)
        self.handle = self.handle.replacing(start, start + len(segments), merged)

    def rescaled(self, parallelism: int, kind: str | None = None, name: str = "rescaled") -> list[Subject]:
        """Subtasks that share this one's key groups."""
        parts = []
        for subtask in range(parallelism):
            groups = key_group_range(subtask, parallelism, self.max_parallelism)
            handle = KeyedStateHandle(root_version(name, "op", groups), self.handle.segments)
            parts.append(
                Subject(
                    kind or self.settings.kind,
                    self.way,
                    self.folder,
                    self.descriptors,
                    self.windowed,
                    f"{name}-{parallelism}",
                    subtask,
                    parallelism,
                    self.max_parallelism,
                    handle,
                    self.settings.rocks,
                )
            )
        return parts

    def switched(self, kind: str) -> Subject:
        """The same subtask with another backend, over the same segments."""
        other = Subject(
            kind,
            self.way,
            self.folder,
            self.descriptors,
            self.windowed,
            f"{self.name}-{kind}-{len(self.handle.segments)}",
            max_parallelism=self.max_parallelism,
            handle=self.handle,
            rocks=self.settings.rocks,
        )
        other.groups = self.groups
        return other

    def stored(self, name: str, kind: str, namespaced: bool = False) -> dict[Any, Any]:
        """What the store holds of a table, without any overlay."""
        store = self.open()
        table: Any = store.table(name, kind, namespaced)
        if kind == "map":
            found = {slot: dict(table.items(slot)) for slot in table.slots()}
        elif kind == "timer":
            found = {timestamp: list(table._pending_at(timestamp)) for timestamp in table.base}
        elif kind == "list":
            found = {slot: [thaw(item) for item in items] for slot, items in table.base.items()}
        else:
            found = {slot: thaw(value) for slot, value in table.base.items()}
        store.release()
        return found


def let_go(folder: Path) -> None:
    """Workers that were lost died in this process: let go of what death would have taken, and of their files."""
    for place, workplace in list(folders._workplaces.items()):
        while place[0] == str(folder) and place in folders._workplaces:
            workplace.leave()
    shutil.rmtree(folder, ignore_errors=True)
