"""A Python worker dies in the middle of a step, and nothing is lost or done twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from beadline.master.reporting.news import StepReport
from beadline.master.spark import engine as spark_module
from tests.engine.jobs import (
    KILL_AT,
    KILLED_WORKER_JOBS,
    STEP,
    Gather,
    environment,
    gathered,
    keyed,
    results_of_killed_worker_job,
    run,
    run_with_killed_workers,
)
from tests.engine.scenarios import outcomes_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS = sorted(f"accident-{number}" for number in KILL_AT)
KILLED_STEPS = [number // STEP + 1 for number in KILL_AT]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    return outcomes_of(Path(__file__).with_name("scenarios_local.py"), timeout=280)


@pytest.mark.parametrize("job", KILLED_WORKER_JOBS)
def test_spark_runs_the_lost_task_again(job: str, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[job]
    assert outcome["accidents"] == KILLS
    assert set(outcome["tries"]) == {1}, "the retry was Spark's, the step went through at once"
    assert Counter(map(tuple, outcome["results"])) == results_of_killed_worker_job(job)


@pytest.mark.parametrize("job", KILLED_WORKER_JOBS)
def test_where_spark_retries_nothing_the_step_is_run_again(job: str, on_spark: str, tmp_path: Path) -> None:
    outcome = run_with_killed_workers(job, tmp_path)
    assert sorted(path.name for path in tmp_path.glob("accident*")) == KILLS
    again = [report.step for report in outcome.reports if report.tries == 2]
    assert again == KILLED_STEPS
    assert max(outcome.tries) == 2
    assert Counter(outcome.results) == results_of_killed_worker_job(job)


def test_a_worker_that_lives_on_drops_what_a_lost_attempt_changed_in_place(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tasks end well, but an acknowledgement is lost on its way: the same worker runs the same step again."""
    lost: dict[int, int] = {}
    sealed: list[StepReport] = []
    read_acks = spark_module._acks

    def lose_one(table: Any) -> Any:
        acks = read_acks(table)
        step = len(sealed) + 1
        if step in lost:
            return acks
        lost[step] = next(ack.worker for ack in acks if ack.level == 1)
        return acks[1:]

    monkeypatch.setattr(spark_module, "_acks", lose_one)
    env = environment(parallelism=1)
    env.add_step_listener(sealed.append)
    outcome = run(env, keyed(env, 8 * STEP, Gather()), "lost acknowledgements")
    assert set(outcome.tries) == {2}
    assert any(lost[report.step] == report.workers[0] for report in outcome.reports)
    assert Counter(outcome.results) == gathered(8 * STEP)
