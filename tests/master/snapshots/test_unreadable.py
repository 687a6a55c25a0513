"""The storage of checkpoints is away for a moment when the job goes back."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from beadline.checkpoint.ends import End
from beadline.checkpoint.storage import durable
from beadline.errors import JobExecutionError
from tests.connectors.transactions.ledger import visible
from tests.master.snapshots.ledger_jobs import into_ledger
from tests.master.snapshots.local_jobs import LocalJob, rows
from tests.master.snapshots.troubles import fails, until


def test_a_moment_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One read fails: the newest checkpoint is left for the one before it, and removed."""
    out = into_ledger(tmp_path, monkeypatch)
    job = LocalJob(tmp_path, inline_threshold=0, retained=2)
    for _ in range(2):
        job.step()
        job.checkpoint()
    error = OSError(errno.ETIMEDOUT, "the file server does not answer")
    monkeypatch.setattr(durable, "read_file", fails(1, error, durable.read_file))
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()
    until(lambda: job.master.attempt >= 2, "the restart")
    assert job.finish() is End.FINISHED
    assert sorted(visible(out)) == rows(9)
