"""Drivers that are killed, stopped and paused: whoever resumes the job goes on as if nothing had happened."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recovery.drivers import Driver, newest_checkpoint
from tests.recovery.dying import POINTS
from tests.recovery.jobs import STEP, differences, visible

NIGHTLY = bool(os.environ.get("BEADLINE_NIGHTLY"))
KILLS = 30 if NIGHTLY else 5
PACE = 0.01
SLOW = 0.15  # its job lasts longer than another driver takes to start

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(6000 if NIGHTLY else 1200)]


@pytest.fixture
def drivers() -> Iterator[list[Driver]]:
    """Whatever is left of these when a test ends is killed."""
    started: list[Driver] = []
    yield started
    for driver in started:
        if not driver.has_ended:
            driver.kill()


def some_options(moments: random.Random) -> dict[str, str]:
    """A driver need not be set up as the one before it."""
    return {
        "execution.checkpointing.unaligned.enabled": moments.choice(["true", "false"]),
        "execution.checkpointing.snapshot-compression": moments.choice(["true", "false"]),
        "execution.checkpointing.data-inline-threshold": moments.choice(["0", "20 kb"]),
        "execution.checkpointing.num-retained": moments.choice(["1", "3"]),
    }


def leftovers(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name.startswith(".staging"))


def test_a_driver_killed_at_random_moments(tmp_path: Path, drivers: list[Driver]) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    records = 6 * KILLS * STEP
    seen = 0
    for kill in range(1, KILLS + 1):
        resume = "latest" if newest_checkpoint(tmp_path) else None
        driver = Driver(tmp_path, records, PACE, resume, some_options(moments))
        drivers.append(driver)
        if kill % 3 == 2:
            # While it restores, or soon after: what it goes back to is published again.
            driver.wait_for("exactly-once")
        else:
            driver.wait_for_checkpoint()
        time.sleep(moments.uniform(0, 1.0))
        driver.kill()
        lines = visible(tmp_path)
        assert differences(lines, records, whole=False) == [], f"after kill {kill}, seed {seed}"
        assert len(lines) >= seen, f"lines have gone after kill {kill}, seed {seed}"
        seen = len(lines)
    last = Driver(tmp_path, records, PACE, "latest")
    drivers.append(last)
    assert last.end() == 0, last
    assert "restored from" in last.said
    assert 0 < seen < records, "the kills came in the middle"
    assert differences(visible(tmp_path), records) == [], f"seed {seed}"
    assert leftovers(tmp_path) == []


@pytest.mark.skipif(not NIGHTLY, reason="takes a minute and more; set BEADLINE_NIGHTLY")
def test_a_driver_killed_at_each_point_of_the_commit_protocol(tmp_path: Path, drivers: list[Driver]) -> None:
    records = 25 * STEP
    for point in POINTS:
        driver = Driver(tmp_path, records, 0.0, "latest" if newest_checkpoint(tmp_path) else None, dies=point)
        drivers.append(driver)
        assert driver.end() == -signal.SIGKILL, f"{point}: {driver!r}"
        assert differences(visible(tmp_path), records, whole=False) == [], point
    last = Driver(tmp_path, records, 0.0, "latest")
    drivers.append(last)
    assert last.end() == 0, last
    assert differences(visible(tmp_path), records) == []
    assert leftovers(tmp_path) == []


def test_a_driver_that_is_asked_to_end_and_drivers_that_lose_their_job(tmp_path: Path, drivers: list[Driver]) -> None:
    records = 20 * STEP

    def start(pace: float = PACE, **more: Any) -> Driver:
        driver = Driver(tmp_path, records, pace, **more)
        drivers.append(driver)
        return driver

    # SIGTERM: a last checkpoint, its output visible, and a good exit.
    asked = start()
    asked.wait_for_checkpoint()
    before = newest_checkpoint(tmp_path)
    asked.signal(signal.SIGTERM)
    assert asked.end() == 0, asked
    assert newest_checkpoint(tmp_path) > before
    path = re.search(r"resume it with -s (\S+)", asked.said)
    assert path is not None, asked
    assert differences(visible(tmp_path), records, whole=False) == []
    shown = len(visible(tmp_path))
    assert 0 < shown < records

    # SIGSTOP: it has the job and hears nothing, when another resumes it.
    paused = start(options={"execution.state-recovery.path": path[1]})
    paused.wait_for_checkpoint()
    paused.signal(signal.SIGSTOP)
    lively = start(SLOW, resume="latest")
    lively.wait_for_checkpoint()
    paused.signal(signal.SIGCONT)
    assert paused.end() == 1, paused
    assert_fenced(paused, 2, 3)

    # Nothing at all: it runs on, when another resumes its job.
    last = start(0.0, resume="latest")
    assert lively.end() == 1, lively
    assert_fenced(lively, 3, 4)

    assert last.end() == 0, last
    assert differences(visible(tmp_path), records) == []
    assert leftovers(tmp_path) == []


def assert_fenced(driver: Driver, epoch: int, by: int) -> None:
    assert re.search(rf"this driver had epoch {epoch} of the job in \S+, and epoch {by} is held by", driver.said), (
        driver
    )
    assert "publishes nothing more" in driver.said
