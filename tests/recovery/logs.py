"""What a job logs, and doing something when it does."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest


class WhenItFails(logging.Handler):
    """Does something once, when an execution has failed."""

    def __init__(self, action: Callable[[], Any]) -> None:
        super().__init__(logging.WARNING)
        self._action: Callable[[], Any] | None = action

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("attempt") and self._action is not None:
            action, self._action = self._action, None
            action()

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        log = logging.getLogger("beadline")
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)


def told(caplog: pytest.LogCaptureFixture, start: str) -> list[str]:
    """The messages that begin so."""
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith(start)]
