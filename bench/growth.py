"""Whether memory, temporary files, shuffle files or broadcasts grow over many small steps. The last line is JSON."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import psutil

from beadline.common import Configuration
from beadline.datastream import StreamExecutionEnvironment

RECORDS = 20


def java() -> psutil.Process:
    """The JVM of this driver."""
    children = psutil.Process(os.getpid()).children(recursive=True)
    return next(process for process in children if "java" in process.name())


def files_below(*folders: str) -> int:
    return sum(len(names) for folder in folders for _, _, names in os.walk(folder))


def measure(spark_dirs: str) -> dict[str, int]:
    """Live objects after a full collection, and files."""
    pid = str(java().pid)
    subprocess.run(["jcmd", pid, "GC.run"], capture_output=True, check=True)
    histogram = subprocess.run(["jcmd", pid, "GC.class_histogram"], capture_output=True, text=True, check=True).stdout
    total = histogram.strip().splitlines()[-1].split()
    broadcasts = [line.split() for line in histogram.splitlines() if line.endswith("spark.broadcast.TorrentBroadcast")]
    return {
        "jvm_heap_mb": int(total[2]) >> 20,
        "python_heap_mb": tracemalloc.get_traced_memory()[0] >> 20,
        "broadcasts": int(broadcasts[0][1]) if broadcasts else 0,
        "spark_files": files_below(spark_dirs),
        "temporary_entries": len(os.listdir(tempfile.gettempdir())),
        "open_files": len(os.listdir("/proc/self/fd")),
    }


def run(steps: int, every: int) -> list[dict[str, Any]]:
    scratch = tempfile.mkdtemp(prefix="growth-")
    os.environ["SPARK_LOCAL_DIRS"] = scratch
    tempfile.tempdir = tempfile.mkdtemp(prefix="growth-tmp-")
    tracemalloc.start()
    settings = {"beadline.step.first-records": str(RECORDS), "beadline.step.max-records": str(RECORDS)}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(2)
    seen: list[dict[str, Any]] = []

    def listen(report: Any) -> None:
        if report.step % every == 0:
            seen.append({"step": report.step, "state_bytes": report.state_bytes, **measure(scratch)})
            print(seen[-1], flush=True)

    env.add_step_listener(listen)
    numbers = env.from_sequence(1, steps * RECORDS)
    numbers.key_by(lambda n: n % 500).reduce(lambda a, b: a + b).filter(lambda n: n < 0).print()
    env.execute("growth")
    assert not any(Path(scratch).rglob("*.pack"))
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    arguments = parser.parse_args()
    seen = run(arguments.steps, max(1, arguments.steps // 10))
    print(json.dumps({"first": seen[0], "middle": seen[len(seen) // 2], "last": seen[-1]}))


if __name__ == "__main__":
    main()
