"""Sees to it that servers don't outlive the process that started them, however it ends.

A process that is killed with ``kill -9`` can't clean up. So a small process waits at the other end of a pipe: when the
pipe closes, it kills what is still noted and removes the folders. This file is also that process's program, which is
why it imports nothing but the standard library.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO


class Guard:
    """Notes processes and folders of this process. The guarding process starts with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def watch(self, pid: int, alone: bool = False) -> None:
        """Kill this process and its group when ours has ended; ``alone``: it leads no group."""
        self._tell(f"{'process ' if alone else '+'}{pid}")

    def forget(self, pid: int) -> None:
        """The process has ended: its number may soon belong to another."""
        self._tell(f"-{pid}")

    def folder(self, path: str) -> None:
        """Remove this folder when our process has ended."""
        self._tell(f"folder {path}")

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._pipe is None or self._owner != os.getpid():
                self._start()
            assert self._pipe is not None
            self._pipe.write(line.encode() + b"\n")
            self._pipe.flush()

    def _start(self) -> None:
        # In a session of its own, so that a Ctrl-C in the terminal does not end it together with us.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, start_new_session=True
        )
        self._pipe, self._owner = self._process.stdin, os.getpid()
        atexit.register(self._finish)

    def _finish(self) -> None:
        """At a regular end: let it do its work while somebody can still wait for it."""
        if self._owner == os.getpid() and self._pipe is not None and self._process is not None:
            with contextlib.suppress(OSError):
                self._pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)


def main() -> None:
    """Read notes until the pipe closes, then end and remove what was noted."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    kills: dict[int, Callable[[int, int], None]] = {}
    folders: list[str] = []
    for line in sys.stdin:
        text = line.rstrip("\n")
        if text.startswith("+"):
            kills[int(text[1:])] = os.killpg
        elif text.startswith("process "):
            kills[int(text.removeprefix("process "))] = os.kill
        elif text.startswith("-"):
            kills.pop(int(text[1:]), None)
        else:
            folders.append(text.removeprefix("folder "))
    for pid, kill in kills.items():
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
