"""How large the next step is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.master.upkeep.pacing import Limits, Pacing

LIMITS = Limits(first_rows=100, max_rows=50_000, max_touched=10_000, max_bytes=1_000_000, target_seconds=2.0)


@given(st.lists(st.tuples(st.integers(0, 100_000), st.floats(0, 60), st.integers(0, 10**6), st.integers(0, 10**8))))
def test_steps_stay_within_bounds_and_grow_fourfold_or_to_the_target(steps: list[tuple[int, float, int, int]]) -> None:
    pacing = Pacing(LIMITS)
    assert pacing.rows == 100
    for rows, seconds, touched, sent in steps:
        before = pacing.rows
        pacing.sealed(rows, seconds, touched, sent)
        assert 100 <= pacing.rows <= 50_000
        # A step may take longer than the target to be worth its overhead: eight times 0.3 s at most.
        within_target = rows * 2.4 / seconds if seconds > 0 else 0
        assert pacing.rows <= max(4 * rows, within_target, before)
        assert pacing.rows >= min(before, rows // 4) or pacing.rows == 100


def test_quick_steps_grow_until_they_take_the_target() -> None:
    pacing = Pacing(LIMITS)
    sizes = []
    for _ in range(20):
        sizes.append(pacing.rows)
        pacing.sealed(pacing.rows, 0.1 + pacing.rows / 10_000, 0)
    assert sizes[:2] == [100, 1818], "18 times as much would take the target if all of the 0.11 s were records"
    assert 0.5 < 0.1 + sizes[-1] / 10_000 < 3
    assert abs(sizes[-1] - sizes[-2]) < sizes[-1] * 0.2, "it has settled"


@pytest.mark.parametrize(("keys", "shortest", "longest"), [(0, 0.9, 1.1), (20_000, 1.05, 1.3), (100_000, 2.0, 2.5)])
def test_steps_that_change_the_same_entries_again_are_longer(keys: int, shortest: float, longest: float) -> None:
    """Each step changes all keys, so that a longer step does not change more of them."""
    pacing = Pacing(Limits(target_seconds=1.0))
    took = []
    for _ in range(20):
        took.append(0.1 + 2e-6 * min(keys, pacing.rows) + 1e-6 * pacing.rows)
        pacing.sealed(pacing.rows, took[-1], min(keys, pacing.rows))
    assert all(shortest < seconds < longest for seconds in took[5:]), took


def test_steps_in_which_every_record_has_its_own_key_are_not() -> None:
    pacing = Pacing(Limits(target_seconds=1.0))
    took = []
    for _ in range(20):
        took.append(0.1 + 3e-6 * pacing.rows)
        pacing.sealed(pacing.rows, took[-1], pacing.rows)
    assert all(0.9 < seconds < 1.1 for seconds in took[5:]), took


def test_slow_steps_shrink() -> None:
    pacing = Pacing(LIMITS)
    for _ in range(6):
        pacing.sealed(pacing.rows, 0.1, 0)
    large = pacing.rows
    pacing.sealed(large, 20.0, 0)
    assert pacing.rows < large


def test_a_small_step_that_was_quick_says_nothing() -> None:
    pacing = Pacing(LIMITS)
    pacing.sealed(100, 0.1, 0)
    before = pacing.rows
    pacing.sealed(3, 0.01, 0)
    pacing.sealed(0, 5.0, 0)
    assert pacing.rows == before


def test_touched_state_and_sent_bytes_bound_a_step() -> None:
    for used in ({"touched": 1}, {"sent_bytes": 100}):
        pacing = Pacing(LIMITS)
        for _ in range(20):
            rows = pacing.rows
            amounts = {name: each * rows for name, each in used.items()}
            pacing.sealed(rows, 0.1, amounts.get("touched", 0), amounts.get("sent_bytes", 0))
        assert pacing.rows == 10_000


def test_a_limit_below_the_first_step_holds() -> None:
    pacing = Pacing(Limits(first_rows=100, max_rows=5))
    assert pacing.rows == 5
    pacing.sealed(5, 0.01, 0)
    assert pacing.rows == 5
