"""A checkpoint whose writing fails in the client, and that is there all the same: object stores answer too late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.ends import End
from beadline.checkpoint.settings import Retention
from beadline.checkpoint.storage import file_system
from beadline.errors import JobExecutionError
from tests.master.snapshots.local_jobs import LocalJob, rows, rows_in
from tests.master.snapshots.troubles import until


def test_output_that_was_given_up_is_not_taken_for_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. checkpoint 2 appears, but the driver is told that it did not
    2. the job fails, goes back to checkpoint 1, and gives up what 2 had made ready
    3. the driver dies; the next one goes on from the newest checkpoint
    """
    job = LocalJob(tmp_path, retention=Retention.RETAIN_ON_CANCELLATION)
    job.step()
    job.checkpoint()
    job.step()
    publish = file_system.publish_checkpoint

    def timed_out(*args: Any) -> None:
        publish(*args)
        raise OSError("the answer did not come in time")

    with monkeypatch.context() as patch:
        patch.setattr(file_system, "publish_checkpoint", timed_out)
        assert job.trigger().exception(20) is not None
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.give()
    until(lambda: job.master.attempt == 2, "the restart")
    # It dies now.
    job.source.ends.clear()
    job.cancel()
    resumed = LocalJob(tmp_path, given=9, restore_path="latest")
    resumed.sealed()
    assert resumed.finish() is End.FINISHED
    assert rows_in(resumed.out) == rows(9)
