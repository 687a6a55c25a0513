"""A keyed count in RocksDB, on the heap, and in PyFlink's RocksDB (thread mode), on the same data in one run.

    python bench/rocksdb.py --pyflink .venv-pyflink/bin/python --records 4000000

100,000 keys, parallelism 2, no checkpoints, as ``keyed_count`` of ``bench/run.py``. Backends take turns, because the
machine may have other work. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import data  # noqa: E402
from run import last_json  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--pyflink", help="a Python with apache-flink")
    parser.add_argument("--pyflink-records", type=int, default=400_000, help="how many of the records PyFlink gets")
    given = parser.parse_args()
    program = str(HERE / "pyflink_keyed_count.py")
    ours = [sys.executable, "-m", "beadline.cli.main", "run", "--pyflink", program]
    rates: dict[str, list[float]] = {"hashmap": [], "rocksdb": []}
    report: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        full, part, small = (Path(folder) / f"{name}.csv" for name in ("full", "part", "small"))
        data.write(full, given.records, given.keys)
        data.write(part, min(given.records, given.pyflink_records), given.keys)
        data.write(small, min(given.records, 200_000), given.keys)
        for _ in range(given.turns):
            for backend, seen in rates.items():
                command = [*ours, str(full), "--warm-up", str(small), "--backend", backend]
                seen.append(last_json(command)["records_per_second"])
        heap, rocks = (statistics.median(rates[backend]) for backend in ("hashmap", "rocksdb"))
        report |= {"heap": heap, "rocksdb": rocks, "rocksdb_to_heap": round(rocks / heap, 2)}
        if given.pyflink:
            path = f"{Path(given.pyflink).parent}{os.pathsep}{os.environ['PATH']}"
            command = [given.pyflink, program, str(part), "--warm-up", str(small), "--backend", "rocksdb"]
            theirs = last_json(command, PATH=path)["records_per_second"]
            report |= {"pyflink_rocksdb": theirs, "times_pyflink": round(rocks / theirs, 1)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
