"""Threads for calls to Spark. A call that was under way when the SparkContext was stopped may never come back, and must
keep neither the end of the job nor that of the program waiting."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_Work = tuple["Future[Any]", Callable[[], Any]]


class Threads(Executor):
    """A pool like :class:`~concurrent.futures.ThreadPoolExecutor`, which the interpreter does not wait for."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._over = False

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future: Future[R] = Future()
        with self._lock:
            if self._over:
                raise RuntimeError(f"{self._name}: nothing can be submitted after the end")
            self._work.put((future, lambda: function(*args, **kwargs)))
            if len(self._threads) < self._most:
                name = f"{self._name}-{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; what was submitted is still done, unless ``cancel_futures`` drops what has not begun."""
        self.end(None if wait else 0.0, cancel_futures)

    def end(self, patience: float | None, cancel_futures: bool = False) -> None:
        """The same, but wait for the threads only so many seconds; None for as long as it takes."""
        with self._lock:
            if cancel_futures:
                self._cancel()
            if not self._over:
                self._over = True
                for _ in self._threads:
                    self._work.put(None)
        deadline = None if patience is None else time.monotonic() + patience
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _cancel(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                work = self._work.get_nowait()
                if work is not None:
                    work[0].cancel()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            future, call = work
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            del work, future, call  # the last one would live until the next comes
