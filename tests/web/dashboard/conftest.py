"""A browser, and servers for it to look at: the real app over made-up records, and a real job on the local engine."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from beadline.cli.playground.story import FIRST
from beadline.common.outer_options import FILE_NAME, FOLDER_VARIABLE
from beadline.master.job import JobMaster
from beadline.services.server import free_port
from beadline.web.app import make_app
from beadline.web.record import JobRecord
from beadline.web.security import Rules

TOKEN = "a-token-for-these-tests"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIZES = {"laptop": (1366, 860), "phone": (390, 844)}
# Requests that a page gives up itself, when it goes on to another page.
_GIVEN_UP = "net::ERR_ABORTED"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for all tests of a module. While it is there an event loop runs in this thread, and other modules may
    want one of their own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as starter:
        browser = starter.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Tab:
    """A page, and what went wrong on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("console", lambda said: said.type in ("error", "warning") and self.problems.append(said.text))
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("response", lambda one: one.status >= 400 and self.problems.append(f"{one.status} {one.url}"))
        page.on("requestfailed", self._failed)

    def _failed(self, request: Any) -> None:
        if request.failure != _GIVEN_UP:
            self.problems.append(f"{request.failure} {request.url}")

    def open(self, address: str) -> Any:
        self.page.goto(address)
        return self.page

    @property
    def too_wide(self) -> int:
        """By how many pixels one could scroll sideways."""
        wide: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return wide


@pytest.fixture
def open_tab(chromium: Any) -> Iterator[Callable[..., Tab]]:
    """``open_tab(size, theme)`` gives a new tab."""
    contexts = []

    def make(size: str = "laptop", theme: str = "light", **more: Any) -> Tab:
        width, height = SIZES[size]
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=theme, **more)
        context.set_default_timeout(15_000)
        contexts.append(context)
        return Tab(context.new_page())

    yield make
    for context in contexts:
        context.close()


# -- the real app over records


class RecordedJobs:
    """Jobs that are there as records only."""

    is_history = False

    def __init__(self, records: list[JobRecord]) -> None:
        self.records = records

    def all(self) -> list[JobRecord]:
        return self.records

    def get(self, job_id: str) -> JobRecord | None:
        return next((record for record in self.records if record.job_id == job_id), None)

    def master(self, job_id: str) -> JobMaster | None:
        return None


def with_quiet_events(app: Any) -> Any:
    """Nothing happens to a record that says RUNNING, so its stream of events stays open and empty."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("/beadline/events"):
            await app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b": quiet\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    return answer


class Served:
    """An app on a port of its own, in a thread; it can be ended, and begun again at the same port."""

    def __init__(self, records: list[JobRecord], token: str | None = TOKEN) -> None:
        self.jobs = RecordedJobs(records)
        self._app = with_quiet_events(make_app(self.jobs, Rules.of(token, "127.0.0.1")))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self._server: uvicorn.Server | None = None

    def start(self) -> None:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        config = uvicorn.Config(self._app, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join(10)
            self._server = None


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """``serve(record, …)`` serves these records."""
    servers = []

    def start(*records: JobRecord) -> Served:
        server = Served(list(records))
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


# -- a real job


class ClickCount:
    """The playground's click count, in a process of its own on the local engine. All its drivers share a port, so a
    page that is open stays at its address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/#token={TOKEN}"
        options = {
            "beadline.engine": "local",
            "beadline.rest.token": TOKEN,
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
            "rest.port": self.port,
        }
        (folder / FILE_NAME).write_text("".join(f"{key}: {value}\n" for key, value in options.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """``beadline run OPTIONS`` with the program; returns before the job runs."""
        arguments = ["--started", str(int(time.time() * 1000)), "--output", str(self._folder / "counts")]
        arguments += ["--journal", str(self._folder / "journal")]
        command = [sys.executable, "-m", "beadline.cli.main", "run", *options, str(FIRST), *arguments]
        with (self._folder / "log").open("ab") as log:
            environment = {**os.environ, FOLDER_VARIABLE: str(self._folder)}
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def wait(self, seconds: float) -> int:
        assert self._process is not None
        return self._process.wait(seconds)

    def wait_for_port(self, seconds: float = 40.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert self._process is None or self._process.poll() is None, self.last_words()
            time.sleep(0.05)
        raise AssertionError(f"nobody listens at {self.port}: {self.last_words()}")

    def last_words(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-2000:]

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def click_count_job(tmp_path: Path) -> Iterator[ClickCount]:
    job = ClickCount(tmp_path)
    yield job
    job.close()
