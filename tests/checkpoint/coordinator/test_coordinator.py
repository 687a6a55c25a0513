"""What each checkpoint option does, told as stories of a job: steps run, checkpoints are taken, written, given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from beadline.checkpoint.coordinator.actions import (
    Action,
    CheckpointKind,
    Complete,
    Discard,
    FailJob,
    FailureReason,
    NotifyAborted,
    NotifyComplete,
    Rejected,
    Take,
    Triggered,
)
from beadline.checkpoint.coordinator.coordinator import CheckpointCoordinator
from beadline.checkpoint.coordinator.parts import CompletedCheckpoint
from beadline.checkpoint.coordinator.statistics import CheckpointStatus
from beadline.checkpoint.ends import End
from beadline.checkpoint.settings import CheckpointSettings, Retention
from beadline.errors import BeadlineError

CHECKPOINT, SAVEPOINT, STOP = (
    CheckpointKind.CHECKPOINT,
    CheckpointKind.SAVEPOINT,
    CheckpointKind.STOP_WITH_SAVEPOINT,
)
EVERY_SECOND = CheckpointSettings(interval_ms=1000)
BY_HAND = CheckpointSettings()


def started(settings: CheckpointSettings = EVERY_SECOND, **changes: Any) -> CheckpointCoordinator:
    coordinator = CheckpointCoordinator(replace(settings, **changes))
    assert coordinator.start(0) == []
    return coordinator


def begun(id: int, step: int, kind: CheckpointKind = CHECKPOINT, request: Any = None) -> list[Action]:
    """What a trigger gives while no step runs."""
    return [Triggered(id, kind, request), Take(id, step, kind, None, request)]


def done(id: int, step: int, *discarded: int) -> list[Action]:
    """What the end of writing a checkpoint gives."""
    discard: list[Action] = [Discard(discarded)] if discarded else []
    return [Complete(id, step, CHECKPOINT), NotifyComplete(id), *discard]


# -- where the barrier goes


def test_an_aligned_checkpoint_is_the_step_that_runs_when_it_is_triggered():
    coordinator = started()
    coordinator.step_started(1, 900)
    assert coordinator.tick(1000) == [Triggered(1, CHECKPOINT)]
    assert coordinator.step_sealed(1, 1200) == [Take(1, 1, CHECKPOINT)]
    coordinator.step_started(2, 1210)
    assert coordinator.written(1, 1300) == done(1, 1)
    assert coordinator.completed == (CompletedCheckpoint(1, 1),)


def test_an_unaligned_checkpoint_overtakes_the_running_step():
    coordinator = started(unaligned=True)
    coordinator.step_started(1, 10)
    coordinator.step_sealed(1, 20)
    coordinator.step_started(2, 30)
    actions = coordinator.tick(1000)
    assert actions == [Triggered(1, CHECKPOINT), Take(1, 1, CHECKPOINT, in_flight=2)]
    assert actions[1].unaligned
    assert coordinator.written(1, 1010) == done(1, 1)
    assert coordinator.step_sealed(2, 50_000) == begun(2, 2), "the next one was due long ago, and no step runs now"


def test_the_alignment_timeout_turns_an_aligned_checkpoint_into_an_unaligned_one():
    coordinator = started(unaligned=True, aligned_timeout_ms=300)
    coordinator.step_started(1, 990)
    assert coordinator.tick(1000) == [Triggered(1, CHECKPOINT)]
    assert coordinator.next_wakeup(1000) == 1300
    assert coordinator.tick(1299) == []
    assert coordinator.tick(1300) == [Take(1, 0, CHECKPOINT, in_flight=1)]
    assert coordinator.step_sealed(1, 1400) == [], "its step stays the one that was taken"


# -- when


def test_checkpoints_come_at_equal_intervals_whatever_they_take():
    coordinator = started()
    for number in range(1, 5):
        assert coordinator.next_wakeup(number * 1000 - 700) == number * 1000
        assert coordinator.tick(number * 1000 - 1) == []
        assert coordinator.tick(number * 1000 + 7)[0] == Triggered(number, CHECKPOINT)
        coordinator.written(number, number * 1000 + 200)


def test_without_an_interval_the_clock_takes_none():
    coordinator = started(BY_HAND)
    assert coordinator.next_wakeup(0) is None
    assert coordinator.tick(10**9) == []
    assert coordinator.trigger(10**9, request="r") == begun(1, 0, request="r")


def test_max_concurrent_keeps_the_next_one_waiting_until_one_has_ended():
    coordinator = started()
    coordinator.tick(1000)
    assert coordinator.tick(2500) == []
    assert coordinator.next_wakeup(2500) == 1000 + coordinator.settings.timeout_ms
    assert coordinator.written(1, 2700) == [*done(1, 0), *begun(2, 0)]


def test_the_pause_is_kept_between_the_end_of_one_and_the_start_of_the_next():
    coordinator = started(min_pause_ms=600)
    coordinator.tick(1000)
    coordinator.written(1, 1900)
    assert coordinator.next_wakeup(1900) == 2500
    assert coordinator.tick(2499) == []
    assert coordinator.tick(2500) == begun(2, 0)


# -- by hand


def test_a_checkpoint_by_hand_waits_for_a_place_but_not_for_the_pause():
    coordinator = started(min_pause_ms=900)
    coordinator.tick(1000)
    assert coordinator.trigger(1100, request="mine") == []
    assert coordinator.written(1, 1200) == [*done(1, 0), *begun(2, 0, request="mine")]


def test_stop_with_savepoint_lets_no_step_and_no_checkpoint_follow_it():
    coordinator = started()
    coordinator.step_started(1, 10)
    coordinator.trigger(20, STOP)
    assert not coordinator.holds
    assert coordinator.step_sealed(1, 30) == [Take(1, 1, STOP)]
    assert coordinator.holds
    with pytest.raises(BeadlineError, match="Step 2 can't start"):
        coordinator.step_started(2, 40)
    assert coordinator.tick(2000) == []
    assert coordinator.trigger(2000, SAVEPOINT, "late") == [
        Rejected("late", FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING)
    ]
    assert coordinator.written(1, 2100) == [Complete(1, 1, STOP), NotifyComplete(1)]
    assert coordinator.holds
    assert coordinator.may_end
    assert coordinator.next_wakeup(2100) is None


def test_cancel_with_savepoint_lets_nothing_follow_it_and_commits_nothing():
    coordinator = started()
    coordinator.trigger(20, CheckpointKind.CANCEL_WITH_SAVEPOINT)
    assert coordinator.holds
    assert coordinator.tick(2000) == []
    assert coordinator.written(1, 2100) == [Complete(1, 0, CheckpointKind.CANCEL_WITH_SAVEPOINT)]
    assert coordinator.holds
    assert coordinator.may_end
    assert coordinator.completed == ()


def test_who_still_waits_when_the_job_has_stopped_with_a_savepoint_is_told():
    coordinator = started(BY_HAND)
    coordinator.trigger(10)
    assert coordinator.trigger(20, request="waits") == []
    coordinator.trigger(30, STOP)
    assert coordinator.written(2, 40) == [
        Complete(2, 0, STOP),
        NotifyAborted(1, FailureReason.CHECKPOINT_SUBSUMED),
        NotifyComplete(2),
        Rejected("waits", FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING),
    ]


def test_a_job_may_go_on_from_where_it_is_without_going_back():
    coordinator = started()
    coordinator.tick(1000)
    coordinator.written(1, 1100)
    coordinator.step_started(1, 1200)
    coordinator.step_sealed(1, 1300)
    coordinator.step_started(2, 1400)
    coordinator.job_failed(1500)
    coordinator.start(1600, step=1)
    assert [c.id for c in coordinator.completed] == [1]
    assert coordinator.tick(2600) == begun(2, 1)


def test_if_the_savepoint_to_stop_with_fails_the_job_goes_on():
    coordinator = started(tolerable_failures=1)
    coordinator.trigger(20, STOP)
    assert coordinator.failed(1, FailureReason.IO_EXCEPTION, 30) == [NotifyAborted(1, FailureReason.IO_EXCEPTION)]
    assert not coordinator.holds
    coordinator.step_started(1, 40)
    coordinator.step_sealed(1, 50)
    assert coordinator.tick(1000) == begun(2, 1)


def test_no_checkpoint_by_hand_before_the_job_runs():
    coordinator = CheckpointCoordinator(EVERY_SECOND)
    reason = FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
    assert coordinator.trigger(0, request="early") == [Rejected("early", reason)]


def test_too_many_requests_are_rejected():
    coordinator = started(BY_HAND)
    for number in range(1001):
        coordinator.trigger(0, request=number)
    assert coordinator.trigger(0, request="x") == [Rejected("x", FailureReason.TOO_MANY_CHECKPOINT_REQUESTS)]


# -- failures


def test_a_checkpoint_expires():
    coordinator = started(timeout_ms=300, tolerable_failures=1)
    coordinator.tick(1000)
    assert coordinator.next_wakeup(1000) == 1300
    assert coordinator.tick(1299) == []
    assert coordinator.tick(1300) == [NotifyAborted(1, FailureReason.CHECKPOINT_EXPIRED, "300 ms")]
    assert not coordinator.is_pending(1)


COUNTED = [
    FailureReason.CHECKPOINT_DECLINED,
    FailureReason.CHECKPOINT_ASYNC_EXCEPTION,
    FailureReason.IO_EXCEPTION,
    FailureReason.FINALIZE_CHECKPOINT_FAILURE,
    FailureReason.CHECKPOINT_EXPIRED,
]


@pytest.mark.parametrize("reason", COUNTED)
def test_without_tolerance_the_first_failure_that_counts_fails_the_job(reason: FailureReason):
    coordinator = started(max_concurrent=2)
    coordinator.tick(1000)
    coordinator.tick(2000)
    coordinator.trigger(2100, request="waits")
    *rest, fail = coordinator.failed(1, reason, 2200, "disk full")
    assert rest == [
        NotifyAborted(1, reason, "disk full"),
        NotifyAborted(2, FailureReason.JOB_FAILURE),
        Rejected("waits", FailureReason.JOB_FAILURE),
    ]
    assert isinstance(fail, FailJob)
    assert fail.reason == (
        "1 checkpoint failed, and execution.checkpointing.tolerable-failed-checkpoints tolerates 0. "
        f"Checkpoint 1 was the last: {reason.value} disk full"
    )
    assert coordinator.pending == ()
    assert coordinator.tick(10_000) == []


@pytest.mark.parametrize("reason", [reason for reason in FailureReason if reason not in COUNTED])
def test_other_reasons_never_fail_the_job(reason: FailureReason):
    coordinator = started()
    coordinator.tick(1000)
    assert coordinator.failed(1, reason, 1100) == [NotifyAborted(1, reason)]


def fail_next(coordinator: CheckpointCoordinator, now: int) -> list[Action]:
    triggered = coordinator.trigger(now)[0]
    assert isinstance(triggered, Triggered)
    return coordinator.failed(triggered.id, FailureReason.CHECKPOINT_DECLINED, now)


def test_tolerable_failures_are_counted_in_a_row():
    coordinator = started(BY_HAND, tolerable_failures=2)
    assert len(fail_next(coordinator, 1)) == len(fail_next(coordinator, 2)) == 1
    coordinator.trigger(3)
    coordinator.written(3, 3)
    assert len(fail_next(coordinator, 4)) == len(fail_next(coordinator, 5)) == 1
    fail = fail_next(coordinator, 6)[-1]
    assert isinstance(fail, FailJob)
    assert (
        "3 checkpoints failed in a row, and execution.checkpointing.tolerable-failed-checkpoints tolerates 2"
        in fail.reason
    )


def test_after_it_failed_the_job_the_count_starts_over():
    coordinator = started(BY_HAND, tolerable_failures=1)
    fail_next(coordinator, 1)
    assert isinstance(fail_next(coordinator, 2)[-1], FailJob)
    coordinator.job_failed(3)
    coordinator.restored(None, 4, step=0)
    assert len(fail_next(coordinator, 5)) == 1


@pytest.mark.parametrize("reason", COUNTED)
def test_a_savepoint_counts_only_if_a_task_failed_it(reason: FailureReason):
    coordinator = started(BY_HAND)
    coordinator.trigger(1, SAVEPOINT)
    fails = any(isinstance(action, FailJob) for action in coordinator.failed(1, reason, 2))
    assert fails == (reason in (FailureReason.CHECKPOINT_DECLINED, FailureReason.CHECKPOINT_ASYNC_EXCEPTION))


# -- completion


def test_a_completed_checkpoint_subsumes_older_open_ones():
    coordinator = started(max_concurrent=3)
    for number in (1, 2, 3):
        coordinator.tick(number * 1000)
    assert coordinator.written(2, 3100) == [
        Complete(2, 0, CHECKPOINT),
        NotifyAborted(1, FailureReason.CHECKPOINT_SUBSUMED),
        NotifyComplete(2),
    ]
    assert coordinator.pending == (3,)
    assert coordinator.written(1, 3200) == [Discard((1,))]


def test_checkpoints_of_an_earlier_run_are_replaced_like_its_own():
    earlier = [CompletedCheckpoint(7, 70), CompletedCheckpoint(9, 90)]
    coordinator = CheckpointCoordinator(replace(EVERY_SECOND, retained=2), next_id=10, completed=earlier)
    coordinator.restored(9, 0, step=90)
    assert coordinator.tick(1000) == begun(10, 90)
    assert coordinator.written(10, 1100) == done(10, 90, 7)


def test_an_id_is_not_given_twice():
    with pytest.raises(BeadlineError, match="can't have the id 9: 9 is already in use"):
        CheckpointCoordinator(BY_HAND, next_id=9, completed=[CompletedCheckpoint(9, 1)])


# -- failover


def test_a_failure_gives_up_what_is_open_and_a_restore_goes_on_from_its_step():
    coordinator = started()
    coordinator.step_started(1, 10)
    coordinator.step_sealed(1, 20)
    coordinator.tick(1000)
    coordinator.written(1, 1100)
    coordinator.step_started(2, 1200)
    coordinator.tick(2000)
    assert coordinator.job_failed(2100) == [NotifyAborted(2, FailureReason.JOB_FAILURE)]
    assert coordinator.step_sealed(2, 2110) == [], "the loop may learn of the failure a moment later"
    assert coordinator.next_wakeup(2100) is None
    assert coordinator.restored(1, 5000, step=1) == []
    assert coordinator.next_wakeup(5000) == 6000
    assert coordinator.tick(6000) == begun(3, 1)


def test_a_foreign_checkpoint_is_never_discarded():
    coordinator = CheckpointCoordinator(BY_HAND)
    coordinator.restored(41, 0, step=400)
    assert coordinator.trigger(1) == begun(42, 400)
    assert coordinator.written(42, 2) == done(42, 400)


# -- the end


@pytest.mark.parametrize(
    ("retention", "kept_after"),
    [
        (Retention.NO_EXTERNALIZED_CHECKPOINTS, set()),
        (Retention.DELETE_ON_CANCELLATION, {End.FAILED}),
        (Retention.RETAIN_ON_CANCELLATION, {End.FAILED, End.CANCELLED}),
    ],
)
@pytest.mark.parametrize("end", End)
def test_the_end_keeps_or_discards_as_the_retention_says(retention: Retention, kept_after: set[End], end: End):
    coordinator = started(BY_HAND, retention=retention, retained=2)
    for id in (1, 2):
        coordinator.trigger(id)
        coordinator.written(id, id)
    coordinator.trigger(3, SAVEPOINT)
    actions = coordinator.stop(4, end)
    assert actions[0] == NotifyAborted(3, FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
    kept = end in kept_after or end not in (End.FINISHED, End.STOPPED, End.CANCELLED, End.FAILED)
    assert actions[1:] == ([] if kept else [Discard((1, 2))])
    assert coordinator.stop(5, end) == []
    with pytest.raises(BeadlineError, match="over"):
        coordinator.start(6)


def test_a_job_that_winds_down_gets_the_checkpoint_that_is_asked_for_and_no_other():
    coordinator = started()
    coordinator.wind_down(900)
    assert coordinator.tick(5000) == []
    assert coordinator.next_wakeup(5000) is None
    assert coordinator.trigger(5000, request="last") == begun(1, 0, request="last")
    assert coordinator.written(1, 9000) == done(1, 0)
    assert coordinator.tick(20_000) == []


def test_the_final_step_is_checkpointed_at_once_and_the_job_waits_for_it():
    coordinator = started(min_pause_ms=800)
    coordinator.tick(1000)
    coordinator.written(1, 1100)
    coordinator.step_started(1, 1110)
    assert coordinator.step_sealed(1, 1200, final=True) == begun(2, 1)
    assert not coordinator.may_end
    assert coordinator.written(2, 1300) == done(2, 1, 1)
    assert coordinator.may_end
    assert coordinator.next_wakeup(1300) is None


def test_without_checkpoints_a_job_ends_when_its_final_step_is_sealed():
    coordinator = started(BY_HAND)
    assert not coordinator.may_end
    coordinator.step_started(1, 10)
    assert coordinator.step_sealed(1, 100, final=True) == []
    assert coordinator.may_end


def test_no_checkpoint_follows_a_finished_source_if_that_is_turned_off():
    coordinator = started(after_tasks_finish=False)
    coordinator.source_finished(500)
    assert coordinator.tick(1000) == []
    reason = FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
    assert coordinator.trigger(1100, SAVEPOINT, "s") == [Rejected("s", reason)]
    coordinator.step_started(1, 1200)
    assert coordinator.step_sealed(1, 1300, final=True) == []
    assert coordinator.may_end


# -- what is known afterwards


def test_statistics_of_each_checkpoint():
    coordinator = started(tolerable_failures=1)
    coordinator.step_started(1, 10)
    coordinator.tick(1000)
    coordinator.step_sealed(1, 1300)
    coordinator.written(1, 1700, size=50, full_size=900, path="chk-1")
    coordinator.tick(2000)
    coordinator.failed(2, FailureReason.IO_EXCEPTION, 2100, "no space left")
    coordinator.trigger(2200, SAVEPOINT)
    coordinator.written(3, 2600, size=70)
    coordinator.trigger(2700)
    known = coordinator.statistics
    one = known.get(1)
    assert one is not None
    assert (one.status, one.step, one.size, one.full_size, one.path) == (
        CheckpointStatus.COMPLETED,
        1,
        50,
        900,
        "chk-1",
    )
    assert (one.triggered_at, one.alignment_ms, one.duration_ms, one.type) == (1000, 300, 700, "aligned checkpoint")
    four, three, two, _ = known
    assert (two.status, two.duration_ms) == (CheckpointStatus.FAILED, 100)
    assert two.failure == "The checkpoint storage could not be read or written. no space left"
    assert (three.type, three.duration_ms, three.size, three.full_size) == ("savepoint", 400, 70, 70)
    assert four.status is CheckpointStatus.IN_PROGRESS
    assert (known.triggered, known.completed, known.failed) == (4, 2, 1)
    coordinator.written(4, 2800)
    one = known.get(1)
    assert one is not None
    assert one.discarded


def test_only_the_newest_records_are_kept():
    coordinator = started(replace(BY_HAND, history=10))
    for id in range(1, 31):
        coordinator.trigger(id)
        coordinator.written(id, id)
    assert [stats.id for stats in coordinator.statistics] == list(range(30, 20, -1))
    assert coordinator.statistics.completed == 30


# -- mistakes of the caller


def test_events_that_can_not_be():
    coordinator = started()
    coordinator.step_started(1, 10)
    with pytest.raises(BeadlineError, match="step 1 runs"):
        coordinator.step_started(2, 20)
    with pytest.raises(BeadlineError, match="it is step 1 that runs"):
        coordinator.step_sealed(2, 20)
    coordinator.trigger(30)
    with pytest.raises(BeadlineError, match="step 1 still runs"):
        coordinator.written(1, 40)
    with pytest.raises(BeadlineError, match="no checkpoint 5"):
        coordinator.failed(5, FailureReason.IO_EXCEPTION, 50)
    coordinator.step_sealed(1, 60)
    with pytest.raises(BeadlineError, match="step 1 is the last sealed"):
        coordinator.step_started(1, 70)


def test_a_clock_that_goes_back_changes_nothing():
    coordinator = started()
    coordinator.tick(1000)
    assert coordinator.tick(0) == []
    coordinator.written(1, 500)
    (stats,) = coordinator.statistics
    assert (stats.status, stats.duration_ms) == (CheckpointStatus.COMPLETED, 0)
