"""A clock that is set while a job runs: what waits and expires goes on, and processing time never goes back."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.checkpoint.coordinator.actions import CheckpointKind, FailureReason
from beadline.checkpoint.coordinator.coordinator import CheckpointCoordinator
from beadline.checkpoint.settings import CheckpointSettings
from beadline.common import Types
from beadline.datastream import KeyedProcessFunction
from beadline.datastream.environment import options
from beadline.master.definition import ProcessingTime
from tests.datastream.jobs import environment

HOUR = 3_600_000


class Hands:
    """Two clocks that are moved by hand."""

    def __init__(self) -> None:
        self.wall, self.passed = 1_700_000_000_000, 5_000

    def move(self, passed: int, set_by: int = 0) -> None:
        self.passed += passed
        self.wall += passed + set_by


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(-2 * HOUR, 2 * HOUR)), max_size=30))
def test_processing_time_never_goes_back_and_never_stands_still(moves: list[tuple[int, int]]) -> None:
    hands = Hands()
    now = ProcessingTime(lambda: hands.wall, lambda: hands.passed)
    before = now()
    assert before == hands.wall
    for passed, set_by in moves:
        hands.move(passed, set_by)
        after = now()
        assert after - before >= passed
        assert after >= hands.wall
        before = after


def test_processing_time_is_the_wall_clock_again_when_that_has_caught_up() -> None:
    hands = Hands()
    now = ProcessingTime(lambda: hands.wall, lambda: hands.passed)
    hands.move(0, -1000)
    assert now() == hands.wall + 1000
    hands.move(500, +1000)
    assert now() == hands.wall
    hands.move(0, +HOUR)
    assert now() == hands.wall


def test_statistics_tell_the_time_of_day_and_true_durations() -> None:
    hands = Hands()
    settings = CheckpointSettings(interval_ms=1000)
    coordinator = CheckpointCoordinator(settings, wall=lambda at: hands.wall - hands.passed + at)
    coordinator.start(hands.passed)
    coordinator.step_started(1, hands.passed)
    first = hands.wall
    coordinator.trigger(hands.passed, CheckpointKind.CHECKPOINT)
    hands.move(40, -HOUR)
    coordinator.step_sealed(1, hands.passed)
    hands.move(60, +2 * HOUR)
    coordinator.written(1, hands.passed)
    hands.move(1, 0)
    coordinator.trigger(hands.passed, CheckpointKind.CHECKPOINT)
    coordinator.failed(2, FailureReason.IO_EXCEPTION, hands.passed + 7)
    second, done = coordinator.statistics
    assert (done.triggered_at, done.alignment_ms, done.duration_ms) == (first, 40, 100)
    assert (second.triggered_at, second.duration_ms) == (hands.wall, 7)


class Ticking(KeyedProcessFunction):
    """Tells the time of every record, and of a timer soon after each."""

    def process_element(self, value: int, ctx: Any) -> Any:
        now = ctx.timer_service().current_processing_time()
        time.sleep(0.02)
        ctx.timer_service().register_processing_time_timer(now + 100)
        yield "record", now, now

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer", timestamp, ctx.timer_service().current_processing_time()


@pytest.mark.spark
def test_checkpoints_and_timers_go_on_when_the_clock_is_set(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour back, then two ahead, each while a checkpoint waits for its step: the next ones come in time, and none
    expires."""
    set_by = 0
    make = options.job_settings

    def settings(*arguments: Any) -> Any:
        return replace(make(*arguments), clock=lambda: int(time.time() * 1000) + set_by)

    monkeypatch.setattr(options, "job_settings", settings)
    env = environment(
        1, step_records=8, execution__checkpointing__interval="300 ms", execution__checkpointing__timeout="1 min"
    )
    env._configuration.set_string("restart-strategy.type", "none")
    told = (
        env.from_sequence(1, 10**6)
        .key_by(lambda _: 0, key_type=Types.INT())
        .process(Ticking(), output_type=Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
    )
    found: list[Any] = []
    with told.execute_and_collect() as results:
        master: Any = results._client._master

        def statistics() -> Any:
            return master.running.checkpoints.coordinator.statistics

        def wait_for(count: int) -> None:
            until, wanted = time.monotonic() + 30, statistics().completed + count
            while statistics().completed < wanted:
                assert time.monotonic() < until, f"no checkpoint for 30 s: {list(statistics())}"
                assert not master.wait(0.01), f"the job ended: {master.error}"

        found.append(next(results))
        wait_for(2)
        for jump in (-HOUR, 2 * HOUR):
            while not master.running.checkpoints.coordinator.pending:
                time.sleep(0.001)
            set_by += jump
            wait_for(4)
            assert statistics().failed == 0
            ended = time.monotonic() + 0.5
            while time.monotonic() < ended:
                found.append(next(results))
        assert all(0 <= stats.duration_ms < 30_000 for stats in statistics() if stats.ended_at is not None)
        newest = next(iter(statistics()))
        assert abs(newest.triggered_at - time.time() * 1000 - HOUR) < 60_000
    times = [now for _, _, now in found]
    assert times == sorted(times)
    late = [now - timestamp for what, timestamp, now in found if what == "timer"]
    assert len(late) > 10
    # Only the jump ahead makes a timer late, because the time in which it was due never was.
    assert sum(lateness > 10_000 for lateness in late) <= 16
    jumps = [after - before for before, after in pairwise(times)]
    assert max(jumps) < HOUR + 60_000
