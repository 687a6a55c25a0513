"""What checkpoints cost, each as a ratio within one run.

1. duration and bytes of a checkpoint with 2M keys and with 50k keys, the same 20k keys touched between two
2. throughput of a keyed count with a checkpoint every second, and without
3. recovery of a job with 1M keys: from the failure to the first new output

The last line is JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from keyed_load import LOAD, LoadThenTouch

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor

TOUCHED, ROUNDS = 20_000, 24


class Count(KeyedProcessFunction):
    """Counts per key; fails once at a number of its choice."""

    def __init__(self, marker: str | None = None, fail_at: int = -1) -> None:
        self._marker, self._fail_at = marker, fail_at

    def open(self, runtime_context: Any) -> None:
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.state = runtime_context.get_state(ValueStateDescriptor("count", pair))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count, total = self.state.value() or (0, 0)
        self.state.update((count + 1, total + value[0]))
        if count == self._fail_at and self._marker is not None and not os.path.exists(self._marker):
            Path(self._marker).touch()
            raise RuntimeError("on purpose")
        return ()


def environment(folder: str | None, interval: str = "1 s", **options: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    if folder is not None:
        configuration.set_string("execution.checkpointing.interval", interval)
        configuration.set_string("execution.checkpointing.dir", folder)
        configuration.set_string("execution.checkpointing.num-retained", "2")
        configuration.set_string("restart-strategy.fixed-delay.delay", "0 ms")
    for key, value in options.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env


def count(env: StreamExecutionEnvironment, keys: int, rounds: int, function: Count) -> Any:
    records = env.from_source(
        LoadThenTouch(keys, TOUCHED, rounds, keys // TOUCHED), WatermarkStrategy.no_watermarks(), "keys"
    )
    counted = records.key_by(lambda record: record[0], key_type=Types.LONG()).process(function)
    counted.filter(lambda result: False).print()


def watched(client: Any) -> dict[int, dict[str, Any]]:
    """All checkpoints of a job by number: a job remembers its newest only, so it is asked again and again."""
    seen: dict[int, dict[str, Any]] = {}
    while not client.get_job_status().result().is_globally_terminal_state():
        seen.update({entry["id"]: entry for entry in client.get_checkpoint_statistics()})
        time.sleep(0.05)
    client.get_job_execution_result().result()
    seen.update({entry["id"]: entry for entry in client.get_checkpoint_statistics()})
    return seen


def cost(keys: int) -> dict[str, float]:
    """A checkpoint behind every step that touches the chosen keys."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder, interval="10 ms")
        count(env, keys, ROUNDS, Count())
        seen = watched(env.execute_async(f"{keys} keys"))
    loading = -(-keys // LOAD)
    done = [e for e in seen.values() if e["status"] == "COMPLETED" and e["step"] > loading + 1]
    writing = [e["ended_at"] - e["taken_at"] for e in done]
    return {
        "checkpoints": len(done),
        "write_ms": statistics.median(writing),
        "bytes": statistics.median(e["size"] for e in done),
        "full_bytes": max(e["full_size"] for e in done),
    }


def throughput(records: int, folder: str | None) -> float:
    env = environment(folder)
    numbers = env.from_sequence(0, records - 1)
    counted = numbers.map(lambda n: (n * 7919 % 100_000,)).key_by(lambda r: r[0], key_type=Types.LONG())
    counted.process(Count()).filter(lambda result: False).print()
    started = time.monotonic()
    env.execute("throughput")
    return records / (time.monotonic() - started)


def recovery(keys: int) -> float:
    """Seconds from the failure to the end of the next good step."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder, interval="500 ms")
        sealed: list[float] = []
        env.add_step_listener(lambda report: sealed.append(time.time()))
        count(env, keys, 12, Count(os.path.join(folder, "failed"), 6))
        client = env.execute_async("recovery")
        client.get_job_execution_result().result()
        failed_at = client.get_exceptions()[0]["timestamp"] / 1000
    return min(at for at in sealed if at > failed_at) - failed_at


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 8_000_000  # a job of 10 s or so: the first steps count little
    throughput(200_000, None)
    few, many = cost(50_000), cost(2_000_000)
    off, on = [], []
    for _ in range(7):  # in turn, because the machine may have other work
        off.append(throughput(records, None))
        with tempfile.TemporaryDirectory() as folder:
            on.append(throughput(records, folder))
    report = {
        "50k keys": few,
        "2M keys": many,
        "write time, 2M to 50k keys": round(many["write_ms"] / max(few["write_ms"], 1), 2),
        "bytes, 2M to 50k keys": round(many["bytes"] / few["bytes"], 2),
        "records/s without checkpoints": round(statistics.median(off)),
        "records/s, one a second": round(statistics.median(on)),
        "throughput kept": round(statistics.median(on) / statistics.median(off), 2),
        "throughput kept, by turn": [round(one / other, 2) for one, other in zip(on, off, strict=True)],
        "recovery of 1M keys, seconds": round(recovery(1_000_000), 2),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
