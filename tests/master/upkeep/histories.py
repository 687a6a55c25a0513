"""The life of a job's keyed state as the driver sees it, beside dictionaries that say what it should be.

Everything is the shipped thing: the truth with its book of handles, segment files on disk, the function that merges
segments in a worker, restoring at another parallelism, stores of both backends that go along. Only the steps are made
up, and Spark is not there.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from beadline.checkpoint.contents.snapshot import Snapshot
from beadline.checkpoint.coordinator.actions import CheckpointKind, Take
from beadline.checkpoint.storage.durable import Bundle, DurableFiles
from beadline.graph.plan import Plan
from beadline.master.upkeep.truth import Truth
from beadline.runtime.messages import MergeResult, RunContext
from beadline.runtime.short_tasks.merging import merge_runs
from beadline.state.backend_settings import BackendSettings, RocksSettings
from beadline.state.codec import thaw
from beadline.state.heap.store import HeapStore
from beadline.state.heap.tables import MISSING, TABLE_KINDS
from beadline.state.heap.timers import TimerTable
from beadline.state.key_groups import key_group_of, key_group_range
from beadline.state.segments import version as versions
from beadline.state.segments.files import SegmentFiles, delete_file
from beadline.state.segments.segment import SegmentContent, TableChanges, count_entries, encode_segment
from beadline.state.segments.version import SegmentRef, next_version
from beadline.state.store import Store, StoreOwner, open_store
from tests.graph.programs import Program, by, same

MAX = 16
LARGEST = 4
_NODE = 2
_KEYS = 3 * MAX
_MAP_KEYS = 3
_TIMES = 6
TABLES = {"value": "value", "list": "list", "map": "map", "timer": TimerTable.kind}

Contents = dict[str, dict[Any, Any]]


def _plan(parallelism: int) -> Plan:
    program = Program()
    program.function("reduce", max, (program.source(), by(same)), max_parallelism=MAX, uid="op")
    return program.plan(parallelism=parallelism)


PLANS = {parallelism: _plan(parallelism) for parallelism in range(1, LARGEST + 1)}


@dataclass
class _Kept:
    """A checkpoint, and what was in the state when it was taken."""

    snapshot: Snapshot
    contents: Contents


class History:
    """One job, changed by what its methods are named after.

    :ivar contents: what the state should be, of all subtasks together
    :ivar merges: how many were taken in
    """

    def __init__(self, folder: Path, kind: str, parallelism: int) -> None:
        self.folder, self._kind = folder, kind
        self._files = SegmentFiles(str(folder / "shared"))
        (folder / "shared").mkdir(parents=True)
        (folder / "copies").mkdir()
        self._durable = DurableFiles()
        self._executions = 0
        self._numbers = 0
        self.merges = 0
        self.contents: Contents = {name: {} for name in TABLES}
        self._checkpoints: list[_Kept] = []
        self._under_way: list[MergeResult] = []
        self._to_move_in: list[Snapshot] = []
        self._stores: dict[int, Store] = {}
        self._begin(parallelism)

    def _begin(self, parallelism: int, snapshot: Snapshot | None = None) -> None:
        """A new execution: from nothing, or from a snapshot."""
        self.close()
        self._executions += 1
        self._plan = PLANS[parallelism]
        self.truth = Truth("job", self._plan, self._files)
        self._under_way, self._to_move_in = [], []
        if snapshot is not None:
            self.truth.restore(snapshot, self._files, 0, False, False)
            self.truth.book.own(self.truth.book.live_files())

    def close(self) -> None:
        for store in self._stores.values():
            store.close()
        self._stores.clear()

    @property
    def parallelism(self) -> int:
        return self._plan.nodes[_NODE].parallelism

    def _groups(self, subtask: int) -> range:
        return key_group_range(subtask, self.parallelism, MAX)

    # -- what happens to a job

    def steps(self, dice: random.Random) -> None:
        for _ in range(dice.choice([1, 2, 4, 8])):
            self.step(dice)

    def step(self, dice: random.Random) -> None:
        """Each subtask changes some entries. The worker that did it may keep what it wrote."""
        deltas = []
        for subtask in range(self.parallelism):
            content = self._changes(dice, self._groups(subtask))
            data = encode_segment(content, MAX)
            if not data:
                continue
            base = self.truth.book.handles[_NODE, subtask].version
            version, entries = next_version(base, data), count_entries(content)
            if dice.random() < 0.3:
                segment = SegmentRef(version, entries, len(data), inline=data)
            else:
                segment = self._files.store(f"{version}.run", data, version, entries)
            store = self._stores.get(subtask)
            if store is not None and dice.random() < 0.5:
                self._follow(subtask).keep(version, copy.deepcopy(content))
                store.release()
            deltas.append(((_NODE, subtask), segment))
            for name, table in content.items():
                TABLE_KINDS[table.kind].apply(self.contents[name], copy.deepcopy(table.changes))
        self.truth.book.advance(deltas)
        self.truth.step += 1

    def _changes(self, dice: random.Random, groups: range) -> SegmentContent:
        own = [key for key in range(_KEYS) if key_group_of(key, MAX) in groups]
        content: SegmentContent = {}
        for name, kind in TABLES.items():
            chosen = dice.sample(own, min(len(own), dice.choice([0, 1, 1, 2, 5])))
            changes = {key: self._change(dice, kind) for key in chosen}
            if changes:
                content[name] = TableChanges(kind, False, changes)
        return content

    def _change(self, dice: random.Random, kind: str) -> Any:
        self._numbers += 1
        if kind == "value":
            return dice.choice([None, self._numbers])
        if kind == "list":
            return dice.choice([(False, [self._numbers]), (True, [self._numbers]), (True, [])])
        if kind == "map":
            put, gone = dice.sample(range(_MAP_KEYS), 2)
            puts = {put: self._numbers} if dice.random() < 0.7 else {}
            return (True, puts, []) if dice.random() < 0.2 else (False, puts, [gone])
        registered, fired = dice.sample(range(_TIMES), 2)
        return dice.choice([([registered], []), ([], [fired]), ([registered], [fired])])

    def merge(self, dice: random.Random) -> None:
        """Merges begin. They are cut anywhere, and some tasks are lost."""
        book = self.truth.book
        book._to_merge.left = dice.choice([50, 200, 500, 1 << 20])
        versions.PIECE_ENTRIES = dice.choice([1, 5, 1000])
        context = RunContext("run")
        worker: Any = SimpleNamespace(files=self._files)
        keys = {(_NODE, subtask): dice.choice([0, 10]) for subtask in range(self.parallelism)}
        results = [merge_runs(worker, context, 0, request) for request in book.merges(keys)]
        if dice.random() < 0.2:
            results = [result for result in results if dice.random() < 0.7]
        if dice.random() < 0.1:
            dice.shuffle(results)
        self._under_way += results
        if dice.random() < 0.7:
            self.take(dice)

    def take(self, dice: random.Random) -> None:
        """Results of merges are taken in: as far as they are paid for, all, or only some."""
        book = self.truth.book
        book._to_take.left = dice.choice([0, 100, 1 << 20, 1 << 20])
        count = len(self._under_way) if dice.random() < 0.8 else dice.randint(0, len(self._under_way))
        taken, self._under_way = self._under_way[:count], self._under_way[count:]
        before = dict(book.handles)
        book.take_merges(taken)
        self.merges += sum(book.handles[key] != handle for key, handle in before.items())
        if dice.random() < 0.3:
            book.checkpointed()

    def checkpoint(self, dice: random.Random) -> None:
        """A checkpoint is taken. If files belong to others, it copies them, and the job uses the copies later."""
        number = self.truth.step + 1000 * self._executions
        snapshot = self.truth.snapshot(Take(number, self.truth.step, CheckpointKind.CHECKPOINT), 0, {}, {})
        foreign = {path for path in snapshot.files() if dice.random() < 0.3}
        bundle = Bundle(str(self.folder / "copies"), str(self.folder / "copies"), 0)
        stored, _ = self._durable.bring(snapshot, bundle, foreign.__contains__)
        self._checkpoints.append(_Kept(stored, copy.deepcopy(self.contents)))
        del self._checkpoints[: dice.choice([0, 0, 1])]
        self._to_move_in.append(stored)

    def move_in(self, dice: random.Random) -> None:
        for stored in self._to_move_in:
            self.truth.book.move_in(stored.segments)
        self._to_move_in.clear()

    def collect_garbage(self, dice: random.Random) -> None:
        needed = {path for kept in self._checkpoints for path in kept.snapshot.files()}
        needed |= {path for snapshot in self._to_move_in for path in snapshot.files()}
        for path in self.truth.book.garbage(needed | {str(r.segment.path) for r in self._under_way}):
            delete_file(path)
            self._durable.forget(path)

    def restart(self, dice: random.Random) -> None:
        """The job goes on from where it is, at the same or another parallelism."""
        take = Take(0, self.truth.step, CheckpointKind.CHECKPOINT)
        self._begin(dice.randint(1, LARGEST), self.truth.snapshot(take, 0, {}, {}))

    def go_back(self, dice: random.Random) -> None:
        """The job goes back to one of its checkpoints, at the same or another parallelism."""
        if self._checkpoints:
            kept = dice.choice(self._checkpoints)
            self.contents = copy.deepcopy(kept.contents)
            self._begin(dice.randint(1, LARGEST), kept.snapshot)

    # -- what the state is

    def check(self) -> None:
        """All of it is right if read from the segments."""
        found: Contents = {name: {} for name in TABLES}
        for subtask in range(self.parallelism):
            handle = self.truth.book.handles[_NODE, subtask]
            assert len({handle.root, *(segment.version for segment in handle.segments)}) == len(handle.segments) + 1
            store = open_store(None, handle, self._groups(subtask))
            assert isinstance(store, HeapStore)
            for name, base in store._bases.items():
                for slot, value in base.items():
                    if name == "timer":
                        found[name].setdefault(slot, {}).update(value)
                    else:
                        found[name][slot] = value
        assert {name: dict(table) for name, table in found.items()} == self.contents

    def look(self, dice: random.Random) -> None:
        """A worker that missed some steps and merges has the same."""
        subtask = dice.randrange(self.parallelism)
        store = self._follow(subtask)
        own = [key for key in range(_KEYS) if key_group_of(key, MAX) in self._groups(subtask)]
        values, lists, maps = (store.table(name, name) for name in ("value", "list", "map"))
        for key in own:
            assert values.get(key) == self.contents["value"].get(key)  # type: ignore[attr-defined]
            assert (lists.get(key) or []) == self.contents["list"].get(key, [])  # type: ignore[attr-defined]
            wanted = self.contents["map"].get(key, {})
            for map_key in range(_MAP_KEYS):
                held = maps.get(key, map_key)  # type: ignore[attr-defined]
                assert (None if held is MISSING else thaw(held)) == wanted.get(map_key)
        timers: Any = store.table("timer", "timer")
        due = sorted((time, key) for time, slots in self.contents["timer"].items() for key in slots if key in own)
        assert sorted(timers.due(_TIMES)) == due
        store.release()
        if dice.random() < 0.2:
            self._stores.pop(subtask).close()

    def _follow(self, subtask: int) -> Store:
        """The store of a worker, brought to where the job is."""
        settings = BackendSettings(self._kind, replace(RocksSettings(), directories=(str(self.folder),)))
        place = StoreOwner(f"execution-{self._executions}", _NODE, subtask, MAX)
        handle = self.truth.book.handles[_NODE, subtask]
        store = open_store(self._stores.get(subtask), handle, self._groups(subtask), settings, place)
        self._stores[subtask] = store
        assert store.version == handle.version
        return store
