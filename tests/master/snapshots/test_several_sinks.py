"""One sink of several fails: what the others have not published yet must not be overtaken either."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from beadline.connectors.transactions import TransactionalSink
from tests.connectors.transactions.ledger import Ledger, visible
from tests.connectors.transactions.test_committer import as_they_are
from tests.master.snapshots.local_jobs import counting_plan
from tests.master.snapshots.test_sinks import file_sink, make, staged, take


def ledger(folder: Path) -> TransactionalSink:
    (folder / ".pending").mkdir(parents=True, exist_ok=True)
    return TransactionalSink(Ledger(str(folder)), as_they_are, "test")


@pytest.mark.parametrize("first", ["transactions", "files"])
def test_a_failure_of_one_sink_lets_no_other_overtake_itself(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints 1 and 2 have completed, and are in the publisher's queue. Publishing 1 fails at the first sink, so
    that the second one's turn never came; 2 holds output of the second sink alone."""
    one, two = tmp_path / "one", tmp_path / "two"
    plan = counting_plan(None, ledger(one) if first == "transactions" else file_sink(one), ledger(two))
    sinks = make(plan)
    sinks.sealed([staged(plan, ["a1"]), staged(plan, ["b1"], "second")], 0, False)
    take(sinks, 1)
    sinks.sealed([staged(plan, ["b2"], "second")], 0, False)
    newest = take(sinks, 2)
    queue = [sinks.completed(1), sinks.completed(2)]

    def away(*args: Any) -> Any:
        raise OSError("the system is away for a moment")

    with monkeypatch.context() as patch:
        if first == "transactions":
            commit = Ledger.commit
            patch.setattr(
                Ledger, "commit", lambda own, handle: away() if own.folder == str(one) else commit(own, handle)
            )
        else:
            from beadline.connectors.files import renaming

            patch.setattr(renaming, "rename", away)
        with pytest.raises(OSError, match="away"):
            sinks.publish(queue[0])
    with contextlib.suppress(Exception):
        sinks.publish(queue[1])  # what the publisher does before the job master has heard of the failure
    sinks.restore(newest)
    assert visible(two) == ["b1", "b2"]
