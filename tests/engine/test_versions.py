"""Workers live longer than steps, versions and jobs: what they hold is used only by those it belongs to."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.coordinator.actions import CheckpointKind, Take
from beadline.master import running
from beadline.master.execution import Execution
from beadline.master.shipping.dependencies import Dependencies
from beadline.master.spark.engine import SparkEngine
from beadline.master.spark.shipping import ship_modules
from tests.engine.jobs import STEP, Count, Gather, Outcome, counts, environment, gathered, keyed, run

pytestmark = [pytest.mark.spark]

RECORDS = 8 * STEP
KEPT = 2
BACK_AFTER = 5
INLINE_LIMIT = 20 << 10


class Rewinding(Execution):
    """Goes back once, within an execution: after step ``BACK_AFTER`` it continues from what step ``KEPT`` left."""

    _kept: Snapshot | None = None
    _gone_back = False

    def _next_ranges(self) -> Any:
        truth = self.truth
        if truth.step == KEPT and self._kept is None:
            self._kept = truth.snapshot(Take(1, KEPT, CheckpointKind.CHECKPOINT), 0, {}, {})
        if truth.step == BACK_AFTER and not self._gone_back:
            assert self._kept is not None
            self._gone_back = True
            truth.restore(self._kept, truth.book._files, INLINE_LIMIT, ignore_unclaimed=False, skip_in_flight=False)
            truth.step = BACK_AFTER  # the numbers of steps go on
            for reader in self._readers:
                reader.finished = reader.source.finished(truth.positions[reader.node.id])
        return super()._next_ranges()


@pytest.mark.parametrize("inline_limit", ["0 bytes", "20 kb"], ids=["in files", "inline"])
@pytest.mark.parametrize(("function", "results"), [(Count, counts), (Gather, gathered)])
def test_a_job_that_goes_back_continues_from_the_old_version(
    function: Any, results: Any, inline_limit: str, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "Execution", Rewinding)
    env = environment(options={"execution.checkpointing.data-inline-threshold": inline_limit})
    outcome = run(env, keyed(env, RECORDS, function()), "going back")
    repeated = results(BACK_AFTER * STEP) - results(KEPT * STEP)
    assert Counter(outcome.results) == results(RECORDS) + repeated
    assert len(outcome.reports) == RECORDS // STEP + BACK_AFTER - KEPT
    assert set(outcome.tries) == {1}
    assert _workers(outcome, slice(BACK_AFTER)) & _workers(outcome, slice(BACK_AFTER, BACK_AFTER + 1))


def _workers(outcome: Outcome, steps: slice) -> set[int]:
    return {worker for report in outcome.reports[steps] for worker in report.workers.values()}


def test_two_jobs_at_a_time_do_not_see_each_other(spark: Any) -> None:
    """The same operators, uids, keys and state names; the jobs differ in length alone."""
    lengths = [3 * STEP, 5 * STEP, 7 * STEP]
    running = [keyed(environment(), length, Gather()).execute_and_collect("twin") for length in lengths]
    for length, results in zip(lengths, running, strict=True):
        assert Counter(results) == gathered(length)


def test_a_job_that_runs_twice_starts_from_nothing_both_times(spark: Any) -> None:
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
