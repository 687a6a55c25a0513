"""Runs of state are merged after every step, and the job goes on with another parallelism again and again."""

from __future__ import annotations

import os
import pickle
import random
import time
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration, Encoder, Types
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.file_system import FileSink
from beadline.master.upkeep.merging import Merger
from beadline.state import slicing
from tests.engine.merging import STEP, differences, program
from tests.master.soon import merge_soon

NIGHTLY = bool(os.environ.get("BEADLINE_NIGHTLY"))
PARALLELISMS = (4, 3, 1, 2, 4, 1, 3, 4, 2, 1) * (5 if NIGHTLY else 1)
STEPS = 5
PATIENCE = 120.0

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600 if NIGHTLY else 600)]


@pytest.fixture
def merging(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Merges are begun after every step and are there before the next; some are lost. Gives how many parts each had."""
    merge_soon(monkeypatch)
    monkeypatch.setattr(slicing, "PIECE_ENTRIES", 10)
    merged: list[int] = []
    dice = random.Random(int(os.environ.get("BEADLINE_SEED", "1")))

    def at_once(self: Any, requests: list[Any]) -> None:
        kept = [request for request in requests if dice.random() < 0.9]
        if kept and dice.random() < 0.6:
            merged.append(len(kept))
            self._merge(kept)

    monkeypatch.setattr(Merger, "submit", at_once)
    return merged


def run_stage(folder: Path, stage: int, start: str | None) -> str:
    """Run some steps, and give the checkpoint that they end with. The backend changes from stage to stage."""
    last = stage == len(PARALLELISMS) - 1
    options = {
        "state.backend.type": ("hashmap", "rocksdb")[stage % 2],
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        "pipeline.max-parallelism": "16",
    }
    if start is not None:
        options["execution.state-recovery.path"] = start
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(PARALLELISMS[stage])
    seen: list[int] = []
    env.add_step_listener(lambda report: seen.append(report.records))
    results = program(env, (stage + 1) * STEPS * STEP)
    texts = results.map(lambda r: pickle.dumps(r).hex(), output_type=Types.STRING()).uid("text")
    texts.sink_to(FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder()).build()).uid("out")
    client = env.execute_async(f"stage {stage}")
    until = time.monotonic() + PATIENCE
    while sum(seen) < STEPS * STEP:
        assert time.monotonic() < until, "the job does not get on"
        assert not client.get_job_status().result().is_globally_terminal_state(), client.get_exceptions()
        time.sleep(0.02)
    if last:
        return str(client.stop_with_savepoint(True, None).result())
    path = str(client.trigger_checkpoint().result())
    client.cancel().result()
    return path


@pytest.mark.usefixtures("spark")
def test_timers_lists_maps_and_windows_survive_merges_and_rescaling(merging: list[int], tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    start: str | None = None
    for stage in range(len(PARALLELISMS)):
        start = run_stage(tmp_path, stage, start)
    lines = [line for path in (tmp_path / "out").rglob("part-*") for line in path.read_text().split()]
    results = [pickle.loads(bytes.fromhex(line)) for line in lines]
    assert differences(results, len(PARALLELISMS) * STEPS * STEP) == []
    assert len(merging) > len(PARALLELISMS) * STEPS / 2
    assert max(merging) > 4, "merges were cut into parts"


def test_the_check_of_results_can_fail() -> None:
    assert differences([], 10) != []
