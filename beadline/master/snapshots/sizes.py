"""How much state a checkpoint holds of each operator and subtask, and how much of it is new: for people to look at."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.checkpoint.coordinator.statistics import OperatorSizes
from beadline.state.segments.version import SegmentRef


class StateSizes:
    """Compares each checkpoint with the one before it. The threads that write checkpoints call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments: dict[tuple[str, int], frozenset[tuple[str, int]]] = {}
        self._last: dict[str, OperatorSizes] = {}

    def of(self, snapshot: Snapshot, savepoint: bool) -> tuple[OperatorSizes, ...]:
        """A savepoint shares nothing with others: all of it is new."""
        with self._lock:
            return tuple(self._sizes(operator, savepoint) for operator in snapshot.operators)

    def _sizes(self, operator: OperatorSnapshot, savepoint: bool) -> OperatorSizes:
        sizes = tuple(operator.subtask_size(subtask) for subtask in range(operator.parallelism))
        if savepoint:
            return OperatorSizes(operator.uid, sizes, sizes)
        written = tuple(self._new(operator, subtask) for subtask in range(operator.parallelism))
        found = OperatorSizes(operator.uid, sizes, written)
        # Many operators stay as they are, and a thousand checkpoints are remembered: let them share what is equal.
        if self._last.get(operator.uid) != found:
            self._last[operator.uid] = found
        return self._last[operator.uid]

    def _new(self, operator: OperatorSnapshot, subtask: int) -> int:
        """The bytes of segments that the checkpoint before did not have, and what it always holds itself."""
        place = (operator.uid, subtask)
        known = self._segments.get(place, frozenset())
        found, new = set(), 0
        for segment in _segments(operator, subtask):
            # Segments that were merged lead to the version of the last of them, but are of another size.
            key = (segment.version, segment.size)
            found.add(key)
            if key not in known:
                new += segment.size
        self._segments[place] = frozenset(found)
        local = operator.locals[subtask] if subtask < len(operator.locals) else None
        return new + len(local or b"")


def _segments(operator: OperatorSnapshot, subtask: int) -> Iterator[SegmentRef]:
    for held in (operator.keyed, operator.operator_state):
        if subtask < len(held) and (handle := held[subtask]) is not None:
            yield from handle.segments
