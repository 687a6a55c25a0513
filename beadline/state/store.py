"""The working copy of a subtask's state in a worker, kept between steps.

A store carries its version. It serves a handle only if that version is in the handle's chain, and then reads the
segments that follow; otherwise it is dropped and built again. This one rule covers rollback, lost attempts, zombies,
re-runs, rescaling and two jobs in one session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from beadline.errors import StateMismatchError
from beadline.state.backend_settings import ROCKSDB, BackendSettings
from beadline.state.heap.tables import Table
from beadline.state.segments.segment import SegmentContent
from beadline.state.segments.version import KeyedStateHandle


@dataclass(frozen=True)
class StoreOwner:
    """Whose state a store holds."""

    execution: str
    node: int
    subtask: int
    max_parallelism: int


class Store(ABC):
    """What a task needs of a store: a version to start from, tables with overlays, and a place for what it changed.

    :ivar version: the version that the tables stand at
    """

    version: str

    @abstractmethod
    def advance(self, handle: KeyedStateHandle) -> bool:
        """Bring the store to a handle's version. False if its own is not in the handle's chain: it must be dropped."""

    @abstractmethod
    def table(self, name: str, kind: str, namespaced: bool = False) -> Table:
        """A table with an empty overlay over this store."""

    @abstractmethod
    def keep(self, version: str, content: SegmentContent) -> None:
        """Hold the overlay of a finished attempt until a handle names its version, or another one."""

    @abstractmethod
    def count(self) -> int:
        """How many entries the store holds; it need not be exact."""

    @abstractmethod
    def release(self) -> None:
        """The task has ended or failed. Its tables are not used any more; another worker may be next."""

    @abstractmethod
    def close(self) -> None:
        """The execution is over: release everything, on disk too."""


def check_kind(name: str, known: tuple[str, bool], wanted: tuple[str, bool]) -> None:
    if known != wanted:
        before, now = (f"{kind}, by window" if namespaced else kind for kind, namespaced in (known, wanted))
        raise StateMismatchError(
            f"state '{name}' is of kind {before} in the snapshot and {now} in the program. "
            "Use another state name, or the kind it was written with."
        )


def open_store(
    cached: Store | None,
    handle: KeyedStateHandle,
    key_groups: range,
    settings: BackendSettings | None = None,
    owner: StoreOwner | None = None,
) -> Store:
    """The store at a handle's version: the cached one if it stands in the chain, a new one otherwise.

    :param settings: which backend; the heap by default
    :param owner: whose state it is, which a store with files must know
    """
    if cached is not None and _advanced(cached, handle):
        return cached
    store: Store
    if settings is not None and settings.kind == ROCKSDB:
        from beadline.state.rocks.store import RocksStore

        assert owner is not None
        store = RocksStore(handle.root, key_groups, owner, settings.rocks)
    else:
        from beadline.state.heap.store import HeapStore

        store = HeapStore(handle.root, key_groups)
    _advanced(store, handle)
    return store


def _advanced(store: Store, handle: KeyedStateHandle) -> bool:
    try:
        return store.advance(handle)
    except BaseException:
        store.release()  # a segment can't be read, say: the next attempt may have the files
        raise
