"""What the playground asks of a running driver: with the commands that anybody would use."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping

from beadline.cli.playground.driver import command
from beadline.errors import BeadlineError

_PATIENCE = 120.0


class Refused(BeadlineError):
    """The driver did not do what it was asked."""


class RunningJob:
    """A job of a driver on this machine."""

    def __init__(self, job_id: str, environment: Mapping[str, str]) -> None:
        self._job_id = job_id
        self._environment = environment

    def take_savepoint(self) -> str:
        """``beadline savepoint JOB``: the job goes on. Gives the savepoint's path."""
        return self._savepoint_of("savepoint")

    def stop(self) -> str:
        """``beadline stop JOB``: what it has counted is published. Gives the savepoint's path."""
        return self._savepoint_of("stop")

    def _savepoint_of(self, verb: str) -> str:
        done = subprocess.run(
            command(verb, "--json", self._job_id),
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
        if done.returncode:
            raise Refused(f"beadline {verb} {self._job_id} ended with {done.returncode}: {done.stderr.strip()}")
        return str(json.loads(done.stdout)["savepoint"])
