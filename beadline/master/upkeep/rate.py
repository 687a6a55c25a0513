"""How fast sources may be read."""

from __future__ import annotations

import time
from collections.abc import Callable

# What was not used up is kept for so long: a step may take a while.
_KEPT_SECONDS = 1.0


class RateLimit:
    """At most so many records per second and source, over the life of an execution. A source that gave more than it was
    asked for gives less afterwards.

    :param per_second: None for no limit
    """

    def __init__(self, per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._clock = clock
        self._credit: dict[int, float] = {}
        self._seen_at: dict[int, float] = {}

    def rows(self, source: int, wanted: int) -> int:
        """How many records a source may read now."""
        if self._rate is None:
            return wanted
        now = self._clock()
        passed = now - self._seen_at.get(source, now - _KEPT_SECONDS)
        self._seen_at[source] = now
        most = max(1.0, self._rate * max(_KEPT_SECONDS, passed))
        self._credit[source] = min(most, self._credit.get(source, 0.0) + passed * self._rate)
        return max(0, min(wanted, int(self._credit[source])))

    def spent(self, source: int, records: int) -> None:
        """A source was read."""
        if self._rate is not None:
            self._credit[source] = self._credit.get(source, 0.0) - records

    @property
    def wakes_in(self) -> float | None:
        """In how many seconds a source that waits may read again."""
        waits = [(1 - credit) / self._rate for credit in self._credit.values() if self._rate and credit < 1]
        return min(waits, default=None)
