"""Drivers that are asked to end, paused, and fenced: the job is never theirs and another's at a time."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.recovery.drivers import Driver, newest_checkpoint, newest_path
from tests.recovery.jobs import LOCAL, STEP, differences, leftovers, visible

PACE = 0.01
SLOW = 0.04  # its job lasts longer than another driver takes to start

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_a_driver_that_is_asked_to_end_and_drivers_that_lose_their_job(tmp_path: Path, drivers: list[Driver]) -> None:
    records = 20 * STEP

    def start(pace: float = PACE, **more: Any) -> Driver:
        driver = Driver(tmp_path, records, pace, **more)
        drivers.append(driver)
        return driver

    # SIGTERM: a last checkpoint, its output visible, and a good exit.
    asked = start(options=LOCAL)
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

    # SIGSTOP: it has the job and hears nothing, when another takes it by naming a checkpoint.
    paused = start(options={"execution.state-recovery.path": path[1]})
    paused.wait_for_checkpoint()
    paused.signal(signal.SIGSTOP)
    lively = start(SLOW, resume=newest_path(tmp_path), options=LOCAL)
    lively.wait_for_checkpoint()
    paused.signal(signal.SIGCONT)
    assert paused.end() == 1, paused
    assert_fenced(paused, 2, 3)

    # Nothing at all: it runs on, when another takes its job by naming the folder.
    last = start(resume=str(Path(newest_path(tmp_path)).parent), options=LOCAL)
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
