"""Drivers that end for a reason outside their program: Spark is lost, or they are told to end. Whatever the retention,
nothing that is needed to resume the job goes, and a few lines say how."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recovery.drivers import Driver, newest_checkpoint
from tests.recovery.ending import RETENTION, RETENTIONS
from tests.recovery.jobs import LOCAL, STEP, differences, leftovers, visible

PACE = 0.01
RECORDS = 60 * STEP
# The last driver needs no small steps: it is not ended any more.
LARGE_STEPS = {"beadline.step.first-records": "1000", "beadline.step.max-records": "5000"}

# PySpark's daemon says this of workers that Spark ends, also in jobs to which nothing happens.
WORKERS_END = r"Traceback \(most recent call last\):\n(?:  File \S+daemon\.py.*\n)+BrokenPipeError.*\n"

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

Start = Callable[..., Driver]


@pytest.fixture
def start(tmp_path: Path, drivers: list[Driver]) -> Start:
    """Starts a driver that goes on where the last one ended."""

    def start(
        way: str, retention: str = RETENTIONS[0], *, pace: float = PACE, records: int = RECORDS, **more: Any
    ) -> Driver:
        resume = "latest" if newest_checkpoint(tmp_path) else None
        options = {RETENTION: retention, **more}
        drivers.append(Driver(tmp_path, records, pace, resume, options, way=way))
        return drivers[-1]

    return start


def test_drivers_that_lose_spark(tmp_path: Path, start: Start) -> None:
    """Each goes on from what the one before it kept."""
    kept = r"Its checkpoints are kept\. To go on, run the same program with -s (\S+)"
    for way, retention in zip(("execute", "publishing", "idle"), RETENTIONS, strict=True):
        records = RECORDS if way != "idle" else len(visible(tmp_path)) + 10 * STEP
        driver = start(way, retention, records=records)
        if way == "idle":
            driver.wait_until(lambda: len(visible(tmp_path)) == records, "all of its input")  # noqa: B023
            time.sleep(1)
        if way != "publishing":  # else it does that itself
            driver.wait_for_checkpoint()
            os.kill(int((tmp_path / "jvm").read_text()), signal.SIGKILL)
            lost_at = time.monotonic()
            assert driver.end() == 1, driver
            assert time.monotonic() - lost_at < 20, driver
        assert driver.end() == 1, driver
        what = r"the JVM \(process \d+\) is gone: killed by signal 9\."
        assert re.search(f"error: job 'recovery' has lost Spark: {what}\n", driver.said), driver
        assert_resumable(driver, tmp_path, kept)

    driver = start("stop spark")
    assert driver.end() == 1, driver
    what = r"the SparkContext was stopped, perhaps by the program itself with spark\.stop\(\)\."
    told = re.findall(rf"(\w+): \['chk-(\d+)'\]: job 'recovery' has lost Spark: {what}\n{kept}", driver.said)
    assert [retention for retention, *_ in told] == RETENTIONS, driver
    assert all(path.endswith(f"/chk-{number}") for _, number, path in told)
    last_words = driver.said[driver.said.rindex("restored from") :]
    assert_resumable(driver, tmp_path, kept, last_words)
    assert_goes_on(tmp_path, start)


def test_drivers_that_are_told_to_end(tmp_path: Path, start: Start) -> None:
    """Each takes a last checkpoint, which the next one goes on from; default retention would delete all."""
    resume = r"job 'recovery' was stopped; resume it with -s (\S+)"
    for way, which, code, engine in [
        ("execute", signal.SIGTERM, 0, {}),
        ("execute", signal.SIGINT, 0, LOCAL),
        ("async", signal.SIGTERM, 0, LOCAL),
        ("async", signal.SIGINT, 130, {}),  # the program ends with KeyboardInterrupt, while its job still runs
    ]:
        driver = start(way, **engine)
        driver.wait_for_checkpoint()
        before = newest_checkpoint(tmp_path)
        driver.signal(which)
        assert driver.end() == code, driver
        assert newest_checkpoint(tmp_path) > before
        assert_resumable(driver, tmp_path, resume)

    # Told twice, it stops without one: the running step would take long.
    driver = start("execute", pace=0.2, **LOCAL)
    driver.wait_until(lambda: "exactly-once" in driver.said, "its start")
    time.sleep(1)
    before = newest_checkpoint(tmp_path)
    driver.signal(signal.SIGTERM)
    driver.wait_for("send SIGTERM again")
    driver.signal(signal.SIGTERM)
    assert driver.end() == 143, driver
    assert newest_checkpoint(tmp_path) == before
    assert_resumable(driver, tmp_path, resume)
    assert_goes_on(tmp_path, start)


def assert_resumable(driver: Driver, folder: Path, how: str, said: str = "") -> None:
    """The checkpoints are there, the newest is named, the driver has left in good order, and said so in a few lines."""
    said = said or driver.said.partition("exactly-once")[2]  # before that it tells what it goes on from
    said = re.sub(WORKERS_END, "", said)
    assert len(said.splitlines()) <= 10, driver
    assert not re.search("Traceback|py4j|Exception ignored", said), driver
    named = re.search(how, said)
    assert named is not None, driver
    path = Path(named[1])
    assert path.name == f"chk-{newest_checkpoint(folder)}", "it is the newest that is named"
    assert "(or -s latest)" in driver.said
    leases = sorted(path.parent.glob("lease-*"), key=lambda lease: int(lease.name[6:]))
    assert json.loads(leases[-1].read_text())["ended"] is True
    assert differences(visible(folder), RECORDS, whole=False) == []


def assert_goes_on(folder: Path, start: Start) -> None:
    seen = len(visible(folder))
    assert 0 < seen < RECORDS
    last = start("execute", pace=0, **LARGE_STEPS, **LOCAL)
    assert last.end() == 0, last
    assert differences(visible(folder), RECORDS) == []
    assert leftovers(folder) == []
    assert list(folder.glob("checkpoints/*/chk-*")) == [], "a job that has finished needs none"
