"""How long each operator of a task works.

Operators of one level call each other, so the time of a task is that of several operators. One of them works at any
moment: the watch is told which, whenever that changes, and it changes once per batch of records. What a task does
besides (reading and writing rows) counts for the operator that worked last, or for the first of the level.

Only the last level can tell the driver, because an exchange must carry nothing that differs in an equal re-run. Tasks
of earlier levels leave what they measured with their worker, in its :class:`Ledger`, and the next task of the last
level that runs there takes it along. A worker that runs no such task for a while tells later, and one that dies tells
nothing: these numbers are for people.
"""

from __future__ import annotations

import time

#: Node, subtask, over how many steps, and how many seconds in all.
Measured = tuple[int, int, int, float]


class Stopwatch:
    """Of one task; ``node`` works first."""

    __slots__ = ("_node", "_since", "spent")

    def __init__(self, node: int) -> None:
        self.spent: dict[int, float] = {}
        self._node = node
        self._since = time.perf_counter()

    def enter(self, node: int) -> int:
        """From now on this operator works; gives the one that did, to return to."""
        before, now = self._node, time.perf_counter()
        if node != before:
            self.spent[before] = self.spent.get(before, 0.0) + now - self._since
            self._node, self._since = node, now
        return before

    def stop(self) -> None:
        """The task has ended."""
        self.enter(-1)


class Ledger:
    """What tasks of one execution have measured in one worker, and nobody has told the driver yet."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, int], tuple[int, float]] = {}

    def add(self, subtask: int, watch: Stopwatch) -> None:
        for node, seconds in watch.spent.items():
            steps, before = self._entries.get((node, subtask), (0, 0.0))
            self._entries[node, subtask] = steps + 1, before + seconds

    def take(self) -> list[Measured]:
        entries, self._entries = self._entries, {}
        return [(*place, *measured) for place, measured in entries.items()]
