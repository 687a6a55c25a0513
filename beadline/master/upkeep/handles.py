"""The driver's book of state: the version of each subtask, and the files of its segments."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

import xxhash

from beadline.graph.plan import Plan
from beadline.master.upkeep.tiers import FREE, Allowance, MergeSpan, first_group, spans_of
from beadline.runtime.messages import MergeRequest, MergeResult
from beadline.state.key_groups import key_group_range
from beadline.state.operator.handles import UNION, OperatorStateHandle, with_unions
from beadline.state.segments.files import SegmentFiles, local_path
from beadline.state.segments.version import (
    KeyedStateHandle,
    SegmentRef,
    checksum_of,
    next_version,
    root_version,
    within,
)

_LOG = logging.getLogger("beadline")

# Inline segments ride along with every step until they are this many or this large; then the driver writes them to one
# file.
_INLINE_SEGMENTS = 8
_INLINE_BYTES = 16 << 10
_LARGE_UNION = 16 << 20


@dataclass
class _Spot:
    """Where the segments of a span that is being merged are in their handle now. ``free``: it costs no allowance."""

    key: tuple[int, int]
    start: int
    stop: int
    free: bool


class StateBook:
    """Handles by (node, subtask). They change only when a step is sealed or a merge is taken in."""

    def __init__(self, job: str, plan: Plan, files: SegmentFiles) -> None:
        self._files = files
        self._own_folder = (local_path(files.root) or files.root.partition("?")[0]).rstrip("/") + "/"
        self._plan = plan
        self.handles: dict[tuple[int, int], KeyedStateHandle] = {}
        self.states: dict[tuple[int, int], OperatorStateHandle] = {}
        self._large_unions: set[tuple[int, str]] = set()
        self._written: set[str] = set()
        # Merging takes a while: steps may write much less when its results come than they did when it began.
        self._to_merge, self._to_take = Allowance(), Allowance()
        self._merged: list[MergeResult] = []
        self._spots: dict[int, _Spot] = {}
        self._spans = 0
        for node in plan.nodes.values():
            for subtask in range(node.parallelism) if node.keyed else ():
                groups = key_group_range(subtask, node.parallelism, node.max_parallelism)
                self.handles[node.id, subtask] = KeyedStateHandle(root_version(job, node.uid, groups))

    def __repr__(self) -> str:
        return f"<StateBook of {len(self.handles)} subtasks, {self.size} bytes in {len(self._written)} files>"

    @property
    def size(self) -> int:
        return sum(handle.size for held in (self.handles, self.states) for handle in held.values())

    def advance(self, deltas: Iterable[tuple[tuple[int, int], SegmentRef]]) -> None:
        """A step was sealed: its deltas lead to the next versions."""
        for key, segment in deltas:
            handle = self.handles[key].plus(segment)
            self._to_merge.wrote(segment.size)
            self._to_take.wrote(segment.size)
            if segment.path is not None:
                self._written.add(segment.path)
            self.handles[key] = handle
        if any(self._has_much_inline(handle) for handle in self.handles.values()):
            try:
                self._pack()
            except OSError as error:  # a full disk, say: they ride along until it has space again
                _LOG.warning("segments of state could not be written yet and stay in memory: %s", error)

    def advance_states(self, states: Iterable[tuple[tuple[int, int], OperatorStateHandle]]) -> None:
        """A step was sealed: where operator state stands now, for the subtasks where it changed."""
        for key, handle in states:
            self.states[key] = handle
            # What did not change is still in the snapshot that the job was restored from, which may be another owner's.
            self._written.update(path for path in handle.paths if path.startswith(self._own_folder))

    def states_for(self, node: int, subtask: int) -> OperatorStateHandle | None:
        """What a subtask's operator state starts a step from; unions name the parts of all subtasks."""
        if (node, subtask) not in self.states:
            return None
        parallelism = self._plan.nodes[node].parallelism
        return with_unions([self.states.get((node, i)) for i in range(parallelism)], subtask)

    def large_unions(self) -> list[tuple[int, str, int]]:
        """Node, name and bytes of unions that have become too large to be shown to every subtask; each once."""
        sizes: dict[tuple[int, str], int] = {}
        for (node, _), handle in self.states.items():
            for name, ref in handle.states.items():
                if ref.mode == UNION:
                    sizes[node, name] = sizes.get((node, name), 0) + ref.size
        found = [key for key, size in sizes.items() if size > _LARGE_UNION and key not in self._large_unions]
        self._large_unions.update(found)
        return [(*key, sizes[key]) for key in found]

    def _has_much_inline(self, handle: KeyedStateHandle) -> bool:
        inline = [segment for segment in handle.segments if segment.inline is not None]
        return len(inline) > _INLINE_SEGMENTS or sum(segment.size for segment in inline) > _INLINE_BYTES

    def _pack(self) -> None:
        """Write all inline segments, one after the other, to one file; nothing needs to be decoded for that."""
        data = b"".join(segment.inline or b"" for handle in self.handles.values() for segment in handle.segments)
        path = self._files.write(f"{xxhash.xxh3_128_hexdigest(data)}.pack", data)
        self._written.add(path)
        offset = 0
        for key, handle in self.handles.items():
            segments = []
            for segment in handle.segments:
                if segment.inline is not None:
                    checksum = checksum_of(segment.inline)
                    segment = replace(segment, inline=None, path=path, offset=offset, checksum=checksum)
                    offset += segment.size
                segments.append(segment)
            self.handles[key] = KeyedStateHandle(handle.root, tuple(segments))

    def merges(self, keys: Mapping[tuple[int, int], int] | None = None) -> list[MergeRequest]:
        """Key groups of segments that should become one: the smallest spans first, as far as the allowance goes."""
        if self._merged:
            return []
        wanted = [
            (span, key)
            for key, handle in self.handles.items()
            for span in spans_of(handle, self._groups_of(*key), (keys or {}).get(key, 0))
        ]
        self._spots.clear()  # none of the spans before is being merged
        requests: list[MergeRequest] = []
        for span, key in sorted(wanted, key=lambda found: (found[0].weight, found[1])):
            self._spans += 1
            self._spots[self._spans] = _Spot(key, span.start, span.stop, span.weight <= FREE)
            requests += self._requests(span, key)
        return requests

    def _requests(self, span: MergeSpan, key: tuple[int, int]) -> list[MergeRequest]:
        node, groups = self._plan.nodes[key[0]], self._groups_of(*key)
        return [
            MergeRequest(
                *key,
                node.max_parallelism,
                within(span.segments, part),
                span.lies_on_nothing(part),
                None if part == groups else (part.start, part.stop),
                self._spans,
            )
            for part in self._to_merge.pays_for(span)
        ]

    def _groups_of(self, node_id: int, subtask: int) -> range:
        node = self._plan.nodes[node_id]
        return key_group_range(subtask, node.parallelism, node.max_parallelism)

    def take_merges(self, results: Iterable[MergeResult]) -> None:
        """Replace key groups of segments by what they were merged to; what the allowance does not pay for comes
        later."""
        for result in results:
            assert result.segment.path is not None
            self._written.add(result.segment.path)
            self._merged.append(result)
            if not self._is_free(result):
                merged = sum(segment.weight for segment in result.request.segments)
                self._to_merge.left += merged - result.segment.size
        while self._merged and (self._is_free(self._merged[0]) or self._to_take.pays(self._merged[0].segment.size)):
            self._take(self._merged.pop(0))

    def _is_free(self, result: MergeResult) -> bool:
        spot = self._spots.get(result.request.span)
        return spot is not None and spot.free

    def _take(self, result: MergeResult) -> None:
        """Replace key groups of a span's segments by what they were merged to.

        1. find the span: it has moved as far as others before it have grown or shrunk since it was planned
        2. check that its segments are the very ones that were merged
        3. put the merged segment first, and what is left of the others after it
        4. give them new names. A name stands for everything up to that run, and only the last run of the span still
           has the same runs below it
        """
        request = result.request
        spot, groups = self._spots.get(request.span), self._groups_of(request.node, request.subtask)
        if spot is None:
            return  # it comes too late: others have been planned since
        part = groups if request.groups is None else range(*request.groups)
        handle = self.handles[spot.key]
        span = within(handle.segments[spot.start : spot.stop], groups)
        if not span or min(map(first_group, span)) != part.start:
            return  # the part before it was lost
        if [segment.content for segment in within(span, part)] != [segment.content for segment in request.segments]:
            _LOG.warning("a merge of segments is dropped, because other segments have taken their place: %r", request)
            return
        left = within(span, range(part.stop, groups.stop))
        below = handle.segments[spot.start - 1].version if spot.start else handle.root
        made: list[SegmentRef] = []
        for segment in (result.segment, *left):
            below = next_version(below, repr(segment.content).encode())
            made.append(replace(segment, version=below))
        made[-1] = replace(made[-1], version=span[-1].version)
        self.handles[spot.key] = handle.replacing(spot.start, spot.stop, *made)
        grown = len(made) - (spot.stop - spot.start)
        for other in self._spots.values():
            if other.key == spot.key and other.start >= spot.stop:
                other.start, other.stop = other.start + grown, other.stop + grown
        spot.start, spot.stop = spot.start + 1, spot.stop + grown

    def live_files(self) -> set[str]:
        """The files of the current versions, and of those in the making."""
        live = {
            segment.path for handle in self.handles.values() for segment in handle.segments if segment.path is not None
        }
        live.update(result.segment.path for result in self._merged if result.segment.path is not None)
        return live.union(*(states.paths for states in self.states.values()))

    def move_in(self, stored: Iterable[SegmentRef]) -> None:
        """A checkpoint has copied segments of a snapshot that belongs to others: use the copies from now on."""
        # By their bytes: since the checkpoint was taken, segments may have been merged to one of the same version.
        copies: dict[tuple[str | None, int], SegmentRef]
        copies = {(segment.checksum, segment.size): segment for segment in stored if segment.checksum is not None}

        def moved(segment: SegmentRef) -> SegmentRef:
            copy = copies.get((segment.checksum, segment.size))
            if copy is None or copy.path is None or segment.path is None or copy.path == segment.path:
                return segment
            self._written.add(copy.path)
            return replace(segment, path=copy.path, offset=copy.offset, checksum=copy.checksum)

        for key, handle in self.handles.items():
            segments = tuple(map(moved, handle.segments))
            if segments != handle.segments:
                self.handles[key] = KeyedStateHandle(handle.root, segments)
        for key, states in self.states.items():
            now = states.with_segments(moved)
            if now.paths != states.paths:
                self.states[key] = now

    def checkpointed(self) -> None:
        """A checkpoint was taken of what the handles name now."""
        self._to_merge.checkpointed()
        self._to_take.checkpointed()

    def own(self, paths: Iterable[str]) -> None:
        """Files that the job was restored from and may delete when nobody needs them any more."""
        self._written.update(paths)

    def garbage(self, needed: Set[str] = frozenset()) -> set[str]:
        """The files that neither a handle names nor a checkpoint needs; each once. They may be deleted even while a
        step or a merge is under way: those work on versions that handles name."""
        garbage = self._written - self.live_files() - needed
        self._written -= garbage
        return garbage
