"""Timers."""

from __future__ import annotations

from typing import Any

from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.state.key_groups import encode_key
from tests.state.contract.subject import ANY, Make

VALUE = ValueStateDescriptor("v", ANY)


def fired(step: Any, until: int) -> list[tuple[int, Any]]:
    return list(step.timers.due(until))


def test_timers_fire_in_the_order_of_time_and_key(make: Make) -> None:
    subject = make(VALUE)
    keys = ["b", "a", 3, ("t", 1), -2]
    with subject.step() as step:
        for time in (30, -10, 20):
            for key in keys:
                step.timers.register(time, key)
    with subject.step() as step:
        step.timers.register(20, "c")
        assert step.timers.first() == -10
        expected = [(-10, key) for key in sorted(keys, key=encode_key)]
        expected += [(20, key) for key in sorted([*keys, "c"], key=encode_key)]
        assert fired(step, 29) == expected
        assert step.timers.first() == 30
    with subject.step() as step:
        assert fired(step, 29) == []
        assert [time for time, _ in fired(step, 30)] == [30] * 5
    assert subject.stored("_event-timers", "timer") == {}


def test_timers_registered_and_deleted_while_others_fire(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        for time, key in ((1, "a"), (1, "b"), (3, "c"), (9, "d")):
            step.timers.register(time, key)
    seen = []
    with subject.step() as step:
        for time, key in step.timers.due(5):
            seen.append((time, key))
            if key == "a":
                step.timers.delete(1, "b")
                step.timers.register(2, "x")
                step.timers.register(7, "y")
                step.timers.register(1, "late")  # its time has come as well
    assert seen == [(1, "a"), (1, "late"), (2, "x"), (3, "c")]
    with subject.step() as step:
        assert fired(step, 100) == [(7, "y"), (9, "d")]


def test_many_timers(make: Make) -> None:
    subject = make(VALUE)
    timers = {((number * 7919) % 1000, f"k{number % 300}") for number in range(6000)}
    with subject.step() as step:
        for time, key in timers:
            step.timers.register(time, key)
    left = sorted(timers, key=lambda timer: (timer[0], encode_key(timer[1])))
    for until in (100, 101, 500, 2000):
        with subject.step() as step:
            due = [timer for timer in left if timer[0] <= until]
            assert fired(step, until) == due
            left = left[len(due) :]
            assert step.timers.first() == (left[0][0] if left else None)


def test_many_timers_of_one_time(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        for number in range(3000):
            step.timers.register(50, number)
        step.timers.register(51, 0)
    with subject.step() as step:
        for number in range(0, 3000, 2):
            step.timers.delete(50, number)
    with subject.step() as step:
        assert sorted(key for _, key in fired(step, 50)) == list(range(1, 3000, 2))
        assert step.timers.first() == 51


def test_the_two_time_domains_are_kept_apart(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        step.timers.register(1, "event")
        step.backend.processing_timers.register(1, "processing")
    with subject.step() as step:
        assert fired(step, 5) == [(1, "event")]
        assert list(step.backend.processing_timers.due(5)) == [(1, "processing")]


def test_times_at_the_ends_of_the_range(make: Make) -> None:
    subject = make(VALUE)
    ends = [-(2**63), -1, 0, 1, 2**63 - 1]
    with subject.step() as step:
        for time in reversed(ends):
            step.timers.register(time, "k")
    with subject.step() as step:
        assert [time for time, _ in fired(step, 2**63 - 1)] == ends


def test_timers_by_window(make: Make) -> None:
    window_state = ValueStateDescriptor("w", ANY)
    subject = make(windowed=[window_state])
    windows = [(0, 10), (5, 15), (-10, 0)]
    with subject.step() as step:
        for window in windows:
            step.timers.register(window[1], ("k", window))
            step.timers.register(99, ("k", window))
    with subject.step() as step:
        step.timers.delete(99, ("k", (5, 15)))
        assert fired(step, 10) == [(0, ("k", (-10, 0))), (10, ("k", (0, 10)))]
    with subject.step() as step:
        assert fired(step, 98) == [(15, ("k", (5, 15)))]
        assert fired(step, 99) == [(99, ("k", (-10, 0))), (99, ("k", (0, 10)))]
