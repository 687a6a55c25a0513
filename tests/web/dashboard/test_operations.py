"""Savepoint, stop and resume, driven from the page against a real job on the local engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.web.dashboard.conftest import ClickCount, Tab

pytestmark = pytest.mark.slow


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


def step_of(page: Any) -> int:
    return int(page.inner_text(".tile-note >> nth=0").removeprefix("step ").replace(",", ""))


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

    # The timeline lists what it shows, also while a step comes every moment.
    page.click(".tab[data-tab=timeline]")
    page.wait_for_selector(".event >> text=/step [0-9]+: /")
    assert tab.problems == []

    page.click(".tab[data-tab=overview]")
    page.wait_for_selector(".op")
    before = step_of(page)

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
    restored.locator("dt >> text=When").wait_for()
    page.click(".tab[data-tab=overview]")
    page.wait_for_selector("text=/step [0-9]/ >> nth=0")
    assert step_of(page) > before, "it goes on where it stopped"

    # And cancel.
    page.click("[data-action=cancel]")
    assert "without a savepoint" in page.inner_text("dialog")
    page.click("dialog >> text=Cancel job")
    page.wait_for_selector("dialog >> text=told to cancel")
    job.wait(60)


def test_the_state_of_a_running_job(click_count_job: ClickCount, open_tab: Callable[..., Tab]) -> None:
    """Sizes, the largest keys, and what one of them holds."""
    click_count_job.start()
    tab = open_tab()
    page = open_job(click_count_job, tab)
    page.click(".tab[data-tab=state]")
    page.click(".state-operator >> text=totals")
    page.wait_for_selector(".state-title >> text=totals")
    assert "total" in page.inner_text(".state-layout table")
    page.click("text=Find the largest keys")
    page.click("tbody >> text=/shop")
    page.wait_for_selector(".key-state")
    assert "clicks" in page.inner_text(".key-state >> nth=0") or "total" in page.inner_text(".key-state >> nth=0")
    page.fill("input[name=key]", "no such page")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=This key has no state")
    assert tab.problems == []


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
