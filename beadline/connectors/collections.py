"""Sources over data the program already has: a list, a range of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from beadline.connectors.source import BATCH, Backlog, Position, StepSource
from beadline.errors import ConfigurationError
from beadline.state.codec import dumps, loads_trusted


class CollectionSource(StepSource):
    """The elements of a list, in order."""

    bounded = True

    def __init__(self, elements: list[Any]) -> None:
        self._length = len(elements)
        # One pickle per batch, so that a task reads only its range.
        self._batches = [dumps(elements[i : i + BATCH]) for i in range(0, len(elements), BATCH)]

    def initial(self) -> Position:
        return {"index": 0}

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        first = start["index"]
        end = min(self._length, first + max(rows, 1))
        return {"index": end}, [(first, end)] if end > first else []

    def finished(self, position: Position) -> bool:
        return bool(position["index"] >= self._length)

    def backlog(self, position: Position) -> Backlog:
        return Backlog(self._length - position["index"])

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        first, end = split
        while first < end:
            offset = first % BATCH
            batch = loads_trusted(self._batches[first // BATCH])[offset : offset + end - first]
            yield batch
            first += len(batch)


class SequenceSource(StepSource):
    """The numbers from ``start`` to ``end``, both included."""

    bounded = True

    def __init__(self, start: int, end: int) -> None:
        if start > end:
            raise ConfigurationError(f"NumberSequenceSource: 'from' must not exceed 'to', got {start} and {end}")
        self._start = start
        self._end = end

    def initial(self) -> Position:
        return {"next": self._start}

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        first = start["next"]
        end = min(self._end + 1, first + max(rows, 1))
        cuts = [first + (end - first) * i // parallelism for i in range(parallelism + 1)]
        return {"next": end}, [(a, b) for a, b in itertools.pairwise(cuts) if b > a]

    def finished(self, position: Position) -> bool:
        return bool(position["next"] > self._end)

    def backlog(self, position: Position) -> Backlog:
        return Backlog(self._end + 1 - position["next"])

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        first, end = split
        for low in range(first, end, BATCH):
            yield list(range(low, min(low + BATCH, end)))
