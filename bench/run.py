"""Runs the benchmarks and prints their numbers, each as a ratio within one run on the same data.

    python bench/run.py                       # all of Beadline's
    python bench/run.py keyed_count --pyflink .venv-pyflink/bin/python --records 4000000
    python bench/run.py small_steps state_cost
    python bench/run.py small_steps keyed_count --engines spark resident local
    python bench/run.py windows --pyflink .venv-pyflink/bin/python --pyflink-records 100000

PyFlink runs only if its interpreter is named; ``make parity-expected`` makes one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import data  # noqa: E402


def last_json(command: list[str], **environment: str) -> Any:
    """Run a benchmark's process; its last line is its report."""
    print("   ", " ".join(Path(part).name if os.sep in part else part for part in command), flush=True)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def keyed_count(arguments: argparse.Namespace) -> None:
    """Count and sum per key in a ValueState, text lines parsed in Python, parallelism 2."""
    with tempfile.TemporaryDirectory() as folder:
        full, small, part = Path(folder) / "full.csv", Path(folder) / "small.csv", Path(folder) / "part.csv"
        data.write(full, arguments.records, arguments.keys)
        data.write(small, min(arguments.records, 200_000), arguments.keys)
        data.write(part, min(arguments.records, arguments.pyflink_records), arguments.keys)
        program = str(HERE / "pyflink_keyed_count.py")
        run = [sys.executable, "-m", "beadline.cli.main", "run", "--pyflink"]
        bare: list[float] = []
        ours: dict[str, list[float]] = {engine: [] for engine in arguments.engines}
        for _ in range(arguments.turns):
            bare.append(last_json([sys.executable, str(HERE / "bare_loop.py"), str(full)])["records_per_second"])
            for engine, rates in ours.items():
                command = [*run, "--engine", engine, program, str(full), "--warm-up", str(small)]
                rates.append(last_json(command)["records_per_second"])
        bare_rate = round(statistics.median(bare))
        shape = f"{arguments.records:,} records, {arguments.keys:,} keys, parallelism 2"
        print(f"keyed count, {shape}, medians of {arguments.turns} turns: {ours} beside {bare}")
        print(f"  bare Python loop, one core   {bare_rate:>10,} records/s")
        for engine, rates in ours.items():
            named, rate = f"Beadline, {engine}", round(statistics.median(rates))
            print(f"  {named:<28} {rate:>10,} records/s   {rate / bare_rate:.2f} of the bare loop")
        rate = round(statistics.median(ours[arguments.engines[0]]))
        if arguments.pyflink:
            path = f"{Path(arguments.pyflink).parent}{os.pathsep}{os.environ['PATH']}"
            theirs = last_json([arguments.pyflink, program, str(part), "--warm-up", str(small)], PATH=path)
            theirs_rate = theirs["records_per_second"]
            times = f"Beadline is {rate / theirs_rate:.1f} times as fast ({theirs['records']:,} records)"
            print(f"  PyFlink, thread mode, heap   {theirs_rate:>10,} records/s   {times}")


def small_steps(arguments: argparse.Namespace) -> None:
    """Steps over 100 records, the engines in turns."""
    medians: dict[str, list[float]] = {engine: [] for engine in arguments.engines}
    for _ in range(arguments.turns if len(medians) > 1 else 1):
        for engine, found in medians.items():
            report = last_json([sys.executable, str(HERE / "small_steps.py")], BEADLINE_ENGINE=engine)
            print(f"  {engine:<10} {report}", flush=True)
            found.append(report["median_seconds"])
    for engine, found in medians.items():
        print(f"  {engine:<10} median of a step {1000 * statistics.median(found):.1f} ms")


def windows(arguments: argparse.Namespace) -> None:
    """Sums per key in event-time windows, text lines parsed in Python, parallelism 2."""
    records, keys, per_second = min(arguments.records, 1_000_000), min(arguments.keys, 10_000), 50_000
    # PyFlink gets fewer events of fewer keys, over the same 20 seconds: as much work for an event, on a smaller state.
    share = min(1.0, arguments.pyflink_records / records)
    part_of = round(records * share), max(1, round(keys * share)), max(1, round(per_second * share))
    with tempfile.TemporaryDirectory() as folder:
        full, small, part = Path(folder) / "full.csv", Path(folder) / "small.csv", Path(folder) / "part.csv"
        data.write(full, records, keys, per_second=per_second)
        data.write(part, part_of[0], part_of[1], per_second=part_of[2])
        data.write(small, max(1, part_of[0] // 10), part_of[1], per_second=part_of[2])
        program = str(HERE / "windows.py")
        run = [sys.executable, "-m", "beadline.cli.main", "run", "--pyflink", program]
        for kind, size in (("tumbling", "1 s"), ("sliding", "10 s every 1 s")):
            rate = last_json([*run, kind, str(full), "--warm-up", str(small)])["records_per_second"]
            print(f"{kind} windows of {size}, {records:,} records, {keys:,} keys, parallelism 2")
            print(f"  Beadline                     {rate:>10,} records/s", flush=True)
            if arguments.pyflink:
                path = f"{Path(arguments.pyflink).parent}{os.pathsep}{os.environ['PATH']}"
                command = [arguments.pyflink, program, kind, str(part), "--warm-up", str(small)]
                theirs_rate = last_json(command, PATH=path)["records_per_second"]
                times = f"Beadline is {rate / theirs_rate:.1f} times as fast ({part_of[0]:,} records)"
                print(f"  PyFlink, thread mode, heap   {theirs_rate:>10,} records/s   {times}", flush=True)


def checkpoints(arguments: argparse.Namespace) -> None:
    """What checkpoints cost; PyFlink beside it with a keyed count, with a checkpoint a second and without."""
    print(last_json([sys.executable, str(HERE / "checkpoints.py")]), flush=True)
    if not arguments.pyflink:
        return
    path = f"{Path(arguments.pyflink).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        part = Path(folder) / "part.csv"
        data.write(part, min(arguments.records, arguments.pyflink_records), arguments.keys)
        command = [arguments.pyflink, str(HERE / "pyflink_keyed_count.py"), str(part)]
        off = last_json(command, PATH=path)["records_per_second"]
        on = last_json([*command, "--checkpoints", folder], PATH=path)["records_per_second"]
    print(f"  PyFlink: {off:,} records/s without, {on:,} with a checkpoint a second: {on / off:.2f} kept", flush=True)


def slow_operator(arguments: argparse.Namespace) -> None:
    """How long checkpoints take behind a slow operator, aligned and unaligned."""
    program = str(HERE / "slow_operator.py")
    for flags in ([], ["--unaligned"]):
        kind = "unaligned" if flags else "aligned"
        ours = last_json([sys.executable, "-m", "beadline.cli.main", "run", "--pyflink", program, *flags])
        print(f"{kind} checkpoints every 2 s behind a slow operator\n  Beadline   {ours}", flush=True)
        if arguments.pyflink:
            path = f"{Path(arguments.pyflink).parent}{os.pathsep}{os.environ['PATH']}"
            print(f"  PyFlink    {last_json([arguments.pyflink, program, *flags], PATH=path)}", flush=True)


def rocksdb(arguments: argparse.Namespace) -> None:
    """A keyed count in RocksDB, on the heap, and in PyFlink's RocksDB."""
    command = [sys.executable, str(HERE / "rocksdb.py"), "--records", str(arguments.records)]
    command += ["--keys", str(arguments.keys), "--pyflink-records", str(min(arguments.pyflink_records, 400_000))]
    print(last_json([*command, *(["--pyflink", arguments.pyflink] if arguments.pyflink else [])]), flush=True)


def script(name: str) -> Any:
    return lambda arguments: print(last_json([sys.executable, str(HERE / f"{name}.py")]))


BENCHMARKS = {
    "keyed_count": keyed_count,
    "windows": windows,
    "session_windows": script("session_windows"),
    "small_steps": small_steps,
    "state_cost": script("state_cost"),
    "checkpoints": checkpoints,
    "slow_operator": slow_operator,
    "rocksdb": rocksdb,
    "rocksdb_large": script("rocksdb_large"),
    "incremental": script("incremental"),
    "savepoint": script("savepoint"),
    "step_stalls": script("step_stalls"),
    "growth": script("growth"),
    "watched": script("watched"),
    "kafka_source": script("kafka_source"),
    "kafka_to_kafka": script("kafka_to_kafka"),
    "file_formats": script("file_formats"),
}
LONG = ("rocksdb_large", "incremental", "savepoint", "step_stalls", "growth")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", help=f"which ones, of {', '.join(BENCHMARKS)}; {', '.join(LONG)} only if named"
    )
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3, help="how often keyed_count and small_steps are measured")
    parser.add_argument(
        "--engines", nargs="+", default=["spark"], help="for keyed_count and small_steps: spark, resident, local"
    )
    parser.add_argument("--pyflink", help="a Python with apache-flink")
    parser.add_argument("--pyflink-records", type=int, default=4_000_000, help="how many of the records PyFlink gets")
    arguments = parser.parse_args()
    for name in arguments.names or [name for name in BENCHMARKS if name not in LONG]:
        BENCHMARKS[name](arguments)


if __name__ == "__main__":
    main()
