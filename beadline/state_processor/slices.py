"""How an operator's keyed state is dealt out to tasks: some key groups of one subtask each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from beadline.checkpoint.contents.snapshot import OperatorSnapshot
from beadline.state.key_groups import key_group_range
from beadline.state.segments import slicing
from beadline.state.segments.files import read_range
from beadline.state.segments.merging import merged
from beadline.state.segments.segment import TableChanges
from beadline.state.segments.version import KeyedStateHandle, SegmentRef

# What a task reads: enough to be worth a task, little enough that all slots of a cluster have work.
_LEAST = 1 << 20
_MOST = 64 << 20
_TASKS_PER_SLOT = 4


@dataclass(frozen=True)
class Slice:
    segments: tuple[SegmentRef, ...]
    groups: range
    max_parallelism: int

    def within(self, groups: range) -> Slice:
        return Slice(self.segments, groups, self.max_parallelism)

    def tables(self, name: str) -> Iterator[tuple[range, TableChanges]]:
        """What one table holds, some key groups at a time, in bounded memory."""
        for groups, content in merged(self.segments, read_range, self.groups, tables=(name,)):
            yield groups, content[name]


def slices_of(operator: OperatorSnapshot, slots: int) -> list[Slice]:
    """An operator's keyed state in pieces of similar size."""
    owned = [
        (handle.segments, key_group_range(subtask, operator.parallelism, operator.max_parallelism), handle.size)
        for subtask, handle in enumerate(operator.keyed)
        if handle is not None and handle.segments
    ]
    share = share_of(sum(size for _, _, size in owned), slots)
    return [
        Slice(slicing.within(segments, part), part, operator.max_parallelism)
        for segments, groups, size in owned
        for part in slicing.slices_of(groups, size / share)
    ]


def share_of(size: int, slots: int) -> int:
    """How many bytes a task should read, of a total."""
    return min(_MOST, max(_LEAST, size // (slots * _TASKS_PER_SLOT)))


def owner_of(operator: OperatorSnapshot, groups: range) -> KeyedStateHandle | None:
    for subtask, handle in enumerate(operator.keyed):
        if groups.start in key_group_range(subtask, operator.parallelism, operator.max_parallelism):
            return handle
    return None


def boundaries(operators: Sequence[OperatorSnapshot]) -> list[range]:
    """The key groups cut wherever one of the operators has a subtask begin."""
    cuts = {
        key_group_range(subtask, operator.parallelism, operator.max_parallelism).start
        for operator in operators
        for subtask in range(operator.parallelism)
    }
    ends = sorted({*cuts, operators[0].max_parallelism})
    return [range(first, end) for first, end in pairwise(ends)]
