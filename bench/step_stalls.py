"""How long steps take while a savepoint is written or segments are merged beside them, and while nothing is.

    python bench/step_stalls.py --keys 2000000

The last line is JSON: the number of steps, and the median and 99th percentile of their times in milliseconds, by what
was in flight; and the 99th percentiles as multiples of the one with nothing in flight.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
from typing import Any

from checkpoints import Count, environment
from keyed_load import LoadThenTouch

from beadline.common import Types, WatermarkStrategy

QUIET, MERGE, SAVEPOINT = "nothing", "a merge", "a savepoint"


class Watch:
    """Takes the times of steps, by what is in flight when they end."""

    def __init__(self, keys: int, touched: int) -> None:
        self._keys, self._touched = keys, touched
        self.times: dict[str, list[float]] = {QUIET: [], MERGE: [], SAVEPOINT: []}
        self.savepoint = False
        self._before = QUIET
        self.step = threading.Condition()

    def __call__(self, report: Any) -> None:
        now = SAVEPOINT if self.savepoint else MERGE if _merging() else QUIET
        # What began or ended within a step counts as in flight.
        what = max(now, self._before, key=(QUIET, MERGE, SAVEPOINT).index)
        self._before = now
        with self.step:
            if report.total_records > self._keys and report.records == self._touched:
                self.times[what].append(report.seconds)
            self.step.notify_all()

    def wait_for(self, what: str, count: int, client: Any) -> bool:
        """Wait until so many steps were seen; False if the job ended before."""
        with self.step:
            while len(self.times[what]) < count:
                if not self.step.wait(5) and client.get_job_status().result().is_globally_terminal_state():
                    return False
        return True


def _merging() -> bool:
    return any(thread.name == "beadline-merge" for thread in threading.enumerate())


def measure(keys: int, touched: int, steps: int, backend: str) -> dict[str, Any]:
    watch = Watch(keys, touched)
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder, "5 s", **{"state.backend.type": backend})
        env.add_step_listener(watch)
        source = LoadThenTouch(keys, touched, 6 * steps, max(1, keys // touched))
        records = env.from_source(source, WatermarkStrategy.no_watermarks(), "keys")
        counted = records.key_by(lambda record: record[0], key_type=Types.LONG()).process(Count())
        counted.filter(lambda result: False).print()
        client = env.execute_async("stalls")
        savepoints = 0
        if watch.wait_for(QUIET, steps, client):
            while len(watch.times[SAVEPOINT]) < steps and not _ended(client):
                watch.savepoint = True
                client.trigger_savepoint(os.path.join(folder, "savepoints")).result()
                watch.savepoint = False
                savepoints += 1
        client.cancel().result()
    report: dict[str, Any] = {"keys": keys, "savepoints": savepoints}
    for what, times in watch.times.items():
        if len(times) >= 2:
            last = statistics.quantiles(times, n=100)[98]
            report[what] = {
                "steps": len(times),
                "median_ms": round(statistics.median(times) * 1000),
                "p99_ms": round(last * 1000),
            }
    for what in (MERGE, SAVEPOINT):
        if QUIET in report and what in report:
            report[f"p99 beside {what}"] = round(report[what]["p99_ms"] / report[QUIET]["p99_ms"], 2)
    return report


def _ended(client: Any) -> bool:
    return bool(client.get_job_status().result().is_globally_terminal_state())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--touched", type=int, default=20_000, help="keys that a step touches")
    parser.add_argument("--steps", type=int, default=150, help="how many to see with and without a savepoint")
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), default="hashmap")
    given = parser.parse_args()
    print(json.dumps(measure(given.keys, given.touched, given.steps, given.backend)))


if __name__ == "__main__":
    main()
