"""The driver's book of state: which version each subtask stands at, and which files its runs are in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

import xxhash

from beadline.graph.plan import Plan
from beadline.master.tiers import FREE, Allowance, first_group, left_of, windows_of
from beadline.runtime.messages import MergeRequest, MergeResult
from beadline.state.files import RunFiles, local_path
from beadline.state.key_groups import key_group_range
from beadline.state.operator_handles import UNION, OperatorStateHandle, with_unions
from beadline.state.slicing import within
from beadline.state.version import Handle, RunRef, checksum_of, root_version

_LOG = logging.getLogger("beadline")

# Inline runs ride along with every step until they are this many or this large; then the driver writes them to one
# file.
_INLINE_RUNS = 8
_INLINE_BYTES = 16 << 10
_LARGE_UNION = 16 << 20


def _weight(result: MergeResult) -> int:
    """How many bytes were merged."""
    return sum(run.weight for run in result.request.runs)


def _is_free(result: MergeResult) -> bool:
    return result.request.groups is None and _weight(result) <= FREE


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
        self._renamed: dict[str, str] = {}
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
                _LOG.warning("runs of state stay in memory for now: %s", error)

    def advance_states(self, states: Iterable[tuple[tuple[int, int], OperatorStateHandle]]) -> None:
        """A step was sealed: where operator state stands now, for the subtasks where it changed."""
        for key, handle in states:
            self.states[key] = handle
            # What did not change is still where the job was restored from, which may be somebody else's.
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
        """Write all inline runs, one behind the other, to one file; nothing needs to be decoded for that."""
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
        requests: list[MergeRequest] = []
        for window, (node_id, subtask) in sorted(wanted, key=lambda found: (found[0].weight, found[1])):
            node, groups = self._plan.nodes[node_id], self._groups_of(node_id, subtask)
            for part in self._to_merge.pays_for(window):
                requests.append(
                    MergeRequest(
                        node_id,
                        subtask,
                        node.max_parallelism,
                        within(window.runs, part),
                        window.lies_on_nothing(part),
                        None if part == groups else (part.start, part.stop),
                        (window.runs[0].version, window.runs[-1].version),
                        part.stop == groups.stop,
                    )
                )
        return requests

    def _groups_of(self, node_id: int, subtask: int) -> range:
        node = self._plan.nodes[node_id]
        return key_group_range(subtask, node.parallelism, node.max_parallelism)

    def take_merges(self, results: Iterable[MergeResult]) -> None:
        """Replace key groups of runs by what they were merged to. What is left of the runs follows behind; what the
        allowance does not pay for is taken later."""
        for result in results:
            assert result.run.path is not None
            self._written.add(result.run.path)
            self._merged.append(result)
            if not _is_free(result):
                self._to_merge.left += _weight(result) - result.run.size
        while self._merged and (_is_free(self._merged[0]) or self._to_take.pays(self._merged[0].run.size)):
            self._take(self._merged.pop(0))
        if not self._merged:
            self._renamed.clear()

    def _take(self, result: MergeResult) -> None:
        request = result.request
        key, (first, last) = (request.node, request.subtask), request.span
        handle, groups = self.handles[key], self._groups_of(request.node, request.subtask)
        part = groups if request.groups is None else range(*request.groups)
        # What is left of the first run has another version since an earlier part was taken.
        window = within(handle.between(self._renamed.get(first, first), last), groups)
        if not window or min(map(first_group, window)) != part.start:
            return
        left = left_of(window, range(part.stop, groups.stop))
        run = result.run if left else replace(result.run, version=last)
        self.handles[key] = handle.replacing(window[0].version, last, run, *left)
        if left:
            self._renamed[first] = left[0].version
        else:
            self._renamed.pop(first, None)

    def live_files(self) -> set[str]:
        """The files behind the current versions, and those that are to be."""
        live = {run.path for handle in self.handles.values() for run in handle.runs if run.path is not None}
        live.update(result.run.path for result in self._merged if result.run.path is not None)
        return live.union(*(states.paths for states in self.states.values()))

    def move_in(self, stored: Iterable[RunRef]) -> None:
        """A checkpoint has copied runs of a snapshot that belongs to others: use the copies from now on."""
        copies = {(run.version, run.size): run for run in stored}
        for key, handle in self.handles.items():
            runs = tuple(self._copy_of(run, copies.get((run.version, run.size))) for run in handle.runs)
            if runs != handle.runs:
                self.handles[key] = Handle(handle.root, runs)
        for key, states in self.states.items():
            moved = states.with_runs(lambda run: self._copy_of(run, copies.get((run.version, run.size))))
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
