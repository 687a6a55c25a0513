"""A step is sealed only if its acknowledgements describe one consistent execution."""

from __future__ import annotations

import copy

import pytest

from beadline.errors import ChannelError, JobExecutionError, VersionError
from beadline.graph.plan import Plan
from beadline.master.stepping import check_acks
from beadline.runtime.failure import Failure
from beadline.runtime.messages import SubtaskAck, TaskAck
from beadline.state.segments.version import KeyedStateHandle
from tests.graph.programs import Program, by, same

HANDLES = {(2, 0): KeyedStateHandle("root-0"), (2, 1): KeyedStateHandle("root-1")}


@pytest.fixture
def plan() -> Plan:
    program = Program()
    program.collect((program.function("reduce", max, (program.source(), by(same))), by(same)), parallelism=1)
    return program.plan(parallelism=2)


@pytest.fixture
def acks() -> list[TaskAck]:
    """Two sources, two keyed subtasks, one collector."""
    read = {(0, 0): "s0", (0, 1): "s1"}
    return [
        TaskAck(0, 0, "s0", {}, [SubtaskAck(1, 0)]),
        TaskAck(0, 1, "s1", {}, [SubtaskAck(1, 1)]),
        TaskAck(1, 0, "k0", dict(read), [SubtaskAck(2, 0, base_version="root-0")]),
        TaskAck(1, 1, "k1", dict(read), [SubtaskAck(2, 1, base_version="root-1")]),
        TaskAck(2, 0, "c0", {(1, 0): "k0", (1, 1): "k1"}, [SubtaskAck(3, 0)]),
    ]


def failure(operator: str) -> Failure:
    return Failure(operator, 0, "'r'", "ValueError", "bad", "the traceback")


def test_a_consistent_step_is_sealed_in_whatever_order_acks_come(plan: Plan, acks: list[TaskAck]) -> None:
    check_acks(plan, acks, HANDLES)
    check_acks(plan, acks[::-1], HANDLES)


@pytest.mark.parametrize("missing", range(5))
def test_a_missing_acknowledgement(plan: Plan, acks: list[TaskAck], missing: int) -> None:
    gone = acks.pop(missing)
    with pytest.raises(ChannelError, match=rf"1 of 5 tasks did not acknowledge.*\({gone.level}, {gone.partition}\)"):
        check_acks(plan, acks, HANDLES)


def test_a_double_acknowledgement(plan: Plan, acks: list[TaskAck]) -> None:
    with pytest.raises(ChannelError, match="two acknowledgements of level 1, partition 0"):
        check_acks(plan, [*acks, copy.deepcopy(acks[2])], HANDLES)


def test_an_acknowledgement_of_a_task_that_is_not_in_the_plan(plan: Plan, acks: list[TaskAck]) -> None:
    with pytest.raises(ChannelError):
        check_acks(plan, [*acks, TaskAck(2, 1)], HANDLES)


def test_consumers_that_read_different_attempts(plan: Plan, acks: list[TaskAck]) -> None:
    acks[3].consumed[0, 1] = "another attempt"
    with pytest.raises(ChannelError, match="level 1, partition 1 read another attempt of level 0, partition 1"):
        check_acks(plan, acks, HANDLES)


def test_an_acknowledgement_of_an_attempt_that_nobody_read(plan: Plan, acks: list[TaskAck]) -> None:
    acks[0].digest = "a later attempt"
    with pytest.raises(ChannelError, match="read another attempt of level 0, partition 0"):
        check_acks(plan, acks, HANDLES)


def test_a_subtask_that_worked_on_another_version(plan: Plan, acks: list[TaskAck]) -> None:
    acks[3].subtasks[0].base_version = "old"
    with pytest.raises(VersionError, match=r"reduce\[1\] worked on version old, the step started from root-1"):
        check_acks(plan, acks, HANDLES)
    acks[3].subtasks[0].base_version = None
    with pytest.raises(VersionError, match="version None"):
        check_acks(plan, acks, HANDLES)


def test_the_first_failure_in_the_flow_is_told(plan: Plan, acks: list[TaskAck]) -> None:
    acks[4].failure = failure("last")
    acks[3].failure = failure("middle")
    with pytest.raises(JobExecutionError) as raised:
        check_acks(plan, acks[::-1], HANDLES)
    assert raised.value.operator == "middle"
    assert raised.value.record == "'r'"
    assert raised.value.user_traceback == "the traceback"
    assert str(raised.value) == "operator 'middle' (subtask 0) failed at record 'r': ValueError: bad"


def test_a_failure_counts_only_in_a_consistent_step(plan: Plan, acks: list[TaskAck]) -> None:
    """What failed on mixed attempts says nothing about the program; the step is run again."""
    acks[2].failure = failure("keyed")
    acks[3].consumed[0, 1] = "another attempt"
    with pytest.raises(ChannelError):
        check_acks(plan, acks, HANDLES)


def test_a_failure_goes_before_versions(plan: Plan, acks: list[TaskAck]) -> None:
    acks[2].failure = failure("keyed")
    acks[2].subtasks[0].base_version = "old"
    with pytest.raises(JobExecutionError):
        check_acks(plan, acks, HANDLES)
