"""A savepoint is made while a checkpoint's output is released."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.connectors.transactions.batches import BatchLog, BatchSink
from beadline.connectors.transactions.rows import unpacked
from beadline.master.snapshots.outputs import Output
from tests.connectors.transactions.test_committer import as_they_are
from tests.master.snapshots.local_jobs import counting_plan
from tests.master.snapshots.test_outside_sinks import snapshot_of
from tests.master.snapshots.test_sinks import make, staged, take

SEEN: dict[tuple[str, int], list[Any]] = {}


class Frames(BatchLog):
    """A batch whose number is known has no effect."""

    def append(self, writer: str, number: int, pieces: list[Any]) -> None:
        SEEN.setdefault((writer, number), [row for batch in unpacked(pieces) for row in batch])


def test_a_batch_is_whole_whenever_a_savepoint_publishes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The savepoint's thread comes to its turn when the job master has released one of two parts."""
    import threading

    SEEN.clear()
    plan = counting_plan(None, BatchSink(Frames(), as_they_are), parallelism=2)
    sinks = make(plan)
    sinks.sealed([staged(plan, ["a"]), staged(plan, ["b"], subtask=1)], 0, False)
    take(sinks, 1)
    saved = snapshot_of(2, sinks.take(2, commits=False))
    saver = threading.Thread(target=lambda: sinks.portable(saved, commits=False))
    first = iter([True])

    def released(output: Output, name: str, value: Any) -> None:
        object.__setattr__(output, name, value)
        if name == "released" and value and next(first, None):
            saver.start()
            saver.join(0.5)  # as long as it is not kept waiting

    monkeypatch.setattr(Output, "__setattr__", released)
    ready = sinks.completed(1)
    saver.join()
    sinks.publish(ready)
    sinks.published(1)
    assert sorted(row for rows in SEEN.values() for row in rows) == ["a", "b"]
