"""Work of the local engine in threads of its own, so that nobody has to wait for work that nobody wants any more."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any, TypeVar

from beadline.errors import JobExecutionError, StepError
from beadline.master.threads import Threads

R = TypeVar("R")

# So long a call that was cancelled may take to come to its end. One that sleeps or waits does not notice before.
PATIENCE = 2.0
_LOOK_EVERY = 0.1


class Cancelled(StepError):
    """Nobody wants the result any more."""


class Interrupted(SystemExit):
    """Raised in the midst of work that is cancelled. Neither user code that catches every :class:`Exception` nor an
    event loop keeps it."""


class Call:
    """One piece of work in a thread of a pool, that can be interrupted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None  # that does the work now
        self._cancelled_at: float | None = None

    def run(self, pool: Threads, function: Callable[..., R], *args: Any) -> R:
        """What the function returns or raises.

        :raises Cancelled: soon after :meth:`cancel`, be the work at its end or not. The pool is to be left alone then.
        """
        self.check()
        future = pool.submit(self._work, function, args)
        while not future.done():
            wait([future], _LOOK_EVERY)
            cancelled_at = self._cancelled_at
            if cancelled_at is not None and time.monotonic() - cancelled_at > PATIENCE:
                break
        self.check()
        try:
            return future.result()
        except SystemExit as error:
            raise JobExecutionError(f"a function of the program called sys.exit({error.code!r})") from None

    def cancel(self) -> None:
        """Nobody wants the result: interrupt the work where it is."""
        with self._lock:
            if self._cancelled_at is not None:
                return
            self._cancelled_at = time.monotonic()
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(Interrupted))

    def check(self) -> None:
        """Raise if nobody wants the result any more."""
        if self._cancelled_at is not None:
            raise Cancelled("the tasks were cancelled") from None

    def _work(self, function: Callable[..., R], args: tuple[Any, ...]) -> R:
        with self._lock:
            self.check()
            self._thread = threading.get_ident()
        try:
            return function(*args)
        finally:
            with self._lock:
                self._thread = None
