"""Everything can be reached and done with the keyboard, and one sees where one is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.web.dashboard import records
from tests.web.dashboard.conftest import TOKEN, Served, Tab

pytestmark = pytest.mark.slow


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    now = int(time.time() * 1000)
    return serve(records.click_count(now))


def walk_to(page: Any, selector: str, most: int = 60) -> None:
    """Press Tab until an element that matches has the focus; each stop on the way must be visible."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        width = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
        assert width != "0px", page.evaluate("document.activeElement.outerHTML")
    raise AssertionError(f"Tab does not lead to {selector}")


def test_a_walk_from_the_jobs_to_a_savepoint_dialog(served: Served, open_tab: Callable[..., Tab]) -> None:
    tab = open_tab()
    page = tab.open(f"{served.url}#token={TOKEN}")
    page.wait_for_selector(".job-card")
    walk_to(page, ".job-card")
    page.keyboard.press("Enter")
    page.wait_for_selector(".op")
    walk_to(page, "[data-action=savepoint]")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("document.activeElement.name") == "folder", "the first field has the focus"
    for _ in range(8):  # Tab stays inside the dialog, or goes to the browser's own controls
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('dialog') || document.activeElement === document.body")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert page.evaluate("document.activeElement.dataset.action") == "savepoint", "the focus is back where it was"
    assert tab.problems == []


def test_the_graph_by_arrow_keys(served: Served, open_tab: Callable[..., Tab]) -> None:
    page = open_tab().open(f"{served.url}#/jobs/{served.jobs.records[0].job_id}/overview")
    page.wait_for_selector(".op")
    walk_to(page, ".op")
    name = "document.activeElement.querySelector('.op-name').textContent"
    assert page.evaluate(name) == "Clicks from Kafka"
    page.keyboard.press("ArrowDown")
    assert page.evaluate(name) == "Parse"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(name) in ("Count per page, 15 s windows", "Format")
    page.keyboard.press("Enter")
    page.wait_for_selector(".op-panel:not([hidden])")
    transform = "document.querySelector('.graph-content').style.transform"
    before = page.evaluate(transform)
    page.keyboard.press("+")
    assert page.evaluate(transform) != before
    page.keyboard.press("Escape")
    page.wait_for_selector(".op-panel", state="hidden")


def test_tabs_plots_and_rows_by_keys(served: Served, open_tab: Callable[..., Tab]) -> None:
    page = open_tab().open(f"{served.url}#/jobs/{served.jobs.records[0].job_id}/overview")
    page.wait_for_selector(".op")
    walk_to(page, ".tab[data-tab=checkpoints]")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-checkpoint]")
    walk_to(page, ".plot-drawing")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".plot-value >> nth=0").startswith("#59")
    page.keyboard.press("Enter")  # opens that checkpoint in the history
    page.wait_for_selector(".detail [data-operator]")
    assert page.evaluate("document.activeElement.dataset.checkpoint") == "59"
    page.keyboard.press("Enter")
    page.wait_for_selector(".detail-row", state="detached")


def test_without_a_token_buttons_say_how_to_get_one(served: Served, open_tab: Callable[..., Tab]) -> None:
    page = open_tab().open(f"{served.url}#/jobs/{served.jobs.records[0].job_id}/overview")
    page.wait_for_selector(".op")
    stop = page.locator("[data-action=stop]")
    assert stop.get_attribute("aria-disabled") == "true"
    assert "beadline list" in page.inner_text("#why-not")
    stop.click(force=True)
    assert page.locator("dialog").count() == 0
    page.click("#token")
    page.fill("dialog input", f"http://127.0.0.1:1/#token={TOKEN}")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog", state="detached")
    assert stop.get_attribute("aria-disabled") == "false"
    assert TOKEN not in page.url


def test_what_screen_readers_hear(served: Served, open_tab: Callable[..., Tab]) -> None:
    """Every button, link and field has a name."""
    page = open_tab().open(f"{served.url}#/jobs/{served.jobs.records[0].job_id}/overview")
    for name in ("overview", "checkpoints", "timeline", "exceptions", "configuration"):
        page.goto(f"{served.url}#/jobs/{served.jobs.records[0].job_id}/{name}")
        page.wait_for_selector(f".tab[aria-current=page][data-tab={name}]")
        page.wait_for_selector(".page .card")
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, a, input, select, [role=img], [tabindex='0']")]
                .filter((one) => one.checkVisibility())
                .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.title || one.labels?.length))
                .map((one) => one.outerHTML)"""
        )
        assert nameless == []


def test_reduced_motion_is_honoured(served: Served, open_tab: Callable[..., Tab]) -> None:
    page = open_tab(reduced_motion="reduce").open(f"{served.url}#/jobs/{served.jobs.records[0].job_id}/overview")
    page.wait_for_selector(".op")
    moving = page.evaluate("document.getAnimations().length")
    assert moving == 0
