"""Which segments of a handle become one, and how much of that is done between two checkpoints.

Segments lie in layers, newest on top, and layers in tiers of similar size. Ten layers of a tier become one of the next.
All layers become one when those above the oldest are as large as the oldest, if they hold many entries twice: merging
data that was loaded in several steps saves nothing. So a byte is rewritten a few times, however large the state grows.

A large merge would make the next checkpoint upload a large part of the state. So merging a span of layers goes from
its first key group to its last, as far as an allowance goes, and goes on after the next checkpoint: what is merged
then lies next to what is left of the old segments. Nobody has to remember that: the shape of the handle shows it. The
shape may also come from changes of parallelism. That does not matter: any neighbouring segments may become one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby

from beadline.state.segments.version import KeyedStateHandle, SegmentRef, layers_of, load_of, slices_of, within

Layer = tuple[SegmentRef, ...]

# The newest segments are not merged: a worker that missed some steps finds its version among them.
_KEEP_NEWEST = 4
_MERGE_AT_LEAST = 10
# Layers are of one tier up to this many times the size of the newest; all small ones are.
_LIKE = 3
_SMALL = 4 << 10
# Below this size, merging all is not worth it.
_LEAST = 64 << 10
# Between two checkpoints merges may write this many times what the steps wrote. Merges up to ``FREE`` don't count.
_REWRITE = 2.7
FREE = 256 << 10


@dataclass(frozen=True)
class MergeSpan:
    """Neighbouring segments of a handle, from ``start`` up to, but not, ``stop``, that are to become one, with the key
    groups that count; and those ``below`` that they lie on."""

    start: int
    stop: int
    segments: tuple[SegmentRef, ...]
    below: tuple[SegmentRef, ...]

    @property
    def key_groups(self) -> range:
        """From the first to the last that any of the segments has."""
        return range(min(map(first_group, self.segments)), max(map(_last_group, self.segments)))

    @property
    def weight(self) -> int:
        return sum(segment.weight for segment in self.segments)

    def slices(self, budget: int) -> Iterator[tuple[range, int]]:
        """The next key groups, cut into short work, and about what each slice writes; as far as the budget goes."""
        affordable = max(0, budget) * len(self.key_groups) // max(1, self.weight)
        first = self.key_groups.start
        todo = range(first, min(first + affordable, self.key_groups.stop))
        if todo:
            for groups in slices_of(todo, load_of(within(self.segments, todo))):
                yield groups, self.weight * len(groups) // len(self.key_groups)

    def lies_on_nothing(self, key_groups: range) -> bool:
        return not within(self.below, key_groups)


def spans_of(handle: KeyedStateHandle, key_groups: range, keys: int = 0) -> list[MergeSpan]:
    """What should be merged of a subtask's segments, whose one segment would have about ``keys`` entries. No segment is
    in two spans, whatever the history of the handle. A *tower* is a stack of layers that begin at the same key group,
    and not at the subtask's first: what is left of a span that has been begun, or the segments of another subtask from
    before a change of parallelism. It becomes one segment in any case, so that the handle is even again. The other
    layers become one when it is time."""
    placed = [
        (at, part) for at, segment in enumerate(handle.segments) if (part := segment.restricted(key_groups)).key_groups
    ]
    layers = _layers([part for _, part in placed])
    bounds = list(accumulate(map(len, layers), initial=0))
    towers: list[tuple[int, int]] = []
    for start, numbers in groupby(range(len(layers)), lambda number: first_group(layers[number][0])):
        stack = list(numbers)
        if start > key_groups.start and len(stack) > 1:
            towers.append((stack[0], stack[-1] + 1))
    chosen = list(towers)
    ends = [0, *(end for _, end in towers)]
    for low, high in zip(ends, [*(first for first, _ in towers), _old(layers)], strict=True):
        first, last = _ripe(layers[low:high], None if low else keys)
        if first < last:
            chosen.append((low + first, low + last))
    found = []
    for first, last in chosen:
        span, below = placed[bounds[first] : bounds[last]], placed[: bounds[first]]
        places = [at for at, _ in span]
        found.append(
            MergeSpan(places[0], places[-1] + 1, tuple(part for _, part in span), tuple(part for _, part in below))
        )
    return found


def _layers(segments: list[SegmentRef]) -> list[Layer]:
    """The layers of some segments. One that a later layer begins in the middle of is cut: its end is of that tower."""
    cut: list[Layer] = []
    above: int | None = None
    for layer in reversed(layers_of(segments)):
        beside = sum(first_group(segment) < above for segment in layer) if above is not None else 0
        cut += [part for part in (layer[beside:], layer[:beside]) if part]
        above = first_group(layer[0])
    return cut[::-1]


def _old(layers: list[Layer]) -> int:
    """How many layers there are, not counting the newest."""
    number, newest = len(layers), 0
    while number and newest < _KEEP_NEWEST:
        number -= 1
        newest += len(layers[number])
    return number


def first_group(segment: SegmentRef) -> int:
    """The first key group of a segment whose key groups are known."""
    assert segment.groups is not None
    return segment.groups[0]


def _last_group(segment: SegmentRef) -> int:
    """The last + 1."""
    assert segment.groups is not None
    return segment.groups[1]


def _ripe(layers: list[Layer], keys: int | None) -> tuple[int, int]:
    """Which of some layers should become one: the first and the last + 1, the same if none should. ``keys`` is what is
    left of all entries, if the first layer is the oldest."""
    sizes = [max(_SMALL, sum(segment.weight for segment in layer)) for layer in layers]
    end = len(sizes)
    while end > 0:
        first = end - 1
        while first and sizes[first - 1] <= _LIKE * sizes[end - 1]:
            first -= 1
        if end - first >= _MERGE_AT_LEAST:
            return first, end
        end = first
    if keys is None or sum(sizes[1:]) < max(_LEAST, sum(sizes[:1])):
        return 0, 0
    twice = sum(segment.entries for layer in layers for segment in layer) >= 2 * keys
    return (0, len(sizes)) if twice else (0, 0)


class Allowance:
    """How many bytes may be written until the next checkpoint: some times what the steps write."""

    def __init__(self) -> None:
        self.left = 0
        self._too_little = False

    def wrote(self, size: int) -> None:
        """A step wrote this many bytes of state."""
        self.left += int(_REWRITE * size)

    def pays(self, cost: int) -> bool:
        """Whether this much may be written; if so, it is counted as written."""
        self._too_little = cost > self.left
        if not self._too_little:
            self.left -= cost
        return not self._too_little

    def pays_for(self, span: MergeSpan) -> list[range]:
        """The slices of a span that may be merged; they are counted as merged."""
        if span.weight <= FREE:
            return [groups for groups, _ in span.slices(max(1, span.weight))]
        slices = list(span.slices(self.left))
        self.left -= sum(cost for _, cost in slices)
        self._too_little = not slices
        return [groups for groups, _ in slices]

    def checkpointed(self) -> None:
        """A checkpoint was taken. What is left can't be used after it, unless it was too little for anything."""
        if not self._too_little:
            self.left = 0
