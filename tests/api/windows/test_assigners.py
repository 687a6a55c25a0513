"""Which windows an element belongs to."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common.constants import MIN_LONG_VALUE
from beadline.common.time import Duration, Time
from beadline.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from beadline.errors import ConfigurationError, GraphError, TypeMismatchError
from tests.api.windows.pane import AssignerContext, Merges

ms = Time.milliseconds


class GapInTheElement(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return element["gap"]


def assigned(assigner: Any, timestamp: int, element: Any = None) -> list[tuple[int, int]]:
    """The windows at a moment, by whichever clock the assigner goes."""
    context = AssignerContext()
    context.key.processing_time = -1 if assigner.is_event_time() else timestamp
    timestamp = timestamp if assigner.is_event_time() else -1
    return [(w.start, w.end) for w in assigner.assign_windows(element, timestamp, context)]


both_tumbling = pytest.mark.parametrize("kind", [TumblingEventTimeWindows, TumblingProcessingTimeWindows])
both_sliding = pytest.mark.parametrize("kind", [SlidingEventTimeWindows, SlidingProcessingTimeWindows])
both_sessions = pytest.mark.parametrize("kind", [EventTimeSessionWindows, ProcessingTimeSessionWindows])
both_dynamic = pytest.mark.parametrize("kind", [DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows])
EVENT_TIME = [
    TumblingEventTimeWindows.of(ms(5)),
    SlidingEventTimeWindows.of(ms(10), ms(5)),
    EventTimeSessionWindows.with_gap(ms(5)),
    DynamicEventTimeSessionWindows.with_dynamic_gap(GapInTheElement()),
]
PROCESSING_TIME = [
    TumblingProcessingTimeWindows.of(ms(5)),
    SlidingProcessingTimeWindows.of(ms(10), ms(5)),
    ProcessingTimeSessionWindows.with_gap(ms(5)),
    DynamicProcessingTimeSessionWindows.with_dynamic_gap(GapInTheElement()),
]


@both_tumbling
def test_tumbling_windows(kind: Any) -> None:
    assert assigned(kind.of(ms(10)), 27) == [(20, 30)]
    assert assigned(kind.of(ms(10)), 20) == [(20, 30)]
    assert assigned(kind.of(ms(10)), -1) == [(-10, 0)]
    assert assigned(kind.of(ms(10), ms(3)), 2) == [(-7, 3)]
    assert assigned(kind.of(Duration.of_millis(10), Duration.of_millis(-3)), 8) == [(7, 17)]


def test_days_that_begin_at_midnight_in_another_time_zone() -> None:
    hour = 3_600_000
    days_in_china = TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))
    assert assigned(days_in_china, 0) == [(-8 * hour, 16 * hour)]


@both_sliding
def test_sliding_windows(kind: Any) -> None:
    assert assigned(kind.of(ms(10), ms(5)), 12) == [(10, 20), (5, 15)]
    assert assigned(kind.of(ms(10), ms(5)), -12) == [(-15, -5), (-20, -10)]
    assert assigned(kind.of(ms(10), ms(5), ms(2)), 12) == [(12, 22), (7, 17)]
    assert assigned(kind.of(ms(10), ms(4)), 8) == [(8, 18), (4, 14), (0, 10)]
    assert assigned(kind.of(ms(10), ms(4)), 11) == [(8, 18), (4, 14)]


@both_sliding
def test_a_slide_larger_than_the_size_leaves_gaps(kind: Any) -> None:
    assigner = kind.of(ms(3), ms(10))
    assert [assigned(assigner, t) for t in (10, 12, 13, 19, 20)] == [[(10, 13)], [(10, 13)], [], [], [(20, 23)]]


@given(timestamp=st.integers(-(10**6), 10**6), size=st.integers(1, 300), slide=st.integers(1, 100), data=st.data())
def test_sliding_windows_are_all_those_of_the_grid_that_hold_the_time(
    timestamp: int, size: int, slide: int, data: Any
) -> None:
    offset = data.draw(st.integers(-slide + 1, slide - 1))
    windows = assigned(SlidingEventTimeWindows(size, slide, offset), timestamp)
    on_the_grid = {start for start in range(timestamp - size + 1, timestamp + 1) if (start - offset) % slide == 0}
    assert windows == [(start, start + size) for start in sorted(on_the_grid, reverse=True)]
    assert size // slide <= len(windows) <= -(-size // slide)
    if size % slide == 0:
        assert len(windows) == size // slide


@both_sessions
def test_sessions_start_with_one_window_per_element_and_grow_together(kind: Any) -> None:
    assigner = kind.with_gap(ms(10))
    windows = [TimeWindow(*assigned(assigner, t)[0]) for t in (0, 7, 17, 30)]
    assert windows == [TimeWindow(0, 10), TimeWindow(7, 17), TimeWindow(17, 27), TimeWindow(30, 40)]
    merges = Merges()
    assigner.merge_windows(windows, merges)
    assert merges.by_result == {TimeWindow(0, 27): set(windows[:3])}


@both_dynamic
def test_each_element_can_bring_its_own_gap(kind: Any) -> None:
    assigner = kind.with_dynamic_gap(GapInTheElement())
    assert assigned(assigner, 5, {"gap": 10}) == [(5, 15)]
    assert assigned(assigner, 5, {"gap": 1}) == [(5, 6)]
    for gap in (0, -1, 1.5, None):
        with pytest.raises(ConfigurationError, match=r"GapInTheElement\.extract.*for element"):
            assigned(assigner, 5, {"gap": gap})


def test_the_fixed_session_classes_offer_the_dynamic_ones() -> None:
    dynamic = EventTimeSessionWindows.with_dynamic_gap(GapInTheElement())
    assert isinstance(dynamic, DynamicEventTimeSessionWindows)
    dynamic = ProcessingTimeSessionWindows.with_dynamic_gap(GapInTheElement())  # type: ignore[assignment]
    assert isinstance(dynamic, DynamicProcessingTimeSessionWindows)
    with pytest.raises(TypeMismatchError, match="SessionWindowTimeGapExtractor, not int: 5"):
        EventTimeSessionWindows.with_dynamic_gap(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("assigner", EVENT_TIME, ids=repr)
def test_event_time_windows(assigner: Any) -> None:
    assert assigner.is_event_time()
    assert isinstance(assigner.get_default_trigger(None), EventTimeTrigger)
    for missing in (None, MIN_LONG_VALUE):
        with pytest.raises(GraphError, match=f"{type(assigner).__name__}.*assign_timestamps_and_watermarks"):
            assigner.assign_windows({"gap": 1}, missing, AssignerContext())


@pytest.mark.parametrize("assigner", PROCESSING_TIME, ids=repr)
def test_processing_time_windows_need_no_timestamps(assigner: Any) -> None:
    assert not assigner.is_event_time()
    assert isinstance(assigner.get_default_trigger(None), ProcessingTimeTrigger)
    context = AssignerContext()
    context.key.processing_time = 100
    windows = assigner.assign_windows({"gap": 1}, None, context)
    assert all(window.start <= 100 < window.end for window in windows)


def test_count_windows_tumble() -> None:
    context = AssignerContext()
    assigner = CountTumblingWindowAssigner.of(3)
    assert [assigner.assign_windows("x", 0, context) for _ in range(7)] == [[CountWindow(n // 3)] for n in range(7)]
    assert assigner.assign_windows("x", 0, AssignerContext()) == [CountWindow(0)], "another key counts from 0"


@given(size=st.integers(1, 12), slide=st.integers(1, 12))
def test_count_windows_slide(size: int, slide: int) -> None:
    context = AssignerContext()
    assigner = CountSlidingWindowAssigner.of(size, slide)
    members: dict[int, list[int]] = {}
    for number in range(60):
        for window in assigner.assign_windows("x", 0, context):
            members.setdefault(window.id, []).append(number)
    for id_, numbers in members.items():
        assert numbers == [n for n in range(id_ * slide, id_ * slide + size) if n < 60]
    assert set(members) == {id_ for id_ in range(60) if id_ * slide < 60}


def test_count_windows_fire_by_count() -> None:
    for assigner in (CountTumblingWindowAssigner.of(3), CountSlidingWindowAssigner.of(3, 1)):
        assert not assigner.is_event_time()
        assert isinstance(assigner.get_default_trigger(None), CountTrigger)


def test_the_global_window_holds_everything() -> None:
    assigner = GlobalWindows.create()
    assert assigner.assign_windows("x", 5, AssignerContext()) == [GlobalWindow.get()]
    assert isinstance(assigner.get_default_trigger(None), NeverTrigger)
    assert not assigner.is_event_time()


@pytest.mark.parametrize("wrong", [0, -1])
def test_sizes_slides_and_gaps_are_positive(wrong: int) -> None:
    makers = [
        lambda: TumblingEventTimeWindows.of(ms(wrong)),
        lambda: TumblingProcessingTimeWindows.of(ms(wrong)),
        lambda: SlidingEventTimeWindows.of(ms(wrong), ms(5)),
        lambda: SlidingEventTimeWindows.of(ms(5), ms(wrong)),
        lambda: SlidingProcessingTimeWindows.of(ms(wrong), ms(5)),
        lambda: SlidingProcessingTimeWindows.of(ms(5), ms(wrong)),
        lambda: EventTimeSessionWindows.with_gap(ms(wrong)),
        lambda: ProcessingTimeSessionWindows.with_gap(ms(wrong)),
        lambda: CountTumblingWindowAssigner.of(wrong),
        lambda: CountSlidingWindowAssigner.of(wrong, 1),
        lambda: CountSlidingWindowAssigner.of(1, wrong),
    ]
    for make in makers:
        with pytest.raises(ConfigurationError, match=f"must be a positive int, not {wrong}"):
            make()


@pytest.mark.parametrize("offset", [5, -5, 6])
def test_an_offset_is_smaller_than_what_it_shifts(offset: int) -> None:
    makers = [
        lambda: TumblingEventTimeWindows.of(ms(5), ms(offset)),
        lambda: TumblingProcessingTimeWindows.of(ms(5), ms(offset)),
        lambda: SlidingEventTimeWindows.of(ms(10), ms(5), ms(offset)),
        lambda: SlidingProcessingTimeWindows.of(ms(10), ms(5), ms(offset)),
    ]
    for make in makers:
        with pytest.raises(ConfigurationError, match=f"{offset} ms does not fit a (size|slide) of 5 ms"):
            make()


def test_a_bare_number_is_no_time() -> None:
    with pytest.raises(TypeMismatchError, match=r"size must be a Time.*Time\.milliseconds\(5000\)"):
        TumblingEventTimeWindows.of(5000)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "assigner", [*EVENT_TIME, *PROCESSING_TIME, CountSlidingWindowAssigner.of(4, 2), GlobalWindows()], ids=repr
)
def test_assigners_travel_to_the_workers(assigner: Any) -> None:
    arrived = pickle.loads(pickle.dumps(assigner))
    assert repr(arrived) == repr(assigner)
    first, second = AssignerContext(), AssignerContext()
    assert arrived.assign_windows({"gap": 3}, 12, first) == assigner.assign_windows({"gap": 3}, 12, second)
    assert type(arrived.get_window_serializer()) is type(assigner.get_window_serializer())
