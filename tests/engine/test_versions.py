"""Workers live longer than steps, versions and jobs: what they hold is used only by those it belongs to."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from beadline.master.shipping.dependencies import Dependencies
from beadline.master.spark.engine import SparkEngine
from beadline.master.spark.shipping import ship_modules
from tests.engine.jobs import STEP, Count, Gather, environment, gathered, keyed, run

SPARE_SLOTS = True
pytestmark = [pytest.mark.spark]

RECORDS = 8 * STEP


def test_two_jobs_at_a_time_do_not_see_each_other(on_spark: str) -> None:
    """The same operators, uids, keys and state names; the jobs differ in length alone."""
    lengths = [3 * STEP, 5 * STEP, 7 * STEP]
    running = [keyed(environment(), length, Gather()).execute_and_collect("twin") for length in lengths]
    for length, results in zip(lengths, running, strict=True):
        assert Counter(results) == gathered(length)


def test_a_job_that_runs_twice_starts_from_nothing_both_times(on_spark: str) -> None:
    for _ in range(2):
        env = environment()
        outcome = run(env, keyed(env, 3 * STEP, Gather()), "twice")
        assert Counter(outcome.results) == gathered(3 * STEP)


def test_tasks_beside_the_steps_run_in_the_same_kind_of_workers(spark: Any) -> None:
    """One daemon forks them all: a second one takes a second to start, and all tasks wait for it."""
    env = environment()
    outcome = run(env, keyed(env, RECORDS, Count()), "one daemon")
    engine = SparkEngine(spark)
    ship_modules(engine, Dependencies())  # as the job did: workers are pooled by the modules that they find
    beside = engine.run_each(lambda _: str(os.getppid()), [1, 2])
    assert set(beside) == {place for report in outcome.reports for place in report.places.values()}
