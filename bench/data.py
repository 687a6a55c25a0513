"""Writes the benchmark's input: lines of ``key,value``, or of ``key,value,time`` for windows.

    python bench/data.py records.csv --records 4000000 --keys 100000
    python bench/data.py events.csv --records 1000000 --keys 10000 --per-second 50000

The same arguments give the same file on every machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

BLOCK = 100_000

# Multiplying by an odd number and adding one is a full-period generator modulo a power of two; the multiplier and
# increment are those of Knuth's MMIX. Its high bits are well mixed, which is all a spread of keys needs.
MULTIPLIER = 6364136223846793005
INCREMENT = 1442695040888963407
MASK = (1 << 64) - 1


def lines(records: int, keys: int, seed: int, per_second: int = 0) -> Iterator[str]:
    """``records`` lines without their newline; keys are spread evenly, values lie in 0 to 999.

    With ``per_second``, each has a time in milliseconds: they rise, so many in a second, up to 100 ms out of order.
    """
    state = (seed * 2 + 1) & MASK
    for number in range(records):
        state = (state * MULTIPLIER + INCREMENT) & MASK
        high = state >> 33
        line = f"key-{high % keys},{high // keys % 1000}"
        yield f"{line},{100 + number * 1000 // per_second - high % 101}" if per_second else line


def write(path: Path, records: int, keys: int, seed: int = 7, per_second: int = 0) -> None:
    """Writes the file in blocks, so that memory stays small."""
    source = lines(records, keys, seed, per_second)
    with path.open("w", encoding="ascii", newline="\n") as file:
        while block := list(islice(source, BLOCK)):
            file.write("\n".join(block) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="file to write")
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--per-second", type=int, default=0, help="add event times, so many records to a second")
    arguments = parser.parse_args()
    if arguments.records < 1 or arguments.keys < 1:
        parser.error(f"--records {arguments.records} and --keys {arguments.keys} must both be at least 1")
    write(arguments.path, arguments.records, arguments.keys, arguments.seed, arguments.per_second)


if __name__ == "__main__":
    main()
