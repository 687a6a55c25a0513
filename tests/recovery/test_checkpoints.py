"""What checkpoints hold, when they are taken and kept, and what a job makes of bad ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.recovery.scenarios_checkpoints import RETAINED
from tests.recovery.test_failures import facts_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

Facts = dict[str, dict[str, Any]]


def test_a_cancelled_job_leaves_the_checkpoints_that_it_retains(checkpoints: Facts) -> None:
    left = facts_of("damaged_checkpoints", checkpoints)["cancelled"]
    assert left["status"] == "CANCELED"
    assert left["numbers"] == list(range(left["numbers"][0], left["numbers"][0] + RETAINED))
    assert left["inline"] == 0, "the threshold is 0"
    assert left["unneeded"] == []
    assert left["beginning"] == []


@pytest.mark.parametrize("damage", ["truncate", "flip_a_bit", "remove"])
def test_the_one_before_a_damaged_checkpoint_is_taken(damage: str, checkpoints: Facts) -> None:
    facts = facts_of("damaged_checkpoints", checkpoints)
    damaged = facts[damage]
    assert damaged["failed"] == ""
    assert damaged["problems"] == []
    assert damaged["started"] == damaged["expected"]
    said = [line for line in facts["log"] if damaged["path"] in line]
    assert said
    assert damaged["skipped"] in said[0]
    # The job has finished and needs none. One that can't be read stays, with all it may need: somebody may repair it.
    assert damaged["left"] == ([damaged["skipped"].split()[0]] if damage == "flip_a_bit" else [])


def test_a_checkpoint_that_is_damaged_while_the_job_runs(checkpoints: Facts) -> None:
    facts = facts_of("damaged_while_it_runs", checkpoints)
    number = facts["newer"].removeprefix("chk-")
    said = f"checkpoint {number} can't be restored, so the one before it is tried: {facts['path']}: the file is missing"
    assert said in facts["log"]


@pytest.mark.parametrize("where", ["plant_in_segment", "plant_in_locals", "plant_in_operator_state"])
def test_a_hostile_pickle_in_a_checkpoint_runs_no_code(where: str, checkpoints: Facts) -> None:
    planted = facts_of("damaged_checkpoints", checkpoints)[where]
    assert not planted["ran"]
    assert "posix.system" in planted["failed"], "it says what was refused"


def test_an_aligned_checkpoint_waits_for_the_running_step(checkpoints: Facts) -> None:
    facts = facts_of("overtaking", checkpoints)
    aligned = facts["aligned"]
    assert aligned["took"] > facts["sleep"]["seconds"] - 1
    assert (aligned["step"], aligned["unaligned"], aligned["in_flight"]) == (3, False, {})


def test_an_unaligned_checkpoint_overtakes_it(checkpoints: Facts) -> None:
    facts = facts_of("overtaking", checkpoints)
    unaligned = facts["unaligned"]
    assert unaligned["took"] < facts["sleep"]["seconds"] - 1
    assert (unaligned["step"], unaligned["unaligned"]) == (2, True)
    assert (unaligned["position"], unaligned["in_flight"]) == ({"next": 120}, {"numbers": {"next": 180}})


def test_an_alignment_timeout_lets_it_overtake_later(checkpoints: Facts) -> None:
    facts = facts_of("overtaking", checkpoints)
    timeout = facts["timeout"]
    assert 1 <= timeout["took"] < facts["sleep"]["seconds"] - 1
    assert (timeout["step"], timeout["unaligned"]) == (2, True)
    assert timeout["failed"] == ""
    assert timeout["problems"] == []


def test_a_checkpoint_that_waits_too_long_expires(checkpoints: Facts) -> None:
    facts = facts_of("overtaking", checkpoints)
    assert "The checkpoint took longer than its timeout. 1000 ms" in facts["expired"]["error"]


def test_a_resume_may_leave_out_what_was_in_flight(checkpoints: Facts) -> None:
    facts = facts_of("overtaking", checkpoints)
    assert facts["ignoring"] == {"failed": "", "problems": []}


def test_small_state_is_in_the_metadata_and_deleted_on_cancellation(checkpoints: Facts) -> None:
    facts = facts_of("kept_and_deleted", checkpoints)
    assert facts["inline"]["files"] == 0
    assert facts["inline"]["segments"]
    assert all(facts["inline"]["segments"])
    assert facts["deleted"] == {"status": "CANCELED", "left": []}


def test_segments_are_compressed(checkpoints: Facts) -> None:
    compressed = facts_of("kept_and_deleted", checkpoints)["compressed"]
    assert compressed == {"codec": True, "failed": "", "left": ["ended"], "problems": []}


def test_checkpoints_keep_their_distance(checkpoints: Facts) -> None:
    facts = facts_of("pauses", checkpoints)
    assert len(facts["gaps"]) >= 2
    assert all(gap >= 1500 for gap in facts["gaps"])


def test_state_that_is_too_large_for_the_drivers_memory_fails_the_job(checkpoints: Facts) -> None:
    facts = checkpoints["too_large_for_memory"]
    assert facts["status"] == "FAILED"
    assert facts["failures"] == 3
    assert "3 checkpoints failed in a row, and" in facts["error"]
    assert "tolerable-failed-checkpoints tolerates 2" in facts["error"]
    assert "beadline.checkpointing.jobmanager.max-state-size" in facts["error"]
    assert "set execution.checkpointing.dir" in facts["error"]
