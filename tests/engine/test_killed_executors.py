"""An executor dies with its workers, their state and the shuffle files of finished tasks; results stay exact."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.engine.jobs import KEYS, STEP, counts
from tests.engine.scenarios_cluster import COUNTING_KILL, COUNTING_STEPS, KILLS, killed_steps, minting_steps
from tests.engine.scenarios_speculation import SLOW, STEPS

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

WITNESSES = {"minted", "left saw", "left kept", "right saw", "right kept"}


def test_counts_are_exact(cluster_outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = cluster_outcomes["counting"]
    assert len(outcome["accidents"]) == 1
    assert len(outcome["tries"]) == COUNTING_STEPS
    assert Counter(map(tuple, outcome["results"])) == counts(COUNTING_STEPS * STEP)


def test_subtasks_stay_on_their_executors(cluster_outcomes: dict[str, dict[str, Any]]) -> None:
    """State is where its subtask is. Only the loss of an executor moves a subtask, and once."""
    places = cluster_outcomes["counting"]["places"]
    before, after = places[3 : COUNTING_KILL - 1], places[COUNTING_KILL + 4 :]
    assert min(len(before), len(after)) >= 6
    assert all(len(place) == 2 for place in places)
    assert all(place == before[0] for place in before)
    assert all(place == after[0] for place in after)
    assert before[0] != after[0]


def test_rows_pass_through_a_level_that_is_narrower_than_their_own(cluster_outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = cluster_outcomes["widening"]
    assert set(outcome["tries"]) == {1}
    assert Counter(map(tuple, outcome["results"])) == counts(3 * STEP)


def test_a_task_that_repeats_itself_may_be_run_again_behind_its_readers(
    cluster_outcomes: dict[str, dict[str, Any]],
) -> None:
    """Some subtasks of the last level had read the first attempt, the others read the second: they are the same."""
    outcome = cluster_outcomes["repeatable_ids"]
    assert len(outcome["accidents"]) == KILLS
    assert set(outcome["tries"]) == {1}
    assert Counter(map(tuple, outcome["results"])) == Counter(
        (witness, number, f"{number % KEYS}-{number // KEYS}")
        for witness in WITNESSES
        for number in range(minting_steps(KILLS) * STEP)
    )


@pytest.mark.parametrize(
    ("name", "kills", "reason", "least"),
    [
        # Not every kill comes when some have read and others have not; on a busy machine a quarter of them does.
        ("random_ids", KILLS, "read another attempt of level 1", KILLS / 8),
        # Spark finds it first. It runs all readers again, unless some of them were tasks of the last level: then it
        # gives up, and the step is run again.
        ("random_ids_that_spark_compares", 1, "indeterminate output", 0),
    ],
)
def test_readers_of_two_attempts_are_never_sealed_together(
    name: str, kills: int, reason: str, least: float, cluster_outcomes: dict[str, dict[str, Any]]
) -> None:
    """A task that makes up ids made others when it was run again: the step is run again as a whole, until the state of
    the one and what the others have seen are of one execution."""
    outcome = cluster_outcomes[name]
    assert len(outcome["accidents"]) == kills
    caught = {step for step, why in outcome["run_again"] if reason in why}
    assert caught <= set(killed_steps(kills))
    assert len(caught) >= least, outcome["run_again"]
    known: dict[str, Counter[tuple[int, str]]] = {witness: Counter() for witness in WITNESSES}
    for witness, number, minted in outcome["results"]:
        known[witness][number, minted] += 1
    assert sorted(number for number, _ in known["minted"].elements()) == list(range(minting_steps(kills) * STEP))
    assert len({minted for _, minted in known["minted"]}) == minting_steps(kills) * STEP
    assert all(seen == known["minted"] for seen in known.values())


# -- two copies of one task at the same time


def test_a_speculative_copy_does_nothing_twice(cluster_outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = cluster_outcomes["slow_tasks"]
    assert outcome["accidents"] == sorted(f"accident-{number}" for number in SLOW), "both copies met"
    assert set(outcome["tries"]) == {1}
    assert Counter(map(tuple, outcome["results"])) == counts(STEPS * STEP)
