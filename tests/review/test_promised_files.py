"""NOT MENDED: what a savepoint names of a FileSink is given up by the next driver, and passes for published then."""

from __future__ import annotations

from pathlib import Path

from tests.checkpoint.snapshots import take_over
from tests.master.snapshots.local_jobs import rows_in
from tests.master.snapshots.test_outside_sinks import snapshot_of
from tests.master.snapshots.test_sinks import file_sink, make, seal, sink_plan, stored


def test_a_job_from_a_savepoint_whose_output_the_next_driver_has_given_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = sink_plan(file_sink(out))
    sinks = make(plan, storage=take_over(tmp_path / "checkpoints", "one"))
    start = sinks.at_start()
    seal(sinks, plan, ["a"])
    # The savepoint to stop with is complete. The driver dies before its output is published.
    saved = sinks.portable(snapshot_of(1, sinks.take(1, ends_job=True)), commits=True)
    # -s latest, by mistake: it is stopped again before it has published anything.
    make(plan, storage=take_over(tmp_path / "checkpoints", "two")).restore(start)
    # So now from the savepoint.
    plan = sink_plan(file_sink(out))
    make(plan, storage=take_over(tmp_path / "other", "three")).restore(stored(saved.committables()))
    assert rows_in(out) == ["a"], "or an error that says what is missing"
