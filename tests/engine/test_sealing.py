"""A step whose counts, sequence or digests disagree is never sealed."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from beadline.errors import JobExecutionError
from beadline.master.progress import StepReport
from tests.engine.jobs import Gather, Outcome, environment, gathered, keyed, run
from tests.engine.tampering import TAMPERINGS, tamper

pytestmark = [pytest.mark.spark]

# One channel, and three chunks in it a step.
STEP_RECORDS = 10_000
RECORDS = 3 * STEP_RECORDS
TAMPERED = 2


def run_gathering() -> Outcome:
    options = dict.fromkeys(("beadline.step.first-records", "beadline.step.max-records"), str(STEP_RECORDS))
    env = environment(parallelism=1, options=options)
    return run(env, keyed(env, RECORDS, Gather()), "tampered")


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_step_that_disagrees_is_run_again(
    name: str, spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    how, message = TAMPERINGS[name]
    tamper(monkeypatch, how, TAMPERED, tmp_path / "happened")
    with caplog.at_level(logging.WARNING, "beadline"):
        outcome = run_gathering()
    assert (tmp_path / "happened").exists()
    assert outcome.tries == [1, 2, 1]
    assert message in caplog.text
    assert Counter(outcome.results) == gathered(RECORDS)


@pytest.mark.parametrize("name", ["a record is altered", "a task's digest is altered"])
def test_a_step_that_always_disagrees_fails_the_job_and_leaves_no_results(
    name: str, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    how, message = TAMPERINGS[name]
    tamper(monkeypatch, how, TAMPERED, None)
    options = dict.fromkeys(("beadline.step.first-records", "beadline.step.max-records"), str(STEP_RECORDS))
    env = environment(parallelism=1, options=options)
    reports: list[StepReport] = []
    env.add_step_listener(reports.append)
    results = keyed(env, RECORDS, Gather()).execute_and_collect("tampered for ever")
    seen: list[Any] = []
    with pytest.raises(JobExecutionError, match=f"step {TAMPERED} failed 6 times.*{message}"):
        seen.extend(results)
    assert [report.step for report in reports] == [1]
    assert Counter(seen) == gathered(STEP_RECORDS)
