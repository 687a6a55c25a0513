"""Waiting for threads that may be waiting for a system outside.

Before a job goes back or ends, nothing may be written, made ready or published any more: whatever became visible later
would be there twice. So there is no time limit. But a system that never answers must not stop a job in silence.
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


def patiently(futures: Iterable[Future[Any]], what: Callable[[], str]) -> None:
    """Come back when all are done, however they ended, and say now and then what is still waited for.

    :param what: tells what is under way
    """
    waiting, patience = set(futures), until_it_goes_on(what)
    while waiting := wait(waiting, patience.left).not_done:
        patience.look()
