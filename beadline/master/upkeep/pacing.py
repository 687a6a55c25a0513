"""How large the next step is. Steps start small and grow by a few times each; they are bounded in records, state and
time."""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of a step.

    :ivar target_seconds: what a step with a backlog should take
    :ivar max_growth: how many times larger than the last a step may be, if it might take longer than the target. It may
        be larger still if it would not, even if all the time of the last one had gone into its records
    :ivar per_second: how many records of each source are read per second at most; None for as fast as it goes
    """

    first_rows: int = 2_000
    least_rows: int = 100
    max_rows: int = 4_000_000
    max_touched: int = 2_000_000
    max_bytes: int = 512 << 20
    target_seconds: float = 4.0
    max_growth: float = 4.0
    per_second: float | None = None


# A step should take this many times its overhead, even if a short checkpoint interval asks for shorter ones.
_WORTH = 8
# What takes longer than this is not overhead but due to the records.
_MOST_OVERHEAD = 0.3
# An entry that a step changed, however often, costs as much as this many records: it is written and applied.
_ENTRY = 2


class Pacing:
    """Follows the last steps: large enough to be worth their overhead, short enough for checkpoints and latency. A step
    costs something whatever it reads, something per record, and something per entry of state that it changed. The
    shortest step so far tells the first, the median over the last few the others, so that one slow step on a busy
    machine changes little. Entries that smaller steps change as well are overhead too."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._shortest: float | None = None
        self._recent: deque[tuple[int, int, float]] = deque(maxlen=4)
        self._new = math.inf
        self.rows = min(limits.first_rows, limits.max_rows)

    def sealed(self, rows: int, seconds: float, touched: int, sent_bytes: int = 0) -> None:
        """Learn from a step that read ``rows`` records; one that read less than asked says nothing of larger ones."""
        limits = self._limits
        # A single step does not show which part is overhead: half of it is assumed.
        empty = seconds * 0.5 if self._shortest is None else min(self._shortest, seconds)
        self._shortest = seconds if self._shortest is None else empty
        if rows <= 0 or rows < self.rows * 0.8:
            return
        self._recent.append((rows, touched, seconds))
        per_record = statistics.median(max(s - empty, 0.0) / (r + _ENTRY * t) for r, t, s in self._recent)
        new = self._new_entries()
        overhead = empty + per_record * _ENTRY * (touched - new * rows)
        target = max(limits.target_seconds, _WORTH * min(overhead, _MOST_OVERHEAD))
        left = target - empty - per_record * (rows + _ENTRY * touched)
        one_more = per_record * (1 + _ENTRY * new)
        wanted = rows + left / one_more if one_more > 0 else rows * limits.max_growth
        if seconds > 4 * target:
            wanted = min(wanted, rows / 2)
        for used, allowed in ((touched, limits.max_touched), (sent_bytes, limits.max_bytes)):
            if used > 0:
                wanted = min(wanted, rows * allowed / used)
        growth = max(limits.max_growth, target / seconds) if seconds > 0 else limits.max_growth
        wanted = max(rows / limits.max_growth, min(wanted, rows * growth))
        least = min(limits.least_rows, limits.first_rows, limits.max_rows)
        self.rows = int(max(least, min(limits.max_rows, wanted)))

    def _new_entries(self) -> float:
        """How many entries a record changes that a slightly smaller step would not have changed: all that it changes if
        every record has a key of its own, none if smaller steps change all keys already."""
        rows, touched, _ = self._recent[-1]
        if len(self._recent) > 1:
            before, touched_before, _ = self._recent[-2]
            # Steps of about the same size say nothing about this; what other steps showed still holds.
            if abs(rows - before) > 0.2 * max(rows, before):
                self._new = max(0.0, (touched - touched_before) / (rows - before))
        return min(self._new, touched / rows)
