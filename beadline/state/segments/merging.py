"""The contents of a handle, some key groups at a time: in bounded memory, however large the state is.

Segments are read block by block. A slice of key groups is as wide as the budget allows, going by the sizes in the
segments' indexes. A key group that alone is larger than the budget comes in several parts, by ranges of its keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from beadline.state.key_groups import encode_slot
from beadline.state.segments.files import read_range
from beadline.state.segments.segment import (
    Block,
    LoadedBlock,
    SegmentContent,
    SegmentReader,
    TableChanges,
    add_part,
    merge_contents,
    open_segment,
    without_expired,
    without_tombstones,
)
from beadline.state.segments.version import SegmentRef

BUDGET = 48 << 20
# The memory of an entry: about this many times its bytes, and this much for its place in a dictionary.
_TIMES, _ENTRY_BYTES = 3, 200
_SAMPLES = 64


def merged(
    segments: Sequence[SegmentRef],
    key_groups: range,
    budget: int = BUDGET,
    *,
    from_root: bool = True,
    now: int | None = None,
    tables: Collection[str] | None = None,
) -> Iterator[tuple[range, SegmentContent]]:
    """The merged content of some segments of a handle, slice by slice, in the order of key groups.

    A key group comes in one slice, or, if it is larger than the budget, in several that follow each other with keys of
    their own. Slices without entries are left out, and so are empty tables.

    :param budget: about how many bytes of memory the entries of a slice may take
    :param from_root: no runs lie below these, so that removals are done and contents are settled
    :param now: if they are settled, leave out what has expired by this time
    :param tables: read only these
    """
    sources = [_Source(segment, key_groups, tables) for segment in segments]
    shelf = _Shelf(budget // 2)
    for part in _slices(sources, key_groups, budget):
        weight = sum(source.weight_of(part) for source in sources)
        for bounds in _key_ranges(sources, part, weight, budget) if len(part) == 1 and weight > 2 * budget else (None,):
            content = merge_contents(source.content(part, bounds, shelf) for source in sources)
            if from_root:
                content = without_tombstones(content)
                if now is not None:
                    content = without_expired(content, now)
            content = {name: table for name, table in content.items() if table.changes}
            if content:
                yield part, content
        shelf.forget_before(part.stop)


_Bounds = tuple[bytes | None, bytes | None]


class _Source:
    def __init__(self, segment: SegmentRef, key_groups: range, tables: Collection[str] | None) -> None:
        first, end = segment.groups or (key_groups.start, key_groups.stop)
        self._key_groups = _both(key_groups, range(first, end))
        self._reader: SegmentReader = open_segment(
            partial(read_range, segment), segment.size, repr(segment), segment.is_own
        )
        wanted = self._reader.blocks if tables is None else [b for b in self._reader.blocks if b.name in tables]
        self.blocks = [block for block in wanted if block.overlaps(self._key_groups)]
        self._keys: dict[int, tuple[bytes, bytes]] = {}
        self._weights = [0.0] * key_groups.stop
        for block in self.blocks:
            share = weight_of(block) / (block.last - block.first + 1)
            for group in _both(range(block.first, block.last + 1), self._key_groups):
                self._weights[group] += share

    def weight_of(self, key_groups: range) -> float:
        return sum(self._weights[key_groups.start : key_groups.stop])

    def content(self, key_groups: range, bounds: _Bounds | None, shelf: _Shelf) -> SegmentContent:
        """The changes of some key groups, or of a range of keys of one."""
        found: SegmentContent = {}
        groups = _both(key_groups, self._key_groups)
        for block in self.blocks:
            if block.overlaps(groups) and (bounds is None or self._reaches(block, bounds)):
                needed_again = bounds is not None or block.last >= key_groups.stop
                table = shelf.take(block, self._reader, needed_again)(groups)
                add_part(found, block.name, table if bounds is None else _between(table, *bounds))
        return found

    def survey(self, key_groups: range) -> Iterator[tuple[bytes, float]]:
        """A sample of the keys, each with the weight of the keys it stands for. Learns which keys each block holds."""
        for block in self.blocks:
            groups = _both(key_groups, self._key_groups)
            if block.overlaps(groups):
                table = self._reader.load(block)(groups)
                keys = sorted(encode_slot(slot, table.namespaced) for slot in table.changes)
                if keys:
                    self._keys[block.number] = keys[0], keys[-1]
                    step = max(1, len(keys) // _SAMPLES)
                    for key in keys[::step]:
                        yield key, weight_of(block) * step / block.entries

    def _reaches(self, block: Block, bounds: _Bounds) -> bool:
        known = self._keys.get(block.number)
        if known is None:
            return False
        low, high = bounds
        return (low is None or known[1] >= low) and (high is None or known[0] < high)


class _Shelf:
    """Blocks that reach into the next slice, kept as far as memory allows."""

    def __init__(self, room: float) -> None:
        self._room = room
        self._kept: dict[tuple[int, int], tuple[Block, LoadedBlock]] = {}

    def take(self, block: Block, reader: SegmentReader, needed_again: bool) -> LoadedBlock:
        place = id(reader), block.number
        kept = self._kept.get(place)
        if kept is not None:
            return kept[1]
        loaded = reader.load(block)
        if needed_again and weight_of(block) <= self._room:
            self._room -= weight_of(block)
            self._kept[place] = block, loaded
        return loaded

    def forget_before(self, key_group: int) -> None:
        for place, (block, _) in list(self._kept.items()):
            if block.last < key_group:
                del self._kept[place]
                self._room += weight_of(block)


def weight_of(block: Block) -> float:
    """About how much memory the entries of a block take."""
    return block.size * _TIMES + block.entries * _ENTRY_BYTES


def _both(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _slices(sources: Sequence[_Source], key_groups: range, budget: int) -> Iterator[range]:
    start, total = key_groups.start, 0.0
    for group in key_groups:
        weight = sum(source.weight_of(range(group, group + 1)) for source in sources)
        if group > start and total + weight > budget:
            yield range(start, group)
            start, total = group, 0.0
        total += weight
    if start < key_groups.stop:
        yield range(start, key_groups.stop)


def _key_ranges(sources: Sequence[_Source], part: range, weight: float, budget: int) -> list[_Bounds]:
    """Ranges of encoded keys that share out one key group."""
    samples = sorted(sample for source in sources for sample in source.survey(part))
    limits: list[bytes] = []
    total, share = 0.0, max(float(budget), weight / max(1, len(samples)))
    for key, stands_for in samples:
        if total >= share and (not limits or key > limits[-1]):
            limits.append(key)
            total = 0.0
        total += stands_for
    ends: list[bytes | None] = [*limits, None]
    return list(zip([None, *limits], ends, strict=True))


def _between(table: TableChanges, low: bytes | None, high: bytes | None) -> TableChanges:
    kept: dict[Any, Any] = {}
    for slot, change in table.changes.items():
        encoded = encode_slot(slot, table.namespaced)
        if (low is None or encoded >= low) and (high is None or encoded < high):
            kept[slot] = change
    return replace(table, changes=kept)
