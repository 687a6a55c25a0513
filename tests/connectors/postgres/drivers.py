"""Programs that write to a table, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.connectors.postgres import program
from tests.recovery.drivers import newest_checkpoint

ROOT = Path(__file__).parents[3]
PATIENCE = 120.0
SETTINGS = {"beadline.engine": "local", "execution.checkpointing.interval": "100 ms"}


class Driver:
    """One run of ``program.py``; whatever there was before it goes on from the last checkpoint."""

    def __init__(self, folder: Path, kind: str, records: int, url: str, table: str) -> None:
        self.folder, self.kind, self.records = folder, kind, records
        self._places = {program.URL: url, program.TABLE: table}
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        dies: str | None = None,
        pace: float = 0.0,
        options: dict[str, str] | None = None,
        *,
        pauses: str | None = None,
        resume: str = "latest",
    ) -> None:
        given = {**SETTINGS, **(options or {})}
        command = [sys.executable, "-m", "beadline.cli.main", "run"]
        command += ["-s", resume] if newest_checkpoint(self.folder) else []
        command += [part for key, value in given.items() for part in ("-D", f"{key}={value}")]
        command += [program.__file__, str(self.folder), str(self.records), str(pace), self.kind]
        environment = {**os.environ, **self._places, "PYTHONPATH": str(ROOT)}
        for variable, point in ((program.DIES, dies), (program.PAUSES, pauses)):
            if point is not None:
                environment[variable] = point
        with (self.folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    @property
    def said(self) -> str:
        """What this one and those before it said."""
        return (self.folder / "driver.log").read_text(errors="replace")

    def wait_until(self, condition: Callable[[], bool]) -> None:
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self._process.poll() is None, self.said[-3000:]
            assert time.monotonic() < deadline, self.said[-3000:]
            time.sleep(0.02)

    def wait_until_paused(self) -> None:
        assert self._process is not None
        process = psutil.Process(self._process.pid)
        self.wait_until(lambda: process.status() == psutil.STATUS_STOPPED)

    def signal(self, what: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(what)

    def end(self) -> int:
        """How it ended."""
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def run(self, dies: str | None = None, pace: float = 0.0, options: dict[str, str] | None = None) -> int:
        self.start(dies, pace, options)
        return self.end()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
