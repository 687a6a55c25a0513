"""The command line's side of a running job: finds it in the registry, and talks Flink's REST to its driver.

Python's own HTTP client is used: it is imported in a few milliseconds, and goes through no proxy.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

import typer

from beadline.cli.output import FAILED, NO_SUCH_JOB, UNREACHABLE, CommandError
from beadline.master.client import registry
from beadline.master.client.registry import Entry, JobNotFoundError

#: Holds the token of a driver that is not in the registry, for ``-m``.
TOKEN_VARIABLE = "BEADLINE_REST_TOKEN"


def _complete(incomplete: str) -> list[tuple[str, str]]:
    """For the shell: ids and names of running jobs that begin so."""
    running = registry.entries()
    ids = [(entry.job_id, entry.name) for entry in running if entry.job_id.startswith(incomplete)]
    names = Counter(entry.name for entry in running)
    found = [entry for entry in running if entry.name.startswith(incomplete)]
    # A name that several jobs have is refused as ambiguous: their ids are offered.
    return [(each.name, each.job_id) if names[each.name] == 1 else (each.job_id, each.name) for each in found] + (
        ids if incomplete else []
    )


Job: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="Id of the job, the beginning of it, or its name.",
        show_default=False,
        autocompletion=_complete,
    ),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "-m",
        "--jobmanager",
        metavar="HOST:PORT",
        help=f"Ask the driver there, instead of those that run here. ${TOKEN_VARIABLE} is its token.",
    ),
]

_PATIENCE_SECONDS = 30.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_OVER = frozenset({"FINISHED", "CANCELED", "FAILED", "SUSPENDED"})
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class RefusedError(CommandError):
    """The driver has answered with an error; ``status`` is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, NO_SUCH_JOB if status == 404 else FAILED)
        self.status = status


class UnreachableError(CommandError):
    """No driver answers."""

    def __init__(self, message: str) -> None:
        super().__init__(message, UNREACHABLE)


class Driver:
    """The REST server of a driver."""

    def __init__(self, url: str, token: str | None = None, patience: float = _PATIENCE_SECONDS) -> None:
        address = urlsplit(url if "://" in url else f"http://{url}")
        try:
            host, port = address.hostname, address.port
        except ValueError as error:
            raise CommandError(f"{url!r} is not an address: {error}. Give HOST:PORT.", 2) from None
        if not host or not port or address.scheme != "http":
            raise CommandError(f"{url!r} is not an address: give HOST:PORT, as in 127.0.0.1:8081.", 2)
        self.host, self.port, self.token = host, port, token
        self.patience = patience

    def __repr__(self) -> str:
        return f"<Driver at {self.host}:{self.port}>"

    @property
    def page(self) -> str:
        """The address of the dashboard, with what it needs to stop the job; not for logs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/{f'#token={quote(self.token)}' if self.token else ''}"

    def get(self, path: str, **query: str) -> Any:
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._ask("POST", path, body)

    def patch(self, path: str, **query: str) -> Any:
        return self._ask("PATCH", f"{path}?{urlencode(query)}" if query else path)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None
        if body is not None:
            data = json.dumps({key: value for key, value in body.items() if value is not None}).encode()
            headers["Content-Type"] = "application/json"
        import http.client  # a third of the time that a command takes to start

        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.patience)
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            answer = response.read()
        except TimeoutError as error:
            raise UnreachableError(
                f"the driver at {self.host}:{self.port} takes connections, but has not answered for "
                f"{self.patience:.0f} s. It may be stopped, or hang; `beadline list` shows its process."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(
                f"the driver at {self.host}:{self.port} can't be reached: {error or type(error).__name__}"
            ) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise RefusedError(_reason(answer, response.status), response.status)
        try:
            return json.loads(answer) if answer else {}
        except ValueError as error:
            raise UnreachableError(
                f"what answers at {self.host}:{self.port} is no driver of Beadline or Flink: {answer[:60]!r}"
            ) from error


def _reason(answer: bytes, status: int) -> str:
    """What the driver says of a request that it refuses."""
    try:
        told = [str(each) for each in json.loads(answer)["errors"]]
    except (ValueError, KeyError, TypeError):
        told = []
    text = " ".join(told) or f"the driver answered with HTTP status {status}"
    if status in (401, 403):
        return f"{text}\nThe registry has the token of your own jobs; for others set ${TOKEN_VARIABLE}."
    return text


@dataclass(frozen=True)
class RunningJob:
    """A job and the driver that runs it; ``entry`` if it is in the registry."""

    driver: Driver
    job_id: str
    name: str
    entry: Entry | None = None

    def get(self, path: str = "", **query: str) -> Any:
        return self.driver.get(f"/jobs/{self.job_id}{path}", **query)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self.driver.post(f"/jobs/{self.job_id}{path}", body)

    @property
    def state(self) -> str | None:
        """Its status; None if it has ended with its driver."""
        try:
            return str(self.get("/status")["status"])
        except UnreachableError:
            if self.entry is None or self.entry in registry.entries():
                raise
            return None

    def cancel(self) -> None:
        self.driver.patch(f"/jobs/{self.job_id}", mode="cancel")

    def savepoint(self, directory: str | None, format: str, cancel: bool = False) -> str:
        """Take a savepoint, and give the id of the request."""
        body = {"target-directory": directory, "cancel-job": cancel, "formatType": format}
        return str(self.post("/savepoints", body)["request-id"])

    def stop(self, directory: str | None, format: str, drain: bool) -> str:
        """Stop with a savepoint, and give the id of the request."""
        return str(
            self.post("/stop", {"targetDirectory": directory, "drain": drain, "formatType": format})["request-id"]
        )

    def checkpoint(self, type: str) -> str:
        """Take a checkpoint, and give the id of the request."""
        return str(self.post("/checkpoints", {"checkpointType": type})["request-id"])

    def outcome(self, kind: str, request: str) -> dict[str, Any]:
        """Wait for what was asked for: ``savepoints`` or ``checkpoints``. Raises what made it fail."""
        pause = _SHORTEST_PAUSE
        while True:
            answer = self.get(f"/{kind}/{request}")
            if answer["status"]["id"] == "COMPLETED":
                operation: dict[str, Any] = answer.get("operation") or {}
                cause = operation.get("failure-cause") or operation.get("failureCause")
                if cause:
                    raise CommandError(_cause(cause))
                return operation
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def wait_for_end(self, seconds: float) -> str | None:
        """Its last status, once it has ended or its driver has; what it is then, if that takes too long."""
        deadline = time.monotonic() + seconds
        pause = _SHORTEST_PAUSE
        while True:
            state = self.state
            if state is None or state in _OVER or time.monotonic() > deadline:
                return state
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)


def _cause(cause: Any) -> str:
    """The telling part of a failure, which Flink sends as a Java stack trace."""
    text = str(cause.get("stack-trace") or cause.get("class") or cause) if isinstance(cause, dict) else str(cause)
    return text.strip() or "no reason was given"


def find_job(text: str, address: str | None = None) -> RunningJob:
    """The job with that id, with an id that begins so, or with that name."""
    if address is not None:
        driver = driver_at(address)
        return _named(text, driver, driver.get("/jobs/overview")["jobs"])
    try:
        entry = registry.find(text)
    except JobNotFoundError as error:
        raise CommandError(str(error), NO_SUCH_JOB) from None
    return of_entry(entry)


def of_entry(entry: Entry) -> RunningJob:
    return RunningJob(Driver(entry.url, entry.token), entry.job_id, entry.name, entry)


def driver_at(address: str) -> Driver:
    """The driver of ``-m``, with the token of the variable, or else of the registry."""
    driver = Driver(address, os.environ.get(TOKEN_VARIABLE))
    for each in registry.entries() if driver.token is None else ():
        known = Driver(each.url, each.token)
        if known.port == driver.port and (known.host == driver.host or {known.host, driver.host} <= _LOOPBACK):
            driver.token = known.token
    return driver


def drivers(patience: float = _PATIENCE_SECONDS) -> list[tuple[Driver, list[Entry]]]:
    """Those that run here, each with its registered jobs."""
    found: dict[str, tuple[Driver, list[Entry]]] = {}
    for entry in registry.entries():
        found.setdefault(entry.url, (Driver(entry.url, entry.token, patience), []))[1].append(entry)
    return list(found.values())


def _named(text: str, driver: Driver, jobs: Iterable[dict[str, Any]]) -> RunningJob:
    jobs = list(jobs)
    for matches in (
        [job for job in jobs if job["jid"] == text],
        [job for job in jobs if job["name"] == text and job["state"] not in _OVER],
        [job for job in jobs if job["jid"].startswith(text)],
        [job for job in jobs if job["name"] == text],
    ):
        if len(matches) == 1:
            return RunningJob(driver, matches[0]["jid"], matches[0]["name"])
        if matches:
            shown = "\n".join(f"  {job['jid']}  {job['name']}" for job in matches)
            raise CommandError(f"{text!r} may be any of these jobs; give more of the id:\n{shown}", NO_SUCH_JOB)
    shown = "\n".join(f"  {job['jid']}  {job['name']}" for job in jobs) or "  none"
    raise CommandError(
        f"no job has the id or name {text!r} at {driver.host}:{driver.port}. There are:\n{shown}", NO_SUCH_JOB
    )
