"""How an operator's keyed state is dealt out to tasks: some key groups of one subtask each, of one snapshot or of two.

To compare two snapshots, only what can differ is read. Two handles that share segments, or a version, hold the same up
to there. Only keys that later segments touch can differ, so only the key groups of these keys are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from beadline.checkpoint.contents.snapshot import OperatorSnapshot
from beadline.state.heap.tables import Changes
from beadline.state.key_groups import encode_slot, hash_encoded, key_group_range
from beadline.state.segments import version
from beadline.state.segments.files import read_range
from beadline.state.segments.merging import merged
from beadline.state.segments.segment import TableChanges, open_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef

# What a task reads: enough to be worth a task, little enough that all slots of a cluster have work.
_LEAST = 1 << 20
_MOST = 64 << 20
_TASKS_PER_SLOT = 4


@dataclass(frozen=True)
class Slice:
    """Some key groups of a subtask's state."""

    segments: tuple[SegmentRef, ...]
    groups: range
    max_parallelism: int

    def within(self, groups: range) -> Slice:
        return Slice(self.segments, groups, self.max_parallelism)

    def tables(self, name: str) -> Iterator[tuple[range, TableChanges]]:
        """What one table holds, some key groups at a time, in bounded memory."""
        for groups, content in merged(self.segments, self.groups, tables=(name,)):
            yield groups, content[name]


def slices_of(operator: OperatorSnapshot, slots: int) -> list[Slice]:
    """An operator's keyed state in pieces of similar size."""
    owned = [
        (handle.segments, key_group_range(subtask, operator.parallelism, operator.max_parallelism), handle.size)
        for subtask, handle in enumerate(operator.keyed)
        if handle is not None and handle.segments
    ]
    share = _share_of(sum(size for _, _, size in owned), slots)
    return [
        Slice(version.within(segments, part), part, operator.max_parallelism)
        for segments, groups, size in owned
        for part in version.slices_of(groups, size / share)
    ]


def _share_of(size: int, slots: int) -> int:
    """How many bytes a task should read, of a total."""
    return min(_MOST, max(_LEAST, size // (slots * _TASKS_PER_SLOT)))


def _owner_of(operator: OperatorSnapshot, groups: range) -> KeyedStateHandle | None:
    for subtask, handle in enumerate(operator.keyed):
        if groups.start in key_group_range(subtask, operator.parallelism, operator.max_parallelism):
            return handle
    return None


def _boundaries(operators: Sequence[OperatorSnapshot]) -> list[range]:
    """The key groups cut wherever one of the operators has a subtask begin."""
    cuts = {
        key_group_range(subtask, operator.parallelism, operator.max_parallelism).start
        for operator in operators
        for subtask in range(operator.parallelism)
    }
    ends = sorted({*cuts, operators[0].max_parallelism})
    return [range(first, end) for first, end in pairwise(ends)]


# -- two snapshots


@dataclass(frozen=True)
class Pair:
    """The same key groups in two snapshots.

    :ivar differing: the segments of either after what they share; None if they share nothing
    """

    older: Slice
    newer: Slice
    differing: tuple[SegmentRef, ...] | None


def pairs_of(older: OperatorSnapshot, newer: OperatorSnapshot, slots: int) -> list[Pair]:
    """The key groups in which the two may differ, in pieces for tasks. Both have the same max parallelism."""
    found = []
    for groups in _boundaries([older, newer]):
        before, after = _within(_owner_of(older, groups), groups), _within(_owner_of(newer, groups), groups)
        old_segments, new_segments = before.segments, after.segments
        differing = _differing(before, after, groups)
        if differing == ():
            continue
        size = sum(segment.size for segment in (*old_segments, *new_segments))
        found.append((groups, old_segments, new_segments, differing, size))
    share = _share_of(sum(size for *_, size in found), slots)
    maximum = newer.max_parallelism
    return [
        Pair(
            Slice(version.within(old_segments, part), part, maximum),
            Slice(version.within(new_segments, part), part, maximum),
            None if differing is None else version.within(differing, part),
        )
        for groups, old_segments, new_segments, differing, size in found
        for part in version.slices_of(groups, size / share)
    ]


def _within(handle: KeyedStateHandle | None, groups: range) -> KeyedStateHandle:
    return KeyedStateHandle("") if handle is None else replace(handle, segments=version.within(handle.segments, groups))


def _differing(before: KeyedStateHandle, after: KeyedStateHandle, groups: range) -> tuple[SegmentRef, ...] | None:
    """The segments after what two handles share, as few bytes as possible; None if they share nothing."""
    if not before.segments or not after.segments:
        return None if before.segments or after.segments else ()
    candidates = []
    for position in range(len(before.segments) - 1, -1, -1):
        rest = after.after(before.segments[position].version)
        if rest is not None:
            candidates.append((*before.segments[position + 1 :], *rest))
            break
    shared = 0
    for one, other in zip(before.segments, after.segments, strict=False):
        if one.restricted(groups).content != other.restricted(groups).content:
            break
        shared += 1
    if shared:
        candidates.append((*before.segments[shared:], *after.segments[shared:]))
    return min(candidates, key=lambda segments: sum(segment.size for segment in segments), default=None)


def differences(pair: Pair, name: str) -> Iterator[tuple[Any, Any, Any]]:
    """Slot, change before and change after of the entries of a table that may differ, None where there is none."""
    if pair.differing is None:
        ranges: list[range] = [pair.newer.groups]
        touched = None
    else:
        touched, ranges = _touched(pair, name)
    for groups in ranges:
        for before, after in _both(pair.older.within(groups), pair.newer.within(groups), name):
            for slot in {**before, **after}:
                old, new = before.get(slot), after.get(slot)
                if (touched is None or slot in touched) and old != new:
                    yield slot, old, new


def _touched(pair: Pair, name: str) -> tuple[set[Any], list[range]]:
    """What the differing segments touch: slots, and the ranges of key groups these are in."""
    slots: set[Any] = set()
    groups: set[int] = set()
    for segment in pair.differing or ():
        counting = segment.restricted(pair.newer.groups).key_groups
        reader = open_segment(partial(read_range, segment), segment.size, repr(segment), segment.is_own)
        for table, part in reader.parts(counting):
            if table == name:
                slots.update(part.changes)
                for slot in part.changes:
                    groups.add(hash_encoded(encode_slot(slot, part.namespaced)) % pair.newer.max_parallelism)
    ranges: list[range] = []
    for group in sorted(groups):
        if ranges and ranges[-1].stop == group:
            ranges[-1] = range(ranges[-1].start, group + 1)
        else:
            ranges.append(range(group, group + 1))
    return slots, ranges


def _both(older: Slice, newer: Slice, name: str) -> Iterator[tuple[Changes, Changes]]:
    """The contents of both, some key groups at a time: as many as fit for the larger one."""
    larger, smaller = (older, newer) if _size(older) >= _size(newer) else (newer, older)
    position = larger.groups.start
    for groups, parts in groupby(larger.tables(name), key=itemgetter(0)):
        changes: Changes = {}
        for _, table in parts:  # several only if one key group is very large
            changes.update(table.changes)
        others = _all(smaller.within(range(position, groups.stop)), name)
        position = groups.stop
        yield (changes, others) if larger is older else (others, changes)
    if position < larger.groups.stop:
        rest = _all(smaller.within(range(position, larger.groups.stop)), name)
        yield ({}, rest) if larger is older else (rest, {})


def _size(piece: Slice) -> int:
    return sum(segment.size for segment in piece.segments)


def _all(piece: Slice, name: str) -> Changes:
    changes: Changes = {}
    for _, table in piece.tables(name):
        changes.update(table.changes)
    return changes
