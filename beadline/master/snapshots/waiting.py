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


def patiently(futures: Iterable[Future[Any]], what: Callable[[], str]) -> None:
    """Come back when all are done, however they ended, and say now and then what is still waited for.

    :param what: tells what is under way
    """
    waiting, pause, began = set(futures), _FIRST_SECONDS, time.monotonic()
    while waiting := wait(waiting, pause).not_done:
        _LOG.warning(
            "the job has waited for %d s, and can't go back or end before this has succeeded or failed: %s. If a "
            "system outside does not answer, bring it back; or kill this process, and resume the job",
            round(time.monotonic() - began),
            what(),
        )
        pause = min(2 * pause, _LONGEST_SECONDS)
