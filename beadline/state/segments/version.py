"""Names of state versions, the handles that say how to reach one, and how work on their segments is cut into pieces.

A version id is a hash of its parent's id and of the delta that leads from there: nothing is ever overwritten, a task
that Spark runs twice makes the same version or another one, never a mixture. A handle is the chain of segments that
makes a version. A merged segment, or a table of a savepoint, may be several files, each with some key groups: a *layer*
of the handle.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import xxhash

# A piece of work on segments: it is done in about a third of a second.
PIECE_ENTRIES = 45_000
PIECE_BYTES = 5 << 20


def root_version(job: str, uid: str, key_groups: range) -> str:
    """Where the state of a subtask begins."""
    return xxhash.xxh3_128_hexdigest(f"{job}|{uid}|{key_groups.start}|{key_groups.stop}".encode())


def next_version(parent: str, delta: bytes) -> str:
    """The version that a delta makes of its parent; without a delta it stays the same version."""
    if not delta:
        return parent
    digest = xxhash.xxh3_128(parent.encode())
    digest.update(delta)
    return digest.hexdigest()


def checksum_of(data: bytes | memoryview) -> str:
    """What a segment reference says about its bytes, so that damage is seen before they are used."""
    return xxhash.xxh3_64_hexdigest(data)


@dataclass(frozen=True)
class SegmentRef:
    """Where one segment of a handle is: carried along (``inline``) or a part of a file.

    :ivar version: the version that this segment leads to
    :ivar entries: how many changes count in it; about, if not all of its key groups do
    :ivar path: an absolute local path or a full URI
    :ivar checksum: :func:`checksum_of` its bytes, None if nobody has computed it yet
    :ivar groups: first and last + 1 of the key groups that count in it; None for all
    :ivar counted: about how many of its bytes count; None for all
    :ivar foreign: another job wrote its bytes; None if that is not known. They are checked whenever they are read,
        unless it is False
    """

    version: str
    entries: int
    size: int
    inline: bytes | None = None
    path: str | None = None
    offset: int = 0
    checksum: str | None = None
    groups: tuple[int, int] | None = None
    counted: int | None = None
    foreign: bool | None = field(default=False, compare=False)

    @property
    def weight(self) -> int:
        return self.size if self.counted is None else self.counted

    @property
    def key_groups(self) -> range | None:
        return None if self.groups is None else range(*self.groups)

    @property
    def is_own(self) -> bool:
        """Whether the job itself has written the bytes."""
        return self.foreign is False

    @property
    def content(self) -> tuple[object, ...]:
        """Equal for references to the same bytes and key groups, wherever the bytes have been put since. The version
        does not tell: segments that were merged lead to the version of the last of them."""
        checksum = checksum_of(self.inline) if self.inline is not None else self.checksum
        return (self.groups, self.size, checksum or (self.path, self.offset))

    def restricted(self, key_groups: range) -> SegmentRef:
        """The same segment, with only some key groups that count."""
        if self.groups is None:
            return replace(self, groups=(key_groups.start, key_groups.stop))
        groups = (max(self.groups[0], key_groups.start), min(self.groups[1], key_groups.stop))
        if groups == self.groups:
            return self
        before, now = max(1, len(range(*self.groups))), len(range(*groups))
        return replace(self, groups=groups, entries=self.entries * now // before, counted=self.weight * now // before)

    def __repr__(self) -> str:
        place = "inline" if self.inline is not None else f"{self.path}@{self.offset}"
        return f"<segment {self.version[:8]} {self.entries} entries {self.size} bytes {place}>"


@dataclass(frozen=True)
class KeyedStateHandle:
    """A version of a subtask's state: its root and the segments that lead from there."""

    root: str
    segments: tuple[SegmentRef, ...] = field(default=())

    @property
    def version(self) -> str:
        return self.segments[-1].version if self.segments else self.root

    @property
    def size(self) -> int:
        """About how many bytes count in it."""
        return sum(segment.weight for segment in self.segments)

    def after(self, version: str) -> tuple[SegmentRef, ...] | None:
        """The segments that lead from a version to this handle's, or None if the version is not in its chain."""
        if version == self.root:
            return self.segments
        for position, segment in enumerate(self.segments):
            if segment.version == version:
                return self.segments[position + 1 :]
        return None

    def plus(self, segment: SegmentRef) -> KeyedStateHandle:
        return KeyedStateHandle(self.root, (*self.segments, segment))

    def replacing(self, start: int, stop: int, *segments: SegmentRef) -> KeyedStateHandle:
        """With the segments from one place to another replaced by others that equal them."""
        return KeyedStateHandle(self.root, (*self.segments[:start], *segments, *self.segments[stop:]))


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
