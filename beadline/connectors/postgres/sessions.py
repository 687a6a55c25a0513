"""Connections that a process keeps between uses: making one takes longer than a small transaction."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from typing import Any

_MOST_IDLE = 4
_Settings = tuple[tuple[str, str], ...]

_idle: dict[tuple[int, _Settings], list[Any]] = {}
_lock = threading.Lock()


def idle_session(settings: _Settings) -> Any:
    """A connection that waits for work, and still answers; None if there is none.

    A process that was forked has none: two must not speak over one.
    """
    import psycopg

    while True:
        with _lock:
            waiting = _idle.get((os.getpid(), settings))
            if not waiting:
                return None
            connection = waiting.pop()
        try:
            connection.execute("SELECT 1")
            return connection
        except psycopg.Error:  # the server was restarted, or has ended the session
            close(connection)


def keep(settings: _Settings, connection: Any) -> None:
    """Take back a connection after use; one in the middle of a transaction is closed."""
    from psycopg.pq import TransactionStatus

    if connection.info.transaction_status == TransactionStatus.IDLE:
        with _lock:
            waiting = _idle.setdefault((os.getpid(), settings), [])
            if len(waiting) < _MOST_IDLE:
                waiting.append(connection)
                return
    close(connection)


def close(connection: Any) -> None:
    with contextlib.suppress(Exception):
        connection.close()


@atexit.register
def close_all() -> None:
    """End all sessions of this process that nobody uses."""
    with _lock:
        mine = [key for key in _idle if key[0] == os.getpid()]
        waiting = [connection for key in mine for connection in _idle.pop(key)]
    for connection in waiting:
        close(connection)
