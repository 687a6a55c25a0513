"""A system outside with transactions, as small as can be: a folder.

``.pending/<id>`` is a transaction that was pre-committed, ``<number>-<id>`` one that is visible.
Numbers tell the order in which they became so.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from beadline.connectors.transactions import Entry, Fate, Log, Transactions


def as_text(records: list[Any], timestamps: list[int] | None) -> list[str]:
    return [f"{number}:{count}" for number, count in records]


class Ledger(Transactions):
    """The transactions of a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def write(self, id: str, batches: Iterator[list[Any]]) -> Any:
        rows = [row for batch in batches for row in batch]
        assert rows, "a transaction has at least one row"
        _write(self._pending(id), rows)
        return {"id": id}

    def commit(self, handle: Any) -> Fate:
        id = handle["id"]
        try:
            os.rename(self._pending(id), Path(self.folder, f"{time.time_ns():020d}-{id}"))
        except FileNotFoundError:
            return Fate.COMMITTED if list(Path(self.folder).glob(f"*-{id}")) else Fate.ABORTED
        return Fate.COMMITTED

    def abort(self, handle: Any) -> None:
        self.abort_open(handle["id"])

    def list_open(self, prefix: str) -> list[str]:
        return sorted(name for name in os.listdir(Path(self.folder, ".pending")) if name.startswith(prefix))

    def abort_open(self, id: str) -> None:
        self._pending(id).unlink(missing_ok=True)

    def _pending(self, id: str) -> Path:
        folder = Path(self.folder, ".pending")
        folder.mkdir(parents=True, exist_ok=True)
        return folder / id


class Journal(Log):
    """A folder with one file for each entry: writing an entry again changes nothing."""

    exactly_once = True

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def append(self, entry: Entry, batches: Iterator[list[Any]]) -> None:
        rows = [row for batch in batches for row in batch]
        target = Path(self.folder, f"{entry.number:020d}-{entry.subtask}-{entry.writer}")
        assert not target.exists() or target.read_text().splitlines() == rows, "an entry always means the same rows"
        _write(target, rows)


def _write(path: Path, rows: list[str]) -> None:
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    hidden.write_text("".join(f"{row}\n" for row in rows))
    hidden.rename(path)


def visible(folder: Path) -> list[str]:
    """The rows of committed transactions, in the order in which they became visible."""
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    return [row for name in names for row in (folder / name).read_text().splitlines()]


def abort_all(folder: Path) -> int:
    """What a system does to transactions that are too old; gives how many there were."""
    pending = [path for path in (folder / ".pending").glob("*") if not path.name.startswith(".")]
    for path in pending:
        path.unlink()
    return len(pending)
