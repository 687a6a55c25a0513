"""Another parallelism, again and again, and the results stay those of one job that nobody touched."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.master.upkeep.short_tasks import Merger
from beadline.state.segments import version as versions
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
from tests.engine.stages import Numbers, Stage, written
from tests.master.soon import merge_soon

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


def through_stages(chains: list[Chain], lose: bool) -> list[Any]:
    """The results of all stages, which the chains run in turn."""
    snapshot: bytes | None = None
    for stage, parallelism in enumerate((*PARALLELISMS, PARALLELISMS[-1])):
        chain = chains[stage % len(chains)]
        with chain.start(stage, parallelism) as harness:
            if snapshot is not None:
                harness.restore(snapshot)
            chain.run(harness, stage, lose)
            if stage == len(PARALLELISMS):
                chain.results += harness.end_input()
            snapshot = harness.snapshot()
    return [result for chain in chains for result in chain.results]


@pytest.mark.parametrize("lose", [False, True], ids=["workers stay", "workers are lost"])
@pytest.mark.parametrize("max_parallelism", [13, 128])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_through_snapshots(backend: str, max_parallelism: int, lose: bool) -> None:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    assert (
        differences(through_stages([Chain(backend, max_parallelism)], lose), one_rule=False, processing_time=True) == []
    )


def test_from_backend_to_backend() -> None:
    pytest.importorskip("rocksdict")
    chains = [Chain(backend, 13) for backend in ("rocksdb", "hashmap")]
    assert differences(through_stages(chains, lose=False), one_rule=False, processing_time=True) == []


def test_the_check_of_results_can_fail() -> None:
    assert len(differences([], one_rule=True, processing_time=True)) == 5


# -- in jobs


class Gated(Numbers):
    """Numbers up to the one that a file names."""

    def __init__(self, gate: str, steps: int) -> None:
        super().__init__(STAGE // steps, 4)
        self._gate = gate

    def end(self) -> int:
        return int(Path(self._gate).read_text())


class Timestamps(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return timestamp_of(value[0])


def run_stage(folder: Path, backend: str, stage: int, parallelism: int, start: str | None) -> str:
    """Run a stage, and give the snapshot that it ends with: checkpoints and savepoints in turn."""
    job = Stage(folder, backend, parallelism, 13, start)
    steps = 3 if os.environ["BEADLINE_ENGINE"] == "spark" else 9
    gate = folder / "gate"
    temporary = folder / "gate.new"
    temporary.write_text(str(numbers_of(stage)[-1] + 1))
    os.replace(temporary, gate)
    rules = job.env.from_collection([0], Types.LONG()).uid("rules").broadcast(RULES)
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Timestamps())
    numbers = job.env.from_source(Gated(str(gate), steps), watermarks, "numbers").uid("numbers").rebalance()
    job.run(program(numbers, rules, stage, False), len(numbers_of(stage)) + (stage == 0))
    last = stage == len(PARALLELISMS)
    return job.savepoint(drain=last) if last or stage % 2 else job.checkpoint()


@pytest.fixture
def merging(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Merges are begun after every step and are there before the next; some are lost. Gives how many parts each had."""
    merge_soon(monkeypatch)
    monkeypatch.setattr(versions, "PIECE_ENTRIES", 10)
    merged: list[int] = []
    dice = random.Random(int(os.environ.get("BEADLINE_SEED", "1")))

    def at_once(self: Any, requests: list[Any]) -> None:
        kept = [request for request in requests if dice.random() < 0.9]
        if kept and dice.random() < 0.6:
            merged.append(len(kept))
            self._merge(kept)

    monkeypatch.setattr(Merger, "submit", at_once)
    return merged


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "backends"),
    [
        ("local", ["hashmap"]),
        ("local", ["rocksdb"]),
        pytest.param("spark", ["hashmap", "rocksdb"], marks=pytest.mark.spark),
    ],
)
def test_in_jobs_whose_segments_are_merged_after_every_step(
    engine: str,
    backends: list[str],
    merging: list[int],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("rocksdict")
    if engine == "spark":
        request.getfixturevalue("spark")
    monkeypatch.setenv("BEADLINE_ENGINE", engine)
    start: str | None = None
    for stage, parallelism in enumerate((*PARALLELISMS, PARALLELISMS[-1])):
        start = run_stage(tmp_path, backends[stage % len(backends)], stage, parallelism, start)
    assert differences(written(tmp_path), one_rule=True, processing_time=False) == []
    assert len(merging) > (len(PARALLELISMS) if engine == "local" else 2)
    assert max(merging) > 2, "merges were cut into parts"
