from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

__all__ = ["CompletableFuture"]


class CompletableFuture:
    """The result of a request to a job, such as the path of a savepoint: ``client.trigger_savepoint().result()``.

    :param future: what completes it
    :param py_class: applied to the result, if given
    """

    def __init__(self, future: Future[Any], py_class: Callable[[Any], Any] | None = None) -> None:
        self._future = future
        self._py_class = py_class

    def cancel(self) -> bool:
        """Give up the request; says whether that was still possible."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether there is a result, a failure or a cancellation."""
        return self._future.done()

    def result(self) -> Any:
        """Wait for the result, and raise if there is a failure instead."""
        value = self._future.result()
        return value if self._py_class is None else self._py_class(value)

    def exception(self) -> BaseException | None:
        """The failure, or None if there is none so far. Does not wait."""
        if not self._future.done():
            return None
        if self._future.cancelled():
            return CancelledError()
        return self._future.exception()

    def __str__(self) -> str:
        if not self.done():
            state = "pending"
        elif self.cancelled():
            state = "cancelled"
        else:
            error = self._future.exception()
            state = f"result={self.result()!r}" if error is None else f"failed: {error!r}"
        return f"CompletableFuture[{state}]"

    __repr__ = __str__
