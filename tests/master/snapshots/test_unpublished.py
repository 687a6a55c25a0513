"""Jobs that are told to end while output can't be published: they end some time, say what is missing, and a job that
goes on from there publishes it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.ends import End
from beadline.connectors.files import renaming
from beadline.connectors.user_sinks import function_sink
from beadline.connectors.user_sinks.functions import FunctionLog
from beadline.master import life
from beadline.master.client import signals
from beadline.master.job import JobMaster
from beadline.master.reporting.news import StatusChanged
from beadline.master.snapshots import waiting
from tests.connectors.transactions.ledger import Ledger, visible
from tests.master.snapshots import local_jobs
from tests.master.snapshots.ledger_jobs import into_ledger
from tests.master.snapshots.local_jobs import LocalJob, Numbers, rows, rows_in
from tests.master.snapshots.test_step_output import Lines, in_order
from tests.master.snapshots.troubles import PATIENCE_SECONDS, Gate, fails, until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LEAST_SECONDS", 0.1)


def before(gate: Gate, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose first call waits at the gate before it does anything."""

    def waiting(*args: Any, **kwargs: Any) -> Any:
        gate.come()
        return function(*args, **kwargs)

    return waiting


def resumed(job: LocalJob) -> LocalJob:
    """A job that goes on from the newest checkpoint of one that has ended."""
    assert job.master.kept
    return LocalJob(job.folder, given=job.given, restore_path=job.master.last_checkpoint)


def test_a_job_that_is_told_to_end_says_what_could_not_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = LocalJob(tmp_path)
    job.step()
    with monkeypatch.context() as patch:
        patch.setattr(renaming, "rename", fails(renaming._TRIES, OSError("away for a moment"), renaming.rename))
        job.master.suspend()
        assert job.ended() is End.SUSPENDED
    assert job.master.exit_code == 1
    assert job.master.unpublished == "the output of checkpoint 1 could not be published: away for a moment"
    assert f"some of its output is missing: {job.master.unpublished}. Resume it with -s " in caplog.text
    assert not any("no last checkpoint could be taken" in text for text in caplog.messages), "it was"
    assert rows_in(job.out) == []
    told, job = job.master.unpublished, resumed(job)
    ends = [news for news in job.master.news.history if isinstance(news, StatusChanged) and news.status == "SUSPENDED"]
    assert [news.reason for news in ends] == [f"suspended: {told}"]
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(3)


def test_a_job_whose_output_is_visible_ends_well(tmp_path: Path) -> None:
    job = LocalJob(tmp_path)
    job.step()
    job.master.suspend()
    assert job.ended() is End.SUSPENDED
    assert (job.master.exit_code, job.master.unpublished) == (0, "")
    assert rows_in(job.out) == rows(3)


def test_a_job_that_is_told_to_end_waits_for_its_output_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call that did not answer comes back when another driver has gone on."""
    out, gate = into_ledger(tmp_path, monkeypatch), Gate()
    job = LocalJob(tmp_path, timeout_ms=5000)
    job.step()
    monkeypatch.setattr(Ledger, "commit", before(gate, Ledger.commit))
    job.master.suspend()
    gate.reached()
    assert not job.master.wait(0.3)
    job.clock.now += 5000
    assert job.ended() is End.SUSPENDED
    assert job.master.exit_code == 1
    assert "checkpoint 1 is not published, because the system outside does not answer" in job.master.unpublished
    job = resumed(job)
    until(lambda: visible(out) == rows(3), "what was missing")
    gate.open()
    job.step()
    assert job.finish() is End.FINISHED
    assert sorted(visible(out)) == rows(6)


def test_a_job_that_is_cancelled_meanwhile_keeps_what_it_has_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    job = LocalJob(tmp_path)
    job.step()
    monkeypatch.setattr(renaming, "rename", before(gate, renaming.rename))
    job.trigger().result(PATIENCE_SECONDS)
    gate.reached()
    job.master.cancel()
    assert not job.master.wait(0.3)
    job.clock.now += 10_000
    assert job.ended() is End.CANCELLED
    assert job.master.exit_code == 1
    gate.open()
    job = resumed(job)
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(3)


def test_a_job_that_was_to_end_by_itself_waits_for_its_output_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, gate = into_ledger(tmp_path, monkeypatch), Gate()
    monkeypatch.setattr(Ledger, "commit", before(gate, Ledger.commit))
    job = LocalJob(tmp_path, given=3, timeout_ms=5000)
    job.source.bounded = True
    gate.reached()
    job.master.suspend()
    assert not job.master.wait(0.3)
    job.clock.now += 5000
    assert job.ended() is End.SUSPENDED
    assert job.master.exit_code == 1
    gate.open()
    job = resumed(job)
    assert job.finish() is End.FINISHED
    assert visible(out) == rows(3)


def test_a_sink_that_does_not_answer_keeps_no_job_from_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output waits for no checkpoint, but the last checkpoint waits for that."""
    lines, gate = tmp_path / "lines", Gate()
    monkeypatch.setattr(local_jobs, "file_sink", lambda out, policy: function_sink(Lines(lines)))
    monkeypatch.setattr(FunctionLog, "append", before(gate, FunctionLog.append))
    job = LocalJob(tmp_path, timeout_ms=5000)
    job.give()
    gate.reached()
    job.master.suspend()
    assert not job.master.wait(0.3)
    job.clock.now += 5000
    assert job.ended() is End.SUSPENDED
    assert job.master.exit_code == 1
    assert "the output of step 1 is not published" in job.master.unpublished
    gate.open()
    until(lambda: lines.exists() and in_order(lines) == [*range(3)], "the end of the call")


def test_a_job_whose_thread_itself_waits_does_not_keep_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = LocalJob(tmp_path, timeout_ms=5000)
    job.step()
    pointer, gate = job.checkpoint(), Gate()
    monkeypatch.setattr(Numbers, "plan", before(gate, Numbers.plan))
    gate.reached()
    with ThreadPoolExecutor(1) as threads:
        code = threads.submit(signals.guard._end_jobs)
        until(lambda: job.master._grace._ends is not None, "the signal")
        job.clock.now += 5000 + waiting._OVERDUE_MS
        assert code.result(PATIENCE_SECONDS) == 1
    assert f"its driver waits for a system outside. The process ends; resume it with -s {pointer}" in caplog.text
    assert job.master not in life.jobs
    assert isinstance(job.master, JobMaster)
    gate.open()
    assert job.ended() is End.SUSPENDED
