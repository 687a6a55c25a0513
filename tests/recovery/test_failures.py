"""Something fails while the job runs, and its files are those of a job where nothing failed."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

Facts = dict[str, dict[str, Any]]


def facts_of(name: str, told: Facts) -> dict[str, Any]:
    facts = told[name]
    assert "error" not in facts, facts["error"]
    assert not facts.get("failed"), facts["failed"]
    assert facts.get("problems", []) == [], facts["log"]
    return facts


def test_a_function_that_fails_in_snapshot_in_restore_in_process_and_at_close(failures: Facts) -> None:
    facts = facts_of("functions_that_fail", failures)
    reasons = [re.sub(r".*Sabotage: ", "", error) for error, _ in facts["restarts"]]
    assert reasons[:2] == ["in snapshot", "in restore"]
    assert reasons[2].startswith("at 24")
    assert reasons[3:] == ["in close"]
    assert all(start.startswith("checkpoint ") for _, start in facts["restarts"])


def test_the_history_names_the_record_that_failed(failures: Facts) -> None:
    facts = facts_of("functions_that_fail", failures)
    error, _ = facts["restarts"][2]
    assert re.search(r"operator 'KEYED PROCESS' \(subtask \d\) failed at record \(24\d, 12\d\)", error)


def test_a_killed_worker_and_a_failure_and_records_that_are_collected_once(failures: Facts) -> None:
    facts = facts_of("collected_once", failures)
    assert facts["accidents"] == ["accident-fail-240", "accident-kill-60"]
    assert any(re.search(r"step \d+ is run again .*worker exited", line) for line in facts["log"])
    assert sum("attempt" in line for line in facts["log"]) == 1, "a killed worker is no restart"


def test_a_crash_between_three_operators(failures: Facts) -> None:
    """Snapshots taken one by one, as they come, would lose an element between the operators and give other sums."""
    facts = facts_of("three_operators", failures)
    assert facts["crashed"]
    assert facts["sums"] == list(accumulate(accumulate(range(1, 9))))


def test_at_least_once_shows_rows_before_a_checkpoint_and_shows_them_again(failures: Facts) -> None:
    facts = facts_of("at_least_once", failures)
    assert facts["early"] == 0, "no checkpoint had completed when the first rows were visible"
    assert facts["lost"] == []
    assert any("its rows come again" in line for line in facts["log"])
    assert any("at-least-once (execution.checkpointing.mode is AT_LEAST_ONCE)" in line for line in facts["log"])


def test_at_least_once_shows_parts_that_checkpoints_complete(failures: Facts) -> None:
    facts_of("at_least_once_rolls", failures)


def test_exactly_once_shows_nothing_before_a_checkpoint(failures: Facts) -> None:
    facts = facts_of("exactly_once_waits", failures)
    assert facts["early"] == 0


def test_at_most_once_goes_on_behind_the_step_that_failed(failures: Facts) -> None:
    facts = facts_of("at_most_once", failures)
    ((error, start),) = facts["restarts"]
    assert "at record" in error
    assert start == "after the step that failed"


def test_a_checkpoint_folder_that_is_away_for_a_while(failures: Facts) -> None:
    facts = facts_of("a_folder_that_is_away", failures)
    reasons = [error for error, _ in facts["restarts"]]
    assert "Sabotage" in reasons[0]
    assert all("The folder of the job is away" in reason for reason in reasons[1:])
    assert facts["during"] == 0
    assert facts["after"] > 0
    assert any(re.search(r"checkpoint \d+ failed: can't write", line) for line in facts["log"])


def test_a_full_disk_and_one_that_is_read_only(failures: Facts) -> None:
    facts = facts_of("a_full_disk", failures)
    if "skipped" in facts:
        pytest.skip(facts["skipped"])
    assert any("No space left on device" in error for error in facts["full"])
    assert any("Free some space there" in line for line in facts["log"])
    assert any("Read-only file system" in line for line in facts["log"])
