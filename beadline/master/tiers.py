"""Which runs of a handle become one, and how much of that is done between two checkpoints.

Runs lie in layers, newest on top, and layers in tiers of like size. Ten of a tier become one of the next. All become
one when those above the oldest are as large as it, if they hold many entries twice: what was loaded in several steps
does not get any smaller. So a byte is rewritten a few times, however large the state grows.

A large merge would make the next checkpoint upload a large part of the state. So merging a window of layers goes from
its first key group to its last, as far as an allowance goes, and goes on behind the next checkpoint: what is merged
then lies beside what is left of the old runs. Nobody has to remember that, the handle tells it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

from beadline.state.slicing import layers_of, load_of, slices_of, within
from beadline.state.version import Handle, RunRef, next_version

Layer = tuple[RunRef, ...]

# The newest runs are not merged: a worker that missed some steps finds its version among them.
_KEEP_NEWEST = 4
_MERGE_AT_LEAST = 10
# Layers are of one tier up to this many times the size of the newest; all small ones are.
_LIKE = 3
_SMALL = 4 << 10
# Less is not worth making one of all.
_LEAST = 64 << 10
# Between two checkpoints merges may write this many times what the steps wrote. Those of less than so much don't count.
_REWRITE = 2.7
FREE = 256 << 10


@dataclass(frozen=True)
class Window:
    """Neighbouring runs that are to become one.

    :ivar runs: with the key groups that count
    :ivar key_groups: what is left to be merged of them
    :ivar below: the runs that they lie on
    """

    runs: tuple[RunRef, ...]
    key_groups: range
    below: tuple[RunRef, ...]

    @property
    def weight(self) -> int:
        return sum(run.weight for run in self.runs)

    def slices(self, budget: int) -> Iterator[tuple[range, int]]:
        """The next key groups, cut into short work, and about what each slice writes; as far as the budget goes."""
        affordable = max(0, budget) * len(self.key_groups) // max(1, self.weight)
        first = self.key_groups.start
        todo = range(first, min(first + affordable, self.key_groups.stop))
        if todo:
            for groups in slices_of(todo, load_of(within(self.runs, todo))):
                yield groups, self.weight * len(groups) // len(self.key_groups)

    def lies_on_nothing(self, key_groups: range) -> bool:
        return not within(self.below, key_groups)


def left_of(runs: Sequence[RunRef], key_groups: range) -> list[RunRef]:
    """What is left of the runs of a window when all but these key groups are merged. They lead to versions of their
    own: a store that stands at one of the old ones would miss what the merged run holds."""
    left = within(runs, key_groups)
    renamed = [replace(run, version=next_version(run.version, f"from {key_groups.start}".encode())) for run in left]
    return [*renamed[:-1], replace(renamed[-1], version=runs[-1].version)] if renamed else []


def windows_of(handle: Handle, key_groups: range, keys: int = 0) -> list[Window]:
    """What should be merged of a subtask's runs: windows that have been begun, and new ones if it is time.

    :param keys: about how many entries there would be in one run
    """
    runs = within(handle.runs, key_groups)
    layers = layers_of(runs)
    bounds = list(accumulate(map(len, layers), initial=0))
    found: list[Window] = []
    gaps: list[tuple[int, int]] = []
    free = 0
    for start, numbers in groupby(range(len(layers)), lambda number: first_group(layers[number][0])):
        if start > key_groups.start:
            begun = list(numbers)
            below = layers[begun[0] - 1] if begun[0] else ()
            # What is left of the lowest run lies in one layer with what was merged.
            beside = sum(first_group(run) >= start for run in below)
            lower, upper = bounds[begun[0]] - beside, bounds[begun[-1] + 1]
            if beside or len(begun) > 1:
                found.append(Window(runs[lower:upper], range(start, key_groups.stop), runs[:lower]))
            gaps.append((free, begun[0] - bool(beside)))
            free = begun[-1] + 1
    for start, end in [*gaps, (free, _old(layers))]:
        first, last = _ripe(layers[start:end], None if start else keys)
        if first < last:
            lower, upper = bounds[start + first], bounds[start + last]
            found.append(Window(runs[lower:upper], key_groups, runs[:lower]))
    return found


def _old(layers: list[Layer]) -> int:
    """How many layers there are without the newest."""
    number, newest = len(layers), 0
    while number and newest < _KEEP_NEWEST:
        number -= 1
        newest += len(layers[number])
    return number


def first_group(run: RunRef) -> int:
    """Of a run for which it is said which key groups count."""
    assert run.groups is not None
    return run.groups[0]


def _ripe(layers: list[Layer], keys: int | None) -> tuple[int, int]:
    """Which of some layers should become one: the first and the last + 1, which are the same if none should.

    :param keys: what is left of all entries, if the first layer is the oldest
    """
    sizes = [max(_SMALL, sum(run.weight for run in layer)) for layer in layers]
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
    twice = sum(run.entries for layer in layers for run in layer) >= 2 * keys
    return (0, len(sizes)) if twice else (0, 0)


class Allowance:
    """How many bytes may be written until the next checkpoint: some times what the steps write."""

    def __init__(self) -> None:
        self.left = 0
        self._too_little = False

    def __repr__(self) -> str:
        return f"<Allowance: {self.left} bytes left>"

    def wrote(self, size: int) -> None:
        """A step wrote so many bytes of state."""
        self.left += int(_REWRITE * size)

    def pays(self, cost: int) -> bool:
        """Whether so much may be written; then it is."""
        self._too_little = cost > self.left
        if not self._too_little:
            self.left -= cost
        return not self._too_little

    def pays_for(self, window: Window) -> list[range]:
        """The slices of a window that may be merged; then they are."""
        if window.weight <= FREE:
            return [groups for groups, _ in window.slices(max(1, window.weight))]
        slices = list(window.slices(self.left))
        self.left -= sum(cost for _, cost in slices)
        self._too_little = not slices
        return [groups for groups, _ in slices]

    def checkpointed(self) -> None:
        """A checkpoint was taken. What is left can't be used behind it, unless it was too little for anything."""
        if not self._too_little:
            self.left = 0
