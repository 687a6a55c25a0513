"""When windows are evaluated and emptied."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from beadline.common.time import Duration, Time
from beadline.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    CountWindow,
    EventTimeTrigger,
    GlobalWindow,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TimeWindow,
    Trigger,
    TriggerResult,
)
from beadline.errors import ConfigurationError, TypeMismatchError
from tests.api.windows.pane import Key, Pane, advance_clock, advance_watermark

CONTINUE, FIRE, FIRE_AND_PURGE = TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.FIRE_AND_PURGE
HOUR = TimeWindow(0, 60)


def add(trigger: Trigger[Any, Any], key: Key, window: Any, timestamp: int = 0) -> TriggerResult:
    return trigger.on_element("x", timestamp, window, Pane(key, window))


def merge(trigger: Trigger[Any, Any], key: Key, result: Any, *merged: Any) -> None:
    """What the operator does when windows merge: the state moves first, then the old windows are cleared.

    By then a trigger that keeps its timers in state can't know them any more: the operator has to ignore timers of
    windows that are gone.
    """
    trigger.on_merge(result, Pane(key, result, merged))
    for window in merged:
        if window != result:
            trigger.clear(window, Pane(key, window))


def of_window(window: Any, timers: set[tuple[int, Any]]) -> set[int]:
    return {time for time, owner in timers if owner == window}


def test_what_the_results_mean() -> None:
    assert [(r.is_fire(), r.is_purge()) for r in TriggerResult] == [
        (False, False),
        (True, True),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    "trigger",
    [
        EventTimeTrigger.create(),
        ProcessingTimeTrigger.create(),
        ContinuousEventTimeTrigger.of(Time.milliseconds(10)),
        ContinuousProcessingTimeTrigger.of(Time.milliseconds(10)),
        CountTrigger.of(4),
    ],
    ids=repr,
)
def test_clear_leaves_nothing(trigger: Trigger[Any, Any]) -> None:
    key = Key()
    add(trigger, key, HOUR)
    assert key.event_timers or key.processing_timers or key.remembered()
    trigger.clear(HOUR, Pane(key, HOUR))
    assert (key.event_timers, key.processing_timers, key.remembered()) == (set(), set(), {})


@pytest.mark.parametrize("trigger", [EventTimeTrigger.create(), ProcessingTimeTrigger.create()], ids=repr)
def test_merged_windows_leave_one_timer(trigger: Trigger[Any, Any]) -> None:
    key = Key()
    a, b, both = TimeWindow(0, 10), TimeWindow(8, 18), TimeWindow(0, 18)
    add(trigger, key, a)
    add(trigger, key, b)
    merge(trigger, key, both, a, b)
    assert key.event_timers | key.processing_timers == {(17, both)}


class TestEventTime:
    def test_fires_once_the_watermark_is_at_the_end(self) -> None:
        key, trigger = Key(), EventTimeTrigger.create()
        assert [add(trigger, key, HOUR, t) for t in (3, 40)] == [CONTINUE, CONTINUE]
        assert advance_watermark(trigger, key, 58) == []
        assert advance_watermark(trigger, key, 59) == [(59, HOUR, FIRE)]

    def test_fires_at_once_for_a_late_element(self) -> None:
        key, trigger = Key(), EventTimeTrigger.create()
        key.watermark = 59
        assert add(trigger, key, HOUR) is FIRE
        assert key.event_timers == set()

    def test_a_timer_of_somebody_else_is_ignored(self) -> None:
        assert EventTimeTrigger().on_event_time(58, HOUR, Pane(Key(), HOUR)) is CONTINUE
        assert EventTimeTrigger().on_processing_time(59, HOUR, Pane(Key(), HOUR)) is CONTINUE

    def test_a_merged_window_that_is_over_needs_no_timer(self) -> None:
        key, both = Key(), TimeWindow(0, 18)
        key.watermark = 17
        EventTimeTrigger.create().on_merge(both, Pane(key, both, (TimeWindow(0, 10), TimeWindow(8, 18))))
        assert key.event_timers == set()


class TestProcessingTime:
    def test_fires_once_the_clock_is_at_the_end(self) -> None:
        key, trigger = Key(), ProcessingTimeTrigger.create()
        assert add(trigger, key, HOUR) is CONTINUE
        assert advance_watermark(trigger, key, 10**9) == []
        assert advance_clock(trigger, key, 58) == []
        assert advance_clock(trigger, key, 59) == [(59, HOUR, FIRE)]
        assert trigger.on_event_time(59, HOUR, Pane(key, HOUR)) is CONTINUE


class TestContinuousEventTime:
    def test_fires_at_each_interval_and_at_the_end(self) -> None:
        key, trigger = Key(), ContinuousEventTimeTrigger.of(Time.milliseconds(25))
        assert add(trigger, key, HOUR, 3) is CONTINUE
        assert advance_watermark(trigger, key, 24) == []
        assert advance_watermark(trigger, key, 30) == [(25, HOUR, FIRE)]
        assert advance_watermark(trigger, key, 59) == [(50, HOUR, FIRE), (59, HOUR, FIRE)]
        assert add(trigger, key, HOUR, 7) is FIRE, "a late element is shown at once"

    def test_the_first_interval_is_that_of_the_first_element(self) -> None:
        key, trigger = Key(), ContinuousEventTimeTrigger.of(Duration.of_millis(10))
        add(trigger, key, HOUR, 33)
        add(trigger, key, HOUR, 11)
        assert {time for time, _ in key.event_timers} == {40, 59}

    def test_a_merged_window_fires_at_the_earlier_of_the_times(self) -> None:
        key, trigger = Key(), ContinuousEventTimeTrigger.of(Time.milliseconds(10))
        a, b, both = TimeWindow(12, 32), TimeWindow(31, 51), TimeWindow(12, 51)
        add(trigger, key, b, 31)
        add(trigger, key, a, 12)
        merge(trigger, key, both, a, b)
        assert of_window(both, key.event_timers) == {20}
        assert key.remembered() == {(both, "fire-time"): 20}
        add(trigger, key, both, 31)
        fired = [time for time, window, _ in advance_watermark(trigger, key, 50) if window == both]
        assert fired == [20, 30, 40, 50]

    def test_other_timers_are_ignored(self) -> None:
        key, trigger = Key(), ContinuousEventTimeTrigger.of(Time.milliseconds(10))
        assert trigger.on_processing_time(10, HOUR, Pane(key, HOUR)) is CONTINUE
        assert trigger.on_event_time(7, HOUR, Pane(key, HOUR)) is CONTINUE


class TestContinuousProcessingTime:
    def test_fires_at_each_interval_of_the_clock(self) -> None:
        key, trigger = Key(), ContinuousProcessingTimeTrigger.of(Time.milliseconds(25))
        key.processing_time = 7
        assert add(trigger, key, HOUR, 999) is CONTINUE
        assert advance_clock(trigger, key, 40) == [(25, HOUR, FIRE)]
        assert advance_clock(trigger, key, 58) == [(50, HOUR, FIRE)]

    def test_the_end_of_the_window_is_the_last_time(self) -> None:
        key, trigger = Key(), ContinuousProcessingTimeTrigger.of(Time.milliseconds(25))
        add(trigger, key, HOUR)
        assert [time for time, _, _ in advance_clock(trigger, key, 1000)] == [25, 50, 59]
        assert key.processing_timers == set()
        assert key.remembered() == {}

    def test_a_window_that_lies_behind_the_clock_fires_once_for_each_batch_of_elements(self) -> None:
        key, trigger = Key(), ContinuousProcessingTimeTrigger.of(Time.milliseconds(25))
        key.processing_time = 5000
        for _ in range(2):
            add(trigger, key, HOUR)
            add(trigger, key, HOUR)
            assert advance_clock(trigger, key, 5000) == [(59, HOUR, FIRE)]

    def test_a_merged_window_fires_at_the_earlier_of_the_times(self) -> None:
        key, trigger = Key(), ContinuousProcessingTimeTrigger.of(Time.milliseconds(10))
        a, b, both = TimeWindow(0, 40), TimeWindow(25, 65), TimeWindow(0, 65)
        add(trigger, key, a)
        key.processing_time = 25
        add(trigger, key, b)
        merge(trigger, key, both, a, b)
        assert of_window(both, key.processing_timers) == {10}
        assert key.remembered() == {(both, "fire-time"): 10}


class TestCount:
    def test_fires_at_every_nth_element_of_each_window(self) -> None:
        key, trigger = Key(), CountTrigger.of(3)
        first, second = CountWindow(0), CountWindow(1)
        assert [add(trigger, key, first) for _ in range(7)] == [CONTINUE, CONTINUE, FIRE] * 2 + [CONTINUE]
        assert add(trigger, key, second) is CONTINUE
        assert key.remembered() == {(first, "count"): 1, (second, "count"): 1}

    def test_counts_of_merged_windows_are_added(self) -> None:
        key, trigger = Key(), CountTrigger.of(4)
        a, b, both = TimeWindow(0, 10), TimeWindow(5, 15), TimeWindow(0, 15)
        for window in (a, b, b):
            add(trigger, key, window)
        merge(trigger, key, both, a, b)
        assert key.remembered() == {(both, "count"): 3}
        assert add(trigger, key, both) is FIRE


class TestPurging:
    def test_empties_the_window_whenever_the_other_trigger_fires(self) -> None:
        key, trigger = Key(), PurgingTrigger.of(CountTrigger.of(2))
        assert [add(trigger, key, HOUR) for _ in range(4)] == [CONTINUE, FIRE_AND_PURGE] * 2
        by_time = PurgingTrigger.of(EventTimeTrigger.create())
        add(by_time, key, HOUR)
        assert advance_watermark(by_time, key, 59) == [(59, HOUR, FIRE_AND_PURGE)]
        by_clock = PurgingTrigger.of(ProcessingTimeTrigger.create())
        add(by_clock, key, HOUR)
        assert advance_clock(by_clock, key, 59) == [(59, HOUR, FIRE_AND_PURGE)]

    def test_merges_and_clears_what_it_holds(self) -> None:
        key, trigger = Key(), PurgingTrigger.of(CountTrigger.of(9))
        a, b, both = TimeWindow(0, 10), TimeWindow(5, 15), TimeWindow(0, 15)
        add(trigger, key, a)
        add(trigger, key, b)
        merge(trigger, key, both, a, b)
        assert key.remembered() == {(both, "count"): 2}
        trigger.clear(both, Pane(key, both))
        assert key.remembered() == {}

    def test_needs_a_trigger(self) -> None:
        with pytest.raises(TypeMismatchError, match="takes a Trigger, not int: 5"):
            PurgingTrigger.of(5)  # type: ignore[arg-type]


def test_never_is_never() -> None:
    key, trigger, window = Key(), NeverTrigger(), GlobalWindow()
    assert add(trigger, key, window) is CONTINUE
    assert trigger.on_event_time(10**18, window, Pane(key, window)) is CONTINUE
    assert trigger.on_processing_time(10**18, window, Pane(key, window)) is CONTINUE
    assert (key.event_timers, key.processing_timers, key.remembered()) == (set(), set(), {})


def test_which_triggers_work_with_sessions() -> None:
    ten = Time.milliseconds(10)
    merging = [
        EventTimeTrigger(),
        ProcessingTimeTrigger(),
        ContinuousEventTimeTrigger.of(ten),
        ContinuousProcessingTimeTrigger.of(ten),
        CountTrigger.of(1),
        PurgingTrigger.of(CountTrigger.of(1)),
    ]
    assert all(trigger.can_merge() for trigger in merging)
    assert not NeverTrigger().can_merge()
    assert not PurgingTrigger.of(NeverTrigger()).can_merge()


@pytest.mark.parametrize("wrong", [0, -3])
def test_intervals_and_counts_are_positive(wrong: int) -> None:
    for make in (
        lambda: CountTrigger.of(wrong),
        lambda: ContinuousEventTimeTrigger.of(Time.milliseconds(wrong)),
        lambda: ContinuousProcessingTimeTrigger.of(Time.milliseconds(wrong)),
    ):
        with pytest.raises(ConfigurationError, match=f"must be a positive int, not {wrong}"):
            make()


def test_triggers_travel_to_the_workers() -> None:
    trigger = PurgingTrigger.of(ContinuousEventTimeTrigger.of(Time.milliseconds(25)))
    arrived = pickle.loads(pickle.dumps(trigger))
    assert repr(arrived) == "PurgingTrigger(ContinuousEventTimeTrigger(25))"
    key = Key()
    add(arrived, key, HOUR, 3)
    assert advance_watermark(arrived, key, 25) == [(25, HOUR, FIRE_AND_PURGE)]
