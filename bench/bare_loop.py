"""The benchmark's computation as a plain loop over a dict, on one core: the ceiling for any engine that calls Python.

    python bench/bare_loop.py records.csv

Reads lines of ``key,value``, keeps (count, sum) for each key, makes (key, count, sum) for each record and prints
those of the watched keys. The last line is JSON: records, seconds, records_per_second.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

WATCHED_KEYS = frozenset({"key-0", "key-1"})


def parse(line: str) -> tuple[str, int]:
    key, value = line.split(",")
    return key, int(value)


def running_counts(path: Path) -> Iterator[tuple[str, int, int]]:
    """(key, count, sum) after every record of the file."""
    state: dict[str, tuple[int, int]] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            key, value = parse(line.rstrip("\n"))
            count, total = state.get(key, (0, 0))
            count, total = count + 1, total + value
            state[key] = (count, total)
            yield key, count, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="file of key,value lines, as bench/data.py writes it")
    arguments = parser.parse_args()
    records = 0
    watched = []
    started = time.perf_counter()
    for result in running_counts(arguments.path):
        records += 1
        if result[0] in WATCHED_KEYS:
            watched.append(result)
    seconds = time.perf_counter() - started
    for result in watched:
        print(result)
    report = {"records": records, "seconds": round(seconds, 3), "records_per_second": round(records / seconds)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
