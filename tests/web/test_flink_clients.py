"""Flink's own clients do their work on a running job: the ``flink`` command, and Flink's web page.

Both come with the package ``apache-flink``, which has an environment of its own: ``.venv-pyflink``, or the folder that
``BEADLINE_PYFLINK_VENV`` names. Without it these tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.common import JobClient
from beadline.common.job_status import JobStatus
from beadline.master.client.presence import presence
from beadline.web.app import make_app
from beadline.web.jobs import DriverJobs
from beadline.web.security import Rules
from tests.web.drivers import Driver, wait_for

ENVIRONMENT = Path(os.environ.get("BEADLINE_PYFLINK_VENV") or Path(__file__).parents[2] / ".venv-pyflink")
FLINK = next(iter(ENVIRONMENT.glob("lib/python3*/site-packages/pyflink")), None)
CHROMIUM = "/usr/bin/chromium"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FLINK is None, reason=f"no PyFlink in {ENVIRONMENT}: make parity-record installs it"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flink")


@pytest.fixture
def job(driver: Driver, folder: Path) -> Iterator[JobClient]:
    yield driver.start(
        "counted",
        **{
            "beadline.rest.token": "none",
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": f"file://{folder}/checkpoints",
            "execution.checkpointing.savepoint-dir": f"file://{folder}/savepoints",
            "execution.checkpointing.tolerable-failed-checkpoints": "5",
        },
    )
    driver.end()


def flink(driver: Driver, verb: str, *arguments: str) -> str:
    """What the command says."""
    assert FLINK is not None
    command = [str(FLINK / "bin" / "flink"), verb, "-m", f"127.0.0.1:{driver.port}", *arguments]
    environment = {**os.environ, "FLINK_CONF_DIR": str(FLINK / "conf"), "FLINK_LOG_DIR": "/tmp"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    return ran.stdout + ran.stderr


def test_the_flink_command_lists_saves_and_stops(driver: Driver, job: JobClient, folder: Path) -> None:
    id = str(job.get_job_id())
    assert f"{id} : counted (RUNNING)" in flink(driver, "list")

    said = flink(driver, "savepoint", id)
    assert f"Savepoint completed. Path: {folder}/savepoints/savepoint-" in said
    taken = said.partition("Path: ")[2].split()[0]
    assert f"Savepoint '{taken}' disposed." in flink(driver, "savepoint", "-d", taken)
    assert not os.path.exists(taken)

    assert f"for job {id} completed." in flink(driver, "checkpoint", id)
    refused = flink(driver, "savepoint", id, "/etc/beadline")
    assert "must lie in those that are configured" in refused

    said = flink(driver, "stop", id)
    assert f"Savepoint completed. Path: {folder}/savepoints/savepoint-" in said
    assert job.get_job_status().result() is JobStatus.FINISHED


def test_the_flink_command_cancels_and_shows_why_something_failed(driver: Driver, job: JobClient, folder: Path) -> None:
    id = str(job.get_job_id())
    said = flink(driver, "savepoint", "-d", f"{folder}/savepoints/nothing")
    assert "SnapshotError: there is no checkpoint or savepoint at" in said
    assert f"Cancelled job {id}." in flink(driver, "cancel", id)
    wait_for(lambda: job.get_job_status().result() is JobStatus.CANCELED)


# -- the page


@pytest.fixture
def page_server(job: JobClient, tmp_path: Path) -> Iterator[str]:
    """Flink's page, from its archive, next to our paths."""
    import uvicorn

    assert FLINK is not None
    assert presence.door is not None
    (archive,) = FLINK.glob("lib/flink-dist-*.jar")
    with zipfile.ZipFile(archive) as files:
        files.extractall(tmp_path, [name for name in files.namelist() if name.startswith("web/")])
    ours = make_app(DriverJobs(presence.door), Rules.of(None, "127.0.0.1"), static=tmp_path / "web")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        """Ours, but what pages may do is what Flink's needs."""

        async def pass_on(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [header for header in message["headers"] if header[0] != b"content-security-policy"]
                message = {**message, "headers": kept}
            await send(message)

        await ours(scope, receive, pass_on)

    config = uvicorn.Config(app, port=0, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    socket.close()


@pytest.mark.skipif(not os.path.exists(CHROMIUM), reason=f"no {CHROMIUM}")
@pytest.mark.filterwarnings("ignore")
def test_flink_s_page_shows_the_job_without_an_error(driver: Driver, job: JobClient, page_server: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    id = str(job.get_job_id())
    path = f"/jobs/{id}"
    wait_for(lambda: driver.get(f"{path}/checkpoints")["counts"]["completed"] > 1)
    problems: list[str] = []
    with playwright.sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("response", lambda got: problems.append(f"{got.status} {got.url}") if got.status >= 400 else None)
        page.goto(f"{page_server}/#/overview")
        page.get_by_text("counted").first.wait_for()

        page.goto(f"{page_server}/#/job/running/{id}/overview")
        page.get_by_text("Parallelism: 1").nth(2).wait_for()
        assert page.get_by_text("Source: Sequence Source").count() > 1  # in the graph and in the table
        page.goto(f"{page_server}/#/job/running/{id}/exceptions")
        page.get_by_text("Root Exception").wait_for()

        page.goto(f"{page_server}/#/job/running/{id}/checkpoints")
        for tab, shown in (("History", "COMPLETED"), ("Summary", "Average"), ("Configuration", "Exactly Once")):
            page.get_by_role("tab", name=tab).last.click()
            page.get_by_text(shown).first.wait_for()
            if tab == "History":
                page.locator(".ant-table-row-expand-icon:visible").nth(1).click()
                page.get_by_text("Checkpoint Detail:").last.wait_for()
        time.sleep(1)  # whatever the page still asks for
        browser.close()
    assert problems == []
