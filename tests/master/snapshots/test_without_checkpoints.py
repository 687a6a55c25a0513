"""Without checkpoints nothing is gone back to: what could not be published goes with the next step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.ends import End
from beadline.common import Configuration
from beadline.common.typeinfo import Types
from beadline.connectors.files import renaming
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.functions import SinkContext, SinkFunction
from tests.master.snapshots.local_jobs import LocalJob, rows, rows_in
from tests.master.snapshots.troubles import fails, until


class Lines(SinkFunction):
    """Fails once."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = str(folder)
        self._lines: list[str] = []

    def invoke(self, value: Any, context: SinkContext) -> None:
        self._lines.append(f"{value}\n")

    def finish(self) -> None:
        marker = Path(self._folder, "failed")
        if "50\n" in self._lines and not marker.exists():
            marker.touch()
            raise OSError("the system is away for a moment")
        with open(Path(self._folder, "lines"), "a") as stream:
            stream.writelines(self._lines)


def test_a_sink_that_fails_once_is_tried_again(tmp_path: Path) -> None:
    configuration = Configuration()
    for key, value in {
        "beadline.step.first-records": "10",
        "beadline.step.max-records": "10",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.from_collection(list(range(200)), Types.INT()).add_sink(Lines(tmp_path))
    env.execute()
    assert [int(line) for line in (tmp_path / "lines").read_text().split()] == list(range(200))


@pytest.mark.parametrize("kind", [CheckpointKind.CHECKPOINT, CheckpointKind.STOP_WITH_SAVEPOINT])
def test_output_of_a_checkpoint_by_hand_that_could_not_be_published(
    kind: CheckpointKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LocalJob(tmp_path, interval_ms=None)
    job.step()
    monkeypatch.setattr(renaming, "rename", fails(renaming._TRIES, OSError("away for a moment"), renaming.rename))
    job.trigger(kind, tmp_path / "savepoints")
    until(lambda: job.master.attempt == 2, "the restart")
    job.step()
    assert job.finish() is End.FINISHED
    assert rows_in(job.out) == rows(6)
