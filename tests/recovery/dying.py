"""Drivers that die, as if by ``kill -9``, at a certain point of the commit protocol."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from beadline.checkpoint.storage.file_system import FileJobStorage
from beadline.connectors.files import committer, renaming
from beadline.connectors.files.place import publish
from beadline.master.snapshots.sinks import Sinks

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


def _after_a_rename(call: Callable[..., None], ready: Any) -> None:
    """The driver dies when a task has renamed a file, and not made the name durable yet."""
    committer.publish = partial(_publish_and_kill, os.getpid())  # type: ignore[attr-defined,assignment]
    call(ready)


def _publish_and_kill(driver: int, committable: Any) -> None:
    def kill(path: str) -> None:
        os.kill(driver, signal.SIGKILL)

    renaming.sync = kill  # type: ignore[attr-defined]
    publish(committable)


# Which method it dies in, and how.
POINTS: dict[str, tuple[type, str, Any]] = {
    "before output is pre-committed": (Sinks, "_precommit", _before),
    "after output was pre-committed": (Sinks, "_precommit", _after),
    "before a checkpoint appears": (FileJobStorage, "_publish", _before),
    "after a checkpoint has appeared": (FileJobStorage, "_publish", _after),
    "before output is published": (Sinks, "publish", _before),
    "in the middle of publishing": (Sinks, "publish", _half_way),
    "after a file was renamed": (Sinks, "publish", _after_a_rename),
    "after output was published": (Sinks, "publish", _after),
}
# The five that every sink is killed at.
COMMIT_POINTS = (
    "before output is pre-committed",
    "after output was pre-committed",
    "before output is published",
    "in the middle of publishing",
    "after output was published",
)


def prepare(point: str, calls: int = 3) -> None:
    """Die at that point, in the third call that has anything to do."""
    owner, name, how = POINTS[point]
    original = getattr(owner, name)
    left = calls

    def patched(self: Any, first: Any, *rest: Any, **more: Any) -> Any:
        nonlocal left
        left -= bool(first)
        if left > 0:
            return original(self, first, *rest, **more)
        return how(partial(original, self, **more), first, *rest)

    setattr(owner, name, patched)
