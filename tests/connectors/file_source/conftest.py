"""What tests of files share."""

from __future__ import annotations

import itertools
from typing import Any

from beadline.connectors.file_source.listing import FileRange
from beadline.connectors.file_source.source import FilesSource
from beadline.connectors.source import Unreadable


def read_all(source: FilesSource, rows: int, parallelism: int) -> list[Any]:
    """All that steps of about as many rows read, one step after the other."""
    position, found = source.initial(), []
    for _ in range(10_000):
        if source.finished(position):
            return found
        position, splits = source.plan(position, rows, parallelism)
        assert len(splits) <= parallelism
        found += read(source, splits)
    raise AssertionError(f"no end at {position}")


def read(source: FilesSource, splits: list[Any]) -> list[Any]:
    found: list[Any] = []
    for split in splits:
        for batch in source.read_batches(split):
            found += [batch] if isinstance(batch, Unreadable) else batch
    return found


def read_ranges(source: FilesSource, path: str, size: int, places: list[int]) -> list[Any]:
    """What ranges between these places give, one after the other."""
    return read(source, [(FileRange(path, start, end, size),) for start, end in itertools.pairwise(places)])
