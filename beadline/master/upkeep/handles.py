"""The driver's book of state: the version of each subtask, and the files of its runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

import xxhash

from beadline.graph.plan import Plan
from beadline.master.upkeep.tiers import FREE, Allowance, Window, first_group, windows_of
from beadline.runtime.messages import MergeRequest, MergeResult
from beadline.state.key_groups import key_group_range
from beadline.state.operator.handles import UNION, OperatorStateHandle, with_unions
from beadline.state.runs.files import RunFiles, local_path
from beadline.state.runs.slicing import within
from beadline.state.runs.version import Handle, RunRef, checksum_of, next_version, root_version

_LOG = logging.getLogger("beadline")

# Inline runs ride along with every step until they are this many or this large; then the driver writes them to one
# file.
_INLINE_RUNS = 8
_INLINE_BYTES = 16 << 10
_LARGE_UNION = 16 << 20


def _weight(result: MergeResult) -> int:
    """How many bytes were merged."""
    return sum(run.weight for run in result.request.runs)


@dataclass
class _Spot:
    """Where the runs of a window that is being merged are in their handle now.

    :ivar free: merging it costs no allowance
    """

    key: tuple[int, int]
    start: int
    stop: int
    free: bool


class StateBook:
    """Handles by (node, subtask). Changes only when a step is sealed or a merge is taken in.

    :ivar handles: of keyed state
    :ivar states: of operator state, for the subtasks that have any
    """

    def __init__(self, job: str, plan: Plan, files: RunFiles) -> None:
        self._files = files
        self._own_folder = (local_path(files.root) or files.root.partition("?")[0]).rstrip("/") + "/"
        self._plan = plan
        self.handles: dict[tuple[int, int], Handle] = {}
        self.states: dict[tuple[int, int], OperatorStateHandle] = {}
        self._large_unions: set[tuple[int, str]] = set()
        self._written: set[str] = set()
        # Merging takes a while: steps may write much less when its results come than they did when it began.
        self._to_merge, self._to_take = Allowance(), Allowance()
        self._merged: list[MergeResult] = []
        self._spots: dict[int, _Spot] = {}
        self._windows = 0
        for node in plan.nodes.values():
            for subtask in range(node.parallelism) if node.keyed else ():
                groups = key_group_range(subtask, node.parallelism, node.max_parallelism)
                self.handles[node.id, subtask] = Handle(root_version(job, node.uid, groups))

    def __repr__(self) -> str:
        return f"<StateBook of {len(self.handles)} subtasks, {self.size} bytes in {len(self._written)} files>"

    @property
    def size(self) -> int:
        return sum(handle.size for held in (self.handles, self.states) for handle in held.values())

    def advance(self, deltas: Iterable[tuple[tuple[int, int], RunRef]]) -> None:
        """A step was sealed: its deltas lead to the next versions."""
        for key, run in deltas:
            handle = self.handles[key].plus(run)
            self._to_merge.wrote(run.size)
            self._to_take.wrote(run.size)
            if run.path is not None:
                self._written.add(run.path)
            self.handles[key] = handle
        if any(self._has_much_inline(handle) for handle in self.handles.values()):
            try:
                self._pack()
            except OSError as error:  # a full disk, say: they ride along until it has space again
                _LOG.warning("runs of state could not be written yet and stay in memory: %s", error)

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

    def _has_much_inline(self, handle: Handle) -> bool:
        inline = [run for run in handle.runs if run.inline is not None]
        return len(inline) > _INLINE_RUNS or sum(run.size for run in inline) > _INLINE_BYTES

    def _pack(self) -> None:
        """Write all inline runs, one after the other, to one file; nothing needs to be decoded for that."""
        data = b"".join(run.inline or b"" for handle in self.handles.values() for run in handle.runs)
        path = self._files.write(f"{xxhash.xxh3_128_hexdigest(data)}.pack", data)
        self._written.add(path)
        offset = 0
        for key, handle in self.handles.items():
            runs = []
            for run in handle.runs:
                if run.inline is not None:
                    checksum = checksum_of(run.inline)
                    run = replace(run, inline=None, path=path, offset=offset, checksum=checksum)
                    offset += run.size
                runs.append(run)
            self.handles[key] = Handle(handle.root, tuple(runs))

    def merges(self, keys: Mapping[tuple[int, int], int] | None = None) -> list[MergeRequest]:
        """Key groups of runs that should become one, each short work: the smallest windows first, as far as the
        allowance goes.

        :param keys: how many entries each subtask has
        """
        if self._merged:
            return []
        wanted = [
            (window, key)
            for key, handle in self.handles.items()
            for window in windows_of(handle, self._groups_of(*key), (keys or {}).get(key, 0))
        ]
        self._spots.clear()  # none of the windows before is being merged
        requests: list[MergeRequest] = []
        for window, key in sorted(wanted, key=lambda found: (found[0].weight, found[1])):
            self._windows += 1
            self._spots[self._windows] = _Spot(key, window.start, window.stop, window.weight <= FREE)
            requests += self._requests(window, key)
        return requests

    def _requests(self, window: Window, key: tuple[int, int]) -> list[MergeRequest]:
        node, groups = self._plan.nodes[key[0]], self._groups_of(*key)
        return [
            MergeRequest(
                *key,
                node.max_parallelism,
                within(window.runs, part),
                window.lies_on_nothing(part),
                None if part == groups else (part.start, part.stop),
                self._windows,
            )
            for part in self._to_merge.pays_for(window)
        ]

    def _groups_of(self, node_id: int, subtask: int) -> range:
        node = self._plan.nodes[node_id]
        return key_group_range(subtask, node.parallelism, node.max_parallelism)

    def take_merges(self, results: Iterable[MergeResult]) -> None:
        """Replace key groups of runs by what they were merged to. What is left of the runs follows; what the
        allowance does not pay for is taken later."""
        for result in results:
            assert result.run.path is not None
            self._written.add(result.run.path)
            self._merged.append(result)
            if not self._is_free(result):
                self._to_merge.left += _weight(result) - result.run.size
        while self._merged and (self._is_free(self._merged[0]) or self._to_take.pays(self._merged[0].run.size)):
            self._take(self._merged.pop(0))

    def _is_free(self, result: MergeResult) -> bool:
        spot = self._spots.get(result.request.window)
        return spot is not None and spot.free

    def _take(self, result: MergeResult) -> None:
        """Replace key groups of a window's runs by what they were merged to.

        1. find the window: it has moved as far as others before it have grown or shrunk since it was planned
        2. check that its runs are the very ones that were merged
        3. put the merged run first, and what is left of the others after it
        4. give them new names. A name stands for everything up to that run, and only the last run of the window still
           has the same runs below it
        """
        request = result.request
        spot, groups = self._spots.get(request.window), self._groups_of(request.node, request.subtask)
        if spot is None:
            return  # it comes too late: others have been planned since
        part = groups if request.groups is None else range(*request.groups)
        handle = self.handles[spot.key]
        window = within(handle.runs[spot.start : spot.stop], groups)
        if not window or min(map(first_group, window)) != part.start:
            return  # the part before it was lost
        if [run.content for run in within(window, part)] != [run.content for run in request.runs]:
            _LOG.warning("a merge of runs is dropped, because other runs have taken their place: %r", request)
            return
        left = within(window, range(part.stop, groups.stop))
        below = handle.runs[spot.start - 1].version if spot.start else handle.root
        made: list[RunRef] = []
        for run in (result.run, *left):
            below = next_version(below, repr(run.content).encode())
            made.append(replace(run, version=below))
        made[-1] = replace(made[-1], version=window[-1].version)
        self.handles[spot.key] = handle.replacing(spot.start, spot.stop, *made)
        grown = len(made) - (spot.stop - spot.start)
        for other in self._spots.values():
            if other.key == spot.key and other.start >= spot.stop:
                other.start, other.stop = other.start + grown, other.stop + grown
        spot.start, spot.stop = spot.start + 1, spot.stop + grown

    def live_files(self) -> set[str]:
        """The files of the current versions, and of those in the making."""
        live = {run.path for handle in self.handles.values() for run in handle.runs if run.path is not None}
        live.update(result.run.path for result in self._merged if result.run.path is not None)
        return live.union(*(states.paths for states in self.states.values()))

    def move_in(self, stored: Iterable[RunRef]) -> None:
        """A checkpoint has copied runs of a snapshot that belongs to others: use the copies from now on."""
        # By their bytes: since the checkpoint was taken, runs may have been merged to one of the same version.
        copies: dict[tuple[str | None, int], RunRef]
        copies = {(run.checksum, run.size): run for run in stored if run.checksum is not None}
        for key, handle in self.handles.items():
            runs = tuple(self._copy_of(run, copies.get((run.checksum, run.size))) for run in handle.runs)
            if runs != handle.runs:
                self.handles[key] = Handle(handle.root, runs)
        for key, states in self.states.items():
            moved = states.with_runs(lambda run: self._copy_of(run, copies.get((run.checksum, run.size))))
            if moved.paths != states.paths:
                self.states[key] = moved

    def _copy_of(self, run: RunRef, copy: RunRef | None) -> RunRef:
        if copy is None or copy.path is None or run.path is None or copy.path == run.path:
            return run
        self._written.add(copy.path)
        return replace(run, path=copy.path, offset=copy.offset, checksum=copy.checksum)

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
