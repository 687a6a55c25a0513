"""A subtask's working state in RocksDB.

The database belongs to a run and a subtask and lies on a local disk. Workers take turns with the subtasks, so a worker
opens it when its task begins and closes it when the task ends. It carries the version it stands at; a database outside
of a handle's chain is emptied and built anew from the runs.
"""

from __future__ import annotations

import contextlib
import glob
import marshal
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from beadline.errors import StepError
from beadline.state.backend_settings import RocksSettings
from beadline.state.files import read_file
from beadline.state.rocks import database as opening
from beadline.state.rocks.keys import RowKeys, TimerKeys
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
from beadline.state.rocks.writing import CHUNKS, Batch, SortedFiles, list_rows, map_rows, value_rows
from beadline.state.run import RunContent, TableChanges, decode_run, read_blocks
from beadline.state.store import Place, Read, Store, check_kind
from beadline.state.tables import Table
from beadline.state.version import Handle, RunRef

_WAIT_SECONDS = 0.5
_BLOCKWISE_BYTES = 8 << 20
_LOAD_ENTRIES = 20_000
_BATCH_BYTES = 4 << 20
# Rows that describe the database itself; no table has this number.
_VERSION, _TABLES = b"\x00\x00version", b"\x00\x00tables"
# The part of the memory limit that one store's remembered values may take.
_REMEMBERED_PART = 4
_LEAST_REMEMBERED = 4 << 20

_ROWS_IN_ORDER: dict[str, Callable[..., list[tuple[bytes, bytes]]]] = {
    "value": value_rows,
    "list": list_rows,
    "map": map_rows,
}


@dataclass(frozen=True)
class _Known:
    """A table of the database."""

    number: int
    kind: str
    namespaced: bool


class RocksStore(Store):
    """Tables in RocksDB, read-only while a step runs."""

    def __init__(self, root: str, key_groups: range, place: Place, settings: RocksSettings) -> None:
        self.version = root
        self.key_groups = key_groups
        self._place = place
        self._settings = settings
        self._options = opening.make_options(settings)
        self._unlogged = opening.unlogged()
        name = f"{place.node}-{place.subtask}"
        self._common = opening.folder_for(settings, place.run, name, place.node * 31 + place.subtask)
        self._private: str | None = None
        self._lock = opening.Lock(self._common)
        self._database: Any = None
        self._rows: Rows | None = None
        self._empty = True  # whether nothing can lie where the next rows go
        self._filled: list[range] | None = None  # key groups written since it was empty; None if that is long ago
        self._tables: dict[str, _Known] = {}
        self._keys: dict[_Known, Any] = {}
        self._pending: dict[tuple[str, str], RunContent] = {}
        self._remembered: dict[str, Remembered] = {}
        self._limit = max(_LEAST_REMEMBERED, (settings.memory or settings.block_cache) // _REMEMBERED_PART)

    def __repr__(self) -> str:
        state = "open" if self._database is not None else "closed"
        return f"<RocksStore at {self.version[:8]}, {state}, {self.folder}, {len(self._pending)} pending>"

    @property
    def folder(self) -> str:
        """Where its files are."""
        return self._private or self._common

    # -- a step begins

    def advance(self, handle: Handle, read: Read) -> bool:
        """Bring the database to a handle's version.

        1. open the common database, or a private one if somebody else has it
        2. empty it if it stands outside of the handle's chain
        3. write what follows, each run with the version it leads to
        """
        if self._database is None:
            self._open()
        runs = handle.after(self.version)
        if runs is None:
            self._start_over(handle.root)
            runs = handle.runs
        for run in runs:
            # What is pending leads on from where the task worked: a run of that version may be one that was merged
            # of several, and the database may stand before them.
            content = self._pending.pop((self.version, run.version), None)
            if content is not None:
                self._filled = None
                self._write(content, run.version)
            else:
                self._write_run(run, read)
        self._filled = None
        # What is still pending was made by attempts that were never sealed.
        self._pending.clear()
        for remembered in self._remembered.values():
            remembered.trim(self._limit)
        return True

    def _open(self) -> None:
        if self._lock.acquire(_WAIT_SECONDS):
            if self._private is not None:
                opening.remove(self._private)
                self._private = None
        elif self._private is None:
            self._private = opening.private(self._common)
        self._connect()
        found = self._database.get(_VERSION)
        version = "" if found is None else found.decode()
        if version != self.version:
            # Another worker took it further, or it is gone.
            self._remembered.clear()
            self.version = version
        self._empty, self._filled = not version, None
        self._take_catalogue(marshal.loads(self._database.get(_TABLES) or marshal.dumps({})))

    def _connect(self) -> None:
        import rocksdict

        try:
            self._database = rocksdict.Rdict(self.folder, self._options)
        except Exception as error:
            # The lock is ours, so nobody else uses what is left of it.
            opening.remove(self.folder)
            with contextlib.suppress(Exception):
                os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            try:
                self._database = rocksdict.Rdict(self.folder, self._options)
            except Exception:
                self._lock.release()
                raise StepError(f"can't open RocksDB in {self.folder}: {error}") from error
        self._rows = Rows(self._database)

    def _start_over(self, root: str) -> None:
        if self._database.get(_VERSION) is not None or next(self._rows_from(b""), None) is not None:
            self._disconnect()
            opening.remove(self.folder)
            os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            self._connect()
        self._remembered.clear()
        self._take_catalogue({})
        self._database.put(_VERSION, root.encode(), self._unlogged)
        self.version, self._empty, self._filled = root, True, []

    def _rows_from(self, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        assert self._rows is not None, "state is used outside of a step"
        return self._rows.from_(start, b"")

    # -- the catalogue

    def _take_catalogue(self, tables: dict[str, tuple[int, str, bool]]) -> None:
        self._tables = {name: _Known(*entry) for name, entry in tables.items()}

    def _known(self, name: str, kind: str, namespaced: bool) -> _Known:
        known = self._tables.get(name)
        if known is None:
            known = self._tables[name] = _Known(len(self._tables) + 1, kind, namespaced)
        check_kind(name, (known.kind, known.namespaced), (kind, namespaced))
        return known

    def _keys_of(self, known: _Known) -> Any:
        keys = self._keys.get(known)
        if keys is None:
            number, maximum, namespaced = known.number, self._place.max_parallelism, known.namespaced
            if known.kind == "timer":
                keys = TimerKeys(number, namespaced)
            elif known.kind == "list":
                chunks = RowKeys(number + CHUNKS, maximum, namespaced, followed=True)
                keys = (RowKeys(number, maximum, namespaced), chunks)
            else:
                keys = RowKeys(number, maximum, namespaced, followed=known.kind == "map")
            self._keys[known] = keys
        return keys

    # -- writing

    def _batch(self) -> Batch:
        assert self._rows is not None
        return Batch(self._database, self._rows, self._empty)

    def _fill(self, batch: Batch, name: str, table: TableChanges) -> None:
        known = self._known(name, table.kind, table.namespaced)
        keys = self._keys_of(known)
        if known.kind == "value":
            batch.values(keys, table.changes)
        elif known.kind == "list":
            batch.lists(keys[0], keys[1], table.changes)
        elif known.kind == "map":
            batch.maps(keys, table.changes)
        else:
            batch.timers(keys, table.changes)

    def _seal(self, batch: Batch, version: str) -> None:
        """Write a batch with the version that it completes."""
        tables = {name: (known.number, known.kind, known.namespaced) for name, known in self._tables.items()}
        batch.batch.put(_TABLES, marshal.dumps(tables))
        batch.batch.put(_VERSION, version.encode())
        self._database.write(batch.batch, self._unlogged)
        self._renew()
        self.version, self._empty = version, False

    def _renew(self) -> None:
        """Cursors show what was there when they were made."""
        assert self._rows is not None
        self._rows.close()
        self._rows = Rows(self._database)

    def _write(self, content: RunContent, version: str) -> None:
        batch = self._batch()
        sizes: dict[str, int] = {}
        for name, table in content.items():
            before = batch.batch.size_in_bytes()
            self._fill(batch, name, table)
            sizes[name] = batch.batch.size_in_bytes() - before
        self._seal(batch, version)
        for name, remembered in self._remembered.items():
            if name in content:
                remembered.take(content[name].changes, sizes[name], self._limit)

    def _write_run(self, run: RunRef, read: Read) -> None:
        groups = run.restricted(self.key_groups).key_groups
        assert groups is not None
        if self._filled is not None:
            # After a change of parallelism, runs of several former subtasks follow each other.
            self._empty = not any(groups.start < other.stop and other.start < groups.stop for other in self._filled)
            self._filled.append(groups)
        large = run.path is not None and run.size > _BLOCKWISE_BYTES
        if not large and run.entries <= _LOAD_ENTRIES:
            self._write(decode_run(read(run), groups, where=repr(run)), run.version)
            return
        self._remembered.clear()
        self._load(run, _blocks(run, read, groups, large))

    def _load(self, run: RunRef, blocks: Iterator[tuple[str, TableChanges]]) -> None:
        """Write a large run, a block at a time. Until it is complete, the database has no version."""
        self._database.delete(_VERSION, self._unlogged)
        in_order = None
        if self._empty:
            folder = os.path.dirname(self.folder)
            in_order = SortedFiles(self._database, self._options, folder, self._settings.target_file)
        batch = self._batch()
        for name, table in blocks:
            known = self._known(name, table.kind, table.namespaced)
            if in_order is not None and known.kind in _ROWS_IN_ORDER:
                keys = self._keys_of(known)
                rows = _ROWS_IN_ORDER[known.kind](keys[0] if known.kind == "list" else keys, table.changes)
                if in_order.take(rows):
                    continue
            self._fill(batch, name, table)
            if batch.batch.size_in_bytes() > _BATCH_BYTES:
                self._database.write(batch.batch, self._unlogged)
                batch = self._batch()
        if in_order is not None:
            in_order.finish()
        self._seal(batch, run.version)

    # -- during a step

    def table(self, name: str, kind: str, namespaced: bool = False) -> Table:
        rows, database = self._rows, self._database
        assert rows is not None, "state is used outside of a step"
        keys = self._keys_of(self._known(name, kind, namespaced))
        base: Any
        if kind == "value":
            base = ValueRows(database, rows, keys, self._remembered.setdefault(name, Remembered()))
            return RocksValueTable(name, base, namespaced)
        if kind == "list":
            return RocksListTable(name, ListRows(database, rows, *keys), namespaced)  # type: ignore[arg-type]
        if kind == "map":
            return RocksMapTable(name, MapRows(database, rows, keys), namespaced)  # type: ignore[arg-type]
        return RocksTimerTable(name, TimerRows(database, rows, keys), namespaced)

    def count(self) -> int:
        """About how many rows there are: entries of maps and timers one by one."""
        return int(self._database.property_int_value("rocksdb.estimate-num-keys") or 0)

    # -- a step ends

    def keep(self, version: str, content: RunContent) -> None:
        self._pending.clear()
        self._pending[self.version, version] = content

    def release(self) -> None:
        """Close the database, so that the worker that gets the subtask next can open it. RocksDB writes to disk what
        it still has in memory."""
        self._disconnect()
        self._lock.release()

    def _disconnect(self) -> None:
        if self._rows is not None:
            self._rows.close()
            self._rows = None
        if self._database is not None:
            self._database.close()
            self._database = None

    def close(self) -> None:
        """Let go of everything, files too, unless somebody else works with them."""
        self._pending.clear()
        self._remembered.clear()
        mine = self._database is not None and self._private is None
        self._disconnect()
        if self._private is not None:
            opening.remove(self._private)
            self._private = None
        if mine or (os.path.isdir(self._common) and self._lock.acquire(0)):
            opening.remove(self._common)
            for left in glob.glob(f"{glob.escape(self._common)}-*"):
                opening.remove(left)  # of workers that died
            self._lock.forget()
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(self._common))


def _blocks(run: RunRef, read: Read, groups: range | None, large: bool) -> Iterator[tuple[str, TableChanges]]:
    """The blocks of a run; of a large file one at a time, each with its own checksum."""
    if large:
        path = run.path
        assert path is not None
        return read_blocks(lambda at, size: read_file(path, run.offset + at, size), run.size, groups, repr(run))
    data = memoryview(read(run))
    return read_blocks(lambda at, size: data[at : at + size], len(data), groups, repr(run))
