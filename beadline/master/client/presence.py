"""A running job can be found and asked: its process listens on a port, and a file in the registry says which.

What answers, FastAPI and uvicorn, takes a second to import, and most jobs are never asked. So when a job starts, its
process only binds a socket. A **doorman** thread waits for somebody to knock; then it imports the server, which takes
over the very socket, so that no caller is turned away. All jobs of a process share one door.

Nothing here may harm a job: what goes wrong is logged, and the job runs.
"""

from __future__ import annotations

import atexit
import errno
import importlib
import logging
import os
import secrets
import selectors
import socket
import threading
import time
from typing import Any

from beadline.checkpoint.directory.lookup import canonical
from beadline.errors import ConfigurationError
from beadline.master.client import registry
from beadline.master.client.registry import Entry
from beadline.master.client.rest_settings import NO_TOKEN, Key, RestSettings
from beadline.master.job import JobMaster

_LOG = logging.getLogger("beadline")

# By name: the layers above this one can't be imported, and need not be until somebody asks.
_SERVER = "beadline.web.server"
_HISTORY = "beadline.web.history"
_WAITING_CALLERS = 128
# How long a program that is over stays for callers that have not read the outcome of what they asked for.
_LAST_ANSWERS_SECONDS = 15.0


class Door:
    """A listening socket, and the thread that waits at it.

    :ivar jobs: the jobs that run in this process, by id
    :ivar ended: the ids of those that have ended in it, oldest first
    :ivar token: what callers must show to change something; None for nothing
    """

    def __init__(self, settings: RestSettings) -> None:
        self.settings = settings
        self.token = None if settings.token == NO_TOKEN else settings.token or secrets.token_urlsafe(24)
        self.jobs: dict[str, JobMaster] = {}
        self.entries: dict[str, Entry] = {}
        self.ended: list[str] = []
        self.socket = _bound(settings)
        self.port: int = self.socket.getsockname()[1]
        self.closing = threading.Event()
        self._knock, self._doorman_hears = socket.socketpair()
        self._thread = threading.Thread(target=self._wait_for_caller, name="beadline-doorman", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Door {self.url} with {len(self.jobs)} jobs>"

    @property
    def url(self) -> str:
        """Where a process of this machine reaches it."""
        host = self.settings.host
        if host in ("0.0.0.0", "::"):
            host = "127.0.0.1" if host == "0.0.0.0" else "::1"
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def close(self, patience: float) -> None:
        """Nobody is answered any more, after those who have a right to an answer."""
        self.closing.set()
        self._knock.close()
        self._thread.join(patience)
        self.socket.close()

    def _wait_for_caller(self) -> None:
        try:
            with selectors.DefaultSelector() as ears:
                for heard in (self.socket, self._doorman_hears):
                    ears.register(heard, selectors.EVENT_READ)
                ears.select()
            self._doorman_hears.close()
            if self.closing.is_set():
                return
            server: Any = importlib.import_module(_SERVER)
            server.serve(self)
        except Exception as error:
            if not self.closing.is_set():  # else the socket may have been closed under its hands
                _LOG.warning("the REST server at %s can't answer: %s", self.url, error)
            self.socket.close()


class Presence:
    """The jobs of this process, as others on this machine find them."""

    def __init__(self) -> None:
        self._process = 0
        self._door: Door | None = None
        self._lock = threading.Lock()

    @property
    def door(self) -> Door | None:
        """Where callers come in; None if no job of this process wanted one."""
        return self._door if self._process == os.getpid() else None

    def enter(self, master: JobMaster, engine: str) -> None:
        """A job is about to start."""
        settings = master.job.settings.rest
        if not settings.enabled:
            return
        try:
            with self._lock:
                door = self._open(settings, master)
                entry = _entry(master, door, engine)
                door.jobs[master.job_id] = master
                door.entries[master.job_id] = entry
            registry.add(entry)
        except OSError as error:
            _LOG.warning("job '%s' runs, but commands will not find it: %s", master.plan.job_name, error)
            return
        _LOG.debug("job '%s' (%s) answers at %s", master.plan.job_name, master.job_id, door.url)

    def leave(self, master: JobMaster) -> None:
        """A job has ended, and those who wait for it have not been told yet."""
        door = self.door
        if door is None or door.jobs.get(master.job_id) is not master:
            return
        try:
            history: Any = importlib.import_module(_HISTORY)
            history.keep(master)
        except Exception as error:
            _LOG.debug("the history of job %s was not kept: %s", master.job_id, error)
        with self._lock:
            door.ended = [*(each for each in door.ended if each != master.job_id), master.job_id]
            del door.jobs[master.job_id]
            del door.entries[master.job_id]
        try:
            registry.remove(master.job_id)
        except OSError as error:
            _LOG.debug("%s", error)

    def _open(self, settings: RestSettings, master: JobMaster) -> Door:
        """The door of this process: the one there is, unless nobody needs it and the job wants another."""
        door = self.door
        if door is not None and door.settings != settings:
            if door.jobs:
                _LOG.warning(
                    "job '%s' shares the address %s with the job that runs in its process already, and so its options "
                    "rest.* and beadline.rest.* have no effect",
                    master.plan.job_name,
                    door.url,
                )
            else:
                door.close(patience=1.0)
                door = None
        if door is None:
            if self._process != os.getpid():
                self._process = os.getpid()
                atexit.register(self._close, os.getpid())
            door = self._door = Door(settings)
        return door

    def _close(self, process: int) -> None:
        door = self.door
        if door is not None and process == os.getpid():
            door.close(_LAST_ANSWERS_SECONDS)


def _entry(master: JobMaster, door: Door, engine: str) -> Entry:
    program = master.plan.program
    checkpoints, history = master.job.settings.checkpoints.directory, master.job.settings.rest.history_directory
    return Entry(
        job_id=master.job_id,
        name=master.plan.job_name,
        port=door.port,
        url=door.url,
        token=door.token,
        started_at=int(time.time() * 1000),
        script=program.script,
        argv=program.arguments,
        engine=engine,
        checkpoint_dir=None if checkpoints is None else canonical(checkpoints),
        history_dir=None if history is None else canonical(history),
        history_jobs=master.job.settings.rest.history_jobs,
        **registry.here(),
    )


def _bound(settings: RestSettings) -> socket.socket:
    """A socket that listens at the first port that is free among those that were asked for, or else at any."""
    taken: list[int] = []
    for port in settings.candidates():
        try:
            return _listening(settings.host, port)
        except PermissionError as error:
            raise ConfigurationError(f"{Key.PORT} {port}: this user may not listen there ({error})") from error
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ConfigurationError(
                    f"{Key.BIND_ADDRESS} {settings.bind_address} can't be listened on: {error}. Is it an address of "
                    "this machine?"
                ) from error
            taken.append(port)
    found = _listening(settings.host, 0)
    holder = _holder(taken[0]) if len(taken) == 1 else ""
    _LOG.warning(
        "%s %s %s taken%s; the job answers at port %d instead",
        "port" if len(taken) == 1 else "ports",
        settings.ports_text(),
        "is" if len(taken) == 1 else "are",
        f" by {holder}" if holder else "",
        found.getsockname()[1],
    )
    return found


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(_WAITING_CALLERS)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def _holder(port: int) -> str:
    """Who listens at a port of this machine, as far as this user may know."""
    for entry in registry.entries():
        if entry.port == port:
            return f"job '{entry.name}' ({entry.job_id}, process {entry.pid})"
    try:
        import psutil

        for connection in psutil.net_connections("tcp"):
            at_port = getattr(connection.laddr, "port", None) == port
            if connection.status == "LISTEN" and at_port and connection.pid:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except Exception as error:  # it may be forbidden, or the process be gone
        _LOG.debug("who holds port %d is not known: %s", port, error)
    return ""


presence = Presence()
