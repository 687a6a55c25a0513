"""Heap against RocksDB, in one process and without Spark: a keyed count through the state API, in steps.

The first part has 100,000 keys, which both backends hold with ease. The second gives RocksDB a limit of 64 MB and
several times as much state. Times are CPU seconds of this process, RocksDB's own threads included, so that other work
on the machine does not count. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import time
from typing import Any

import psutil

from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.common.typeinfo import Types
from beadline.state.access.backend import KeyedBackend
from beadline.state.backend_settings import BackendSettings, RocksSettings
from beadline.state.segments.segment import count_entries, encode_segment
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, next_version, root_version
from beadline.state.store import Store, StoreOwner, open_store

MAX_PARALLELISM = 128
GROUPS = range(MAX_PARALLELISM)


class Subtask:
    """One keyed subtask: its handle in a folder of segments, its store, its state."""

    def __init__(self, settings: BackendSettings, folder: str, state: ValueStateDescriptor) -> None:
        self.settings, self.folder = settings, folder
        self.handle = KeyedStateHandle(root_version(settings.kind, "count", GROUPS))
        self.backend = KeyedBackend("count")
        self.state = self.backend.state(state)
        self.store: Store | None = None

    def open(self) -> Store:
        place = StoreOwner("bench", 0, 0, MAX_PARALLELISM)
        self.store = open_store(self.store, self.handle, GROUPS, self.settings, place)
        return self.store

    def step(self, keys: list[str], work: Any) -> None:
        """What a task does around its records: open, work, write the delta, keep it, release."""
        store = self.open()
        self.backend.begin(store, 0)
        work(self.backend.scope, self.state, keys)
        content = self.backend.finish()
        data = encode_segment(content, MAX_PARALLELISM)
        if data:
            version = next_version(self.handle.version, data)
            path = os.path.join(self.folder, f"{version}.run")
            with open(path, "wb") as file:
                file.write(data)
            self.handle = self.handle.plus(SegmentRef(version, count_entries(content), len(data), path=path))
            store.keep(version, content)
        store.release()


def count(scope: Any, state: Any, keys: list[str]) -> None:
    value, update = state.value, state.update
    for key in keys:
        scope.slot = key
        seen, total = value() or (0, 0)
        update((seen + 1, total + 7))


def fill(scope: Any, state: Any, keys: list[str]) -> None:
    for key in keys:
        scope.slot = key
        state.update(os.urandom(500) * 2)


def touch(scope: Any, state: Any, keys: list[str]) -> None:
    for key in keys:
        scope.slot = key
        value = state.value()
        state.update(value[1:] + b"x")


def cpu() -> float:
    return time.process_time()


def keyed_count(kind: str, root: str, keys: int, records: int, steps: int) -> dict[str, float]:
    """Records a CPU second, after a first step that sees all keys."""
    folder = tempfile.mkdtemp(dir=root)
    settings = BackendSettings(kind, RocksSettings(directories=(folder,)))
    pair = ValueStateDescriptor("count", Types.TUPLE([Types.LONG(), Types.LONG()]))
    subtask = Subtask(settings, folder, pair)
    chance = random.Random(1)
    names = [f"user-{number}" for number in range(keys)]
    subtask.step(names, count)
    parts = [chance.choices(names, k=records) for _ in range(steps)]
    began = cpu()
    for part in parts:
        subtask.step(part, count)
    seconds = cpu() - began
    store = subtask.open()
    table: Any = store.table("count", "value")
    total = sum(table.get(name)[0] for name in names)
    assert total == keys + records * steps, total
    store.release()
    store.close()
    return {"records_per_second": round(records * steps / seconds), "seconds": round(seconds, 2)}


def larger_than_memory(root: str, limit_mb: int, state_mb: int, records: int, steps: int) -> dict[str, float]:
    """Random reads and writes of kilobyte values over state that is several times the limit, and the way back from the
    segments."""
    folder = tempfile.mkdtemp(dir=root)
    settings = BackendSettings("rocksdb", RocksSettings(memory=limit_mb << 20, directories=(folder,)))
    subtask = Subtask(settings, folder, ValueStateDescriptor("blob", Types.PICKLED_BYTE_ARRAY()))
    process = psutil.Process()
    before = process.memory_info().rss
    names = [f"user-{number}" for number in range(state_mb << 10)]
    began = cpu()
    for start in range(0, len(names), 8192):
        subtask.step(names[start : start + 8192], fill)
    filled = cpu() - began
    chance = random.Random(2)
    peak = before
    began = cpu()
    for _ in range(steps):
        subtask.step(chance.choices(names, k=records), touch)
        peak = max(peak, process.memory_info().rss)
    seconds = cpu() - began
    assert subtask.store is not None
    subtask.store.close()
    subtask.store = None
    began = cpu()
    subtask.open()
    rebuilt = cpu() - began
    peak = max(peak, process.memory_info().rss)
    subtask.store.close()  # type: ignore[unreachable]
    return {
        "limit_mb": limit_mb,
        "state_mb": state_mb,
        "fill_records_per_second": round(len(names) / filled),
        "touch_records_per_second": round(records * steps / seconds),
        "rebuild_entries_per_second": round((len(names) + records * steps) / rebuilt),
        "peak_growth_mb": round((peak - before) / (1 << 20)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--limit-mb", type=int, default=64)
    parser.add_argument("--state-mb", type=int, default=300)
    parser.add_argument("--folder", help="where RocksDB and the segments go; a temporary folder if left out")
    given = parser.parse_args()
    root = tempfile.mkdtemp(dir=given.folder)
    try:
        heap = keyed_count("hashmap", root, given.keys, given.records, given.steps)
        rocks = keyed_count("rocksdb", root, given.keys, given.records, given.steps)
        large = larger_than_memory(root, given.limit_mb, given.state_mb, 10_000, given.steps) if given.state_mb else {}
    finally:
        shutil.rmtree(root)
    ratio = rocks["records_per_second"] / heap["records_per_second"]
    print(json.dumps({"heap": heap, "rocksdb": rocks, "rocksdb_to_heap": round(ratio, 2), "large": large}))


if __name__ == "__main__":
    main()
