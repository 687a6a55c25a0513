"""What the playground asks of a running driver, as anybody could: over REST, with the token from the registry."""

from __future__ import annotations

import time
from typing import Any

import httpx

from beadline.errors import BeadlineError
from beadline.master.client.registry import Entry

_PATIENCE = 60.0


class Refused(BeadlineError):
    """The driver did not do what it was asked."""


class RunningJob:
    """A job of a driver on this machine."""

    def __init__(self, entry: Entry) -> None:
        headers = {"Authorization": f"Bearer {entry.token}"} if entry.token else {}
        self._job = f"/jobs/{entry.job_id}"
        # No proxy of the environment stands between two processes of one machine.
        self._client = httpx.Client(base_url=entry.url, headers=headers, timeout=_PATIENCE, trust_env=False)

    def take_savepoint(self) -> str:
        """A savepoint in the job's savepoint directory; the job goes on. Gives its path."""
        return self._outcome(self._post(f"{self._job}/savepoints", {"cancel-job": False}))

    def stop(self) -> str:
        """Stop it with a savepoint: what it has counted is published. Gives the savepoint's path."""
        return self._outcome(self._post(f"{self._job}/stop", {"drain": False}))

    def _post(self, path: str, body: dict[str, Any]) -> str:
        return str(self._answer(self._client.post(path, json=body))["request-id"])

    def _outcome(self, request: str) -> str:
        """Ask until it is there, as Flink's command does."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            answer = self._answer(self._client.get(f"{self._job}/savepoints/{request}"))
            if answer["status"]["id"] == "COMPLETED":
                break
            if time.monotonic() > deadline:
                raise Refused(f"the savepoint was not complete after {_PATIENCE:.0f} s")
            time.sleep(0.1)
        operation = answer["operation"]
        if "location" not in operation:
            raise Refused(f"there is no savepoint: {operation.get('failure-cause')}")
        return str(operation["location"])

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        if response.is_error:
            raise Refused(
                f"{response.request.method} {response.request.url.path} gave {response.status_code}: {response.text}"
            )
        return dict(response.json())
