"""Kafka to Kafka, each result exactly once, whatever happens to the drivers and to the broker."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from beadline.services import KafkaServer
from tests.nightly import NIGHTLY
from tests.recovery import kafka_dying
from tests.recovery.drivers import Driver, newest_path
from tests.recovery.dying import COMMIT_POINTS
from tests.recovery.kafka_drivers import Sums
from tests.recovery.kafka_program import MASTER

RECORDS = 1_000_000 if NIGHTLY else 60_000
KILLS = 20 if NIGHTLY else 3
# Seconds for each record: a driver must not be ready before it is killed.
PACE = 0.00001 if NIGHTLY else 0.00005

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(7200 if NIGHTLY else 600)]

ENGINES = ["local", "spark", "resident"] if NIGHTLY else ["local"]


@pytest.fixture
def sums(kafka: KafkaServer, tmp_path: Path, drivers: list[Driver]) -> Sums:
    return Sums(kafka, tmp_path, RECORDS, drivers)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_driver_killed_at_each_point_of_the_commit_protocol(sums: Sums, engine: str) -> None:
    # Inside of the protocol too, where the driver writes the transactions.
    points = COMMIT_POINTS + (kafka_dying.POINTS if engine == "local" else ())
    for point in points:
        driver = sums.start(PACE, dies=point, engine=engine)
        assert driver.end() == -signal.SIGKILL, f"{point}: {driver!r}"
        assert sums.problems(sums.seen(), whole=False) == [], point
    seen = len(sums.seen())
    assert 0 < seen < RECORDS, "the kills came in the middle"
    assert "restored from" in sums.finish(engine=engine).said
    assert sums.problems(sums.seen()) == []
    assert sums.open_transactions() == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_driver_killed_at_random_moments_and_resumed_at_another_parallelism(sums: Sums, engine: str) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments, seen = random.Random(seed), 0
    for kill in range(1, KILLS + 1):
        driver = sums.start(PACE, parallelism=moments.choice([1, 2, 3]), engine=engine)
        if kill % 2:
            driver.wait_for_checkpoint()
        else:
            sums.wait_for_more(driver, seen)
        time.sleep(moments.uniform(0, 0.5))
        driver.kill()
        lines = sums.seen()
        assert sums.problems(lines, whole=False) == [], f"after kill {kill}, seed {seed}"
        assert len(lines) >= seen
        seen = len(lines)
    sums.finish(parallelism=2, engine=engine)
    assert sums.problems(sums.seen()) == [], f"seed {seed}"
    assert sums.open_transactions() == []


@pytest.mark.spark
@pytest.mark.parametrize("master", ["local[2]", "local[2,4]"] if NIGHTLY else ["local[2]"])
def test_python_workers_killed_while_they_pre_commit(sums: Sums, master: str) -> None:
    """Where Spark runs the lost task again, what it writes has another id; elsewhere the job goes back."""
    variables = {kafka_dying.WORKERS_DIE: str(sums.folder), MASTER: master}
    driver = sums.start(PACE, engine="spark", **variables)
    assert driver.end() == 0, driver
    assert len(list(sums.folder.glob("accident-worker-*"))) == kafka_dying.DEATHS, driver
    assert sums.problems(sums.seen()) == []
    assert sums.open_transactions() == []


def test_a_driver_that_stays_away_longer_than_the_timeout_loses_nothing(sums: Sums) -> None:
    """Its transactions were in a completed checkpoint, not committed, and the broker aborted them for their age."""
    sums.timeout = 3000
    driver = sums.start(PACE, dies="before output is published")
    assert driver.end() == -signal.SIGKILL, driver
    assert sums.open_transactions() == [], "the broker aborts them"
    before = sums.seen()
    assert sums.problems(before, whole=False) == []
    last = sums.finish()
    assert "their rows are written again" in last.said
    assert sums.problems(sums.seen()) == []


def test_a_paused_driver_is_fenced_and_changes_nothing(sums: Sums) -> None:
    paused = sums.start(PACE)
    paused.wait_for_checkpoint()
    paused.signal(signal.SIGSTOP)
    # Another takes its job by naming a checkpoint.
    last = sums.start(resume=newest_path(sums.folder))
    assert last.end() == 0, last
    whole = sums.seen()
    assert sums.problems(whole) == []
    paused.signal(signal.SIGCONT)
    assert paused.end() != 0, paused
    assert sums.seen() == whole


@pytest.mark.skipif(not NIGHTLY, reason="takes minutes; BEADLINE_NIGHTLY=1")
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_goes_away_and_comes_back(tmp_path: Path, drivers: list[Driver], how: str) -> None:
    with KafkaServer({"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}) as broker:
        sums = Sums(broker, tmp_path, RECORDS, drivers)
        driver = sums.start(PACE)
        for time_away in range(3):
            driver.wait_for_checkpoint()
            getattr(broker, how)()
            assert time_away or not driver.has_ended, "it went away in the middle"
            time.sleep(2)
            broker.start()
        if driver.end() != 0:
            sums.finish()
        assert sums.problems(sums.seen()) == []
