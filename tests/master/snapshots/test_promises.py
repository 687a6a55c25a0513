"""A savepoint that is given up before its thread has come to the sinks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import SnapshotError
from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.ends import End
from beadline.connectors.transactions import TransactionalSink
from beadline.errors import JobExecutionError
from tests.connectors.transactions.ledger import Ledger, as_text, visible
from tests.master.snapshots import local_jobs
from tests.master.snapshots.local_jobs import LocalJob, rows
from tests.master.snapshots.troubles import Gate, fails


def test_what_a_savepoint_promised_too_late_is_not_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    (out / ".pending").mkdir(parents=True)
    monkeypatch.setattr(
        local_jobs, "file_sink", lambda folder, policy: TransactionalSink(Ledger(str(folder)), as_text, "test")
    )
    job = LocalJob(tmp_path)
    job.step()
    monkeypatch.setattr(job.storage, "write", fails(1, SnapshotError("no space"), job.storage.write))
    assert job.trigger().exception(20) is not None  # its output is still held for it
    gate, sinks = Gate(), job.checkpoints._sinks
    portable = sinks.portable

    def waiting(*args: Any, **kwargs: Any) -> Any:
        gate.come()
        return portable(*args, **kwargs)

    monkeypatch.setattr(sinks, "portable", waiting)
    answer = job.trigger(CheckpointKind.SAVEPOINT, tmp_path / "savepoints")
    gate.reached()
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()
    assert answer.exception(20) is not None
    gate.open()
    job.sealed()
    job.checkpoint()
    job.step()
    job.checkpoint()
    assert job.finish() is End.FINISHED
    assert sorted(visible(out)) == rows(9)
    assert Ledger(str(out)).list_open("test-") == [], "readers of committed rows would wait for it"
