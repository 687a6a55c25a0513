"""Cutting the work on a handle's segments into pieces that are done in about a third of a second each.

A merged segment, or a table of a savepoint, may be several files, each with some key groups: a *layer* of the handle.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from beadline.state.segments.version import SegmentRef

PIECE_ENTRIES = 45_000
PIECE_BYTES = 5 << 20


def load_of(segments: Iterable[SegmentRef]) -> float:
    """How many pieces of work some segments make."""
    segments = tuple(segments)
    return max(
        sum(segment.entries for segment in segments) / PIECE_ENTRIES,
        sum(segment.weight for segment in segments) / PIECE_BYTES,
    )


def slices_of(key_groups: range, load: float) -> list[range]:
    """As many slices of key groups as there are pieces of work, of about equal width."""
    number = max(1, min(math.ceil(load), len(key_groups)))
    cuts = [key_groups.start + len(key_groups) * i // number for i in range(number + 1)]
    return [range(start, end) for start, end in itertools.pairwise(cuts)]


def within(segments: Iterable[SegmentRef], key_groups: range) -> tuple[SegmentRef, ...]:
    """The segments that hold something of some key groups, restricted to these."""
    return tuple(part for segment in segments if (part := segment.restricted(key_groups)).key_groups)


def layers_of(segments: Sequence[SegmentRef]) -> list[tuple[SegmentRef, ...]]:
    """Segments that follow each other and share no key group lie side by side; others one above the other."""
    layers: list[tuple[SegmentRef, ...]] = []
    for segment in segments:
        last = layers[-1][-1] if layers else None
        if last is not None and last.groups and segment.groups and segment.groups[0] >= last.groups[1]:
            layers[-1] = (*layers[-1], segment)
        else:
            layers.append((segment,))
    return layers
