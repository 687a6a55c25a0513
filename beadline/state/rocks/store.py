"""A subtask's working state in RocksDB.

Workers take turns with the subtasks of their executor. While a subtask's state is small, each worker has a database of
its own for it, which stays open between steps and takes from the segments what other workers wrote. Once the state is
large there is one database for the machine: the worker with the task opens it under its lock, and closes it afterwards.

A database carries its version. If that is not in a handle's chain, it is emptied and built again from the segments.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar
from weakref import WeakSet

from beadline.errors import StepError, StorageError
from beadline.state.backend_settings import RocksSettings
from beadline.state.disks import FREE_SPACE, is_full
from beadline.state.heap.tables import Table
from beadline.state.rocks import database as opening
from beadline.state.rocks import folders
from beadline.state.rocks.tables import (
    ListRows,
    MapRows,
    Remembered,
    RocksListTable,
    RocksMapTable,
    RocksValueTable,
    Rows,
    ValueRows,
)
from beadline.state.rocks.timers import RocksTimerTable, TimerRows
from beadline.state.rocks.writing import Batch, Catalogue, SortedFiles
from beadline.state.segments.files import read_range, read_segment
from beadline.state.segments.segment import SegmentContent, SegmentReader, TableChanges, open_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef
from beadline.state.store import Store, StoreOwner

_WAIT_SECONDS = 0.5
_BLOCKWISE_BYTES = 8 << 20
_BLOCKWISE_ENTRIES = 200_000
_LOAD_ENTRIES = 20_000
_BATCH_BYTES = 4 << 20
_LEAST_ENTRY_BYTES = 32
# Rows that describe the database itself; no table has this number.
_VERSION, _TABLES = b"\x00\x00version", b"\x00\x00tables"
# The part of the memory limit that one store's remembered values may take.
_REMEMBERED_PART = 4
_LEAST_REMEMBERED = 4 << 20


def _is_large(handle: KeyedStateHandle, limit: int) -> bool:
    """Whether workers should share a database of it. Files may be compressed, so entries count as well."""
    return handle.size > limit or sum(segment.entries for segment in handle.segments) > limit // _LEAST_ENTRY_BYTES


class RocksStore(Store):
    """Tables in RocksDB, read-only while a step runs."""

    #: Those of this process whose database is open.
    open: ClassVar[WeakSet[RocksStore]] = WeakSet()

    def __init__(self, root: str, key_groups: range, owner: StoreOwner, settings: RocksSettings) -> None:
        self.version = root
        self.key_groups = key_groups
        self._owner = owner
        self._settings = settings
        self._options = opening.make_options(settings)
        self._unlogged = opening.unlogged()
        self._workplace = self._enter()
        self._entered = True
        self._name = f"{owner.node}-{owner.subtask}"
        self._common = os.path.join(self._workplace.execution_folder, self._name)
        self._own: str | None = None
        self._lock = folders.Lock(self._common)
        self._large = False
        self._database: Any = None
        self._rows: Rows | None = None
        self._empty = True  # whether nothing can lie where the next rows go
        # Key groups and tables written since it was empty; None if that is long ago.
        self._filled: list[tuple[range, set[str]]] | None = None
        self._catalogue = Catalogue(owner.max_parallelism)
        self._pending: dict[tuple[str, str], SegmentContent] = {}
        self._remembered: dict[str, Remembered] = {}

    @property
    def folder(self) -> str:
        return self._own or self._common

    @property
    def _limit(self) -> int:
        """How much one table may remember: a worker's tables share what there is for that."""
        memory = self._settings.memory or self._settings.block_cache
        return max(_LEAST_REMEMBERED, memory // _REMEMBERED_PART) // max(1, len(Remembered.all))

    # -- a step begins

    def advance(self, handle: KeyedStateHandle) -> bool:
        """Bring the database to a handle's version.

        1. open the worker's own database; for large state the common one, or its own if another worker has that
        2. empty it if its version is not in the handle's chain
        3. write what follows, each segment with the version it leads to
        """
        self._large = self._large or _is_large(handle, self._settings.own_bytes)
        try:
            if not self._entered:
                self._workplace, self._entered = self._enter(), True
            self._open()
            self._follow(handle)
        except BaseException:
            # The task's next attempt makes another store.
            self._drop_own()
            self.release()
            self._leave()
            raise
        return True

    def _enter(self) -> folders.Workplace:
        owner = self._owner
        return folders.enter_workplace(self._settings, owner.execution, owner.node * 31 + owner.subtask)

    def _leave(self) -> None:
        if self._entered:
            self._entered = False
            self._workplace.leave()

    def _follow(self, handle: KeyedStateHandle) -> None:
        segments = handle.after(self.version)
        if segments is None:
            self._start_over(handle.root)
            segments = handle.segments
        for segment in segments:
            # Pending changes follow the version that the task worked on. A segment of that version may have been merged
            # from several, and the database may be at a version before them.
            content = self._pending.pop((self.version, segment.version), None)
            if content is not None:
                self._filled = None
                self._write(content, segment.version)
            else:
                self._write_segment(segment)
        self._filled = None
        # What is still pending was made by tries that were never sealed.
        self._pending.clear()
        self._forget_some()

    def _open(self) -> None:
        if self._large and not self._lock.held and self._lock.acquire(_WAIT_SECONDS):
            self._move_in()
        if self._rows is not None:
            return  # it is open
        if not self._lock.held and self._own is None:
            self._own = self._workplace.new_folder(self._name)
        self._connect()
        found = self._database.get(_VERSION)
        version = "" if found is None else found.decode()
        if version != self.version:
            # Another worker took it further, or it is gone.
            self._remembered.clear()
            self.version = version
        self._empty, self._filled = not version, None
        self._catalogue.load(self._database.get(_TABLES))

    def _move_in(self) -> None:
        """Take the common database for the task. If there is none yet, the worker's own becomes the common one."""
        if self._own is None:
            return
        if self._rows is not None:
            self._settle_all()
        self._disconnect()
        if not os.path.exists(self._common):
            os.rename(self._own, self._common)
            self._own = None
        self._drop_own()

    def _connect(self) -> None:
        import rocksdict

        try:
            self._database = rocksdict.Rdict(self.folder, self._options)
        except Exception as error:
            # It is ours alone, so nobody else uses what is left of it.
            folders.remove(self.folder)
            with contextlib.suppress(OSError):
                os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            try:
                self._database = rocksdict.Rdict(self.folder, self._options)
            except Exception:
                self._lock.release()
                raise StepError(f"can't open RocksDB in {self.folder}: {error}") from error
        self._rows = Rows(self._database)
        RocksStore.open.add(self)

    def _start_over(self, root: str) -> None:
        assert self._rows is not None
        if self._database.get(_VERSION) is not None or next(self._rows.from_(b"", b""), None) is not None:
            self._disconnect()
            folders.remove(self.folder)
            os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            self._connect()
        self._remembered.clear()
        self._catalogue.load(None)
        self._database.put(_VERSION, root.encode(), self._unlogged)
        self.version, self._empty, self._filled = root, True, []

    # -- writing

    def _batch(self, into: SortedFiles | None = None) -> Batch:
        assert self._rows is not None
        return Batch(self._database, self._rows, self._empty, into)

    def _seal(self, batch: Batch, version: str) -> None:
        batch.batch.put(_TABLES, self._catalogue.dump())
        batch.batch.put(_VERSION, version.encode())
        self._database.write(batch.batch, self._unlogged)
        self._renew()
        self.version, self._empty = version, False

    def _renew(self) -> None:
        assert self._rows is not None
        self._rows.renew()

    def _write(self, content: SegmentContent, version: str) -> None:
        """Write changes with the version they lead to. Nobody else expects the worker's own database to be
        complete: values stay in memory as long as they may."""
        batch = self._batch()
        for name, table in content.items():
            if self._own is not None and table.kind == "value":
                self._catalogue.known(name, table.kind, table.namespaced)
                self._remember(name).take(table.changes, write_later=True)
                continue
            self._catalogue.fill(batch, name, table)
            if name in self._remembered:
                self._remembered[name].take(table.changes, write_later=False)
        self._seal(batch, version)
        self._forget_some()

    def _forget_some(self) -> None:
        """Keep what is remembered within its limit, which changes with the number of tables."""
        for name, remembered in self._remembered.items():
            remembered.limit = self._limit
            if remembered.is_too_large():
                self._settle(name)
                remembered.shrink()

    def _remember(self, name: str) -> Remembered:
        found = self._remembered.get(name)
        if found is None:
            found = self._remembered[name] = Remembered()
            found.limit = self._limit
        return found

    def _settle_all(self) -> None:
        for name in self._remembered:
            self._settle(name)

    def _settle(self, name: str) -> None:
        """Write the delayed values of a table."""
        if unwritten := self._remembered[name].unwritten:
            batch = self._batch()
            self._catalogue.fill(batch, name, self._catalogue.changes(name, unwritten))
            self._database.write(batch.batch, self._unlogged)
            self._remembered[name].unwritten = {}
            self._renew()
            self._empty = False

    def _write_segment(self, segment: SegmentRef) -> None:
        groups = segment.restricted(self.key_groups).key_groups
        assert groups is not None
        # A Parquet file may hold many entries in few bytes.
        large = segment.path is not None and (segment.size > _BLOCKWISE_BYTES or segment.entries > _BLOCKWISE_ENTRIES)
        reader = _reader(segment, large)
        if self._filled is not None:
            # After a change of parallelism, segments of several former subtasks follow each other; in a savepoint, of
            # several states.
            names = {block.name for block in reader.blocks}
            self._empty = not any(
                groups.start < other.stop and other.start < groups.stop and names & theirs
                for other, theirs in self._filled
            )
            self._filled.append((groups, names))
        if not large and (segment.entries <= _LOAD_ENTRIES or not self._empty):
            self._write(reader.content(groups), segment.version)
            return
        self._settle_all()
        self._remembered.clear()
        self._load(segment, reader.parts(groups))

    def _load(self, segment: SegmentRef, blocks: Iterator[tuple[str, TableChanges]]) -> None:
        """Write a large segment, a block at a time. Until it is complete, the database has no version."""
        self._database.delete(_VERSION, self._unlogged)
        in_order = None
        if self._empty:
            folder = os.path.dirname(self.folder)
            in_order = SortedFiles(self._database, self._options, folder, self._settings.target_file)
        batch = self._batch()
        for name, table in blocks:
            if in_order is not None and table.kind != "timer":  # those are not sorted by key
                self._catalogue.fill(self._batch(in_order), name, table)
                if in_order.take():
                    continue
            self._catalogue.fill(batch, name, table)
            if batch.batch.size_in_bytes() > _BATCH_BYTES:
                self._database.write(batch.batch, self._unlogged)
                batch = self._batch()
        if in_order is not None:
            in_order.finish()
        self._seal(batch, segment.version)

    # -- during a step

    def table(self, name: str, kind: str, namespaced: bool = False) -> Table:
        rows, database = self._rows, self._database
        assert rows is not None, "state is used outside of a step"
        keys = self._catalogue.known(name, kind, namespaced).keys
        base: Any
        if kind == "value":
            base = ValueRows(database, rows, keys, self._remember(name), partial(self._settle, name))
            return RocksValueTable(name, base, namespaced)
        if kind == "list":
            base = ListRows(database, rows, *keys)
            return RocksListTable(name, base, namespaced)
        if kind == "map":
            base = MapRows(database, rows, keys)
            return RocksMapTable(name, base, namespaced)
        base = TimerRows(database, rows, keys)
        return RocksTimerTable(name, base, namespaced)

    def count(self) -> int:
        """About how many rows there are: entries of maps and timers one by one."""
        unwritten = sum(len(remembered.unwritten) for remembered in self._remembered.values())
        return max(unwritten, int(self._database.property_int_value("rocksdb.estimate-num-keys") or 0))

    # -- a step ends

    def keep(self, version: str, content: SegmentContent) -> None:
        self._pending.clear()
        self._pending[self.version, version] = content

    def release(self) -> None:
        """Close the common database, so that the worker that gets the subtask next can open it: RocksDB writes to disk
        what it still has in memory. The worker's own database stays open, unless too many are."""
        if self._own is None:
            try:
                self._disconnect()
            except Exception as error:
                if not is_full(error):
                    raise
                raise StorageError(
                    f"RocksDB has no space left: {error}. {FREE_SPACE}. To use another folder, set "
                    "state.backend.rocksdb.localdir"
                ) from error
            finally:
                self._lock.release()
        elif self._rows is not None:
            self._renew()
            if len(RocksStore.open) > opening.most_open():
                self._settle_all()
                self._disconnect()

    def _disconnect(self) -> None:
        RocksStore.open.discard(self)
        if self._rows is not None:
            self._rows.close()
            self._rows = None
        if self._database is not None:
            database, self._database = self._database, None
            database.close()

    def _drop_own(self) -> None:
        if self._own is not None:
            self._disconnect()
            folders.remove(self._own)
            self._own = None

    def close(self) -> None:
        """Release everything, files too, unless another worker uses them."""
        if not self._entered:
            return
        self._pending.clear()
        self._remembered.clear()
        self._drop_own()
        self._disconnect()
        if self._lock.held or (os.path.isdir(self._common) and self._lock.acquire(0)):
            folders.remove(self._common)
            self._lock.forget()
        self._leave()


def _reader(segment: SegmentRef, large: bool) -> SegmentReader:
    """The blocks of a segment; of a large file they are read one at a time, each with its own checksum."""
    if large:
        return open_segment(lambda at, size: read_range(segment, at, size), segment.size, repr(segment), segment.is_own)
    data = memoryview(read_segment(segment))
    return open_segment(lambda at, size: data[at : at + size], len(data), repr(segment), segment.is_own)
