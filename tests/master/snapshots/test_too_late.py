"""A checkpoint that was given up is written all the same: another one uses the copies that it made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.storage.durable import DurableFiles
from beadline.common.savepoint_format_type import SavepointFormatType
from tests.master.snapshots.local_jobs import whole
from tests.master.snapshots.test_claiming import a_savepoint, start
from tests.master.snapshots.troubles import Gate, until

FORMATS = pytest.mark.parametrize("format", SavepointFormatType)


@FORMATS
def test_what_a_late_checkpoint_copied_is_not_used_when_it_is_gone(
    format: SavepointFormatType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoint 2 takes longer than its timeout, and appears afterwards."""
    path = a_savepoint(tmp_path, format)
    job = start(tmp_path / "new", path, timeout_ms=500, interval_ms=10**6)
    gate = Gate()
    with monkeypatch.context() as patch:
        patch.setattr(job.storage, "write", gate.after(job.storage.write))
        answer = job.trigger()
        gate.reached()
        job.clock.now += 1000
        job.master.wake()
        assert answer.exception(20) is not None
        gate.open()
        until(lambda: all(record.work is None for record in job.checkpoints._records))
        job.look_around()
    missing = [file for file in job.truth.book.live_files() if not os.path.exists(file)]
    assert missing == [], "state of the running job"
    assert whole(job.checkpoint())
    job.cancel()


@FORMATS
def test_what_a_late_checkpoint_copied_stays_for_one_that_uses_it(
    format: SavepointFormatType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next checkpoint is being written when the late one is done, and has found its copies."""
    path = a_savepoint(tmp_path, format)
    job = start(tmp_path / "new", path, timeout_ms=500, interval_ms=10**6)
    late, found = Gate(), Gate()
    bring = DurableFiles.bring
    calls = iter(range(10))

    def gated(*args: Any) -> Any:
        number = next(calls)
        result = bring(*args)  # copies, or finds the copies
        (late, found)[min(number, 1)].come()
        return result

    monkeypatch.setattr(DurableFiles, "bring", gated)
    answer = job.trigger()
    late.reached()
    job.clock.now += 1000
    job.master.wake()
    assert answer.exception(20) is not None
    answer = job.trigger()
    found.reached()
    late.open()  # the first one appears, and is discarded
    until(lambda: sum(record.work is not None for record in job.checkpoints._records) == 1)
    job.look_around()
    found.open()
    pointer = answer.result(20)
    assert whole(pointer), "a checkpoint that has completed"
    job.cancel()
