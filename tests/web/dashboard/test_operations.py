"""Savepoint, stop and resume, driven from the page against a real job on the local engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.web.dashboard.conftest import ClickCount, Tab


def open_job(job: ClickCount, tab: Tab) -> Any:
    job.wait_for_port()
    page = tab.open(job.url)
    page.click(".job-card")
    page.wait_for_selector(".op")
    page.wait_for_selector("text=/step [0-9]/ >> nth=0")
    return page


def path_in_dialog(page: Any) -> Path:
    page.wait_for_selector("[data-name=savepoint-path]", timeout=60_000)
    return Path(page.inner_text("[data-name=savepoint-path]").removeprefix("file:"))


def test_savepoint_stop_resume(click_count_job: ClickCount, open_tab: Callable[..., Tab]) -> None:
    job = click_count_job
    job.start()
    tab = open_tab()
    page = open_job(job, tab)

    # A savepoint, while the job runs on.
    page.click("[data-action=savepoint]")
    assert "The job keeps running" in page.inner_text("dialog")
    page.click("dialog >> text=Take savepoint >> nth=-1")
    first = path_in_dialog(page)
    assert (first / "_metadata").exists()
    page.click("dialog >> text=Done")
    page.click(".tab[data-tab=checkpoints]")
    page.wait_for_selector("tbody >> text=savepoint")

    assert tab.problems == []

    # Stop: it asks first, and nothing happens to who says no.
    page.click("[data-action=stop]")
    page.click("dialog >> text=Keep running")
    assert page.inner_text(".job-head .badge") == "running"
    page.click("[data-action=stop]")
    page.click("dialog >> text=Stop with savepoint")
    second = path_in_dialog(page)
    assert (second / "_metadata").exists()
    assert second != first
    command = page.inner_text("[data-name=resume-command]")
    assert command.startswith(f"beadline run -s {second}")
    assert job.wait(60) == 0, job.last_words()
    page.click("dialog >> text=Done")
    page.wait_for_selector("#away:not([hidden])")

    # Resume, with the path that the page gave. The page is at the same address, and comes back by itself.
    job.start("-s", str(second))
    page.wait_for_selector("#away", state="hidden", timeout=60_000)
    page.goto(f"http://127.0.0.1:{job.port}/#/")
    page.click(".job-card")
    page.click(".tab[data-tab=checkpoints]")
    restored = page.locator("section[aria-label='Latest restore']")
    restored.locator("text=savepoint >> nth=0").wait_for()
    assert second.name in restored.inner_text()

    # And cancel.
    page.click("[data-action=cancel]")
    assert "without a savepoint" in page.inner_text("dialog")
    page.click("dialog >> text=Cancel job")
    page.wait_for_selector("dialog >> text=told to cancel")
    job.wait(60)


def test_a_folder_that_can_not_be_written_is_told(
    click_count_job: ClickCount, open_tab: Callable[..., Tab], tmp_path: Path
) -> None:
    """The reason is on the page, and the job runs on."""
    click_count_job.start()
    page = open_job(click_count_job, open_tab())
    (tmp_path / "a file").write_text("no folder")
    page.click("[data-action=savepoint]")
    page.fill("dialog input[name=folder]", str(tmp_path / "a file"))
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .outcome.bad", timeout=60_000)
    assert "a file" in page.inner_text("dialog .outcome.bad")
    page.click("dialog >> text=Try again")
    page.wait_for_selector("dialog input[name=folder]")
    page.keyboard.press("Escape")
    assert page.inner_text(".job-head .badge") == "running"
