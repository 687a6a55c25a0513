"""Waiting for threads that may be waiting for a system outside.

Before a job goes back, nothing may be written, made ready or published any more: whatever became visible later would be
there twice. So there is no time limit. But a system that never answers must not stop a job in silence, and a job that
is to end waits for a while only, see :class:`Grace`: what it leaves is like what a killed driver leaves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any

_LOG = logging.getLogger("beadline")

# After so many seconds it is said for the first time; then after twice as many, and so on.
_FIRST_SECONDS, _LONGEST_SECONDS = 10.0, 600.0
# How long a job that is to end at once waits for systems outside.
_AT_ONCE_MS = 10_000
# What else a job does at its end takes less time than this.
_OVERDUE_MS = 60_000
# However little time is left, what was told to end gets so long to do it.
_LEAST_SECONDS = 3.0
_LOOK_SECONDS = 0.1


class Patience:
    """Says now and then what is still waited for, to whoever looks often enough.

    :param text: of the warning, with places for the seconds and for what is under way
    :param what: tells what is under way
    """

    def __init__(self, text: str, what: Callable[[], str]) -> None:
        self._text = text
        self._what = what
        self._began = time.monotonic()
        self._pause = _FIRST_SECONDS
        self._next = self._began + self._pause

    def look(self) -> None:
        """It has not come yet."""
        now = time.monotonic()
        if now >= self._next:
            _LOG.warning(self._text, round(now - self._began), self._what())
            self._pause = min(2 * self._pause, _LONGEST_SECONDS)
            self._next = now + self._pause

    @property
    def left(self) -> float:
        """The seconds until there is something to say."""
        return max(0.0, self._next - time.monotonic())


def until_it_goes_on(what: Callable[[], str]) -> Patience:
    """For a job that is to go back, or to end."""
    return Patience(
        "the job has waited for %d s, and can't go back or end before this has succeeded or failed: %s. If a "
        "system outside does not answer, bring it back; or kill this process, and resume the job",
        what,
    )


class Grace:
    """How long a job that is to end waits for systems outside: as long as a checkpoint may take; less if it is to end
    at once."""

    def __init__(self, most_ms: int, clock: Callable[[], int]) -> None:
        self._most_ms = most_ms
        self._clock = clock
        self._ends: int | None = None
        self._at_once = False

    def __repr__(self) -> str:
        return f"<Grace: {'over' if self.is_over else self._ends}>"

    def begin(self, again: bool = False) -> None:
        """From now on; ``again`` if there is something new to wait for."""
        if not self._at_once and (again or self._ends is None):
            self._ends = self._clock() + self._most_ms

    def shorten(self) -> None:
        """The job is to end at once."""
        if not self._at_once:
            self._at_once = True
            self._ends = self._clock() + min(self._most_ms, _AT_ONCE_MS)

    @property
    def is_over(self) -> bool:
        return self._is_past(0)

    @property
    def is_overdue(self) -> bool:
        """Whether the job should have ended long ago: its thread itself waits for something."""
        return self._is_past(_OVERDUE_MS)

    def _is_past(self, more_ms: int) -> bool:
        ends = self._ends
        return ends is not None and self._clock() >= ends + more_ms


def patiently(futures: Iterable[Future[Any]], what: Callable[[], str], grace: Grace | None = None) -> bool:
    """Come back when all are done, however they ended, and say now and then what is still waited for.

    :param what: tells what is under way
    :param grace: ends the waiting, but not within a few seconds
    :returns: whether all are done
    """
    waiting, patience, began = set(futures), until_it_goes_on(what), time.monotonic()
    while waiting := wait(waiting, patience.left if grace is None else min(patience.left, _LOOK_SECONDS)).not_done:
        if grace is not None and grace.is_over and time.monotonic() - began >= _LEAST_SECONDS:
            return False
        patience.look()
    return True
