"""The server of a driver: takes over the socket at whose door somebody has knocked.

It runs in the doorman's thread with a loop of its own, until the process ends. A process that is about to end stays for
callers that have asked for something and not read the outcome: ``flink stop`` ends the program, and then asks where the
savepoint is.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from beadline.master.client import registry
from beadline.master.client.presence import Door
from beadline.master.client.rest_settings import RestSettings
from beadline.web.app import STATIC, make_app
from beadline.web.connections import BACKLOG, connections
from beadline.web.history import Archive, archive_of
from beadline.web.jobs import ArchivedJobs, DriverJobs
from beadline.web.operations import Operations
from beadline.web.security import App, Rules

# How long a process that is over waits for callers that have not read what they asked for.
_LAST_ANSWERS_SECONDS = 10.0
_LONGEST_HEADERS = 16 << 10


def serve(door: Door) -> None:
    """Answer whoever comes to the door, until it closes."""
    operations = Operations()
    settings = door.settings
    rules = Rules.of(door.token, settings.host, settings.address, settings.read_token)
    app = make_app(
        DriverJobs(door),
        rules,
        operations,
        directories=lambda: _directories(door),
        closing=door.closing.is_set,
        running=lambda: others(door.port),
    )
    _Server(_config(app, rules), door.closing.is_set, operations).run(sockets=[door.socket])


def serve_history(directory: str | None, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the archive of ended jobs until Ctrl-C.

    :param directory: of the archive; None for the user's own
    :param ready: is called with the address when it is about to listen
    """
    settings = RestSettings(bind_address=host, ports=((port, port),), history_directory=directory)
    if not settings.on_loopback:
        raise ValueError(f"the history has no token, so it is served on the loopback interface only, not on {host}")
    app = history_app(archive_of(settings), settings.host)
    config = _config(app, Rules.of(None, settings.host), host=settings.host, port=port)
    with socket.create_server((settings.host, port), backlog=BACKLOG) as listening:
        ready(f"http://{settings.host}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def history_app(archive: Archive, host: str = "127.0.0.1", static: Path = STATIC) -> App:
    """An app over the archive of ended jobs, which also names the jobs that run."""
    return make_app(ArchivedJobs(archive), Rules.of(None, host), running=lambda: others(None), static=static)


def others(port: int | None) -> list[dict[str, Any]]:
    """The running jobs of this user that another process has; without their tokens."""
    return [
        {
            "job_id": entry.job_id,
            "name": entry.name,
            "pid": entry.pid,
            "url": entry.url,
            "started_at": entry.started_at,
            "engine": entry.engine,
        }
        for entry in registry.entries()
        if entry.port != port
    ]


def _directories(door: Door) -> list[str]:
    """Where callers without a token may have savepoints written."""
    found = list(door.settings.savepoint_directories)
    for master in list(door.jobs.values()):
        checkpoints = master.job.settings.checkpoints
        found += [each for each in (checkpoints.savepoint_directory, checkpoints.directory) if each]
    return list(dict.fromkeys(found))


def _config(app: App, rules: Rules, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=connections(rules),  # h11 with limits
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # who sends nonsense does not fill the user's terminal
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=_LONGEST_HEADERS,
        **more,
    )


class _Server(uvicorn.Server):
    """Ends with its process, after those who wait for an outcome have got it."""

    def __init__(self, config: uvicorn.Config, closing: Callable[[], bool], operations: Operations) -> None:
        super().__init__(config)
        self._closing = closing
        self._operations = operations
        self._closing_since: float | None = None

    async def on_tick(self, counter: int) -> bool:
        if self._closing():
            now = time.monotonic()
            self._closing_since = self._closing_since or now
            waited = now - self._closing_since
            if not self._operations.owes_answers or waited > _LAST_ANSWERS_SECONDS:
                return True
        return bool(await super().on_tick(counter))
