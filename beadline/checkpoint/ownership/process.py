"""Telling a process from others that had or will have the same number, and the sign of life of a driver."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from beadline.state.segments.files import read_file, write_file

EVERY_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Process:
    """A process of some machine; ``place`` (the machine since it was started, the container) says whose number it
    is."""

    place: str
    number: int
    started: str

    @classmethod
    def from_json(cls, read: Any) -> Process | None:
        """What :func:`dataclasses.asdict` has written; None if it is something else."""
        try:
            return cls(str(read["place"]), int(read["number"]), str(read["started"]))
        except (KeyError, TypeError, ValueError):
            return None

    def is_running(self, here: Process) -> bool | None:
        """Whether it still exists, stopped or not; None if that can't be told from ``here``, this process."""
        if self.place != here.place:
            return None
        try:
            os.kill(self.number, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):
            pass
        state, started = _look_up(self.number)
        if state.startswith(("Z", "X")):  # it is dead, but nobody has asked yet how it died
            return False
        return not started or not self.started or started == self.started


@cache
def _of(number: int) -> Process:
    return Process(_place(), number, _look_up(number)[1])


def this_process() -> Process:
    return _of(os.getpid())


def _place() -> str:
    """A container that starts again has the same host name and often the same process numbers, but other processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _look_up(number: int) -> tuple[str, str]:
    """The state of a process and when it was started; empty where nobody knows."""
    try:
        # The name, in parentheses, may hold anything. After it come the state and, at place 22, the start.
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        pass
    if os.path.exists("/proc/self/stat"):
        return "", ""
    try:
        said = subprocess.run(
            ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(number)],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
        ).stdout.split(maxsplit=1)
    except (OSError, subprocess.SubprocessError):
        said = []
    return (said[0], said[1].strip()) if len(said) == 2 else ("", "")


class Beat:
    """Counts in a file from a thread of its own, until it is stopped or the process dies."""

    def __init__(self, path: str, every: float = EVERY_SECONDS) -> None:
        self._path = path
        self._every = every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beadline-beat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Nothing is written afterwards, so that the file can be removed."""
        self._stopped.set()
        self._thread.join(_PATIENCE_SECONDS)

    def _run(self) -> None:
        count = 0
        while True:
            count += 1
            # A driver that misses a beat takes the job over and fences this one, which is safe.
            with contextlib.suppress(Exception):
                write_file(self._path, f"{count}\n".encode())
            if self._stopped.wait(self._every):
                return


def read_beat(path: str) -> bytes | None:
    """What the file holds now; None if there is none."""
    try:
        return read_file(path)
    except OSError:
        return None
