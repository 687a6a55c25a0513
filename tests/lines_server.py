"""A real server on this machine that sends lines to whoever connects."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 60


class LinesServer:
    """Answers connections one after the other; each gets what the test sends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_SECONDS)
        self.port: int = self._listener.getsockname()[1]
        self._connection: socket.socket | None = None

    def accept(self) -> None:
        """Wait for the next connection, and close the last one."""
        if self._connection is not None:
            self._connection.close()
        self._connection, _ = self._listener.accept()

    def send(self, data: bytes) -> None:
        assert self._connection is not None
        self._connection.sendall(data)

    def hang_up(self) -> None:
        assert self._connection is not None
        self._connection.close()

    def break_off(self) -> None:
        """The peer gets a reset instead of an end."""
        assert self._connection is not None
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._connection.close()

    def close(self) -> None:
        self._listener.close()
        if self._connection is not None:
            self._connection.close()


def until(condition: Callable[[], Any]) -> Any:
    """What the condition gives when it holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)
    return found
