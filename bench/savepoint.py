"""A canonical savepoint of many keys: entries written and restored a second, parallelism 2.

    python bench/savepoint.py --keys 5000000

Writing is measured from the request to its answer, beside an idle job. Restoring is measured from the start of the new
job to its first sealed step, less the same of a job that starts empty. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from keyed_load import LOAD, Slice
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor

MORE = 1_000


class Keys(DataSourceStreamReader):
    """Every key once, then ``MORE`` of them again if it is told so; then it waits."""

    def __init__(self, keys: int, total: int) -> None:
        self.keys, self.total = keys, total

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"at": min(self.total, start["at"] + LOAD)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        middle = (start["at"] + end["at"]) // 2
        return [Slice(start["at"], middle), Slice(middle, end["at"])]

    def read(self, partition: Any) -> Iterator[tuple[int, int]]:
        keys = self.keys
        return ((n % keys, n // keys) for n in range(partition.first, partition.end))


class Count(KeyedProcessFunction):
    """Counts per key, and knows what it should find."""

    def open(self, runtime_context: Any) -> None:
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.state = runtime_context.get_state(ValueStateDescriptor("count", pair))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count, total = self.state.value() or (0, 0)
        if count != value[1]:
            raise AssertionError(f"key {value[0]} was seen {count} times and should have been {value[1]} times")
        self.state.update((count + 1, total + value[0]))
        return ()


class Job:
    """One run of the job, to which the benchmark listens."""

    def __init__(self, folder: str, backend: str, keys: int, total: int, start: str | None = None) -> None:
        configuration = Configuration()
        configuration.set_string("state.backend.type", backend)
        configuration.set_string("execution.checkpointing.dir", os.path.join(folder, "checkpoints"))
        if start is not None:
            configuration.set_string("execution.state-recovery.path", start)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(2)
        self.records, self.first_step = 0, 0.0
        env.add_step_listener(self._step)
        records = env.from_source(Keys(keys, total), WatermarkStrategy.no_watermarks(), "keys").uid("keys")
        counted = records.key_by(lambda record: record[0], key_type=Types.LONG()).process(Count()).uid("count")
        counted.filter(lambda result: False).print().uid("nothing")
        self._total = total
        self.started = time.monotonic()
        self.client = env.execute_async("savepoint")

    def _step(self, report: Any) -> None:
        self.first_step = self.first_step or time.monotonic() - self.started
        self.records += report.records

    def wait_for(self, records: int) -> None:
        while self.records < records:
            if self.client.get_job_status().result().is_globally_terminal_state():
                self.client.get_job_execution_result().result()
            time.sleep(0.02)

    def first_step_alone(self, records: int) -> float:
        self.wait_for(records)
        self.client.cancel().result()
        return self.first_step


def measure(keys: int, backend: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        job = Job(folder, backend, keys, keys)
        job.wait_for(keys)
        began = time.monotonic()
        path = str(job.client.trigger_savepoint(os.path.join(folder, "savepoints")).result())
        written = time.monotonic() - began
        job.client.cancel().result()
        size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names)
        empty = Job(folder, backend, MORE, MORE).first_step_alone(MORE)
        full = Job(folder, backend, keys, keys + MORE, path).first_step_alone(MORE)
        readable = SparkSession.active().read.parquet(os.path.join(path, "count", "count")).count()
        assert readable == keys, f"Spark reads {readable} of {keys} entries"
    return {
        "keys": keys,
        "backend": backend,
        "savepoint_mb": round(size / (1 << 20)),
        "written, entries/s": round(keys / written),
        "restored, entries/s": round(keys / max(full - empty, 0.001)),
        "seconds to write": round(written, 2),
        "seconds to the first step, empty and restored": [round(empty, 2), round(full, 2)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), default="hashmap")
    given = parser.parse_args()
    measure(20_000, given.backend)  # starting Spark and its workers is not measured
    print(json.dumps(measure(given.keys, given.backend)))


if __name__ == "__main__":
    main()
