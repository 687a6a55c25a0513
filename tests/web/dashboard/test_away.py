"""The page says plainly when the driver is away, keeps what it knew, and comes back by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.web.dashboard import records
from tests.web.dashboard.conftest import Served, Tab

pytestmark = pytest.mark.slow


def test_the_driver_goes_and_comes_back(serve: Callable[..., Served], open_tab: Callable[..., Tab]) -> None:
    record = records.click_count(int(time.time() * 1000))
    server = serve(record)
    page = open_tab().open(f"{server.url}#/jobs/{record.job_id}/overview")
    page.wait_for_selector(".op")
    assert page.inner_text("#connection") == "live"

    server.stop()
    page.wait_for_selector("#away:not([hidden])")
    assert "has not answered since" in page.inner_text("#away")
    assert "Trying again" in page.inner_text("#away")
    assert page.inner_text("#connection") == "driver away"
    assert page.locator(".op").count() == 10, "what was known stays"

    record.records = 222_333_444
    server.start()
    page.wait_for_selector("#away", state="hidden")
    page.wait_for_selector("text=222,333,444")
    assert page.inner_text("#connection") == "live"


def test_nothing_is_asked_while_nobody_looks(serve: Callable[..., Served], open_tab: Callable[..., Tab]) -> None:
    record = records.click_count(int(time.time() * 1000))
    page = open_tab().open(f"{serve(record).url}#/jobs/{record.job_id}/overview")
    page.wait_for_selector(".op")
    hide = """hidden => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    page.wait_for_timeout(300)  # what was on its way arrives
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(3000)
    assert asked == []
    page.evaluate(hide, False)
    page.wait_for_timeout(1000)
    assert any(url.endswith("/beadline") for url in asked)
    assert any(url.endswith("/beadline/events") for url in asked)


def test_an_ended_job_whose_driver_is_gone(serve: Callable[..., Served], open_tab: Callable[..., Tab]) -> None:
    record = records.click_count(int(time.time() * 1000))
    server = serve(record)
    page = open_tab().open(f"{server.url}#/jobs/{record.job_id}/overview")
    page.wait_for_selector(".op")
    record.state, record.ended_at = "FINISHED", record.now
    page.wait_for_selector(".job-head .badge >> text=finished")
    assert page.locator(".job-actions").is_hidden()
    server.stop()
    page.wait_for_selector("#away:not([hidden])")
    assert "The job has ended (finished) and its driver is gone" in page.inner_text("#away")
    assert "beadline history" in page.inner_text("#away")
