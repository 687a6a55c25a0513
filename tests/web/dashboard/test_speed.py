"""A large job is quick to look at: 200 operators, 1,000 checkpoints, 2,000 steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.web.dashboard import records
from tests.web.dashboard.conftest import Served, Tab

pytestmark = pytest.mark.slow

# Generous, for a machine that has other things to do: alone, the first paint takes a quarter of a second. The measured
# times are in the test's report.
FIRST_PAINT_MS = 2500
DRAWN_MS = 10_000


@pytest.fixture
def huge(serve: Callable[..., Served]) -> Served:
    return serve(records.huge(int(time.time() * 1000)))


def paint(page: Any) -> float:
    milliseconds: float = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()"
    )
    return milliseconds


@pytest.mark.parametrize(
    ("name", "drawn"),
    [("overview", ".op >> nth=199"), ("checkpoints", "[data-checkpoint] >> nth=24"), ("timeline", ".event >> nth=5")],
)
def test_first_paint(
    huge: Served, open_tab: Callable[..., Tab], name: str, drawn: str, record_property: Callable[[str, Any], None]
) -> None:
    address = f"{huge.url}#/jobs/{huge.jobs.records[0].job_id}/{name}"
    # A cold page each time. The machine may be busy with something else, so the best of three counts.
    painted, complete = [], []
    for _ in range(3):
        page = open_tab().open(address)
        page.wait_for_selector(drawn)
        complete.append(page.evaluate("performance.now()"))
        painted.append(paint(page))
        if painted[-1] < FIRST_PAINT_MS and complete[-1] < DRAWN_MS:
            break
    print(f"{name}: first contentful paint {min(painted):.0f} ms, all drawn {min(complete):.0f} ms")
    record_property("first contentful paint, ms", min(painted))
    record_property("drawn, ms", min(complete))
    assert min(painted) < FIRST_PAINT_MS
    assert min(complete) < DRAWN_MS


def test_the_graph_moves_smoothly(huge: Served, open_tab: Callable[..., Tab]) -> None:
    """Panning and zooming change one transform: frames stay short however many operators there are."""
    page = open_tab().open(f"{huge.url}#/jobs/{huge.jobs.records[0].job_id}/overview")
    page.wait_for_selector(".op >> nth=199")
    before = page.eval_on_selector(".graph-content", "element => element.style.transform")
    page.evaluate(
        """() => {
            window.frames_ = [];
            let last = performance.now();
            const tick = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(tick); };
            requestAnimationFrame(tick);
        }"""
    )
    box = page.locator(".graph-frame").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 200)
    page.mouse.down()
    for step in range(30):
        page.mouse.move(box["x"] + 60 + 10 * step, box["y"] + 200 + step)
    page.mouse.up()
    page.keyboard.down("Control")
    for _ in range(10):
        page.mouse.wheel(0, -60)
    page.keyboard.up("Control")
    assert page.eval_on_selector(".graph-content", "element => element.style.transform") != before
    frames = sorted(page.evaluate("window.frames_"))
    middle = frames[len(frames) // 2]
    print(f"{len(frames)} frames, median {middle:.1f} ms, longest {frames[-1]:.1f} ms")
    assert middle < 100


def test_turning_pages_of_the_history_is_quick(huge: Served, open_tab: Callable[..., Tab]) -> None:
    page = open_tab().open(f"{huge.url}#/jobs/{huge.jobs.records[0].job_id}/checkpoints")
    page.wait_for_selector("[data-checkpoint] >> nth=24")
    took = page.evaluate(
        """() => {
            const next = [...document.querySelectorAll("[aria-label='Next page']")].at(0);
            const began = performance.now();
            for (let turn = 0; turn < 20; turn++) { next.click(); document.body.offsetHeight; }
            return (performance.now() - began) / 20;
        }"""
    )
    assert page.inner_text(".pager-where >> nth=0").startswith("501–525 of 1,000")
    print(f"{took:.1f} ms to turn a page")
    assert took < 100
