"""What the playground asks of a running driver: with the commands that anybody would use."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping

from beadline.cli import client
from beadline.cli.playground.driver import command
from beadline.errors import BeadlineError
from beadline.master.client.registry import Entry, entries

# A driver that is asked for the first time loads its REST server, which takes a second, or many on a busy machine.
_PATIENCE = 900.0
_TRIES = 3


class Refused(BeadlineError):
    """The driver did not do what it was asked."""


class RunningJob:
    """A job of a driver on this machine.

    :param note: is given a sentence for each request that had to be repeated
    """

    def __init__(self, entry: Entry, environment: Mapping[str, str], note: Callable[[str], None]) -> None:
        self._entry = entry
        self._environment = environment
        self._note = note

    def take_savepoint(self) -> str:
        """``beadline savepoint JOB``: the job goes on. Gives the savepoint's path."""
        return self._savepoint_of("savepoint")

    def stop(self) -> str:
        """``beadline stop JOB``: what it has counted is published. Gives the savepoint's path."""
        return self._savepoint_of("stop")

    def _savepoint_of(self, verb: str) -> str:
        """A savepoint fails if the job happens to restart, as it may when workers have been killed: so try again."""
        refused = self._try(verb)
        for _ in range(1, _TRIES):
            if isinstance(refused, str) or self._entry not in entries():
                break
            self._note(f"beadline {verb} is tried again: {refused}")
            refused = self._try(verb)
        if isinstance(refused, str):
            return refused
        raise refused

    def _try(self, verb: str) -> str | Refused:
        """The savepoint's path, or why there is none."""
        asked = f"beadline {verb} {self._entry.job_id}"
        try:
            client.Driver(self._entry.url, self._entry.token, _PATIENCE).get("/jobs/overview")
            done = subprocess.run(
                command(verb, "--json", self._entry.job_id),
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
            )
        except subprocess.TimeoutExpired:
            return Refused(f"{asked} did not end within {_PATIENCE:.0f} s")
        except client.UnreachableError as error:
            return Refused(f"{asked}: {error}")
        if done.returncode:
            return Refused(f"{asked} ended with {done.returncode}: {done.stderr.strip()}")
        return str(json.loads(done.stdout)["savepoint"])
