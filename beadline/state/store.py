"""The working copy of a subtask's state in a worker, kept between steps.

A store carries the version it stands at. It serves a handle only if that version is in the handle's chain, and then
takes what follows; otherwise it is dropped and built anew. This one rule covers rollback, lost attempts, zombies,
re-runs, rescaling and two jobs in one session.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from sortedcontainers import SortedDict

from beadline.errors import VersionError
from beadline.state.run import RunContent, decode_run
from beadline.state.tables import TABLE_KINDS, Table
from beadline.state.timers import TimerTable
from beadline.state.version import Handle, RunRef

# Above this many entries a load is worth telling the garbage collector: what it froze it does not walk after every
# task.
_FREEZE_AFTER = 100_000


class HeapStore:
    """Tables in dictionaries, read-only while a step runs.

    :ivar version: the version the tables stand at
    """

    def __init__(self, root: str, key_groups: range) -> None:
        self.version = root
        self.key_groups = key_groups
        self._bases: dict[str, dict[Any, Any]] = {}
        self._kinds: dict[str, tuple[str, bool]] = {}
        self._pending: dict[str, RunContent] = {}
        self._loaded_since_freeze = 0
        self._frozen = 0

    def __repr__(self) -> str:
        entries = sum(len(base) for base in self._bases.values())
        return f"<HeapStore at {self.version[:8]}, {entries} entries, {len(self._pending)} pending>"

    def advance(self, handle: Handle, read: Callable[[RunRef], bytes]) -> bool:
        """Bring the store to a handle's version. False if it stands outside of the handle's chain and must be
        dropped."""
        runs = handle.after(self.version)
        if runs is None:
            return False
        for run in runs:
            content = self._pending.pop(run.version, None)
            if content is None:
                content = decode_run(read(run), self.key_groups, where=repr(run))
            self._apply(content)
            self.version = run.version
        # What is still pending was made by attempts that were never sealed.
        self._pending.clear()
        if self._loaded_since_freeze >= max(_FREEZE_AFTER, self._frozen // 2):
            self._loaded_since_freeze = 0
            self._frozen = self.count()
            gc.unfreeze()
            gc.collect()
            gc.freeze()
        return True

    def _apply(self, content: RunContent) -> None:
        for name, table in content.items():
            base = self._base(name, table.kind, table.namespaced)
            before = len(base)
            TABLE_KINDS[table.kind].apply(base, table.changes)
            self._loaded_since_freeze += len(base) - before

    def _base(self, name: str, kind: str, namespaced: bool) -> dict[Any, Any]:
        known = self._kinds.setdefault(name, (kind, namespaced))
        if known != (kind, namespaced):
            raise VersionError(
                f"state '{name}' is of kind {known[0]} in the store and {kind} in the program. "
                "Use another state name, or the kind it was written with."
            )
        base = self._bases.get(name)
        if base is None:
            base = self._bases[name] = SortedDict() if kind == TimerTable.kind else {}
        return base

    def table(self, name: str, kind: str, namespaced: bool = False) -> Table:
        """A table with an empty overlay over this store."""
        return TABLE_KINDS[kind](name, self._base(name, kind, namespaced), namespaced)

    def keep(self, version: str, content: RunContent) -> None:
        """Hold the overlay of a finished attempt until a handle names it, or names another."""
        self._pending.clear()
        self._pending[version] = content

    def count(self) -> int:
        """How many slots the store holds, timers by time."""
        return sum(len(base) for base in self._bases.values())


def open_store(
    cached: HeapStore | None, handle: Handle, key_groups: range, read: Callable[[RunRef], bytes]
) -> HeapStore:
    """The store at a handle's version: the cached one if it stands in the chain, a new one otherwise."""
    if cached is not None and cached.advance(handle, read):
        return cached
    store = HeapStore(handle.root, key_groups)
    store.advance(handle, read)
    return store
