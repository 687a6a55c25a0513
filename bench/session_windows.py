"""Whether an element costs more the more elements its session window already holds. Without Spark; CPU time.

One key, one session that goes on and on, summed by an AggregateFunction. The last line is JSON: microseconds an element
for each tenth of the session, and the last tenth's as a ratio to the second's.
"""

from __future__ import annotations

import json
import time
from typing import Any

from beadline.common import Time
from beadline.datastream import AggregateFunction
from beadline.datastream.window import EventTimeSessionWindows
from beadline.testing import KeyedHarness

ELEMENTS, TENTHS = 40_000, 10


class Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def program(stream: Any) -> Any:
    return stream.window(EventTimeSessionWindows.with_gap(Time.seconds(10))).aggregate(Sum())


def main() -> None:
    part = ELEMENTS // TENTHS
    costs = []
    with KeyedHarness(program, lambda value: "one key") as harness:
        for tenth in range(TENTHS):
            times = range(1000 + tenth * part, 1000 + (tenth + 1) * part)
            started = time.process_time()
            harness.push_all([1] * part, times)
            costs.append((time.process_time() - started) / part * 1e6)
        harness.advance_watermark(10**9)
        assert harness.outputs() == [ELEMENTS], harness.outputs()
    rounded = [round(cost, 2) for cost in costs]
    print(json.dumps({"microseconds": rounded, "last_to_second": round(costs[-1] / costs[1], 2)}))


if __name__ == "__main__":
    main()
