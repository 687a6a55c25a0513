"""Work without garbage collection.

Spark's daemon collects garbage after every task. Walking through everything a worker holds, libraries and state
included, took a fifth of a worker's time. So what exists when a task begins is set aside, and the collection after the
task walks only what the task itself leaves. Now and then, and when an execution's operators are dropped, it walks
everything.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

_EVERYTHING_AFTER_SECONDS = 60.0
# So many more objects than there were after the last collection are worth one.
_MANY_OBJECTS = 20_000

_walked_at = time.monotonic()
_left_alone = False


def leave_alone() -> None:
    """This process is not a worker: the program decides when it collects garbage."""
    global _left_alone
    _left_alone = True


@contextmanager
def no_collection() -> Iterator[None]:
    """No collection within this block; the next one walks what the block made, or everything if that is due."""
    if _left_alone:
        yield
        return
    if time.monotonic() - _walked_at < _EVERYTHING_AFTER_SECONDS:
        gc.freeze()
    else:
        walk_everything_next()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def between_steps() -> Iterator[None]:
    """A worker that runs one step after the other: garbage is collected when :func:`collect_between_steps` is called,
    and not otherwise."""
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def collect_between_steps() -> None:
    """Nobody waits for this process now: if there is enough to walk, walk what has come up since the last time, or
    everything if that is due."""
    due = time.monotonic() - _walked_at >= _EVERYTHING_AFTER_SECONDS
    if due:
        walk_everything_next()
    if due or gc.get_count()[0] > _MANY_OBJECTS:
        gc.collect()
        gc.freeze()


def walk_everything_next() -> None:
    """Something large may have become garbage, also among what was set aside."""
    global _walked_at
    _walked_at = time.monotonic()
    if not _left_alone:
        gc.unfreeze()
