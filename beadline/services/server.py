"""What both servers have in common: a process with a log, a folder of its own, and a way to see that it answers."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

from beadline.errors import EnvironmentSetupError
from beadline.services.guard import Guard

# A server that stops and starts again needs its port back. The system gives ports from 32768 on to connections.
_PORTS = range(20_000, 32_000)
_LINES = 15
_guard = Guard()


class ServerMissingError(EnvironmentSetupError):
    """This machine has no such server, and none can be fetched."""


class Server(ABC):
    """A server process on loopback, with a private folder.

    ``start``, ``stop`` and ``restart`` keep the data; ``close`` removes it. ``kill`` is ``kill -9``. As a context
    manager it starts and closes. When this process ends, in whatever way, the server ends too and its folder goes.

    :ivar folder: where its data, settings and log are
    """

    name: ClassVar[str]
    start_seconds: ClassVar[float] = 120
    stop_seconds: ClassVar[float] = 30
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    # What its log says when it could not start for something that passes by itself.
    passing: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"beadline-{self.name.lower()}-", dir=_folder_for_all()))
        _guard.folder(str(self.folder))
        self._process: subprocess.Popen[bytes] | None = None
        self._is_set_up = False

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.running else "stopped"
        return f"<{type(self).__name__} {self.address}, {state}>"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what each server does in its own way

    @property
    @abstractmethod
    def address(self) -> str:
        """Where clients find it."""

    @abstractmethod
    def _set_up(self) -> None:
        """Make the data folder, before the first start."""

    @abstractmethod
    def _command(self) -> list[str]:
        """What to run; it must stay in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server is ready for clients."""

    def _options(self) -> dict[str, Any]:
        """What else the process is started with."""
        return {}

    # -- life

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it, and wait until it answers."""
        if self.running:
            return self
        if not self._is_set_up:
            self._set_up()
            self._is_set_up = True
        deadline = time.monotonic() + self.start_seconds
        while True:
            begin = self.log.stat().st_size if self.log.exists() else 0
            self._launch()
            if self._wait_until_ready(deadline):
                return self
            said = self._said(begin)
            self.kill()
            if time.monotonic() < deadline and any(text in said for text in self.passing):
                time.sleep(0.2)
                continue
            raise EnvironmentSetupError(
                f"{self.name} did not start within {self.start_seconds:.0f} s; its log ends with:\n{_tail(said)}"
            )

    def stop(self) -> None:
        """End it in its own time, and keep its data."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        self._ended()

    def restart(self) -> Self:
        """Stop, then start with the same data and address."""
        self.stop()
        return self.start()

    def kill(self) -> None:
        """``kill -9``."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._ended()

    def close(self) -> None:
        """End it at once, and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- inside

    def _launch(self) -> None:
        with open(self.log, "ab") as log:
            # In a session of its own: a Ctrl-C in the terminal is for us, and we end the server when it is time.
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **self._options(),
            )
        _guard.watch(self._process.pid)

    def _wait_until_ready(self, deadline: float) -> bool:
        while time.monotonic() < deadline and self.running:
            if self._answers():
                return True
            time.sleep(0.1)
        return False

    def _ended(self) -> None:
        if self._process is not None:
            _guard.forget(self._process.pid)
            self._process = None

    def _said(self, begin: int) -> str:
        with open(self.log, "rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace")

    def _run_tool(self, command: list[str], what: str) -> None:
        """Run a command that prepares the server; what it says goes to the log."""
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **self._options()
        )
        with open(self.log, "ab") as log:
            log.write(result.stdout)
        if result.returncode:
            said = _tail(result.stdout.decode(errors="replace"))
            raise EnvironmentSetupError(f"{self.name}: {what} failed with exit code {result.returncode}:\n{said}")


def _folder_for_all() -> str | None:
    """Where temporary folders go. The account that runs a server for root must reach them, which it can't below a
    folder that is root's alone."""
    chosen = Path(tempfile.gettempdir())
    if os.geteuid() == 0 and not everybody_enters(chosen):
        return next((each for each in ("/tmp", "/var/tmp") if everybody_enters(Path(each))), None)
    return None


def everybody_enters(path: Path) -> bool:
    """Whether any account may reach this file or folder, and run or enter it."""
    return all(part.exists() and part.stat().st_mode & 0o001 for part in (path, *path.parents))


def free_port() -> int:
    """A port of loopback that nobody uses."""
    for port in random.sample(_PORTS, 200):
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            return port
    raise EnvironmentSetupError(f"no free port among 200 between {_PORTS.start} and {_PORTS.stop}")


def _tail(text: str) -> str:
    lines = text.rstrip().splitlines()
    return "\n".join(f"    {line}" for line in lines[-_LINES:]) or "    (nothing)"
