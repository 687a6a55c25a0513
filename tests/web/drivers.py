"""Jobs of this process that run until they are told to end, and a way to ask about them over REST."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx

from beadline.common import Configuration, JobClient
from beadline.datastream import StreamExecutionEnvironment
from beadline.master.client import registry
from beadline.master.client.presence import presence

TOKEN = "a-token-for-tests-only"


class Driver:
    """Starts jobs in this process, and asks its server about them."""

    def __init__(self) -> None:
        self._jobs: list[JobClient] = []
        self._http = httpx.Client(timeout=30)

    def start(self, name: str = "clicks", **options: str) -> JobClient:
        """A job that counts numbers by their remainder, and goes on and on."""
        configuration = Configuration()
        quick = {"beadline.step.first-records": "20", "beadline.step.max-records": "100"}
        for key, value in {"beadline.rest.token": TOKEN, **quick, **options}.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(1)
        numbers = env.from_sequence(0, 10**12).uid("numbers").map(_slowly).key_by(lambda pair: pair[0])
        numbers.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("sum").name("Sum")
        self._jobs.append(env.execute_async(name))
        return self._jobs[-1]

    def ask(self, method: str, path: str, *, token: str | None = None, **more: Any) -> httpx.Response:
        headers = more.pop("headers", {})
        if token is not None:
            headers = {"Authorization": f"Bearer {token}", **headers}
        return self._http.request(method, self.url + path, headers=headers, **more)

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def outcome(self, path: str) -> dict[str, Any]:
        """Of an operation, once it has one."""
        return wait_for(lambda: found if (found := self.get(path))["status"]["id"] == "COMPLETED" else None)

    @property
    def url(self) -> str:
        assert presence.door is not None
        return presence.door.url

    @property
    def port(self) -> int:
        assert presence.door is not None
        return presence.door.port

    def end(self) -> None:
        for job in self._jobs:
            job.cancel().result()
        self._jobs.clear()

    def close(self) -> None:
        self.end()
        self._http.close()


def _slowly(number: int) -> tuple[int, int]:
    time.sleep(0.0005)
    return number % 7, 1


def wait_for(found: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What a function gives, once that is something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{found} gave nothing in {seconds} s; running: {registry.entries()}")
