"""Segments of state are merged after every step, and the job goes on with another parallelism again and again."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from beadline.master.upkeep.short_tasks import Merger
from beadline.state.segments import slicing
from tests.engine.merging import STEP, differences, program
from tests.engine.stages import Stage, written
from tests.master.soon import merge_soon

NIGHTLY = bool(os.environ.get("BEADLINE_NIGHTLY"))
PARALLELISMS = (4, 3, 1, 2, 4, 1, 3, 4, 2, 1) * (5 if NIGHTLY else 1)
STEPS = 5

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
    job = Stage(folder, ("hashmap", "rocksdb")[stage % 2], PARALLELISMS[stage], 16, start)
    job.run(program(job.env, (stage + 1) * STEPS * STEP), STEPS * STEP)
    return job.savepoint(drain=True) if stage == len(PARALLELISMS) - 1 else job.checkpoint()


@pytest.mark.usefixtures("spark")
def test_timers_lists_maps_and_windows_survive_merges_and_rescaling(merging: list[int], tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    start: str | None = None
    for stage in range(len(PARALLELISMS)):
        start = run_stage(tmp_path, stage, start)
    assert differences(written(tmp_path), len(PARALLELISMS) * STEPS * STEP) == []
    assert len(merging) > len(PARALLELISMS) * STEPS / 2
    assert max(merging) > 4, "merges were cut into parts"


def test_the_check_of_results_can_fail() -> None:
    assert differences([], 10) != []
