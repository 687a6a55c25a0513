"""How large the next step is. Steps start small and grow by at most four times; they are bounded in records, state
and time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of a step.

    :ivar target_seconds: what a step with a backlog should take
    """

    first_rows: int = 2_000
    max_rows: int = 4_000_000
    max_touched: int = 2_000_000
    max_bytes: int = 512 << 20
    target_seconds: float = 2.0
    max_growth: float = 4.0


class Pacing:
    """Follows the last steps: large enough to be worth their overhead, short enough for checkpoints and latency."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._overhead: float | None = None
        self.rows = min(limits.first_rows, limits.max_rows)

    def __repr__(self) -> str:
        return f"<Pacing: next step reads about {self.rows} records>"

    def sealed(self, rows: int, seconds: float, touched: int, sent_bytes: int = 0) -> None:
        """Learn from a step that read ``rows`` records. One that read less than asked says nothing about larger ones.

        The shortest step so far tells what a step costs whatever it reads; only the rest grows with the records.
        """
        limits = self._limits
        self._overhead = seconds if self._overhead is None else min(self._overhead, seconds)
        if rows <= 0:
            return
        room = max(limits.target_seconds - self._overhead, limits.target_seconds / 4)
        factor = room / max(seconds - self._overhead, 1e-3)
        for used, allowed in ((touched, limits.max_touched), (sent_bytes, limits.max_bytes)):
            if used > 0:
                factor = min(factor, allowed / used)
        if factor > 1 and rows < self.rows * 0.8:
            return
        factor = max(1 / limits.max_growth, min(factor, limits.max_growth))
        least = min(limits.first_rows, limits.max_rows)
        self.rows = int(max(least, min(limits.max_rows, rows * factor)))
