"""Jobs that have ended can still be looked at."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from beadline.master.client import registry
from beadline.web.history import Archive
from beadline.web.server import history_app
from tests.web.drivers import Driver
from tests.web.records import record

pytestmark = pytest.mark.usefixtures("local_engine")


def archive(folder: Path, retained: int = 50) -> Archive:
    return Archive(folder / "history", retained)


def ask(app: Any, method: str, path: str) -> httpx.Response:
    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8082") as client:
            return await client.request(method, path)

    return asyncio.run(call())


def named(id: str) -> Any:
    return dataclasses.replace(record(), job_id=id, name=f"job {id}")


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    kept = archive(tmp_path)
    kept.keep(record())
    assert archive(tmp_path).get(record().job_id) == record()
    folder = tmp_path / "history"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())]
    assert modes == [0o700, 0o600]


def test_only_the_newest_jobs_stay(tmp_path: Path) -> None:
    kept = archive(tmp_path, retained=3)
    for number in range(5):
        kept.keep(named(f"job-{number}"))
        os.utime(tmp_path / "history" / f"job-{number}.json", (number, number))
    assert kept.ids() == ["job-2", "job-3", "job-4"]


def test_none_are_kept_if_none_are_wanted(tmp_path: Path) -> None:
    archive(tmp_path, retained=0).keep(record())
    assert not (tmp_path / "history").exists()


def test_what_is_no_record_disturbs_nobody(tmp_path: Path) -> None:
    kept = archive(tmp_path)
    kept.keep(named("good"))
    (tmp_path / "history" / "broken.json").write_text("{")
    (tmp_path / "history" / "list.json").write_text("[]")
    assert (kept.get("broken"), kept.get("list"), kept.get("../history/good")) == (None, None, None)
    assert [job["name"] for job in ask(history_app(kept), "GET", "/jobs/overview").json()["jobs"]] == ["job good"]


def test_the_server_of_the_history_answers_as_a_driver_does_and_changes_nothing(tmp_path: Path) -> None:
    kept = archive(tmp_path)
    kept.keep(named("0" * 32))
    app = history_app(kept)
    assert ask(app, "GET", "/config").json()["features"]["web-history"] is True
    assert ask(app, "GET", f"/v1/jobs/{'0' * 32}").json()["name"] == f"job {'0' * 32}"
    assert ask(app, "GET", f"/jobs/{'0' * 32}/checkpoints").status_code == 200
    assert ask(app, "PATCH", f"/jobs/{'0' * 32}").status_code == 405
    assert ask(app, "POST", f"/jobs/{'0' * 32}/stop").status_code in (404, 405)


def test_it_names_the_jobs_that_run_without_their_tokens(tmp_path: Path, driver: Driver) -> None:
    driver.start("still here")
    try:
        (running,) = (job for job in ask(history_app(archive(tmp_path)), "GET", "/beadline/running").json()["jobs"])
        entry = registry.find("still here")
        assert (running["name"], running["url"], running["job_id"]) == ("still here", entry.url, entry.job_id)
        assert "token" not in running
    finally:
        driver.end()


def test_a_driver_answers_for_jobs_that_have_ended_in_it(driver: Driver, tmp_path: Path) -> None:
    job = driver.start("first", **{"beadline.history.dir": str(tmp_path)})
    id = str(job.get_job_id())
    job.cancel().result()
    assert [path.stem for path in tmp_path.iterdir()] == [id]
    driver.start("second", **{"beadline.history.dir": str(tmp_path)})
    jobs = {job["name"]: job["state"] for job in driver.get("/jobs/overview")["jobs"]}
    assert jobs == {"first": "CANCELED", "second": "RUNNING"}
    assert driver.get(f"/jobs/{id}")["state"] == "CANCELED"
    refused = driver.ask("POST", f"/jobs/{id}/savepoints", token="a-token-for-tests-only", json={})
    assert (refused.status_code, refused.json()) == (409, {"errors": [f"Job {id} has ended: CANCELED"]})
