"""State of a gigabyte in RocksDB with a limit of 64 MB, parallelism 2: a worker is killed in the middle, later the job
fails and goes on from its last checkpoint.

    python bench/rocksdb_large.py --keys 1000000

Every key has a value of 1 kB that names the key and how often it was touched; each touch checks it, and at the end all
are checked. The last line is JSON: records a second while keys are new and while they are read and written again, the
largest resident memory of a worker, seconds of the steps that followed the two accidents.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor

VALUE_BYTES = 1000
MIXER = 7919  # a prime: records of a step are spread over all keys


def value_of(key: int, count: int) -> bytes:
    return hashlib.shake_128(b"%d:%d" % (key, count)).digest(VALUE_BYTES)


class Slice(InputPartition):
    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first, self.end = first, end


class Touches(DataSourceStreamReader):
    """Every key, ``rounds`` times over, ``step`` of them at a time."""

    bounded = True

    def __init__(self, keys: int, rounds: int, step: int) -> None:
        self.keys, self.step, self.total = keys, step, keys * rounds

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"at": min(self.total, start["at"] + self.step)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        middle = (start["at"] + end["at"]) // 2
        return [Slice(start["at"], middle), Slice(middle, end["at"])]

    def read(self, partition: Any) -> Iterator[tuple[int, int]]:
        keys = self.keys
        return ((n * MIXER % keys, n // keys) for n in range(partition.first, partition.end))


class Touch(KeyedProcessFunction):
    """Checks a key's value and writes the next. Two accidents happen, each once."""

    def __init__(self, folder: str, rounds: int, kill_at: tuple[int, int], fail_at: tuple[int, int]) -> None:
        self._folder, self._rounds = folder, rounds
        self._kill_at, self._fail_at = kill_at, fail_at

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        key, touched = value
        count, data = self.state.value() or (0, None)
        if count != touched or (count and data != value_of(key, count)):
            raise AssertionError(f"key {key} was touched {count} times and should have been {touched} times")
        if value == self._kill_at and self._first("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        if value == self._fail_at and self._first("failed"):
            raise RuntimeError("on purpose")
        self.state.update((count + 1, value_of(key, count + 1)))
        if count + 1 == self._rounds:
            yield key

    def _first(self, name: str) -> bool:
        try:
            os.close(os.open(os.path.join(self._folder, name), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class Memory(threading.Thread):
    """Watches how large the Python workers become.

    :ivar largest: the most that one of them had, in bytes
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.largest = 0

    def run(self) -> None:
        me = psutil.Process()
        while True:
            for process in me.children(recursive=True):
                try:
                    if process.name().startswith("python"):
                        self.largest = max(self.largest, process.memory_info().rss)
                except psutil.Error:
                    continue
            time.sleep(0.2)


def environment(folder: str, limit: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.memory.fixed-per-slot": limit,
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.dir": folder,
        "restart-strategy.fixed-delay.delay": "0 ms",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


def run(keys: int, rounds: int, step: int, limit: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder, limit)
        memory = Memory()
        memory.start()
        reports: list[Any] = []
        env.add_step_listener(reports.append)
        kill_at, fail_at = ((keys // 2 * MIXER) % keys, 1), ((keys // 4 * MIXER) % keys, 2)
        touches = env.from_source(Touches(keys, rounds, step), WatermarkStrategy.no_watermarks(), "touches")
        touched = touches.key_by(lambda record: record[0], key_type=Types.LONG()).process(
            Touch(folder, rounds, kill_at, fail_at)
        )
        with touched.execute_and_collect("large state") as results:
            seen = sorted(results)
        assert seen == list(range(keys)), f"{len(seen)} of {keys} keys arrived at the end"
        assert {"killed", "failed"} <= set(os.listdir(folder))
    fill = [r for r in reports if r.total_records <= keys]
    again = [r for r in reports if r.total_records > keys]
    return {
        "keys": keys,
        "state_mb": round(max(r.state_bytes for r in reports) / (1 << 20)),
        "limit": limit,
        "new keys, records/s": round(sum(r.records for r in fill) / sum(r.seconds for r in fill)),
        "read and written again, records/s": round(sum(r.records for r in again) / sum(r.seconds for r in again)),
        "median step, seconds": round(statistics.median(r.seconds for r in again), 2),
        "slowest steps, seconds": sorted((round(r.seconds, 2) for r in reports), reverse=True)[:4],
        "largest worker, MB": round(memory.largest / (1 << 20)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="how often each key is touched")
    parser.add_argument("--step", type=int, default=40_000, help="records of a step")
    parser.add_argument("--limit", default="64mb", help="what RocksDB may use in a worker")
    given = parser.parse_args()
    print(json.dumps(run(given.keys, given.rounds, given.step, given.limit)))


if __name__ == "__main__":
    main()
