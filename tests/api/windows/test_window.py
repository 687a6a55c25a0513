"""Windows by themselves: order, overlap, merging and bytes."""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE
from beadline.datastream.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
)
from beadline.errors import SerializationError
from tests.api.windows.pane import Merges

longs = st.integers(MIN_LONG_VALUE, MAX_LONG_VALUE)


def merged(*windows: tuple[int, int]) -> dict[tuple[int, int], set[tuple[int, int]]]:
    callback = Merges()
    TimeWindow.merge_windows((TimeWindow(*window) for window in windows), callback)
    return {(w.start, w.end): {(m.start, m.end) for m in group} for w, group in callback.by_result.items()}


def test_windows_are_equal_by_content_and_can_be_keys() -> None:
    assert {TimeWindow(0, 5): "a"}[TimeWindow(0, 5)] == "a"
    assert TimeWindow(0, 5) != TimeWindow(0, 6)
    assert {CountWindow(3), CountWindow(3), CountWindow(4)} == {CountWindow(4), CountWindow(3)}
    assert GlobalWindow.get() == GlobalWindow()
    assert len({GlobalWindow.get(), GlobalWindow()}) == 1
    assert TimeWindow(0, 1) != CountWindow(0)
    assert GlobalWindow() != TimeWindow(0, 1)


def test_time_windows_are_ordered_by_start_and_then_end() -> None:
    windows = [TimeWindow(5, 6), TimeWindow(0, 9), TimeWindow(0, 3)]
    assert sorted(windows) == [TimeWindow(0, 3), TimeWindow(0, 9), TimeWindow(5, 6)]
    assert TimeWindow(0, 3) <= TimeWindow(0, 3)
    with pytest.raises(TypeError):
        TimeWindow(0, 3) < CountWindow(1)  # type: ignore[operator]  # noqa: B015 - the comparison is what raises


def test_the_last_moment_of_a_window() -> None:
    assert TimeWindow(10, 20).max_timestamp() == 19
    assert CountWindow(7).max_timestamp() == MAX_LONG_VALUE
    assert GlobalWindow().max_timestamp() == MAX_LONG_VALUE


@pytest.mark.parametrize(
    ("other", "expected"),
    [((0, 9), False), ((0, 10), True), ((0, 15), True), ((12, 13), True), ((20, 30), True), ((21, 30), False)],
)
def test_windows_that_touch_intersect(other: tuple[int, int], expected: bool) -> None:
    assert TimeWindow(10, 20).intersects(TimeWindow(*other)) is expected
    assert TimeWindow(*other).intersects(TimeWindow(10, 20)) is expected


def test_cover_is_the_smallest_window_around_both() -> None:
    assert TimeWindow(0, 5).cover(TimeWindow(3, 9)) == TimeWindow(0, 9)
    assert TimeWindow(0, 9).cover(TimeWindow(3, 5)) == TimeWindow(0, 9)
    assert TimeWindow(8, 9).cover(TimeWindow(0, 2)) == TimeWindow(0, 9)


@given(timestamp=st.integers(-(10**15), 10**15), size=st.integers(1, 10**9), data=st.data())
def test_the_window_of_a_time_holds_it_and_starts_on_the_grid(timestamp: int, size: int, data: Any) -> None:
    offset = data.draw(st.integers(-size + 1, size - 1))
    start = TimeWindow.get_window_start_with_offset(timestamp, offset, size)
    assert start <= timestamp < start + size
    assert (start - offset) % size == 0


@pytest.mark.parametrize(
    ("timestamp", "offset", "start"),
    [(0, 0, 0), (6, 0, 0), (7, 0, 7), (-1, 0, -7), (-7, 0, -7), (-8, 0, -14), (0, 3, -4), (3, 3, 3), (1, -1, -1)],
)
def test_the_grid_goes_on_before_1970(timestamp: int, offset: int, start: int) -> None:
    assert TimeWindow.get_window_start_with_offset(timestamp, offset, 7) == start


def test_merging() -> None:
    assert merged() == {}
    assert merged((0, 5)) == {}
    assert merged((0, 5), (6, 9)) == {}
    assert merged((0, 5), (0, 5)) == {}
    assert merged((3, 8), (0, 5)) == {(0, 8): {(0, 5), (3, 8)}}
    assert merged((0, 5), (5, 9)) == {(0, 9): {(0, 5), (5, 9)}}
    assert merged((0, 9), (2, 3), (8, 12), (20, 25), (24, 30), (40, 41)) == {
        (0, 12): {(0, 9), (2, 3), (8, 12)},
        (20, 30): {(20, 25), (24, 30)},
    }


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=25))
def test_merging_finds_the_connected_groups(pairs: list[tuple[int, int]]) -> None:
    windows = {(start, start + size) for start, size in pairs}
    groups: list[set[tuple[int, int]]] = []
    for window in windows:
        touching = [g for g in groups if any(window[0] <= w[1] and w[0] <= window[1] for w in g)]
        groups = [g for g in groups if g not in touching] + [{window}.union(*touching)]
    expected = {(min(s for s, _ in g), max(e for _, e in g)): g for g in groups if len(g) > 1}
    assert merged(*windows) == expected


@given(start=longs, end=longs)
def test_windows_survive_being_written(start: int, end: int) -> None:
    cases: list[tuple[Any, Any, int]] = [
        (TimeWindowSerializer(), TimeWindow(start, end), 16),
        (CountWindowSerializer(), CountWindow(start), 8),
        (GlobalWindowSerializer(), GlobalWindow(), 1),
    ]
    for serializer, window, size in cases:
        stream = BytesIO()
        serializer.serialize(window, stream)
        serializer.serialize(window, stream)
        assert len(stream.getvalue()) == 2 * size
        stream.seek(0)
        assert [serializer.deserialize(stream) for _ in range(2)] == [window, window]
        assert pickle.loads(pickle.dumps(window)) == window


@pytest.mark.parametrize("serializer", [TimeWindowSerializer(), CountWindowSerializer(), GlobalWindowSerializer()])
def test_a_window_that_was_cut_off_is_noticed(serializer: Any) -> None:
    with pytest.raises(SerializationError, match="only 0 were left"):
        serializer.deserialize(BytesIO(b""))
