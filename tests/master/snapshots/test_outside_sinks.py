"""What sinks for systems outside have in checkpoints and savepoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.connectors.transactions import TransactionalSink
from beadline.errors import JobExecutionError
from beadline.graph.plan import Plan
from tests.connectors.transactions.ledger import Ledger, abort_all, visible
from tests.connectors.transactions.test_committer import as_they_are
from tests.master.snapshots.local_jobs import counting_plan
from tests.master.snapshots.test_sinks import complete, make, seal, take


def sink_plan(folder: Path) -> Plan:
    (folder / ".pending").mkdir(parents=True, exist_ok=True)
    return counting_plan(None, TransactionalSink(Ledger(str(folder)), as_they_are, "test"))


def snapshot_of(number: int, data: dict[str, Any]) -> Snapshot:
    sink = OperatorSnapshot("sink", "sink", 1, 8, committables=data["sink"])
    return Snapshot(number, "job", "job", number, 0, (sink,))


def test_a_plain_savepoint_names_what_an_open_checkpoint_may_publish(tmp_path: Path) -> None:
    """Whoever starts from it must not write that again."""
    plan = sink_plan(tmp_path)
    sinks = make(plan)
    seal(sinks, plan, ["a"])
    take(sinks, 1)
    seal(sinks, plan, ["b"])
    saved = sinks.portable(snapshot_of(2, sinks.take(2, commits=False)), commits=False)
    held = saved.committables()["sink"]
    assert len(held["committables"]) == 1
    complete(sinks, 1)
    assert visible(tmp_path) == ["a"]
    other = make(plan)
    other.restore(saved.committables())
    assert visible(tmp_path) == ["a"]
    take(other, 1)
    complete(other, 1)
    assert visible(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("ends_job", [False, True], ids=["at the last step", "at a stop"])
def test_what_is_lost_after_the_last_checkpoint_fails_the_job(ends_job: bool, tmp_path: Path) -> None:
    plan = sink_plan(tmp_path)
    sinks = make(plan)
    seal(sinks, plan, ["a"], final=not ends_job)
    sinks.precommit(sinks.take(1, ends_job=ends_job))
    sinks.take(2, commits=False)  # somebody asks for a savepoint meanwhile
    abort_all(tmp_path)
    with pytest.raises(JobExecutionError, match="goes back to checkpoint 1"):
        complete(sinks, 1)


def test_what_is_lost_in_between_is_in_the_next_checkpoint(tmp_path: Path) -> None:
    plan = sink_plan(tmp_path)
    sinks = make(plan)
    seal(sinks, plan, ["a"])
    take(sinks, 1)
    abort_all(tmp_path)
    complete(sinks, 1)
    assert visible(tmp_path) == []
    seal(sinks, plan, ["b"])
    take(sinks, 2)
    complete(sinks, 2)
    assert visible(tmp_path) == ["a", "b"]


def test_a_savepoint_that_was_given_up_promises_nothing(tmp_path: Path) -> None:
    plan = sink_plan(tmp_path)
    sinks = make(plan)
    start: Any = sinks.at_start()
    seal(sinks, plan, ["a"])
    sinks.portable(snapshot_of(1, sinks.take(1)), commits=True)
    assert Ledger(str(tmp_path)).list_open("test-")
    sinks.promises.withdraw(1)
    sinks.restore(start)
    assert Ledger(str(tmp_path)).list_open("test-") == []


def test_without_checkpoints_nothing_overtakes_what_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = sink_plan(tmp_path)
    sinks = make(plan, with_checkpoints=False)
    commit = Ledger.commit
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", lambda ledger, handle: ledger.abort(handle) or commit(ledger, handle))
        seal(sinks, plan, ["a"])
    sinks.take(1)  # somebody asks for a checkpoint, which holds it
    seal(sinks, plan, ["b"])
    assert visible(tmp_path) == ["a", "b"]
