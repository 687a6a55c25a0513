"""When the clock asks for the next checkpoint."""

from __future__ import annotations

__all__ = ["Schedule"]


class Schedule:
    """A checkpoint every ``period_ms``, later if the pause after the last one is not over.

    The first comes after a whole period: a job that fails at once has nothing to save, and equal runs are alike.

    :param period_ms: ``None`` if the clock asks for none
    """

    def __init__(self, period_ms: int | None, min_pause_ms: int) -> None:
        self._period = period_ms
        self._pause = min_pause_ms
        self._due: int | None = None
        self._last_end: int | None = None

    def start(self, now: int) -> None:
        self._due = None if self._period is None else now + self._period

    def stop(self) -> None:
        self._due = None

    def checkpoint_ended(self, now: int) -> None:
        """A checkpoint has ended, in whatever way: the pause begins, also after a failure, to spare the storage."""
        self._last_end = now

    def next_at(self) -> int | None:
        """When the next one may begin, if there is a place for it then."""
        if self._due is None or self._last_end is None:
            return self._due
        return max(self._due, self._last_end + self._pause)

    def began(self, now: int) -> None:
        """The one that was due has begun. Times stay on a grid; it moves if a whole period was missed."""
        if self._period is None or self._due is None:
            return
        following = self._due + self._period
        self._due = following if following > now else now + self._period
