"""The watermark of an operator over its channels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beadline.runtime.exchange.gate import MIN_WATERMARK, WatermarkGate


def test_the_lowest_channel_counts() -> None:
    gate = WatermarkGate([1, 2])
    assert gate.advance(1, 10) is None
    assert gate.current == MIN_WATERMARK
    assert gate.advance(2, 5) == 5
    assert gate.advance(2, 7) == 7
    assert gate.advance(2, 30) == 10
    assert gate.current == 10


def test_a_watermark_never_goes_back() -> None:
    gate = WatermarkGate([1])
    assert gate.advance(1, 10) == 10
    assert gate.advance(1, 5) is None
    assert gate.advance(1, 10) is None
    assert gate.current == 10


def test_an_idle_channel_holds_nothing_back() -> None:
    gate = WatermarkGate([1, 2])
    gate.advance(1, 10)
    assert gate.mark_idle(2) == 10
    assert gate.advance(1, 20) == 20
    assert not gate.idle


def test_a_channel_that_wakes_up_behind_the_others_counts_when_it_has_caught_up() -> None:
    gate = WatermarkGate([1, 2])
    gate.mark_idle(2)
    gate.advance(1, 20)
    gate.mark_active(2)
    assert gate.advance(1, 30) == 30
    assert gate.advance(2, 10) is None
    assert gate.advance(1, 40) == 40
    assert gate.advance(2, 45) is None
    assert gate.advance(1, 60) == 45, "now it is one of them again"


def test_when_all_fall_idle_the_furthest_counts() -> None:
    for order in ((1, 2), (2, 1)):
        gate = WatermarkGate([1, 2])
        gate.advance(1, 10)
        gate.advance(2, 50)
        moved = [gate.mark_idle(channel) for channel in order]
        assert [m for m in moved if m is not None] == [50]
        assert gate.idle
        assert gate.current == 50


def test_idle_twice_is_idle_once() -> None:
    gate = WatermarkGate([1, 2])
    gate.advance(1, 10)
    gate.mark_idle(2)
    assert gate.mark_idle(2) is None
    assert not gate.idle


def test_records_and_watermarks_wake_a_channel() -> None:
    gate = WatermarkGate([1])
    gate.mark_idle(1)
    assert gate.idle
    gate.mark_active(1)
    assert not gate.idle
    gate.mark_idle(1)
    gate.advance(1, 5)
    assert not gate.idle


def test_a_channel_that_wakes_up_moves_nothing_unheard() -> None:
    gate = WatermarkGate([0, 1, 2])
    gate.mark_idle(1)
    gate.mark_idle(2)
    assert gate.advance(0, 0) == 0
    gate.mark_active(1)
    gate.advance(2, 1)
    gate.mark_idle(2)
    gate.mark_idle(0)
    gate.mark_active(2)
    assert gate.current == 0
    assert gate.advance(1, 1) == 1


changes = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(0, 2), st.integers(0, 30)),
        st.tuples(st.just("mark_idle"), st.integers(0, 2)),
        st.tuples(st.just("mark_active"), st.integers(0, 2)),
    ),
    max_size=30,
)


@given(changes, changes)
def test_a_restored_gate_goes_on_as_the_first_would(before: list[tuple[object, ...]], after: list[object]) -> None:
    gate = WatermarkGate(range(3))
    last = MIN_WATERMARK
    for name, *arguments in before:
        moved = getattr(gate, str(name))(*arguments)
        assert moved is None or moved > last
        last = last if moved is None else moved
        assert gate.current == last
    restored = WatermarkGate(range(3))
    restored.restore(gate.snapshot())
    for name, *arguments in after:  # type: ignore[misc]
        assert getattr(gate, str(name))(*arguments) == getattr(restored, str(name))(*arguments)
        assert (gate.current, gate.idle) == (restored.current, restored.idle)


def test_channels_that_are_gone_are_forgotten() -> None:
    gate = WatermarkGate([1, 2])
    gate.advance(1, 10)
    gate.advance(2, 20)
    fewer = WatermarkGate([2])
    fewer.restore(gate.snapshot())
    assert fewer.current == 10
    assert fewer.advance(2, 21) == 21
