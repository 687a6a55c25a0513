"""Drivers that die, as if by ``kill -9``, at a certain point of the commit protocol."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from beadline.checkpoint.storage import FileSystemCheckpointStorage
from beadline.master.sinks import Sinks

VARIABLE = "BEADLINE_TEST_DIES"


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _before(call: Callable[..., None], first: Any, *rest: Any) -> None:
    _die()


def _after(call: Callable[..., None], first: Any, *rest: Any) -> None:
    call(first, *rest)
    _die()


def _half_way(call: Callable[..., None], first: Any) -> None:
    call(first[: len(first) // 2])
    _die()


# Which method it dies in, and how.
POINTS: dict[str, tuple[type, str, Any]] = {
    "before a checkpoint appears": (FileSystemCheckpointStorage, "_publish", _before),
    "after a checkpoint has appeared": (FileSystemCheckpointStorage, "_publish", _after),
    "before output is published": (Sinks, "publish", _before),
    "in the middle of publishing": (Sinks, "publish", _half_way),
    "after output was published": (Sinks, "publish", _after),
}


def prepare(point: str, calls: int = 3) -> None:
    """Die at that point, in the third call that has anything to do."""
    owner, name, how = POINTS[point]
    original = getattr(owner, name)
    left = calls

    def patched(self: Any, first: Any, *rest: Any) -> None:
        nonlocal left
        left -= bool(first)
        if left > 0:
            original(self, first, *rest)
        else:
            how(partial(original, self), first, *rest)

    setattr(owner, name, patched)
