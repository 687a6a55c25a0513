"""A savepoint that fails says nothing about the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.transactions.ledger import Ledger, visible
from tests.master.snapshots.test_outside_sinks import sink_plan, snapshot_of
from tests.master.snapshots.test_sinks import make, seal, take
from tests.master.snapshots.troubles import fails


def test_a_savepoint_that_can_t_publish_keeps_nobody_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it publishes is in the publisher's queue: that does it, in its turn."""
    plan = sink_plan(tmp_path)
    sinks = make(plan)
    seal(sinks, plan, ["a"])
    take(sinks, 1)
    data = sinks.take(2, commits=False)
    ready = sinks.completed(1)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", fails(1, OSError("away for a moment"), Ledger.commit))
        with pytest.raises(OSError, match="away"):
            sinks.portable(snapshot_of(2, data), commits=False)
        sinks.publish(ready)
    sinks.published(1)
    assert visible(tmp_path) == ["a"]
