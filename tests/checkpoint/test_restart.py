"""Restart strategies: when a failed job runs again, and after how long."""

from __future__ import annotations

import random
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from beadline.checkpoint.restart import (
    KEYS,
    Decision,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
    restart_strategy,
)
from beadline.common.configuration import Configuration
from beadline.common.restart_strategy import RestartStrategies
from beadline.datastream.environment.options import of_restart_strategy
from beadline.errors import ConfigurationError

RS = "restart-strategy."


def middle() -> float:
    """Dice that always fall in the middle: no jitter."""
    return 0.5


def made(options: dict[str, str], checkpointing: bool = True) -> RestartStrategy:
    return restart_strategy(Configuration.from_dict(options), checkpointing=checkpointing, uniform=middle)


def delays(strategy: RestartStrategy, times: list[int]) -> list[int | None]:
    """The delay after each failure, ``None`` for no restart."""
    decisions = [strategy.failed(time) for time in times]
    return [decision.delay_ms if decision.restart else None for decision in decisions]


def one_after_another(strategy: RestartStrategy, count: int) -> list[int | None]:
    """The delays if the job fails a millisecond after each restart."""
    found: list[int | None] = []
    now = 0
    for _ in range(count):
        decision = strategy.failed(now)
        found.append(decision.delay_ms if decision.restart else None)
        now += decision.delay_ms + 1
    return found


# -- which one


def test_without_checkpoints_the_first_failure_ends_the_job():
    strategy = made({}, checkpointing=False)
    assert isinstance(strategy, NoRestart)
    decision = strategy.failed(5)
    assert not decision.restart
    assert "restart-strategy.type" in decision.why


def test_with_checkpoints_it_restarts_any_number_of_times_and_waits_longer_each_time():
    strategy = made({})
    assert one_after_another(strategy, 1000) == [min(60_000, int(1000 * 1.5**n)) for n in range(1000)]
    assert "1000 of any number used" in repr(strategy)


def test_the_default_starts_over_after_a_quiet_hour():
    strategy = made({})
    assert one_after_another(strategy, 5)[-1] == 5062
    strategy.running(100_000)
    assert strategy.failed(100_000 + 3_600_000).delay_ms == 1000


def test_the_default_spreads_its_delays():
    strategy = restart_strategy(Configuration(), checkpointing=True)
    found = one_after_another(strategy, 8)[1:]
    assert all(0.89 * 1.5**n * 1000 <= delay <= 1.11 * 1.5**n * 1000 for n, delay in enumerate(found, start=1))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"fixed-delay.delay": "7 ms", "fixed-delay.attempts": "2"}, [7, 7, None, None]),
        ({"fixed-delay.delay": "7 ms"}, [7, 7, 7, 7]),
        ({"failure-rate.max-failures-per-interval": "2", "failure-rate.delay": "3 ms"}, [3, 3, None, None]),
        ({"exponential-delay.initial-backoff": "8 ms"}, [8, 12, 18, 27]),
    ],
)
def test_options_of_a_strategy_name_it_if_no_type_does(options: dict[str, str], expected: list[int | None]):
    assert one_after_another(made({RS + key: value for key, value in options.items()}), 4) == expected
    assert isinstance(made({RS + key: value for key, value in options.items()}, checkpointing=False), NoRestart)


def test_options_of_two_strategies_need_a_type():
    options = {RS + "fixed-delay.delay": "7 ms", RS + "failure-rate.delay": "7 ms"}
    with pytest.raises(ConfigurationError, match=r"fixed-delay and failure-rate are set: choose one"):
        made(options)
    assert delays(made({**options, RS + "type": "fixed-delay"}), [0, 0]) == [7, None]


@pytest.mark.parametrize("name", ["none", "off", "disable", "NONE"])
def test_names_of_no_restart(name: str):
    assert delays(made({RS + "type": name}), [0]) == [None]


def test_the_older_key():
    assert delays(made({"restart-strategy": "none"}), [0]) == [None]


def test_defaults_of_each_strategy():
    assert delays(made({RS + "type": "fixed-delay"}), [0, 0]) == [1000, None]
    assert delays(made({RS + "type": "failure-rate"}), [0, 60_001, 60_002]) == [1000, 1000, None]
    exponential = made({RS + "type": "exponential-delay"})
    assert one_after_another(exponential, 12) == [min(60_000, int(1000 * 1.5**n)) for n in range(12)]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (RestartStrategies.no_restart(), [None] * 4),
        (RestartStrategies.fixed_delay_restart(3, 10), [10, 10, 10, None]),
        (RestartStrategies.failure_rate_restart(2, 1000, 10), [10, 10, None, None]),
        (RestartStrategies.exponential_delay_restart(10, 50, 2.0, 1000, 0.0, 3), [10, 20, 40, None]),
        (RestartStrategies.fall_back_restart(), [1000, 1500, 2250, 3375]),
    ],
)
def test_strategies_from_code(chosen: object, expected: list[int | None]):
    configuration = of_restart_strategy(chosen)  # type: ignore[arg-type]
    assert set(configuration.to_dict()) <= KEYS
    strategy = restart_strategy(configuration, checkpointing=True, uniform=middle)
    assert one_after_another(strategy, 4) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": "sometimes"}, "must be none, fixed-delay, failure-rate or exponential-delay, not 'sometimes'"),
        ({"type": "fixed-delay", "fixed-delay.attempts": "-1"}, "attempts is -1; it must be at least 0"),
        ({"type": "fixed-delay", "fixed-delay.delay": "soon"}, "soon"),
        ({"type": "failure-rate", "failure-rate.max-failures-per-interval": "0"}, "must be at least 1"),
        ({"type": "failure-rate", "failure-rate.failure-rate-interval": "0 ms"}, "must be at least 1"),
        ({"type": "exponential-delay", "exponential-delay.initial-backoff": "0 ms"}, "must be at least 1"),
        ({"type": "exponential-delay", "exponential-delay.max-backoff": "10 ms"}, "must not be shorter than"),
        ({"type": "exponential-delay", "exponential-delay.backoff-multiplier": "0.5"}, "must be at least 1"),
        ({"type": "exponential-delay", "exponential-delay.backoff-multiplier": "NaN"}, "must be at least 1"),
        ({"type": "exponential-delay", "exponential-delay.jitter-factor": "1.5"}, "must be from 0 to 1"),
        ({"type": "exponential-delay", "exponential-delay.reset-backoff-threshold": "0 ms"}, "at least 1"),
        ({"type": "exponential-delay", "exponential-delay.attempts-before-reset-backoff": "0"}, "at least 1"),
    ],
)
def test_values_that_can_not_work(options: dict[str, str], message: str):
    with pytest.raises(ConfigurationError, match=message):
        made({RS + key: value for key, value in options.items()})


# -- what each does


def test_fixed_delay_says_which_restart_it_is():
    strategy = FixedDelay(2, 10)
    assert [strategy.failed(0).why for _ in range(3)] == [
        "restart 1 of 2",
        "restart 2 of 2",
        "all 2 restarts are used up (restart-strategy.fixed-delay.attempts)",
    ]


def test_failure_rate_forgets_what_is_longer_ago_than_the_interval():
    strategy = FailureRate(2, 100, 10)
    assert delays(strategy, [0, 50, 101, 151, 200, 252]) == [10, 10, 10, 10, None, 10]


@given(st.integers(1, 4), st.integers(1, 50), st.lists(st.integers(0, 30), max_size=40))
def test_failure_rate_is_the_count_in_a_sliding_window(allowed: int, interval: int, gaps: list[int]):
    strategy = FailureRate(allowed, interval, 7)
    times: list[int] = []
    for gap in gaps:
        times.append(gap + (times[-1] if times else 0))
        in_window = len([time for time in times if time >= times[-1] - interval])
        assert strategy.failed(times[-1]).restart == (in_window <= allowed)


def test_exponential_delay_starts_over_after_a_quiet_time():
    strategy = ExponentialDelay(10, 1000, 2, 500, 0.0)
    assert strategy.failed(0).delay_ms == 10
    assert strategy.failed(100).delay_ms == 20
    assert strategy.failed(100 + 20 + 499).delay_ms == 40
    assert strategy.failed(619 + 40 + 500).delay_ms == 10


def test_the_quiet_time_begins_when_the_job_runs_again():
    strategy = ExponentialDelay(10, 1000, 2, 500, 0.0)
    strategy.failed(0)
    strategy.running(300)
    strategy.running(700)
    assert strategy.failed(799).delay_ms == 20, "the restore took long; only 499 ms were quiet"
    strategy.running(900)
    assert strategy.failed(1400).delay_ms == 10


def test_failures_while_a_restart_is_waited_for_are_one():
    strategy = ExponentialDelay(100, 1000, 2, 500, 0.0, attempts=1)
    assert strategy.failed(0) == Decision(True, 100, "restart 1 of 1")
    assert strategy.failed(40) == Decision(True, 60, "restart 1 of 1")
    assert not strategy.failed(101).restart


def test_attempts_before_reset_are_counted_anew_after_a_quiet_time():
    strategy = ExponentialDelay(10, 1000, 2, 500, 0.0, attempts=2)
    assert delays(strategy, [0, 100, 10_000, 10_100, 10_200]) == [10, 20, 10, 20, None]


def test_jitter_spreads_the_delay_to_both_sides_within_the_limits():
    def second_delay(dice: Callable[[], float]) -> int:
        strategy = ExponentialDelay(100, 1000, 4, 10**9, 0.25, uniform=dice)
        now = strategy.failed(0).delay_ms + 1
        return strategy.failed(now).delay_ms

    assert second_delay(lambda: 0.0) == 300
    assert second_delay(lambda: 0.5) == 400
    assert second_delay(lambda: 0.999999) == 500
    fair = random.Random(3).random
    seen = {second_delay(fair) for _ in range(5000)}
    assert seen == set(range(300, 501)), "each delay comes up"


def test_it_never_waits_less_than_at_first_nor_longer_than_the_limit():
    dice = random.Random(5).random
    strategy = ExponentialDelay(100, 700, 1.3, 10**9, 1.0, uniform=dice)
    found = one_after_another(strategy, 5000)
    assert all(delay is not None and 100 <= delay <= 700 for delay in found)
    assert {100, 700} <= set(found)


@settings(deadline=None)
@given(
    initial=st.integers(1, 50),
    most=st.integers(50, 400),
    multiplier=st.sampled_from([1.0, 1.5, 2.0, 4.0]),
    quiet=st.integers(1, 200),
    attempts=st.none() | st.integers(1, 4),
    gaps=st.lists(st.integers(0, 300), max_size=30),
)
def test_exponential_delay_against_its_definition(
    initial: int, most: int, multiplier: float, quiet: int, attempts: int | None, gaps: list[int]
):
    """Replays the whole history for each failure instead of keeping a state."""
    strategy = ExponentialDelay(initial, most, multiplier, quiet, 0.0, attempts)
    times = [sum(gaps[: place + 1]) for place in range(len(gaps))]
    for place, now in enumerate(times):
        attempt, restart_at = 0, -1
        for time in times[: place + 1]:
            if attempt and time <= restart_at:
                continue
            attempt = 1 if attempt == 0 or time - restart_at >= quiet else attempt + 1
            restart_at = time + min(most, int(initial * multiplier ** (attempt - 1)))
        decision = strategy.failed(now)
        assert decision.restart == (attempts is None or attempt <= attempts)
        if decision.restart:
            assert decision.delay_ms == restart_at - now


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (NoRestart(), "no restart"),
        (FixedDelay(3, 10_000), "at most 3 restarts, each after 10 s"),
        (FixedDelay(None, 1500), "any number of restarts, each after 1500 ms"),
        (FailureRate(2, 60_000, 0), "restarts after 0 ms, for at most 2 failures in 1 min"),
        (
            ExponentialDelay(1000, 60_000, 1.5, 3_600_000, 0.1, 9),
            (
                "restarts after 1 s, then 1.5 times as long each, up to 1 min, at most 9 of them; "
                "from the beginning after 1 h without a failure"
            ),
        ),
    ],
)
def test_people_read_what_a_strategy_does(strategy: RestartStrategy, words: str):
    assert strategy.in_words == words
