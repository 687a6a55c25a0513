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
    target_seconds: float = 2.0
    max_growth: float = 4.0


class Pacing:
    """Follows the last step: large enough to be worth its overhead, short enough for checkpoints and latency."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.rows = min(limits.first_rows, limits.max_rows)

    def __repr__(self) -> str:
        return f"<Pacing: next step reads about {self.rows} records>"

    def sealed(self, rows: int, seconds: float, touched: int) -> None:
        """Learn from a step that read ``rows`` records. One that read less than asked says nothing about larger
        ones."""
        limits = self._limits
        if rows <= 0:
            return
        factor = limits.target_seconds / max(seconds, 1e-3)
        if touched > limits.max_touched:
            factor = min(factor, limits.max_touched / touched)
        if factor > 1 and rows < self.rows * 0.8:
            return
        factor = min(factor, limits.max_growth)
        self.rows = int(max(1, min(limits.max_rows, rows * factor)))
