"""Drivers in processes of their own, to be killed, stopped and continued."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.recovery.dying import VARIABLE

ROOT = Path(__file__).parents[2]
PATIENCE = 480.0


def newest_checkpoint(folder: Path) -> int:
    """The highest number of a completed checkpoint, 0 if there is none."""
    found = (re.search(r"chk-(\d+)/_metadata$", str(path)) for path in folder.glob("checkpoints/*/chk-*/_metadata"))
    return max((int(match[1]) for match in found if match), default=0)


def newest_path(folder: Path) -> str:
    """Where the newest completed checkpoint is."""
    (path,) = folder.glob(f"checkpoints/*/chk-{newest_checkpoint(folder)}")
    return str(path)


class Driver:
    """Runs a program with ``beadline run``.

    :param resume: what to give ``-s``
    :param way: run ``ending.py`` in this way, not ``program.py``
    :param dies: one of :data:`tests.recovery.dying.POINTS`
    :param out: where the files go; ``folder/out`` if not said
    :param form: ``text`` or ``parquet``
    """

    def __init__(
        self,
        folder: Path,
        records: int,
        pace: float = 0.0,
        resume: str | None = None,
        options: Mapping[str, str] | None = None,
        dies: str | None = None,
        out: str | None = None,
        way: str | None = None,
        form: str = "text",
    ) -> None:
        self._folder = folder
        self._before = newest_checkpoint(folder)
        number = len(list(folder.glob("driver-*")))
        self._log = folder / f"driver-{number}.log"
        definitions = [part for key, value in (options or {}).items() for part in ("-D", f"{key}={value}")]
        command = [sys.executable, "-m", "beadline.cli.main", "run"]
        command += ["-s", resume] if resume is not None else []
        program = "program.py" if way is None else "ending.py"
        command += [*definitions, str(ROOT / "tests/recovery" / program), str(folder), str(records), str(pace)]
        if way is not None:
            command.append(way)
        elif out is not None or form != "text":
            command += [out or str(folder / "out"), form]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if dies is not None:
            environment[VARIABLE] = dies
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def __repr__(self) -> str:
        return f"<Driver {self._process.pid}, exit code {self._process.poll()}>\n{self.said[-3000:]}"

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            assert not self.has_ended, f"it ended before {what}: {self!r}"
            assert time.monotonic() < until, f"no {what} within {PATIENCE} s: {self!r}"
            time.sleep(0.02)

    def wait_for(self, text: str) -> None:
        """Wait until it has said something."""
        self.wait_until(lambda: text in self.said, repr(text))

    def wait_for_checkpoint(self) -> None:
        """Wait for a checkpoint that this driver completed."""
        self.wait_until(lambda: newest_checkpoint(self._folder) > self._before, "a checkpoint")

    def signal(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    def end(self) -> int:
        """Wait for the end, and give the exit code."""
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
