"""A subtask's working state in dictionaries."""

from __future__ import annotations

from functools import partial
from typing import Any

from sortedcontainers import SortedDict

from beadline.state.heap.tables import TABLE_KINDS, Table
from beadline.state.heap.timers import TimerTable
from beadline.state.segments.files import read_range, read_segment
from beadline.state.segments.segment import SegmentContent, decode_segment, open_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef
from beadline.state.store import Store, check_kind

_BLOCKWISE_BYTES = 8 << 20
_BLOCKWISE_ENTRIES = 200_000


class HeapStore(Store):
    """Tables in dictionaries, read-only while a step runs."""

    def __init__(self, root: str, key_groups: range) -> None:
        self.version = root
        self.key_groups = key_groups
        self._bases: dict[str, dict[Any, Any]] = {}
        self._kinds: dict[str, tuple[str, bool]] = {}
        self._pending: dict[str, SegmentContent] = {}

    def advance(self, handle: KeyedStateHandle) -> bool:
        segments = handle.after(self.version)
        if segments is None:
            return False
        for segment in segments:
            groups = segment.restricted(self.key_groups).key_groups
            large = segment.size > _BLOCKWISE_BYTES or segment.entries > _BLOCKWISE_ENTRIES
            if (content := self._pending.pop(segment.version, None)) is not None:
                self._apply(content)
            elif segment.path is not None and large:
                self._load(segment, groups)
            else:
                self._apply(decode_segment(read_segment(segment), groups, repr(segment), segment.is_own))
            self.version = segment.version
        # What is still pending was made by tries that were never sealed.
        self._pending.clear()
        return True

    def _load(self, segment: SegmentRef, groups: range | None) -> None:
        """Take a large segment block by block, so that it is never in memory together with its result."""
        # A store that took a part of it has no version.
        self.version = ""
        reader = open_segment(partial(read_range, segment), segment.size, repr(segment), segment.is_own)
        for name, table in reader.parts(groups):
            self._apply({name: table})

    def _apply(self, content: SegmentContent) -> None:
        for name, table in content.items():
            base = self._base(name, table.kind, table.namespaced)
            TABLE_KINDS[table.kind].apply(base, table.changes)

    def _base(self, name: str, kind: str, namespaced: bool) -> dict[Any, Any]:
        known = self._kinds.setdefault(name, (kind, namespaced))
        check_kind(name, known, (kind, namespaced))
        base = self._bases.get(name)
        if base is None:
            base = self._bases[name] = SortedDict() if kind == TimerTable.kind else {}
        return base

    def table(self, name: str, kind: str, namespaced: bool = False) -> Table:
        return TABLE_KINDS[kind](name, self._base(name, kind, namespaced), namespaced)

    def keep(self, version: str, content: SegmentContent) -> None:
        self._pending.clear()
        self._pending[version] = content

    def count(self) -> int:
        """How many slots the store holds, timers by time."""
        return sum(len(base) for base in self._bases.values())

    def release(self) -> None:
        pass

    def close(self) -> None:
        self._bases.clear()
        self._pending.clear()
