"""The client of drivers, against a server that answers whatever a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from beadline.cli.client import Driver, RefusedError, RunningJob, UnreachableError
from beadline.cli.output import CommandError
from beadline.cli.triggering import take_savepoint


class Server(ThreadingHTTPServer):
    """Answers by method and path, and notes what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, list[tuple[int, bytes]]] = {}
        self.asked: list[tuple[str, str | None, bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.asked.append((f"{self.command} {self.path}", self.headers.get("Authorization"), body))
                answers = server.answers[f"{self.command} {self.path}"]
                status, data = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = answer

            def log_message(self, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


def driver(server: Server, token: str | None = "secret") -> Driver:
    return Driver(f"http://127.0.0.1:{server.server_port}", token, patience=0.5)


def test_a_savepoint_is_asked_for_with_the_token_and_waited_for(server: Server) -> None:
    server.answers["POST /jobs/ab/savepoints"] = [(202, b'{"request-id": "r1"}')]
    done = {"status": {"id": "COMPLETED"}, "operation": {"location": "/data/savepoint-1"}}
    progress = (200, b'{"status": {"id": "IN_PROGRESS"}, "operation": null}')
    server.answers["GET /jobs/ab/savepoints/r1"] = [progress, progress, (200, json.dumps(done).encode())]
    job = RunningJob(driver(server), "ab", "job")

    request = job.savepoint("/data", "CANONICAL")
    assert job.outcome("savepoints", request) == {"location": "/data/savepoint-1"}
    what, token, body = server.asked[0]
    assert (what, token) == ("POST /jobs/ab/savepoints", "Bearer secret")
    assert json.loads(body) == {"target-directory": "/data", "cancel-job": False, "formatType": "CANONICAL"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            "Config key [execution.checkpointing.savepoint-dir] is not set. Property [x] must be provided.",
            "a savepoint needs a directory",
        ),
        (
            "directories must lie in those that are configured with execution.checkpointing.savepoint-dir",
            "directories must lie in",
        ),
    ],
)
def test_only_a_directory_that_is_missing_is_asked_for(server: Server, answer: str, told: str) -> None:
    server.answers["POST /jobs/ab/savepoints"] = [(400, json.dumps({"errors": [answer]}).encode())]

    with pytest.raises(CommandError, match=told):
        take_savepoint(RunningJob(driver(server), "ab", "job"), "/named", "canonical")


def test_why_it_failed(server: Server) -> None:
    cause = {"class": "java.lang.Exception", "stack-trace": "CheckpointException: the disk is full"}
    failed = {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}}
    server.answers["GET /jobs/ab/savepoints/r1"] = [(200, json.dumps(failed).encode())]
    with pytest.raises(CommandError, match="the disk is full"):
        RunningJob(driver(server), "ab", "job").outcome("savepoints", "r1")


@pytest.mark.parametrize(("status", "code"), [(404, 3), (400, 1), (401, 1), (500, 1)])
def test_what_a_driver_refuses(server: Server, status: int, code: int) -> None:
    server.answers["GET /jobs/ab"] = [(status, b'{"errors": ["Job ab not found"]}')]
    with pytest.raises(RefusedError, match="Job ab not found") as caught:
        RunningJob(driver(server, None), "ab", "job").get()
    assert (caught.value.code, caught.value.status) == (code, status)
    assert ("BEADLINE_REST_TOKEN" in str(caught.value)) == (status == 401)


def test_something_else_that_answers(server: Server) -> None:
    server.answers["GET /jobs/overview"] = [(200, b"<html>a printer</html>")]
    with pytest.raises(UnreachableError, match="is no driver of Beadline or Flink") as caught:
        driver(server).get("/jobs/overview")
    assert caught.value.code == 4


def test_nobody_is_there(server: Server) -> None:
    gone = driver(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(UnreachableError, match="refused"):
        gone.get("/jobs")


@pytest.mark.parametrize("address", ["nowhere", "localhost", "https://a:1", "a:b", "127.0.0.1:99999"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(CommandError, match="is not an address") as caught:
        Driver(address)
    assert caught.value.code == 2
