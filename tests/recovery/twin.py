"""Programs of the same shape, without uids and without a name: ``main`` of each differs by a factor alone.

What a program adds up it multiplies by its factor, so that state of one in the other shows in every later line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.datastream import KeyedProcessFunction, MapFunction, RuntimeContext, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor
from tests.recovery.jobs import ANY, KEYS, STEP, Numbers, to_files, visible

HOLD = "hold"
OPTIONS = {
    "beadline.step.first-records": str(STEP),
    "beadline.step.max-records": str(STEP),
    "parallelism.default": "2",
    "execution.checkpointing.interval": "500 ms",
}


class Held(MapFunction):
    """The last step does not end while there is a certain file."""

    def __init__(self, path: Path, records: int) -> None:
        self._path = str(path)
        self._last = records - STEP

    def map(self, value: tuple[int]) -> int:
        while value[0] >= self._last and os.path.exists(self._path):
            time.sleep(0.05)
        return value[0]


class Total(KeyedProcessFunction):
    """Adds up by key."""

    def __init__(self, factor: int) -> None:
        self._factor = factor

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        total = (self._total.value() or 0) + self._factor * value
        self._total.update(total)
        yield f"{ctx.get_current_key()} {total}"


def key_of(value: int) -> int:
    return value % KEYS


def main(factor: int) -> None:
    """``a.py FOLDER RECORDS``: writes the totals so far to files in a folder."""
    folder, records = sys.argv[1:]
    configuration = Configuration()
    for key, value in OPTIONS.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_source(Numbers(int(records)), WatermarkStrategy.no_watermarks(), "numbers")
    held = numbers.map(Held(Path(folder) / HOLD, int(records)), output_type=ANY)
    totals = held.key_by(key_of, key_type=Types.LONG()).process(Total(factor), output_type=Types.STRING())
    to_files(totals, folder, uid=None)
    env.execute()


def differences(folder: Path, factor: int, records: int) -> list[str]:
    """What is wrong with the files of a program that has finished; nothing if they are the closed form."""
    found: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    for line in visible(folder):
        key, total = map(int, line.split())
        found[key].append(total)
    problems = []
    for key, totals in found.items():
        numbers = range(key, records, KEYS)
        expected = [factor * sum(numbers[:count]) for count in range(1, len(numbers) + 1)]
        if totals != expected:
            problems.append(
                f"key {key}: {len(totals)} totals of {len(expected)}, {sorted(set(totals) ^ set(expected))[:5]}"
            )
    return problems
