"""Sinks whose output is published when a step is sealed: the job hears of everything else meanwhile."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.checkpoint.ends import End
from beadline.common.job_status import JobStatus
from beadline.connectors.user_sinks import function_sink
from beadline.connectors.user_sinks.functions import FunctionLog
from beadline.datastream.functions import SinkContext, SinkFunction
from beadline.errors import BeadlineError, JobExecutionError
from beadline.master.snapshots import waiting
from tests.connectors.transactions.ledger import Ledger, abort_all, visible
from tests.master.snapshots import local_jobs
from tests.master.snapshots.local_jobs import LocalJob, encode, rows
from tests.master.snapshots.test_outside_sinks import sink_plan
from tests.master.snapshots.test_sinks import make, stored
from tests.master.snapshots.test_sinks import staged as acknowledged
from tests.master.snapshots.troubles import PATIENCE_SECONDS, Gate, fails, until


class Lines(SinkFunction):
    """Appends to a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = str(path)

    def invoke(self, value: Any, context: SinkContext) -> None:
        with open(self._path, "ab") as stream:
            stream.write(encode(value))


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jobs write to this file."""
    path = tmp_path / "lines"
    path.touch()
    monkeypatch.setattr(local_jobs, "file_sink", lambda out, policy: function_sink(Lines(path)))
    return path


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The first entry is written, and then the system outside does not answer."""
    gate = Gate()
    monkeypatch.setattr(FunctionLog, "append", gate.after(FunctionLog.append))
    return gate


def look_around(job: LocalJob) -> None:
    """Wait until the job master has handled all that it was told; it does not wait for its next second."""
    looks = job.clock.looks
    until(lambda: job.master.wake() or job.clock.looks > looks + 10, "the next round")


def in_order(path: Path) -> list[int]:
    """The numbers of the records that came out."""
    return [int(line.split(":")[0]) for line in path.read_text().splitlines()]


def test_a_job_is_there_while_a_sink_does_not_answer(
    tmp_path: Path, lines: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "_FIRST_SECONDS", 0.05)
    job = LocalJob(tmp_path, timeout_ms=5000)
    job.give()
    gate.reached()
    job.give()
    said = "until the output of step 1 is published, and reads nothing meanwhile: publish step 1, in it: publish the"
    until(lambda: any(said in text for text in caplog.messages), "the warning")
    assert job.master.look(60).result(PATIENCE_SECONDS)
    asked = job.trigger()
    look_around(job)
    assert not asked.done()
    job.clock.now += 5000
    with pytest.raises(BeadlineError, match="took longer than its timeout"):
        asked.result(PATIENCE_SECONDS)
    assert {header.step for header in job.engine.headers} == {1}, "the next step waits"
    gate.open()
    job.sealed()
    assert job.finish() is End.FINISHED
    assert in_order(lines) == [*range(6)]


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_checkpoint_waits_for_its_step_s_output_and_does_not_hold_it(
    unaligned: bool, tmp_path: Path, lines: Path, gate: Gate
) -> None:
    """Whoever goes on from it does not publish that again."""
    job = LocalJob(tmp_path, unaligned=unaligned)
    job.give()
    gate.reached()
    asked, saved = job.trigger(), job.trigger(local_jobs.CheckpointKind.SAVEPOINT, tmp_path / "savepoints")
    look_around(job)
    assert not asked.done()
    gate.open()
    for pointer in (asked.result(PATIENCE_SECONDS), saved.result(PATIENCE_SECONDS)):
        (held,) = read_snapshot(pointer).committables().values()
        assert held["committables"] == held["staged"]["parts"] == []
    job.engine.failures["step"] = [JobExecutionError("a bad record")]
    job.step()
    assert job.finish() is End.FINISHED
    assert in_order(lines) == [*range(6)]


def test_a_job_that_is_told_to_stop_meanwhile_stops_after_it(tmp_path: Path, lines: Path, gate: Gate) -> None:
    job = LocalJob(tmp_path)
    job.give()
    gate.reached()
    job.give()
    stopped = job.stop(tmp_path / "savepoints")
    look_around(job)
    assert not job.master.wait(0)
    gate.open()
    assert job.ended() is End.STOPPED
    assert stopped.result(0)
    assert in_order(lines) == [*range(3)]


def test_a_job_ends_after_the_output_of_its_last_step(tmp_path: Path, lines: Path, gate: Gate) -> None:
    job = LocalJob(tmp_path, interval_ms=None)
    job.give()
    job.source.bounded = True
    gate.reached()
    look_around(job)
    assert not job.master.wait(0)
    gate.open()
    assert job.ended() is End.FINISHED
    assert in_order(lines) == [*range(3)]


def test_a_failure_restarts_the_job(tmp_path: Path, lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = LocalJob(tmp_path)
    job.step()
    job.checkpoint()
    monkeypatch.setattr(FunctionLog, "append", fails(2, OSError("away for a moment"), FunctionLog.append))
    job.step()
    assert [str(failed.error) for failed in job.master.history] == ["away for a moment"] * 2
    assert job.finish() is End.FINISHED
    assert in_order(lines) == [*range(6)]


def test_a_restart_waits_until_nothing_is_published_any_more(tmp_path: Path, lines: Path, gate: Gate) -> None:
    """What became visible later would overtake what comes again."""
    job = LocalJob(tmp_path, timeout_ms=5000, tolerable_failures=0)
    job.give()
    gate.reached()
    asked = job.trigger()
    look_around(job)
    job.clock.now += 5000
    assert asked.exception(PATIENCE_SECONDS) is not None
    until(lambda: job.master.status is JobStatus.RESTARTING, "the failure")
    assert len(job.engine.headers) == 1
    gate.open()
    job.sealed()
    assert job.finish() is End.FINISHED
    assert in_order(lines) == [*range(3), *range(3)], "at least once, in order"
    assert sorted(set(lines.read_text().splitlines())) == rows(3)


def test_what_a_checkpoint_has_published_meanwhile_is_neither_lost_nor_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction was lost, and is in a checkpoint too. The step's output takes it along; the job hears of both."""
    plan = sink_plan(tmp_path)
    sinks = make(plan, with_checkpoints=False)
    sinks.sealed([acknowledged(plan, ["a"])], 0, False)
    commit = Ledger.commit
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", lambda ledger, handle: ledger.abort(handle) or commit(ledger, handle))
        assert sinks.published_at_once(sinks.publish_at_once(sinks.ready_at_once())) == 1
    stored(sinks.precommit(sinks.take(1)))
    ready = sinks.completed(1)
    sinks.sealed([acknowledged(plan, ["b"])], 0, False)
    step = sinks.ready_at_once()
    abort_all(tmp_path)
    sinks.publish(ready)
    published = sinks.publish_at_once(step)
    sinks.published(1)
    sinks.published_at_once(published)
    sinks.sealed([acknowledged(plan, ["c"])], 0, False)
    with contextlib.suppress(JobExecutionError):
        sinks.published_at_once(sinks.publish_at_once(sinks.ready_at_once()))
    assert visible(tmp_path) == ["a", "b", "c"]
