"""State to Parquet and back, in one process and without Spark: CPU microseconds an entry, and bytes.

``python bench/state_parquet.py [entries]``; the last line is JSON.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import TypeInformation, Types
from beadline.state.codec import freeze
from beadline.state.description import StateDescription
from beadline.state.parquet.segment import encode_parquet
from beadline.state.segments.segment import TableChanges, decode_segment

MAX_PARALLELISM = 128
T = TypeVar("T")


def cases(entries: int) -> dict[str, tuple[TypeInformation, TypeInformation, dict[Any, Any]]]:
    dice = random.Random(7)
    names = [f"user-{dice.randrange(10**9)}" for _ in range(entries)]
    numbers = [dice.randrange(10**12) for _ in range(entries)]
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    row = Types.ROW_NAMED(["n", "text"], [Types.LONG(), Types.STRING()])
    as_row = row.converter()
    return {
        "str -> LONG": (Types.STRING(), Types.LONG(), {name: i for i, name in enumerate(names)}),
        "int -> TUPLE": (Types.LONG(), pair, {number: (i, 2 * i) for i, number in enumerate(numbers)}),
        "str -> pickled dict": (
            Types.STRING(),
            Types.PICKLED_BYTE_ARRAY(),
            {name: freeze({"n": i, "last": [i, "x"]}) for i, name in enumerate(names)},
        ),
        "str -> ROW": (Types.STRING(), row, {name: freeze(as_row((i, "x"))) for i, name in enumerate(names)}),
    }


def timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    gc.disable()  # as a worker does during a task
    report = {}
    for name, (key_type, info, changes) in cases(entries).items():
        table = TableChanges("value", False, changes)
        description = StateDescription("state", "value", type_to_text(info))
        data, writing = timed(lambda: encode_parquet(table, description, key_type, MAX_PARALLELISM))  # noqa: B023
        content, reading = timed(lambda: decode_segment(data))  # noqa: B023
        assert content["state"] == table
        found = {
            "encode_us": writing / len(changes) * 1e6,
            "decode_us": reading / len(changes) * 1e6,
            "bytes": len(data) / len(changes),
        }
        report[name] = {key: round(value, 2) for key, value in found.items()}
        print(f"{name:20} {report[name]}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
