"""Work without garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Spark's daemon collects garbage after every task. Collections in between walk through all the state that a worker
    holds, again and again, and find nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
