"""What state costs: memory per worker at a million keys, and step times at 10k and 2M keys with the same touched set.

The last line is JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from typing import Any

import psutil
from keyed_load import LoadThenTouch

from beadline.common import Types, WatermarkStrategy
from beadline.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor

TOUCHED, STEPS = 2_000, 40


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.state = runtime_context.get_state(ValueStateDescriptor("count", pair))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count, last = self.state.value() or (0, 0)
        self.state.update((count + 1, last + value[0]))
        return ()


def workers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            if "pyspark.daemon" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def run(keys: int) -> dict[str, Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    seconds: list[float] = []
    sizes: list[float] = []

    def listen(report: Any) -> None:
        if report.records <= TOUCHED:
            seconds.append(report.seconds)
            sizes.append(max((w.memory_info().rss for w in workers()), default=0) / (1 << 20))

    env.add_step_listener(listen)
    records = env.from_source(LoadThenTouch(keys, TOUCHED, STEPS), WatermarkStrategy.no_watermarks(), "keys")
    records.key_by(lambda record: record[0]).process(Count()).print()
    env.execute("state cost")
    # Workers take turns with the subtasks; in the first small steps each of them still catches up with the load.
    warm = seconds[STEPS // 2 :]
    return {"keys": keys, "median_seconds": round(statistics.median(warm), 3), "largest_worker_mb": round(max(sizes))}


def main() -> None:
    run(10_000)
    small, middle, large = (run(keys) for keys in (10_000, 1_000_000, 2_000_000))
    ratio = large["median_seconds"] / small["median_seconds"]
    print(json.dumps({"runs": [small, middle, large], "ratio_2m_to_10k": round(ratio, 2), "python": sys.version[:6]}))


if __name__ == "__main__":
    main()
