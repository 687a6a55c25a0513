"""A driver behind nginx: whoever comes through it is not this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.web.drivers import TOKEN, Driver, wait_for

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

CONFIGURATION = """
daemon off;
pid {folder}/pid;
error_log {folder}/errors;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{driver};
      {more}
    }}
  }}
}}
"""
# As docs/operations.md has it.
RECOMMENDED = """
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_buffering off;
"""
SILENT = "proxy_http_version 1.1;"


@pytest.fixture
def driver(local_engine: None) -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


@contextmanager
def nginx(folder: Path, driver: Driver, more: str = "") -> Iterator[httpx.Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = folder / "nginx.conf"
    settings.write_text(CONFIGURATION.format(folder=folder, port=port, driver=driver.port, more=more))
    process = subprocess.Popen([str(NGINX), "-p", str(folder), "-e", str(folder / "errors"), "-c", str(settings)])

    def listens() -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(listens)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield client
    finally:
        process.terminate()
        process.wait(30)


SHOWN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("more", ["", RECOMMENDED], ids=["as nginx is", "as documented"])
def test_who_comes_through_nginx_needs_the_token(driver: Driver, tmp_path: Path, more: str) -> None:
    job = driver.start("proxied").get_job_id()
    with nginx(tmp_path, driver, more) as client:
        assert client.get("/").status_code == 200
        assert client.get("/jobs/overview").status_code == 401
        assert client.patch(f"/jobs/{job}?mode=cancel").status_code == 401
        assert client.get("/jobs/overview", headers=SHOWN).status_code == 200
        assert client.get(f"/jobs/{job}/beadline/state", headers=SHOWN).status_code == 200
        assert client.patch(f"/jobs/{job}?mode=cancel", headers=SHOWN).status_code == 202


@pytest.mark.parametrize("more", ["", RECOMMENDED], ids=["as nginx is", "as documented"])
def test_a_job_without_a_token_can_not_be_used_through_nginx(driver: Driver, tmp_path: Path, more: str) -> None:
    job = driver.start("open", **{"beadline.rest.token": "none"}).get_job_id()
    with nginx(tmp_path, driver, more) as client:
        assert client.get("/jobs/overview").status_code == 403
        answer = client.patch(f"/jobs/{job}?mode=cancel")
        assert answer.status_code == 403
        assert "through a proxy" in answer.text
    assert driver.ask("GET", "/jobs/overview").status_code == 200


def test_a_proxy_that_hides_itself_gets_nothing_if_reading_needs_the_token(driver: Driver, tmp_path: Path) -> None:
    driver.start("closed", **{"beadline.rest.read-token": "true"})
    with nginx(tmp_path, driver, SILENT) as client:
        assert client.get("/").status_code == 200
        assert client.get("/jobs/overview").status_code == 401
        assert client.get("/metrics").status_code == 401
        assert client.get("/jobs/overview", headers=SHOWN).status_code == 200


def test_the_dashboard_s_own_calls_pass_by_the_name_that_the_proxy_has(driver: Driver, tmp_path: Path) -> None:
    job = driver.start("named", **{"rest.address": "jobs.example.org"}).get_job_id()
    with nginx(tmp_path, driver, RECOMMENDED) as client:
        page = {**SHOWN, "Host": "jobs.example.org", "Origin": "https://jobs.example.org"}
        assert client.get("/jobs/overview", headers=page).status_code == 200
        assert client.get("/jobs/overview", headers={**page, "Host": "evil.example.org"}).status_code == 403
        assert client.get("/jobs/overview", headers={**page, "Origin": "https://evil.example.org"}).status_code == 403
        assert client.patch(f"/jobs/{job}?mode=cancel", headers=page).status_code == 202
