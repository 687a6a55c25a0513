"""Another parallelism, again and again, and the results stay those of one job that nobody touched."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from beadline.common import Configuration, Encoder, Types, WatermarkStrategy
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.file_system import FileSink
from beadline.testing import Harness
from tests.engine.rescaling import (
    PARALLELISMS,
    RULES,
    STAGE,
    differences,
    numbers_of,
    program,
    timestamp_of,
)

PATIENCE = 120.0


# -- in this process


class Chain:
    """The job in a harness, made anew for every stage as a program that is started with another parallelism."""

    def __init__(self, backend: str, max_parallelism: int) -> None:
        self._configuration = Configuration.from_dict({"state.backend.type": backend})
        self._max_parallelism = max_parallelism
        self.results: list[Any] = []

    def start(self, stage: int, parallelism: int) -> Harness:
        return Harness(
            lambda numbers, rules: program(numbers, rules.broadcast(RULES), stage, True),
            parallelism=parallelism,
            max_parallelism=self._max_parallelism,
            configuration=self._configuration,
        )

    def run(self, harness: Harness, stage: int, lose: bool) -> None:
        """One stage: a rule, then the laps, a few numbers at a time; time moves on behind the first lap."""
        harness.push(stage, input=2)
        numbers = list(numbers_of(stage))
        for at in range(0, len(numbers), 21):
            harness.push_all(numbers[at : at + 21])
            if lose:
                harness.lose_worker()
            if at == 21:
                harness.advance_watermark(1000 * stage + 500)
                harness.advance_processing_time(1000 * stage + 500)
        self.results += harness.outputs()


@pytest.mark.parametrize("lose", [False, True], ids=["workers stay", "workers are lost"])
@pytest.mark.parametrize("max_parallelism", [13, 128])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_through_snapshots(backend: str, max_parallelism: int, lose: bool) -> None:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    chain = Chain(backend, max_parallelism)
    snapshot: bytes | None = None
    for stage, parallelism in enumerate((*PARALLELISMS, PARALLELISMS[-1])):
        with chain.start(stage, parallelism) as harness:
            if snapshot is not None:
                harness.restore(snapshot)
            chain.run(harness, stage, lose)
            if stage == len(PARALLELISMS):
                chain.results += harness.end_input()
            snapshot = harness.snapshot()
    assert differences(chain.results, one_rule=False, processing_time=True) == []


def test_from_backend_to_backend() -> None:
    pytest.importorskip("rocksdict")
    chains = [Chain(backend, 13) for backend in ("rocksdb", "hashmap")]
    snapshot: bytes | None = None
    for stage, parallelism in enumerate((*PARALLELISMS, PARALLELISMS[-1])):
        chain = chains[stage % 2]
        with chain.start(stage, parallelism) as harness:
            if snapshot is not None:
                harness.restore(snapshot)
            chain.run(harness, stage, lose=False)
            if stage == len(PARALLELISMS):
                chain.results += harness.end_input()
            snapshot = harness.snapshot()
    assert differences(chains[0].results + chains[1].results, one_rule=False, processing_time=True) == []


def test_the_check_of_results_can_fail() -> None:
    assert len(differences([], one_rule=True, processing_time=True)) == 5


# -- on Spark


class Slice(InputPartition):
    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first, self.end = first, end


class Gated(DataSourceStreamReader):
    """Numbers up to the one that a file names."""

    def __init__(self, gate: str) -> None:
        self._gate = gate

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"at": min(int(Path(self._gate).read_text()), start["at"] + STAGE // 3)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        first, last = start["at"], end["at"]
        cuts = [first + (last - first) * i // 4 for i in range(5)]
        return [Slice(a, b) for a, b in pairwise(cuts)]

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        return ((number,) for number in range(partition.first, partition.end))


class Timestamps(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return timestamp_of(value[0])


def wait_until(condition: Callable[[], bool], client: Any) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "the job does not get on"
        assert not client.get_job_status().result().is_globally_terminal_state(), client.get_exceptions()
        time.sleep(0.02)


def run_stage(folder: Path, backend: str, stage: int, parallelism: int, start: str | None) -> str:
    """Run a stage on Spark, and give the snapshot that it ends with: checkpoints and savepoints in turn."""
    last = stage == len(PARALLELISMS)
    options = {
        "state.backend.type": backend,
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        "pipeline.max-parallelism": "13",
    }
    if start is not None:
        options["execution.state-recovery.path"] = start
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(parallelism)
    gate = folder / "gate"
    temporary = folder / "gate.new"
    temporary.write_text(str(numbers_of(stage)[-1] + 1))
    os.replace(temporary, gate)
    seen: list[int] = []
    env.add_step_listener(lambda report: seen.append(report.records))
    rules = env.from_collection([0], Types.LONG()).uid("rules").broadcast(RULES)
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Timestamps())
    numbers = env.from_source(Gated(str(gate)), watermarks, "numbers").uid("numbers").rebalance()
    results = program(numbers, rules, stage, False).map(lambda r: pickle.dumps(r).hex(), output_type=Types.STRING())
    sink = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder()).build()
    results.uid("text").sink_to(sink).uid("out")
    client = env.execute_async(f"stage {stage}")
    expected = len(numbers_of(stage)) + (stage == 0)
    wait_until(lambda: sum(seen) >= expected, client)
    if last:
        return str(client.stop_with_savepoint(True, None).result())
    if stage % 2:
        return str(client.stop_with_savepoint(False, None).result())
    path = str(client.trigger_checkpoint().result())
    client.cancel().result()
    return path


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_on_spark(backend: str, tmp_path: Path) -> None:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    start: str | None = None
    for stage, parallelism in enumerate((*PARALLELISMS, PARALLELISMS[-1])):
        start = run_stage(tmp_path, backend, stage, parallelism, start)
    lines = [line for path in (tmp_path / "out").rglob("part-*") for line in path.read_text().split()]
    results = [pickle.loads(bytes.fromhex(line)) for line in lines]
    assert differences(results, one_rule=True, processing_time=False) == []
