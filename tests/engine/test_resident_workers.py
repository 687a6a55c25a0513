"""Resident workers stay for a whole job, whatever happens to a step; those that are lost are replaced."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from beadline.common import Types
from beadline.datastream import KeyedProcessFunction, MapFunction
from beadline.errors import JobExecutionError
from beadline.master import engines
from beadline.master.reporting.news import StepReport
from tests.engine.jobs import (
    ANY,
    STEP,
    Accident,
    Count,
    Gather,
    counts,
    environment,
    gathered,
    key_of,
    keyed,
    kill_worker,
    numbers,
    parent_of,
    run,
    same,
)

SPARE_SLOTS = True
pytestmark = [pytest.mark.spark]

STEPS = 6
RECORDS = STEPS * STEP


@pytest.fixture(autouse=True)
def _resident(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engines.VARIABLE, engines.RESIDENT)


def workers_of(reports: list[StepReport]) -> set[tuple[int, ...]]:
    return {tuple(worker for _, worker in sorted(report.workers.items())) for report in reports}


def test_each_subtask_stays_in_its_worker() -> None:
    env = environment()
    outcome = run(env, keyed(env, RECORDS, Gather()), "stays")
    assert Counter(outcome.results) == gathered(RECORDS)
    [workers] = workers_of(outcome.reports)
    assert len(set(workers)) == 2


def test_there_may_be_more_subtasks_than_workers_and_levels_of_any_width() -> None:
    env = environment(parallelism=5)
    stream = numbers(env, RECORDS).set_parallelism(1).rebalance().map(same).set_parallelism(2)
    outcome = run(env, stream.key_by(key_of, key_type=Types.LONG()).process(Count(), output_type=ANY), "widening")
    assert Counter(outcome.results) == counts(RECORDS)
    [workers] = workers_of(outcome.reports)
    assert len(workers) == 5
    assert len(set(workers)) == 2


class KillAll(MapFunction):
    """At a number, once, all Python workers of Spark die."""

    def __init__(self, marker: Path, at: int) -> None:
        self._accident = Accident(marker)
        self._at = at

    def map(self, value: int) -> int:
        if value == self._at and self._accident.happens():
            daemon = os.getppid()
            for process in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
                if process != os.getpid() and _parent(process) == daemon:
                    os.kill(process, signal.SIGKILL)
            kill_worker()
        return value


def _parent(process: int) -> int | None:
    try:
        return parent_of(process)
    except OSError:
        return None


@pytest.mark.slow
def test_all_workers_are_killed_in_a_step(tmp_path: Path) -> None:
    env = environment()
    killing = numbers(env, RECORDS).map(KillAll(tmp_path / "accident", 3 * STEP + 50), output_type=Types.LONG())
    outcome = run(env, killing.key_by(key_of, key_type=Types.LONG()).process(Gather(), output_type=ANY), "all killed")
    assert (tmp_path / "accident").exists()
    assert outcome.tries == [1, 1, 1, 2, *[1] * (len(outcome.tries) - 4)]
    assert Counter(outcome.results) == gathered(RECORDS)


class FailOnce(KeyedProcessFunction):
    def __init__(self, marker: Path, at: int) -> None:
        self._accident = Accident(marker)
        self._at = at

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        if value == self._at and self._accident.happens():
            raise ValueError("on purpose")
        yield value


def test_user_code_that_fails_does_not_cost_the_workers(tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }
    env = environment(options=options)
    reports: list[StepReport] = []
    env.add_step_listener(reports.append)
    failing = keyed(env, RECORDS, FailOnce(tmp_path / "accident", 3 * STEP + 50))
    assert sorted(failing.execute_and_collect("fails once")) == list(range(RECORDS))
    assert (tmp_path / "accident").exists()
    assert len(workers_of(reports)) == 1
    assert {report.tries for report in reports} == {1}


class Exits(MapFunction):
    def map(self, value: int) -> int:
        raise SystemExit(3)


def test_a_function_that_ends_its_process_ends_the_job_with_a_sentence() -> None:
    env = environment()
    with pytest.raises(JobExecutionError, match=r"a function of the program called sys\.exit\(3\)"):
        list(numbers(env, STEP).map(Exits(), output_type=Types.LONG()).execute_and_collect("exits"))


class Sleep(MapFunction):
    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def map(self, value: int) -> int:
        self._marker.touch()
        time.sleep(3600)
        return value


@pytest.mark.slow
def test_a_job_is_cancelled_in_a_step_that_never_ends_and_the_next_job_finds_its_slots(tmp_path: Path) -> None:
    env = environment()
    numbers(env, STEP).map(Sleep(tmp_path / "sleeps"), output_type=Types.LONG()).print()
    client = env.execute_async("sleeps")
    while not (tmp_path / "sleeps").exists():
        time.sleep(0.02)
    client.cancel().result()
    for _ in range(2):
        env = environment()
        outcome = run(env, keyed(env, STEP, Count()), "the next")
        assert Counter(outcome.results) == counts(STEP)
        assert all(len(set(workers)) == 2 for workers in workers_of(outcome.reports))


def test_other_work_on_spark_goes_on_next_to_the_workers(spark: Any) -> None:
    """DataFrames in, and a query of the user's own while the job runs."""
    env = environment()
    seen: list[int] = []

    def query(report: StepReport) -> None:
        if report.step == 1:
            seen.append(spark.range(100).repartition(4).count())

    env.add_step_listener(query)
    frame = spark.createDataFrame([Row(n=n) for n in range(RECORDS)])
    stream = env.from_dataframe(frame).map(lambda row: row[0], output_type=Types.LONG())
    outcome = run(env, stream.key_by(key_of, key_type=Types.LONG()).process(Count(), output_type=ANY), "and a query")
    assert Counter(outcome.results) == counts(RECORDS)
    assert seen == [100]
