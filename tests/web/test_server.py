"""The server of a driver, asked over its real socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from beadline.common import JobClient
from beadline.common.job_status import JobStatus
from beadline.master.client import registry
from beadline.web.jobs import flink_id
from tests.web.drivers import TOKEN, Driver, wait_for


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def job(driver: Driver, folder: Path) -> Iterator[JobClient]:
    """One job for all tests that leave it running."""
    yield driver.start(
        **{
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": f"file://{folder}/checkpoints",
            "my.password": "hunter2",
            "my.url": "postgresql://me:hunter2@host/db",
            "pipeline.global-job-parameters": "db-password:hunter2,rate:3",
        }
    )
    driver.end()


@pytest.fixture
def path(job: JobClient) -> str:
    return f"/jobs/{job.get_job_id()}"


# -- reading


def test_paths_answer_also_below_v1(driver: Driver, path: str) -> None:
    for prefix in ("", "/v1"):
        assert driver.get(f"{prefix}{path}")["name"] == "clicks"
        assert path.rpartition("/")[2] in [job["jid"] for job in driver.get(f"{prefix}/jobs/overview")["jobs"]]


def test_all_paths_without_parameters_of_their_own_answer(driver: Driver, path: str) -> None:
    schema = driver.get("/openapi.json")
    jobid = path.rpartition("/")[2]
    vertex = driver.get(path)["vertices"][0]["id"]
    wait_for(lambda: driver.get(f"{path}/checkpoints")["latest"]["completed"])
    checkpoint = driver.get(f"{path}/checkpoints")["latest"]["completed"]["id"]
    values = {"jobid": jobid, "job_id": jobid, "applicationid": jobid, "vertexid": vertex, "checkpointid": checkpoint}
    values |= {"index": 0, "attempt": 0}
    asked = 0
    for template, methods in schema["paths"].items():
        try:
            concrete = template.format(**values)
        except KeyError:
            continue
        if "get" in methods and not concrete.endswith(("/events", "/state/key", "/state/largest")):
            answer = driver.ask("GET", concrete, token=TOKEN)
            assert answer.status_code == 200, (concrete, answer.text)
            asked += 1
    assert asked > 40


@pytest.mark.parametrize(
    ("asked", "status", "text"),
    [
        ("/nothing", 404, "Not found: /nothing"),
        (f"/jobs/{'0' * 32}", 404, f"Job {'0' * 32} not found"),
        ("/jobs/no.job", 400, "could not parse parameters: path parameter (jobid)"),
        ("{job}/vertices/zz", 400, "path parameter (vertexid)"),
        (f"{{job}}/vertices/{'0' * 32}", 404, f"JobVertex {'0' * 32} not found"),
        ("{job}/checkpoints/details/999999", 404, "checkpoint 999999"),
        ("{job}/checkpoints/details/x", 400, "path parameter (checkpointid)"),
        (f"{{job}}/savepoints/{'0' * 32}", 404, f"There is no savepoint operation with triggerId={'0' * 32} for job"),
        ("{job}/savepoints/abc", 400, "(triggerid)"),
        ("{job}/exceptions?maxExceptions=x", 400, "query parameter (maxExceptions)"),
    ],
)
def test_errors_are_a_status_and_a_sentence(driver: Driver, path: str, asked: str, status: int, text: str) -> None:
    answer = driver.ask("GET", asked.format(job=path))
    assert answer.status_code == status
    assert list(answer.json()) == ["errors"]
    assert text in answer.json()["errors"][0]


def test_a_job_with_a_chosen_id_has_one_in_flink_s_form_too(driver: Driver, job: JobClient) -> None:
    chosen = driver.start("chosen", **{"beadline.job-id": "orders-eu"})
    id = flink_id("orders-eu")
    assert len(id) == 32
    assert id in [job["jid"] for job in driver.get("/jobs/overview")["jobs"]]
    assert driver.get(f"/jobs/{id}")["jid"] == driver.get("/jobs/orders-eu")["jid"] == id
    assert driver.get("/jobs/orders-eu/beadline")["job_id"] == "orders-eu"
    assert driver.ask("PATCH", f"/jobs/{id}?mode=cancel", token=TOKEN).status_code == 202
    chosen.cancel().result()


def test_the_description_of_the_interface_needs_no_other_server(driver: Driver, job: JobClient) -> None:
    page = driver.ask("GET", "/api")
    assert page.status_code == 200
    assert "/jobs/{jobid}/savepoints" in page.text
    assert "http" not in page.text.replace("http-equiv", "")


def test_pages_may_not_be_framed_or_sniffed(driver: Driver, job: JobClient) -> None:
    headers = driver.ask("GET", "/config").headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


# -- what is refused


def changes(path: str) -> list[tuple[str, str, dict[str, Any] | None]]:
    return [
        ("PATCH", f"{path}?mode=cancel", None),
        ("PATCH", path, None),
        ("POST", f"{path}/stop", {"targetDirectory": "/tmp/never"}),
        ("POST", f"{path}/savepoints", {"target-directory": "/tmp/never", "cancel-job": True}),
        ("POST", f"{path}/checkpoints", {}),
        ("POST", "/savepoint-disposal", {"savepoint-path": "/tmp/never"}),
    ]


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (401, {}),
        (401, {"Authorization": "Bearer not-the-token-at-all"}),
        (403, {"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}),
        (403, {"Authorization": f"Bearer {TOKEN}", "Origin": "null"}),
        (403, {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}),
        (403, {"Authorization": f"Bearer {TOKEN}", "Sec-Fetch-Site": "cross-site"}),
    ],
)
def test_who_may_not_changes_nothing(
    driver: Driver, job: JobClient, path: str, status: int, headers: dict[str, str]
) -> None:
    for prefix in ("", "/v1"):
        for method, changed, body in changes(path):
            answer = driver.ask(method, prefix + changed, json=body, headers=headers)
            assert (answer.status_code, list(answer.json())) == (status, ["errors"])
    assert job.get_job_status().result() is JobStatus.RUNNING
    assert not any(entry["is_savepoint"] for entry in driver.get(f"{path}/checkpoints")["history"])
    assert not Path("/tmp/never").exists()


def test_a_long_body_is_cut_off_also_without_its_length(driver: Driver, path: str) -> None:
    long = json.dumps({"target-directory": "x" * 70_000}).encode()
    assert driver.ask("POST", f"{path}/savepoints", token=TOKEN, content=long).status_code == 413

    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    assert driver.ask("POST", f"{path}/savepoints", token=TOKEN, content=chunks()).status_code == 413


def raw(driver: Driver, request: bytes, hangs_up: bool = True) -> bytes:
    """What is answered to these bytes. Who hangs up after a whole request may get no answer."""
    with socket.create_connection(("127.0.0.1", driver.port), 10) as connection:
        answer = b""
        try:  # who is refused may not be heard to the end, nor get all of the answer
            connection.sendall(request)
            if hangs_up:
                connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(65536):
                answer += data
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
        return answer


@pytest.mark.parametrize(
    "request_lines",
    [
        b"GET /config HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"GET /config HTTP/1.1\r\n\r\n",
        b"GET /config HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
        b"POST /savepoint-disposal HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"nonsense\r\n\r\n",
    ],
)
def test_broken_requests_are_refused(driver: Driver, job: JobClient, request_lines: bytes) -> None:
    assert raw(driver, request_lines).startswith(b"HTTP/1.1 4")


def test_endless_headers_are_cut_off(driver: Driver, job: JobClient) -> None:
    answer = raw(driver, b"GET /config HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n")
    assert b" 200 " not in answer


def test_nothing_of_a_request_becomes_a_header(driver: Driver, path: str) -> None:
    for asked in ("/jobs/%0d%0aSet-Cookie:%20a=b", "/%0d%0aSet-Cookie:%20a=b", "/config?x=%0d%0aSet-Cookie:%20a=b"):
        answer = driver.ask("GET", asked, headers={"Last-Event-ID": "a"})
        assert "set-cookie" not in answer.headers
        assert answer.status_code in (200, 400, 404)


@pytest.mark.parametrize(
    "asked",
    [
        "/../../../etc/passwd",
        "/..%2f..%2f..%2fetc/passwd",
        "/assets/..%2f..%2f..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/static/../../record.py",
        "/v1/../../../../etc/passwd",
        "//etc/passwd",
        "/jobs/..%2f..%2fetc%2fpasswd",
        "/jobs/x/checkpoints/details/..%2f..%2fetc",
        "/taskmanagers/..%2f..%2fetc%2fpasswd/logs",
        "/jobmanager/logs/..%2f..%2fetc%2fpasswd",
    ],
)
def test_no_path_leads_out_of_the_dashboard_s_files(driver: Driver, job: JobClient, asked: str) -> None:
    lines = f"GET {asked} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
    answer = raw(driver, lines, hangs_up=False)
    assert answer.split()[1] in (b"400", b"404", b"405"), answer[:200]
    assert b"root:" not in answer
    assert b"JobRecord" not in answer


def test_no_secret_is_in_any_answer(driver: Driver, job: JobClient, path: str) -> None:
    jobid = path.rpartition("/")[2]
    vertex = driver.get(path)["vertices"][0]["id"]
    for template, methods in driver.get("/openapi.json")["paths"].items():
        if "get" not in methods or template.endswith("/events"):
            continue
        concrete = template.format(
            jobid=jobid,
            job_id=jobid,
            applicationid=jobid,
            vertexid=vertex,
            checkpointid=1,
            index=0,
            attempt=0,
            triggerid="0" * 32,
            taskmanagerid="x",
        )
        answer = driver.ask("GET", concrete)
        assert "hunter2" not in answer.text, concrete
        assert TOKEN not in answer.text, concrete
    options = {
        each["key"]: each["value"] for each in driver.ask("GET", f"{path}/jobmanager/config", token=TOKEN).json()
    }
    assert options["my.password"] == options["beadline.rest.token"] == "****"
    assert options["my.url"] == "postgresql://me:****@host/db"


# -- changes


def test_a_savepoint_and_a_checkpoint_are_taken_and_the_job_goes_on(driver: Driver, path: str, folder: Path) -> None:
    trigger = "ab" * 16
    body = {"target-directory": f"file://{folder}/savepoints", "formatType": "NATIVE", "triggerId": trigger}
    asked = driver.ask("POST", f"{path}/savepoints", token=TOKEN, json=body)
    assert (asked.status_code, asked.json()) == (202, {"request-id": trigger})
    location = driver.outcome(f"{path}/savepoints/{trigger}")["operation"]["location"]
    assert location.startswith(f"{folder}/savepoints/savepoint-")
    assert os.path.exists(f"{location}/_metadata")
    asked = driver.ask("POST", f"{path}/checkpoints", token=TOKEN, json={"checkpointType": "FULL"})
    done = driver.outcome(f"{path}/checkpoints/{asked.json()['request-id']}")
    assert done["operation"]["checkpointId"] > 0

    asked = driver.ask("POST", "/savepoint-disposal", token=TOKEN, json={"savepoint-path": location})
    done = driver.outcome(f"/savepoint-disposal/{asked.json()['request-id']}")
    assert done == {"status": {"id": "COMPLETED"}, "operation": {}}
    assert not os.path.exists(location)


def test_a_failed_operation_says_why(driver: Driver, path: str) -> None:
    asked = driver.ask("POST", f"{path}/savepoints", token=TOKEN, json={"target-directory": "/proc/nowhere"})
    done = driver.outcome(f"{path}/savepoints/{asked.json()['request-id']}")
    assert "can't write the savepoint /proc/nowhere" in done["operation"]["failure-cause"]["stack-trace"]
    asked = driver.ask("POST", "/savepoint-disposal", token=TOKEN, json={"savepoint-path": "/tmp/never"})
    done = driver.outcome(f"/savepoint-disposal/{asked.json()['request-id']}")
    assert "there is no checkpoint or savepoint at /tmp/never" in done["operation"]["failure-cause"]["stack-trace"]


@pytest.mark.parametrize(
    ("below", "body", "text"),
    [
        ("savepoints", {}, "Property [target-directory] must be provided."),
        ("stop", {}, "Property [targetDirectory] must be provided."),
        ("savepoints", {"target-directory": "/a/../b"}, "has '..' in it"),
        ("savepoints", {"target-directory": "here"}, "must be absolute"),
        ("savepoints", {"target-directory": 1}, "did not match expected format"),
        ("savepoints", {"formatType": "ODD"}, "did not match expected format"),
        ("savepoints", {"triggerId": "short"}, "did not match expected format"),
        ("savepoints", [], "did not match expected format"),
        ("checkpoints", {"checkpointType": "ODD"}, "did not match expected format"),
        ("checkpoints", {"checkpointType": "INCREMENTAL"}, "use CONFIGURED or FULL"),
    ],
)
def test_a_wrong_body_is_answered_with_what_is_wrong(
    driver: Driver, path: str, below: str, body: Any, text: str
) -> None:
    answer = driver.ask("POST", f"{path}/{below}", token=TOKEN, json=body)
    assert answer.status_code == 400
    assert text in answer.json()["errors"][0]


def test_events_come_as_they_happen_and_a_reader_that_comes_again_goes_on(driver: Driver, path: str) -> None:
    with httpx.stream("GET", f"{driver.url}{path}/beadline/events", timeout=10) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        first = _events(answer, 5)
    assert {"StatusChanged", "ExecutionStarted"} <= {name for name, _, _ in first}
    last = first[-1][1]
    with httpx.stream(
        "GET", f"{driver.url}{path}/beadline/events", timeout=10, headers={"Last-Event-ID": last}
    ) as again:
        more = _events(again, 5)
    assert not {id for _, id, _ in first} & {id for _, id, _ in more}
    numbers = [int(id.rpartition("-")[2]) for _, id, _ in more]
    assert numbers == sorted(numbers)
    assert numbers[0] > int(last.rpartition("-")[2])


def _events(answer: httpx.Response, count: int) -> list[tuple[str, str, dict[str, Any]]]:
    found = []
    name = id = ""
    for line in answer.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "id":
            id = value
        elif field == "data":
            found.append((name, id, json.loads(value)))
            if len(found) == count:
                break
    return found


# -- the end of a driver

PROGRAM = """
import time
from beadline.datastream import StreamExecutionEnvironment

def slowly(number):
    time.sleep(0.001)
    return number

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_sequence(0, 10**12).map(slowly)
env.execute("{name}")
"""


def start_program(folder: Path, name: str, state: Path) -> subprocess.Popen[bytes]:
    program = folder / f"{name}.py"
    program.write_text(PROGRAM.format(name=name))
    return subprocess.Popen(
        [sys.executable, str(program)],
        env={**os.environ, "BEADLINE_STATE_DIR": str(state), "BEADLINE_ENGINE": "local"},
        stderr=subprocess.DEVNULL,
    )


def test_a_program_that_ends_by_a_stop_stays_until_the_outcome_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And two drivers at once don't disturb each other."""
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path / "state"))
    programs = [start_program(tmp_path, name, tmp_path / "state") for name in ("one", "two")]
    try:
        wait_for(lambda: len(registry.entries()) == 2)
        one, two = registry.find("one"), registry.find("two")
        assert one.port != two.port
        assert one.token != two.token
        headers = {"X-Beadline-Token": one.token or ""}
        body = {"targetDirectory": str(tmp_path / "savepoints")}
        asked = httpx.post(f"{one.url}/jobs/{one.job_id}/stop", json=body, headers=headers)
        assert asked.status_code == 202
        wait_for(lambda: [entry.name for entry in registry.entries()] == ["two"])
        time.sleep(0.5)  # the job has ended, and nobody has asked yet
        done = httpx.get(f"{one.url}/jobs/{one.job_id}/savepoints/{asked.json()['request-id']}").json()
        assert done["operation"]["location"].startswith(str(tmp_path / "savepoints"))
        began = time.monotonic()
        assert programs[0].wait(20) == 0
        assert time.monotonic() - began < 5
        assert httpx.get(f"{two.url}/jobs/{two.job_id}/status").json() == {"status": "RUNNING"}
        foreign = httpx.patch(f"{two.url}/jobs/{two.job_id}", headers=headers)
        assert foreign.status_code == 401
    finally:
        for program in programs:
            program.kill()
            program.wait(10)
