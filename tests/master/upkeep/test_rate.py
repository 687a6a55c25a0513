"""How many records a source may read, by the time that has passed."""

from __future__ import annotations

from beadline.master.upkeep.rate import RateLimit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_limit_everything_may_be_read() -> None:
    rate = RateLimit(None)
    assert rate.rows(1, 5000) == 5000
    rate.spent(1, 5000)
    assert rate.rows(1, 5000) == 5000
    assert rate.wakes_in is None


def test_as_much_may_be_read_as_time_has_passed() -> None:
    clock = Clock()
    rate = RateLimit(10, clock)
    assert rate.rows(1, 5000) == 10
    rate.spent(1, 10)
    assert rate.rows(1, 5000) == 0
    assert rate.wakes_in == 0.1
    clock.now += 0.35
    assert rate.rows(1, 5000) == 3
    assert rate.rows(1, 2) == 2, "not more than there is time for"


def test_who_gave_too_much_waits_for_it() -> None:
    clock = Clock()
    rate = RateLimit(10, clock)
    assert rate.rows(1, 5000) == 10
    rate.spent(1, 40)
    clock.now += 2.9
    assert rate.rows(1, 5000) == 0
    clock.now += 0.25
    assert rate.rows(1, 5000) == 1


def test_what_a_long_pause_leaves_over_is_not_kept() -> None:
    clock = Clock()
    rate = RateLimit(10, clock)
    clock.now += 60
    assert rate.rows(1, 5000) == 10
    clock.now += 60
    assert rate.rows(1, 5000) == 600, "a step took a minute: that is how much was due"
    clock.now += 0.5
    assert rate.rows(1, 5000) == 10


def test_sources_are_counted_apart() -> None:
    rate = RateLimit(10, Clock())
    rate.rows(1, 10)
    rate.spent(1, 10)
    assert rate.rows(2, 50) == 10


def test_less_than_one_per_second() -> None:
    clock = Clock()
    rate = RateLimit(0.5, clock)
    assert rate.rows(1, 9) == 0
    clock.now += 1
    assert rate.rows(1, 9) == 1
