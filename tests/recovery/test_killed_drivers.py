"""Drivers that are killed, stopped and paused: whoever resumes the job goes on as if nothing had happened."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.nightly import NIGHTLY
from tests.recovery.consuming import of_folder
from tests.recovery.drivers import Driver, newest_checkpoint
from tests.recovery.dying import POINTS
from tests.recovery.jobs import LOCAL, RESIDENT, STEP, differences, leftovers, visible

KILLS = 30 if NIGHTLY else 3
PACE = 0.01

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(6000 if NIGHTLY else 1200)]


def some_options(moments: random.Random) -> dict[str, str]:
    """A driver need not be set up as the one before it."""
    return {
        "execution.checkpointing.unaligned.enabled": moments.choice(["true", "false"]),
        "execution.checkpointing.snapshot-compression": moments.choice(["true", "false"]),
        "execution.checkpointing.data-inline-threshold": moments.choice(["0", "20 kb"]),
        "execution.checkpointing.num-retained": moments.choice(["1", "3"]),
    }


def test_a_driver_killed_at_random_moments(tmp_path: Path, drivers: list[Driver]) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    records = 6 * KILLS * STEP
    seen = 0
    for kill in range(1, KILLS + 1):
        resume = "latest" if newest_checkpoint(tmp_path) else None
        on_spark = (RESIDENT if kill % 2 else {}) if NIGHTLY else {}
        engine = on_spark if NIGHTLY or kill % 3 == 2 else LOCAL
        driver = Driver(tmp_path, records, PACE, resume, some_options(moments) | engine)
        drivers.append(driver)
        if kill % 3 == 2:
            # While it restores, or soon after: what it goes back to is published again. By day this one is on Spark.
            driver.wait_for("exactly-once")
        elif kill % 3 == 0:
            # The first checkpoint may come before the first step: this one gets some work done.
            driver.wait_until(lambda before=seen: len(visible(tmp_path)) > before, "new output")
        else:
            driver.wait_for_checkpoint()
        time.sleep(moments.uniform(0, 1.0))
        driver.kill()
        lines = visible(tmp_path)
        assert differences(lines, records, whole=False) == [], f"after kill {kill}, seed {seed}"
        assert len(lines) >= seen, f"lines have gone after kill {kill}, seed {seed}"
        seen = len(lines)
    last = Driver(tmp_path, records, 0.0, "latest", LOCAL)
    drivers.append(last)
    assert last.end() == 0, last
    assert "restored from" in last.said
    assert 0 < seen < records, "the kills came in the middle"
    assert differences(visible(tmp_path), records) == [], f"seed {seed}"
    assert leftovers(tmp_path) == []


# At night at each point of the commit protocol, by day at those of publishing.
OF_PUBLISHING = (
    "before output is pre-committed",
    "after output was pre-committed",
    "before output is published",
    "after a file was renamed",
    "after output was published",
)


def test_files_that_a_consumer_takes_away_do_not_come_back(tmp_path: Path, drivers: list[Driver]) -> None:
    """It moves, renames and deletes them as they appear, while drivers are killed at each point of publishing."""
    points = list(POINTS) if NIGHTLY else OF_PUBLISHING
    records = 8 * len(points) * STEP
    with of_folder(tmp_path) as consumer:
        for point in points:
            # Whatever it runs on, the next one goes on from there.
            engine = {} if NIGHTLY or "renamed" in point else LOCAL
            resume = "latest" if newest_checkpoint(tmp_path) else None
            driver = Driver(tmp_path, records, PACE, resume, engine, dies=point)
            drivers.append(driver)
            assert driver.end() == -signal.SIGKILL, f"{point}: {driver!r}"
            assert differences(consumer.look(), records, whole=False) == [], point
        seen = len(consumer.look())
        last = Driver(tmp_path, records, 0.0, "latest", LOCAL)
        drivers.append(last)
        assert last.end() == 0, last
        assert 0 < seen < records, "the kills came in the middle"
        assert differences(consumer.look(), records) == []
    assert leftovers(tmp_path) == []
