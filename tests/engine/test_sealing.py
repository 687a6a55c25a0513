"""A step whose counts, sequence or digests disagree is never sealed."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest

from beadline.datastream import DataStream, StreamExecutionEnvironment
from beadline.errors import JobExecutionError
from beadline.master import engines
from beadline.master.reporting.news import StepReport
from tests.engine.jobs import Count, Outcome, counts, environment, keyed, run
from tests.engine.tampering import TAMPERINGS, tamper

SPARE_SLOTS = True
pytestmark = [pytest.mark.spark]

# One channel, and three chunks in it a step.
STEP_RECORDS = 10_000


def counting(steps: int) -> tuple[StreamExecutionEnvironment, DataStream]:
    options = dict.fromkeys(("beadline.step.first-records", "beadline.step.max-records"), str(STEP_RECORDS))
    options["beadline.step.target"] = "1 h"  # however slow the machine is
    env = environment(parallelism=1, options=options)
    return env, keyed(env, steps * STEP_RECORDS, Count())


@pytest.fixture(scope="module", params=engines.ON_SPARK)
def tampered(
    request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Outcome, list[str], set[str]]:
    """A job in whose n-th step the n-th tampering happens: its outcome, what it warned of, and what happened."""
    folder = tmp_path_factory.mktemp("tampered")
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("beadline")
    logger.addHandler(handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(engines.VARIABLE, request.param)
        for step, (name, (how, _)) in enumerate(TAMPERINGS.items(), start=1):
            tamper(patch, how, step, folder / name)
        outcome = run(*counting(len(TAMPERINGS)), "tampered")
    logger.removeHandler(handler)
    return outcome, messages, {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_step_that_disagrees_is_run_again(name: str, tampered: tuple[Outcome, list[str], set[str]]) -> None:
    outcome, messages, happened = tampered
    step = list(TAMPERINGS).index(name) + 1
    assert name in happened
    assert outcome.reports[step - 1].tries == 2
    [message] = [message for message in messages if message.startswith(f"step {step} is run again")]
    assert TAMPERINGS[name][1] in message


def test_nothing_of_a_step_that_disagrees_remains(tampered: tuple[Outcome, list[str], set[str]]) -> None:
    outcome, _, _ = tampered
    assert Counter(outcome.results) == counts(len(TAMPERINGS) * STEP_RECORDS)


@pytest.mark.parametrize("name", ["a record is altered", "a task's digest is altered"])
def test_a_step_that_always_disagrees_fails_the_job_and_leaves_no_results(
    name: str, on_spark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    how, message = TAMPERINGS[name]
    tamper(monkeypatch, how, 2, None)
    env, stream = counting(3)
    reports: list[StepReport] = []
    env.add_step_listener(reports.append)
    results = stream.execute_and_collect("tampered with for ever")
    seen: list[Any] = []
    with pytest.raises(JobExecutionError, match=f"step 2 failed 6 times.*{message}"):
        seen.extend(results)
    assert [report.step for report in reports] == [1]
    assert Counter(seen) == counts(STEP_RECORDS)
