"""Every page, light and dark, on a laptop and on a phone: nothing fails, nothing is written to the console, nothing
sticks out to the side. What there is to see ranges from nothing at all to 200 operators and 1,000 checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from beadline.web.app import STATIC
from tests.web.dashboard import records
from tests.web.dashboard.conftest import SIZES, TOKEN, Served, Tab

pytestmark = pytest.mark.slow

PAGES = {
    "overview": ".op",
    "checkpoints": ".tiles.counts",
    "timeline": ".card",
    "exceptions": ".exception, .empty",
    "state": ".empty",
    "configuration": ".facts",
}


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    now = int(time.time() * 1000)
    return serve(records.huge(now), records.click_count(now), records.young(now), records.ended(now))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_all_pages(served: Served, open_tab: Callable[..., Tab], size: str, theme: str) -> None:
    tab = open_tab(size, theme)
    page = tab.open(f"{served.url}#token={TOKEN}")
    page.wait_for_selector(".job-card")
    assert tab.too_wide == 0
    for record in served.jobs.records:
        for name, seen in PAGES.items():
            if name == "state" and not record.has_ended:
                continue  # records have no state; the page of a real job is tested with one
            page.goto(f"{served.url}#/jobs/{record.job_id}/{name}")
            page.wait_for_selector(f".tab[aria-current=page][data-tab={name}]")
            page.wait_for_selector(f".page {seen}")
            assert tab.too_wide == 0, f"{name} of {record.name} on a {size}"
    assert tab.problems == []


def test_headline_numbers_and_graph(served: Served, open_tab: Callable[..., Tab]) -> None:
    """The overview says what the record says."""
    record = served.jobs.records[1]
    page = open_tab().open(f"{served.url}#/jobs/{record.job_id}")
    page.wait_for_selector(".op")
    assert page.inner_text("h1") == "Click count"
    assert page.inner_text(".badge >> nth=0") == "running"
    assert page.locator(".op").count() == len(record.vertices)
    tiles = page.inner_text(".tiles")
    for text in ("15.5k", "118,234,567", "#60", "3 steps run again"):
        assert text in tiles
    assert page.locator(".edge").count() == sum(len(vertex.inputs) for vertex in record.vertices)
    labels = {text for text in page.locator(".edge-label").all_text_contents() if text}
    assert labels == {"hash", "broadcast", "rebalance"}
    page.click(".op >> text=Top ten >> nth=0")
    panel = page.locator(".op-panel")
    assert "Top ten" in panel.inner_text()
    assert panel.locator("tbody tr").count() == 2


def test_a_checkpoint_opens_down_to_its_subtasks(served: Served, open_tab: Callable[..., Tab]) -> None:
    record = served.jobs.records[0]
    tab = open_tab()
    page = tab.open(f"{served.url}#/jobs/{record.job_id}/checkpoints")
    page.wait_for_selector("[data-checkpoint]")
    assert page.locator("[data-checkpoint]").count() == 25, "a page of the table, not 1,000 rows"
    page.click("[data-checkpoint='1000']")
    page.wait_for_selector(".detail [data-operator]")
    assert f"chk-{1000}" in page.inner_text(".detail")
    page.click(".detail [data-operator] >> nth=0")
    page.wait_for_selector(".detail .detail tbody tr")
    page.click(".segment >> text=Failed")
    assert set(page.locator("tbody .badge").all_inner_texts()) == {"failed"}
    assert tab.problems == []


def test_the_users_line_is_on_top_of_an_exception(served: Served, open_tab: Callable[..., Tab]) -> None:
    page = open_tab().open(f"{served.url}#/jobs/{served.jobs.records[1].job_id}/exceptions")
    page.wait_for_selector(".exception")
    assert page.inner_text(".exception h3").startswith("ValueError: could not convert string to float")
    assert "click_count.py:41 in parse" in page.inner_text(".users-line")
    assert "price = float(fields[3])" in page.inner_text(".users-line")
    assert "went on from checkpoint 50" in page.inner_text(".exception-facts")


def test_the_timeline_zooms_by_wheel_keys_and_brush(served: Served, open_tab: Callable[..., Tab]) -> None:
    page = open_tab().open(f"{served.url}#/jobs/{served.jobs.records[1].job_id}/timeline")
    page.wait_for_selector(".event")
    note = page.locator(".card-note >> nth=0")
    whole = _changed(note, "")
    page.hover(".lanes")
    page.mouse.wheel(0, -400)
    zoomed = _changed(note, whole)
    page.focus(".lanes")
    page.keyboard.press("ArrowLeft")
    moved = _changed(note, zoomed)
    page.keyboard.press("0")
    assert _changed(note, moved).startswith(whole[:8])
    box = page.locator(".brush").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 20)
    page.mouse.up()
    assert _changed(note, whole) not in (whole, zoomed)


def _changed(locator: Any, before: str) -> str:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        text: str = locator.inner_text()
        if text and text != before:
            return text
        time.sleep(0.02)
    raise AssertionError(f"it still says {before!r}")


def test_a_job_that_is_not_here(served: Served, open_tab: Callable[..., Tab]) -> None:
    page = open_tab().open(f"{served.url}#/jobs/{'0' * 32}/overview")
    page.wait_for_selector(".missing a")
    page.click(".missing a")
    page.wait_for_selector(".job-card")


def test_the_theme_stays_as_it_was_chosen(served: Served, open_tab: Callable[..., Tab]) -> None:
    page = open_tab(theme="light").open(served.url)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")  # from the system's choice to light
    page.click("#theme")  # to dark
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_no_markup_comes_out_of_names(serve: Callable[..., Served], open_tab: Callable[..., Tab]) -> None:
    """A job, an operator and an exception may be called anything."""
    record = records.click_count(int(time.time() * 1000))
    evil = "<img src=x onerror=\"document.title='owned'\">"
    record.name = record.vertices[0].name = evil
    record.failures[0].traceback = record.failures[0].error = f"ValueError: {evil}"
    server = serve(record)
    tab = open_tab()
    for name in ("overview", "exceptions", "configuration"):
        page = tab.open(f"{server.url}#/jobs/{record.job_id}/{name}")
        page.wait_for_selector(f".page {PAGES[name]}")
        assert page.locator("img").count() == 0
        assert page.inner_text("h1") == evil
    assert tab.problems == []


def test_modules_are_loaded_in_one_go() -> None:
    """Each module is named in the page, so that the browser need not find them one after the other."""
    page = (STATIC / "index.html").read_text()
    modules = {str(path.relative_to(STATIC)) for path in STATIC.rglob("*.js")}
    assert {name for name in modules if f'"{name}"' not in page} == set()
    assert "http" not in page, "everything comes from the driver itself"


def test_options_are_shown_to_who_has_the_token(served: Served, open_tab: Callable[..., Tab]) -> None:
    """Without it the page says what is missing; once it is given, the options come by themselves."""
    job = next(record for record in served.jobs.records if record.settings is None or record.settings.known)
    page = open_tab().open(f"{served.url}#/jobs/{job.job_id}/configuration")
    page.wait_for_selector("text=This needs the job's token")
    page.click("#token")
    page.fill("dialog input", TOKEN)
    page.click("dialog button >> text=Use token")
    page.wait_for_selector("text=All is as Beadline has it by default.")
    assert page.locator("text=This needs the job's token").count() == 0
