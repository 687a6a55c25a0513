"""State larger than what RocksDB may use in memory, on Spark: a worker is killed, then the job fails."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration, Types
from beadline.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor
from tests.engine.jobs import Accident, kill_worker

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEYS, ROUNDS, STEP = 12_000, 3, 4_000
RECORDS = KEYS * ROUNDS


def value_of(key: int, count: int) -> bytes:
    return hashlib.shake_128(b"%d:%d" % (key, count)).digest(1000)


class Touch(KeyedProcessFunction):
    """Every value names its key and how often it was touched; each touch checks it and writes the next."""

    def __init__(self, folder: Path) -> None:
        self._accidents = {KEYS + KEYS // 2: (Accident(folder / "killed"), kill_worker)}
        self._accidents[2 * KEYS + KEYS // 2] = (Accident(folder / "failed"), fail)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        key = ctx.get_current_key()
        count, data = self._state.value() or (0, value_of(key, 0))
        assert (count, data) == (value // KEYS, value_of(key, value // KEYS))
        self._state.update((count + 1, value_of(key, count + 1)))
        if value in self._accidents:
            accident, befall = self._accidents[value]
            if accident.happens():
                befall()
        yield key, count


def fail() -> None:
    raise RuntimeError("on purpose")


@pytest.mark.usefixtures("spark")
def test_nothing_is_lost_of_state_larger_than_memory(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    options = {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.memory.fixed-per-slot": "8mb",
        "beadline.rocksdb.own-database.max-size": "1mb",
        "beadline.step.first-records": str(STEP),
        "beadline.step.max-records": str(STEP),
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }
    options["state.backend.rocksdb.localdir"] = str(tmp_path / "local")
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(2)
    sizes: list[int] = []
    common: set[str] = set()

    def listen(report: Any) -> None:
        sizes.append(report.state_bytes)
        common.update(path.name for path in (tmp_path / "local").glob("beadline-rocksdb-*/*/?-?") if path.is_dir())

    env.add_step_listener(listen)
    numbers = env.from_sequence(0, RECORDS - 1)
    touched = numbers.key_by(lambda n: n % KEYS, key_type=Types.LONG()).process(Touch(tmp_path))
    with touched.execute_and_collect("larger than memory") as results:
        counts = sorted(results)
    assert counts == [(key, count) for key in range(KEYS) for count in range(ROUNDS)]
    assert max(sizes) > 12 << 20
    assert {name[-1] for name in common} == {"0", "1"}, "the subtasks' databases are shared by the workers"
    assert {"killed", "failed"} <= {path.name for path in tmp_path.iterdir()}
