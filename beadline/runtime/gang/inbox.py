"""What came for the tasks of one run in one member."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import IO

from beadline.runtime.exchange.rows import WireRow

#: Above this, payloads wait in a file.
MOST_IN_MEMORY = 64 << 20

# A row, and where its payload lies in the file, if it does.
_Kept = tuple[tuple[int, int], WireRow, tuple[int, int] | None]


class Inbox:
    """Rows by task, and who has ended which level."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], list[_Kept]] = defaultdict(list)
        self._ended: dict[int, int] = defaultdict(int)
        self._bytes = 0
        self._file: IO[bytes] | None = None

    def add(self, rows: Iterable[WireRow]) -> None:
        for row in rows:
            place = None
            self._bytes += len(row.payload)
            if self._bytes > MOST_IN_MEMORY:
                place = self._write(row.payload)
                self._bytes -= len(row.payload)
                row = row._replace(payload=b"")
            self._rows[row.target, row.dest].append(((row.seq, row.channel), row, place))

    def end(self, level: int) -> None:
        """Another member has sent all that its tasks of this level had to send."""
        self._ended[level] += 1

    def ended(self, level: int) -> int:
        """How many others have."""
        return self._ended[level]

    def take(self, level: int, partition: int) -> Iterator[WireRow]:
        """The rows for a task, in the order that a re-run repeats."""
        kept = self._rows.pop((level, partition), [])
        kept.sort(key=itemgetter(0))
        for _, row, place in kept:
            if place is None:
                self._bytes -= len(row.payload)
                yield row
            else:
                yield row._replace(payload=self._read(*place))

    def close(self) -> None:
        self._rows.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, payload: bytes) -> tuple[int, int]:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="beadline-rows-")  # noqa: SIM115 (closed with the inbox)
        at = self._file.seek(0, os.SEEK_END)
        self._file.write(payload)
        return at, len(payload)

    def _read(self, at: int, length: int) -> bytes:
        assert self._file is not None
        self._file.seek(at)
        return self._file.read(length)
