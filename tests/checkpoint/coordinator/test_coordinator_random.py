"""Thousands of interleavings of triggers, seals, writes, timeouts and failures, judged by a referee."""

from __future__ import annotations

import os
import random
from collections import Counter

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from beadline.checkpoint.coordinator.actions import CheckpointKind, FailureReason
from beadline.checkpoint.ends import End
from beadline.checkpoint.settings import CheckpointSettings, Retention
from tests.checkpoint.coordinator.referee import World, tell

JOBS = 6000 if os.environ.get("BEADLINE_NIGHTLY") else 1500
ENDS = [End.FINISHED, End.CANCELLED, End.FAILED, End.SUSPENDED]


@st.composite
def checkpoint_settings(draw: st.DrawFn) -> CheckpointSettings:
    unaligned = draw(st.booleans())
    return CheckpointSettings(
        interval_ms=draw(st.none() | st.integers(10, 60)),
        timeout_ms=draw(st.integers(10, 120)),
        min_pause_ms=draw(st.just(0) | st.integers(1, 80)),
        max_concurrent=1 if unaligned else draw(st.integers(1, 3)),
        tolerable_failures=draw(st.none() | st.integers(0, 3)),
        retained=draw(st.integers(1, 3)),
        retention=draw(st.sampled_from(Retention)),
        unaligned=unaligned,
        aligned_timeout_ms=draw(st.just(0) | st.integers(1, 60)),
        after_tasks_finish=draw(st.booleans()),
    )


class CoordinatorMachine(RuleBasedStateMachine):
    """Hypothesis looks for the shortest story that breaks a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(CheckpointSettings())

    @initialize(chosen=checkpoint_settings())
    def begin(self, chosen: CheckpointSettings) -> None:
        self.world = World(chosen)
        self.world.start()

    @rule(ms=st.integers(0, 70))
    def pass_time(self, ms: int) -> None:
        self.world.pass_time(ms)

    @rule()
    def sleep_until_woken(self) -> None:
        self.world.sleep_until_woken()

    @rule()
    def start_step(self) -> None:
        self.world.start_step()

    @precondition(lambda self: self.world.running is not None)
    @rule(final=st.integers(0, 9))
    def seal_step(self, final: int) -> None:
        self.world.seal_step(final == 9)

    @rule(kind=st.sampled_from(CheckpointKind))
    def ask(self, kind: CheckpointKind) -> None:
        self.world.ask(kind)

    @precondition(lambda self: self.world.unwritten)
    @rule(pick=st.integers(0, 3))
    def write(self, pick: int) -> None:
        self.world.write(pick)

    @precondition(lambda self: self.world.coordinator.pending)
    @rule(pick=st.integers(0, 3), reason=st.sampled_from(FailureReason))
    def fail(self, pick: int, reason: FailureReason) -> None:
        self.world.fail(pick, reason)

    @rule()
    def finish_source(self) -> None:
        self.world.finish_source()

    @rule()
    def crash(self) -> None:
        self.world.crash()

    @precondition(lambda self: not self.world.active)
    @rule(pick=st.integers(0, 9))
    def restore(self, pick: int) -> None:
        self.world.restore(pick)

    def teardown(self) -> None:
        self.world.stop(ENDS[len(self.world.story) % len(ENDS)])
        self.world.write(0)


TestCoordinator = CoordinatorMachine.TestCase
TestCoordinator.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)

# How often each thing happens in the seeded stories: mostly life as it is, seldom a catastrophe.
WEIGHTS = {
    "pass_time": 8,
    "sleep_until_woken": 5,
    "start_step": 8,
    "seal_step": 8,
    "write": 8,
    "fail": 3,
    "ask": 2,
    "restore": 6,
    "crash": 1,
    "finish_source": 0.2,
}


def random_settings(dice: random.Random) -> CheckpointSettings:
    unaligned = dice.random() < 0.4
    return CheckpointSettings(
        interval_ms=dice.choice([None, 10, 17, 30, 60]),
        timeout_ms=dice.choice([20, 70, 300, 1000]),
        min_pause_ms=dice.choice([0, 0, 5, 25, 90]),
        max_concurrent=1 if unaligned else dice.choice([1, 1, 2, 3]),
        tolerable_failures=dice.choice([None, 0, 1, 3]),
        retained=dice.choice([1, 1, 2, 4]),
        retention=dice.choice(list(Retention)),
        unaligned=unaligned,
        aligned_timeout_ms=dice.choice([0, 8, 40]),
        after_tasks_finish=dice.random() < 0.8,
    )


def make_a_move(world: World, dice: random.Random) -> None:
    (move,) = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))
    if move == "pass_time":
        world.pass_time(dice.choice([0, 1, 3, 9, 20, 60]))
    elif move == "seal_step":
        world.seal_step(final=dice.random() < 0.03)
    elif move == "write":
        world.write(dice.choice([0, 0, 0, 1, 2]))
    elif move == "fail":
        world.fail(dice.randrange(4), dice.choice(list(FailureReason)))
    elif move == "ask":
        world.ask(dice.choices(list(CheckpointKind), [8, 6, 1, 1])[0])
    elif move == "restore":
        world.restore(dice.choice([0, 0, 0, 1, 2, 9]))
    else:
        getattr(world, move)()


def test_many_random_jobs():
    ends: Counter[str] = Counter()
    for seed in range(JOBS):
        dice = random.Random(seed)
        world = World(random_settings(dice))
        try:
            world.start()
            for _ in range(60):
                make_a_move(world, dice)
            world.stop(dice.choice(ENDS))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}\n{tell(world)}") from error
        ends.update(history.end or "" for history in world.known.values())
        ends.update(["unaligned" for h in world.known.values() if h.take is not None and h.take.unaligned])
        ends.update(["savepoint" for h in world.known.values() if h.savepoint and h.end == "completed"])
    # The stories must be about something: each sort of end is frequent.
    for what in ("completed", "CHECKPOINT_EXPIRED", "CHECKPOINT_SUBSUMED", "JOB_FAILURE", "unaligned", "savepoint"):
        assert ends[what] > JOBS / 10, (what, ends)
    assert ends["completed"] > JOBS, ends
