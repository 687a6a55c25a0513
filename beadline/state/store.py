"""The working copy of a subtask's state in a worker, kept between steps.

A store carries its version. It serves a handle only if that version is in the handle's chain, and then reads the runs
that follow; otherwise it is dropped and built again. This one rule covers rollback, lost attempts, zombies,
re-runs, rescaling and two jobs in one session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sortedcontainers import SortedDict

from beadline.errors import StateMismatchError
from beadline.state.backend_settings import ROCKSDB, BackendSettings
from beadline.state.files import read_range
from beadline.state.run import RunContent, decode_run, open_run
from beadline.state.tables import TABLE_KINDS, Table
from beadline.state.timers import TimerTable
from beadline.state.version import Handle, RunRef

_BLOCKWISE_BYTES = 8 << 20
_BLOCKWISE_ENTRIES = 200_000

Read = Callable[[RunRef], bytes]


@dataclass(frozen=True)
class Place:
    """Whose state a store holds."""

    run: str
    node: int
    subtask: int
    max_parallelism: int


class Store(ABC):
    """What a task needs of a store: a version to start from, tables with overlays, and a place for what it changed.

    :ivar version: the version that the tables stand at
    """

    version: str

    @abstractmethod
    def advance(self, handle: Handle, read: Read) -> bool:
        """Bring the store to a handle's version. False if its own version is not in the handle's chain and it must be
        dropped."""

    @abstractmethod
    def table(self, name: str, kind: str, namespaced: bool = False) -> Table:
        """A table with an empty overlay over this store."""

    @abstractmethod
    def keep(self, version: str, content: RunContent) -> None:
        """Hold the overlay of a finished attempt until a handle names its version, or another one."""

    @abstractmethod
    def count(self) -> int:
        """How many entries the store holds; it need not be exact."""

    @abstractmethod
    def release(self) -> None:
        """The task has ended or failed. Its tables are not used any more; another worker may be next."""

    @abstractmethod
    def close(self) -> None:
        """The run is over: release everything, on disk too."""


def check_kind(name: str, known: tuple[str, bool], wanted: tuple[str, bool]) -> None:
    if known != wanted:
        before, now = (f"{kind}, by window" if namespaced else kind for kind, namespaced in (known, wanted))
        raise StateMismatchError(
            f"state '{name}' is of kind {before} in the snapshot and {now} in the program. "
            "Use another state name, or the kind it was written with."
        )


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


def open_store(
    cached: Store | None,
    handle: Handle,
    key_groups: range,
    read: Read,
    settings: BackendSettings | None = None,
    place: Place | None = None,
) -> Store:
    """The store at a handle's version: the cached one if it stands in the chain, a new one otherwise.

    :param settings: which backend; the heap by default
    :param place: whose state it is, which a store with files must know
    """
    if cached is not None and _advanced(cached, handle, read):
        return cached
    store: Store
    if settings is not None and settings.kind == ROCKSDB:
        from beadline.state.rocks.store import RocksStore

        assert place is not None
        store = RocksStore(handle.root, key_groups, place, settings.rocks)
    else:
        store = HeapStore(handle.root, key_groups)
    _advanced(store, handle, read)
    return store


def _advanced(store: Store, handle: Handle, read: Read) -> bool:
    try:
        return store.advance(handle, read)
    except BaseException:
        store.release()  # a run can't be read, say: the next attempt may have the files
        raise
