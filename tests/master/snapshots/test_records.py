"""The phases of a checkpoint: the table for people, and what those of real jobs go through."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.errors import JobExecutionError
from beadline.master.snapshots import records
from beadline.master.snapshots.records import Phase, Record
from beadline.master.snapshots.sinks import Sinks
from tests.master.snapshots.local_jobs import LocalJob
from tests.master.snapshots.troubles import Gate, fails, until

Move = tuple[Phase, Phase]


def table() -> set[Move]:
    assert records.__doc__ is not None
    rows = re.split(r"^=+ =+ =+$", records.__doc__, flags=re.MULTILINE)[2].splitlines()[1:]
    named = [(Phase[row[:11].strip()], row[67:]) for row in rows if row[:11].strip()]
    return {(phase, Phase[to]) for phase, column in named for to in re.findall(r"\b[A-Z_]{6,}\b", column)}


def test_real_checkpoints_go_through_these_phases_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: set[Move] = set()
    change = Record.__setattr__

    def noted(self: Record, name: str, value: Any) -> None:
        before = getattr(self, "phase", None) if name == "phase" and "phase" in self.__dict__ else None
        change(self, name, value)
        if before is not None:
            made.add((before, value))

    monkeypatch.setattr(Record, "__setattr__", noted)
    job = LocalJob(tmp_path)
    job.step()
    job.checkpoint()
    job.savepoint(tmp_path / "savepoints")
    # One that is given up in each phase: the step that it waits for fails, output can't be made ready, no disk.
    gate = job.engine.gates["step"] = Gate()
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()
    gate.reached()
    waiting = job.trigger()
    until(lambda: job.checkpoints.coordinator.pending)
    gate.open()
    assert waiting.exception(20) is not None
    job.sealed()
    for owner, name in ((Sinks, "precommit"), (job.storage, "write")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fails(1, OSError("no disk"), getattr(owner, name)))
            assert job.trigger().exception(20) is not None
    job.checkpoint()
    assert made == table()
    left = {record.id: (record.kind, record.phase) for record in job.checkpoints._records}
    newest = max(job.checkpoints.pointers)
    assert left == {newest: (CheckpointKind.CHECKPOINT, Phase.COMPLETE)}, "the others are gone"
    job.cancel()
