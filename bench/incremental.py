"""What a checkpoint uploads when 1% of the keys were touched since the last one, as a part of all state.

    python bench/incremental.py --keys 5000000

A checkpoint follows every step. The last line is JSON: the median, the mean and the largest part, over the checkpoints
behind the steps that touch. What merges of segments wrote since the last checkpoint counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from itertools import pairwise
from typing import Any

from checkpoints import Count, environment, watched
from keyed_load import LOAD, LoadThenTouch

from beadline.common import Types, WatermarkStrategy


def uploads(keys: int, rounds: int, backend: str) -> dict[str, Any]:
    touched = keys // 100
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder, "10 ms", **{"state.backend.type": backend})
        source = LoadThenTouch(keys, touched, rounds, 100)
        records = env.from_source(source, WatermarkStrategy.no_watermarks(), "keys")
        counted = records.key_by(lambda record: record[0], key_type=Types.LONG()).process(Count())
        counted.filter(lambda result: False).print()
        seen = watched(env.execute_async(f"{keys} keys"))
    loading = -(-keys // LOAD)
    done = sorted((e for e in seen.values() if e["status"] == "COMPLETED"), key=lambda e: e["step"])
    # One step a checkpoint: others upload what was touched in several.
    single = [b for a, b in pairwise(done) if b["step"] == a["step"] + 1 and a["step"] > loading]
    assert single, f"no two checkpoints followed each other: {[e['step'] for e in done]}"
    full = min(e["full_size"] for e in single)  # segments that are not merged yet hold some entries twice
    parts = [e["size"] / full for e in single]
    return {
        "keys": keys,
        "touched": touched,
        "checkpoints": len(parts),
        "full_mb": round(full / (1 << 20)),
        "uploaded, median part": round(statistics.median(parts), 4),
        "uploaded, mean part": round(statistics.mean(parts), 4),
        "uploaded, largest part": round(max(parts), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), default="hashmap")
    given = parser.parse_args()
    print(json.dumps(uploads(given.keys, given.rounds, given.backend)))


if __name__ == "__main__":
    main()
