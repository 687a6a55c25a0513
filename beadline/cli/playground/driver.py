"""The processes of the playground: drivers that are started with ``beadline run``, and ways to end them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from beadline.master.client import registry
from beadline.services.guard import Guard

_guard = Guard()
_TAIL = 12


def command(*arguments: str) -> list[str]:
    """``beadline ARGUMENTS`` with the Python that runs now."""
    return [sys.executable, "-m", "beadline.cli.main", *arguments]


def remove_at_the_end(folder: Path) -> None:
    """Even if the playground is killed, and can't remove it itself."""
    _guard.folder(str(folder))


class Driver:
    """One process of ``beadline run`` and all that it starts: the JVM, and the workers of Spark.

    It has a session of its own, so a Ctrl-C in the terminal is for the playground, which ends it in order. If the
    playground itself is killed, a guard ends it.
    """

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command("run", *arguments),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**environment, registry.LOG_VARIABLE: str(log)},
            )
        self._family: dict[int, psutil.Process] = {}
        _guard.watch(self.pid)

    def __repr__(self) -> str:
        return f"<Driver pid {self.pid}, {'running' if self.running else f'ended with {self._process.returncode}'}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def entry(self) -> registry.Entry | None:
        """Its job in the registry; None before the job has started."""
        return next((entry for entry in registry.entries() if entry.pid == self.pid), None)

    def dashboard(self) -> str:
        """The address of its page, with the token that its buttons need; empty before the job has started."""
        entry = self.entry()
        if entry is None:
            return ""
        return f"{entry.url.rstrip('/')}/" + (f"#token={entry.token}" if entry.token else "")

    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(errors="replace").rstrip().splitlines()
        return "\n".join(lines[-_TAIL:]) or "(its log is empty)"

    def note_family(self) -> None:
        """Remember what it has started: a process whose parent was killed can't be found through it."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children(recursive=True):
                self._family.setdefault(child.pid, child)

    def freeze_workers(self, pids: Sequence[int]) -> list[int]:
        """Stop these processes where they are, as far as they are this driver's: a step that needs one of them can't
        end. Gives those that were there."""
        self.note_family()
        frozen = []
        for pid in sorted(pids):
            worker = self._family.get(pid)
            if worker is not None and worker.is_running():
                _guard.watch(pid, alone=True)  # a frozen process heeds no other signal than SIGKILL
                try:
                    worker.suspend()
                except psutil.NoSuchProcess:
                    _guard.forget(pid)
                else:
                    frozen.append(pid)
        return frozen

    def kill_workers(self, pids: Sequence[int]) -> None:
        """``kill -9`` for workers, frozen or not."""
        for pid in pids:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._family[pid].kill()
            _guard.forget(pid)

    def kill(self) -> None:
        """``kill -9`` for the driver alone: what it has started notices, and ends by itself."""
        self.note_family()
        self._process.kill()
        self._process.wait()

    def close(self, seconds: float = 5.0) -> None:
        """See that nothing of it is left. What has not ended by itself after a while is killed."""
        self.note_family()
        if self.running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        deadline = time.monotonic() + seconds
        left = list(self._family.values())
        _, left = psutil.wait_procs(left, timeout=max(0.0, deadline - time.monotonic()))
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=seconds)
        _guard.forget(self.pid)
