"""Timers of one table, as a step sees them."""

from __future__ import annotations

from typing import Any

from sortedcontainers import SortedDict

from beadline.state.heap.timers import TimerTable
from beadline.state.key_groups import BoxedKey, encode_key


def table(*timers: tuple[int, Any], namespaced: bool = False) -> TimerTable:
    base = SortedDict()
    for timestamp, slot in timers:
        base.setdefault(timestamp, {})[slot] = None
    return TimerTable("t", base, namespaced)


def test_timers_fire_in_order_of_time_and_then_of_encoded_key() -> None:
    timers = table((5, "b"), (5, "a"), (3, "z"), (9, "later"))
    timers.register(5, "aa")
    timers.register(4, BoxedKey([1], encode_key(1)))
    assert [(t, getattr(slot, "key", slot)) for t, slot in timers.due(5)] == [
        (3, "z"),
        (4, [1]),
        (5, "a"),
        (5, "aa"),
        (5, "b"),
    ]
    assert timers.first() == 9


def test_a_timer_that_fires_may_set_and_delete_others() -> None:
    timers = table((1, ("k", "w1")), (1, ("k", "w2")), (2, ("k", "w1")), namespaced=True)
    fired = []
    for timestamp, slot in timers.due(10):
        fired.append((timestamp, slot[1]))
        if fired == [(1, "w1")]:
            timers.delete(1, ("k", "w2"))
            timers.delete(2, ("k", "w1"))
            timers.register(1, ("k", "w0"))
            timers.register(7, ("k", "w7"))
            timers.register(11, ("k", "w11"))
    assert fired == [(1, "w1"), (1, "w0"), (7, "w7")]
    assert timers.first() == 11


def test_what_comes_and_goes_within_a_step_changes_nothing() -> None:
    timers = table((1, "a"))
    timers.delete(1, "a")
    timers.register(1, "a")
    timers.register(1, "a")
    timers.register(2, "b")
    timers.delete(2, "b")
    timers.delete(3, "never set")
    assert timers.take_changes() == {}
    assert list(timers.due(5)) == [(1, "a")]
    assert timers.take_changes() == {"a": ([], [1])}


def test_changes_merge_to_what_they_do_one_after_the_other() -> None:
    set_at_5, deleted_at_5 = ([5], []), ([], [5])
    assert TimerTable.merge(set_at_5, deleted_at_5)[0] == []
    assert TimerTable.merge(deleted_at_5, set_at_5)[0] == [5]
    assert TimerTable.merge(set_at_5, ([6, 5], []))[0] == [5, 6]
    assert TimerTable.settle(([], [5])) is None
    assert TimerTable.settle(([6], [5])) == ([6], [])
