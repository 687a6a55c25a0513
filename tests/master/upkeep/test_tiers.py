"""Which segments are merged, and how much of that between two checkpoints."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.master.upkeep.handles import StateBook
from beadline.master.upkeep.tiers import Allowance, MergeSpan, spans_of
from beadline.runtime.messages import MergeRequest, MergeResult
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, layers_of, within
from tests.graph.programs import Program, by, same

GROUPS = range(64)
STATE = 400 << 20
NEWEST = 4


def segment(name: str, size: int, groups: tuple[int, int] | None = None) -> SegmentRef:
    return SegmentRef(name, size // 50, size, path=name, groups=groups)


def chained(*sizes: int) -> KeyedStateHandle:
    return KeyedStateHandle("root", tuple(chain(*sizes)))


def chain(*sizes: int) -> list[SegmentRef]:
    """Segments of these sizes and the newest ones, which are not touched."""
    return [segment(f"v{number}", size) for number, size in enumerate([*sizes, *[10] * NEWEST])]


def names(span: MergeSpan) -> list[str]:
    return [segment.version for segment in span.segments]


def test_ten_of_a_tier_become_one() -> None:
    assert spans_of(chained(30 << 20, *[1 << 20] * 9), GROUPS) == []
    (span,) = spans_of(chained(*[1 << 20] * 10), GROUPS)
    assert names(span) == [f"v{number}" for number in range(10)]
    assert span.key_groups == GROUPS
    assert span.lies_on_nothing(GROUPS)


def test_a_larger_tier_stays_below() -> None:
    (span,) = spans_of(chained(30 << 20, *[1 << 20] * 10), GROUPS)
    assert names(span) == [f"v{number}" for number in range(1, 11)]
    assert not span.lies_on_nothing(GROUPS)


def test_a_tier_is_found_below_a_smaller_one() -> None:
    (span,) = spans_of(chained(*[10 << 20] * 10, *[1 << 20] * 3), GROUPS)
    assert names(span) == [f"v{number}" for number in range(10)]


def test_all_become_one_when_what_lies_above_is_as_large_as_the_oldest() -> None:
    below = [100 << 20, *[24 << 20] * 4]
    assert spans_of(chained(*below, *[1 << 20] * 3), GROUPS) == []
    (span,) = spans_of(chained(*below, *[1 << 20] * 5), GROUPS)
    assert len(span.segments) == 10


def test_what_was_loaded_in_several_steps_stays_as_it_is() -> None:
    loaded = chained(*[50 << 20] * 9)
    entries = sum(each.entries for each in loaded.segments)
    assert spans_of(loaded, GROUPS, entries) == []
    (span,) = spans_of(loaded, GROUPS, entries // 3)
    assert len(span.segments) == 9


def test_a_window_that_was_begun_is_found_again() -> None:
    segments = chain(*[1 << 20] * 10)
    part = segment("merged", 1 << 20, (0, 20))
    left = within(segments[:10], range(20, 64))
    later = [segment(f"w{number}", 1 << 20) for number in range(10)]
    begun, new = spans_of(KeyedStateHandle("root", (part, *left, *later, *segments[10:])), GROUPS)
    assert (begun.start, begun.stop) == (1, 11)
    assert begun.key_groups == range(20, 64)
    assert begun.segments == left
    assert begun.lies_on_nothing(begun.key_groups)
    assert begun.below == (part,)
    assert names(new) == [f"w{number}" for number in range(10)]
    assert (new.start, new.stop) == (11, 21)
    assert not new.lies_on_nothing(GROUPS)


def test_each_former_subtask_is_a_tower_of_its_own() -> None:
    """Of three subtasks: the first one's segments are as if they had always been here."""
    segments = [segment(f"{s}{n}", 1 << 20, (8 * s, 8 * s + 8)) for s in range(3) for n in range(3)]
    later = [segment(f"w{number}", 1 << 20, (0, 24)) for number in range(12)]
    second, third, first = spans_of(KeyedStateHandle("root", (*segments, *later)), range(24))
    assert (names(second), second.key_groups) == (["10", "11", "12"], range(8, 16))
    assert (names(third), third.key_groups) == (["20", "21", "22"], range(16, 24))
    assert third.lies_on_nothing(range(16, 24))
    assert (names(first), first.key_groups) == (["00", "01", "02"], range(8))


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 8), st.integers(0, 1 << 22)), max_size=40), st.integers(0, 9)
)
def test_no_segment_is_in_two_spans(shapes: list[tuple[int, int, int]], keys: int) -> None:
    segments = [
        segment(f"v{number}", size, (start, min(8, start + width)))
        for number, (start, width, size) in enumerate(shapes)
    ]
    seen: list[int] = []
    for span in spans_of(KeyedStateHandle("root", tuple(segments)), range(8), keys * 1000):
        seen += range(span.start, span.stop)
        assert span.segments == tuple(segments[span.start : span.stop])
        assert span.below == tuple(segments[: span.start])
    assert len(seen) == len(set(seen))


def test_slices_are_short_work_and_within_the_budget() -> None:
    (span,) = spans_of(chained(*[8 << 20] * 10), GROUPS)
    group = span.weight // len(GROUPS)
    assert list(span.slices(group - 1)) == []
    parts = list(span.slices(10 * group))
    assert [group for groups, _ in parts for group in groups] == list(range(10))
    assert sum(cost for _, cost in parts) == 10 * group
    assert len(parts) > 1


def test_an_allowance_ends_with_a_checkpoint() -> None:
    (span,) = spans_of(chained(*[8 << 20] * 10), GROUPS)
    allowance = Allowance()
    assert allowance.pays_for(span) == []
    allowance.wrote(4 << 20)
    allowed = allowance.left
    assert 10 << 20 < allowed < 12 << 20
    assert sum(map(len, allowance.pays_for(span))) == allowed * len(GROUPS) // span.weight
    assert 0 <= allowance.left < span.weight // len(GROUPS)
    allowance.wrote(1 << 20)
    assert allowance.pays(1 << 20)
    allowance.checkpointed()
    assert allowance.left == 0


def test_what_is_too_little_is_saved() -> None:
    (span,) = spans_of(chained(*[80 << 20] * 10), GROUPS)
    allowance = Allowance()
    merged = []
    for _ in range(8):
        allowance.wrote(1 << 20)
        merged.append(sum(map(len, allowance.pays_for(span))))
        allowance.checkpointed()
    assert merged == [0, 0, 0, 0, 1, 0, 0, 0]
    saved = 0
    while not allowance.pays(30 << 20):
        allowance.checkpointed()
        allowance.wrote(1 << 20)
        assert allowance.left > saved
        saved = allowance.left


def test_small_windows_are_free() -> None:
    (span,) = spans_of(chained(*[1 << 10] * 10), GROUPS)
    assert Allowance().pays_for(span) == [GROUPS]


class Simulation:
    """A book of state whose steps touch one hundredth of the keys, at random or in a way of their own; only sizes.

    What is merged beside a step is there when it ends.
    """

    def __init__(self, overlap: str, folder: Path) -> None:
        program = Program()
        program.function("reduce", max, (program.source(), by(same)), max_parallelism=len(GROUPS))
        self.book = StateBook("job", program.plan(parallelism=1), SegmentFiles(str(folder)))
        ((self.key, _),) = self.book.handles.items()
        self.overlap = overlap
        self.under_way: list[MergeResult] = []
        self.number = self.merges = 0
        self.keys = 0

    @property
    def handle(self) -> KeyedStateHandle:
        return self.book.handles[self.key]

    def checkpoint(self, wrote: int) -> int:
        """A step, and a checkpoint behind it. Gives what that uploads."""
        before = {old.path for old in self.handle.segments}
        self.number += 1
        self.keys += wrote // 50 if self.overlap == "new keys" else 0
        self.book.advance([(self.key, segment(f"v{self.number}", wrote))])
        self.book.take_merges(self.under_way)
        self.under_way = [self.merged(request) for request in self.book.merges({self.key: self.keys})]
        self.book.checkpointed()
        return sum(new.size for new in self.handle.segments if new.path not in before)

    def merged(self, request: MergeRequest) -> MergeResult:
        groups = GROUPS if request.groups is None else range(*request.groups)
        whole = STATE * len(groups) / len(GROUPS)
        parts = [part.weight / whole for part in request.segments]
        if self.overlap == "random":
            share = 1 - math.prod(1 - min(1.0, part) for part in parts)
        else:
            share = sum(parts) if self.overlap == "new keys" else max(parts)
        self.merges += 1
        return MergeResult(request, segment(f"merged {self.merges}", round(share * whole), request.groups))


@pytest.mark.parametrize("overlap", ["random", "the same keys", "new keys"])
def test_a_checkpoint_never_uploads_much_more_than_what_changed(overlap: str, tmp_path: Path) -> None:
    simulation = Simulation(overlap, tmp_path)
    for _ in range(20):
        simulation.overlap = "new keys"
        simulation.checkpoint(STATE // 20)
    simulation.overlap = overlap
    layers = []
    for _ in range(400):
        assert simulation.checkpoint(STATE // 100) < 0.05 * max(STATE, simulation.handle.size)
        layers.append(len(layers_of(simulation.handle.segments)))
    assert max(layers) < 70
    assert simulation.handle.size < (6 if overlap == "new keys" else 2.6) * STATE
