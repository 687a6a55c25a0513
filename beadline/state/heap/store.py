"""A subtask's working state in dictionaries."""

from __future__ import annotations

from functools import partial
from typing import Any

from sortedcontainers import SortedDict

from beadline.state.heap.tables import TABLE_KINDS, Table
from beadline.state.heap.timers import TimerTable
from beadline.state.runs.files import read_range
from beadline.state.runs.run import RunContent, decode_run, open_run
from beadline.state.runs.version import Handle, RunRef
from beadline.state.store import Read, Store, check_kind

_BLOCKWISE_BYTES = 8 << 20
_BLOCKWISE_ENTRIES = 200_000


class HeapStore(Store):
    """Tables in dictionaries, read-only while a step runs."""

    def __init__(self, root: str, key_groups: range) -> None:
        self.version = root
        self.key_groups = key_groups
        self._bases: dict[str, dict[Any, Any]] = {}
        self._kinds: dict[str, tuple[str, bool]] = {}
        self._pending: dict[str, RunContent] = {}

    def __repr__(self) -> str:
        entries = sum(len(base) for base in self._bases.values())
        return f"<HeapStore at {self.version[:8]}, {entries} entries, {len(self._pending)} pending>"

    def advance(self, handle: Handle, read: Read) -> bool:
        runs = handle.after(self.version)
        if runs is None:
            return False
        for run in runs:
            content = self._pending.pop(run.version, None)
            large = run.size > _BLOCKWISE_BYTES or run.entries > _BLOCKWISE_ENTRIES
            if content is None and run.path is not None and large:
                self._load(run)
            else:
                groups = run.restricted(self.key_groups).key_groups
                self._apply(decode_run(read(run), groups, where=repr(run)) if content is None else content)
            self.version = run.version
        # What is still pending was made by attempts that were never sealed.
        self._pending.clear()
        return True

    def _load(self, run: RunRef) -> None:
        """Take a large run block by block, so that it is never in memory together with its result."""
        # A store that took a part of it has no version.
        self.version = ""
        groups = run.restricted(self.key_groups).key_groups
        for name, table in open_run(partial(read_range, run), run.size, repr(run)).parts(groups):
            self._apply({name: table})

    def _apply(self, content: RunContent) -> None:
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

    def keep(self, version: str, content: RunContent) -> None:
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
