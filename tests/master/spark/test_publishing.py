"""A Python worker is killed while it publishes: the work is done again, and the job does not fail for it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beadline.common.typeinfo import Types
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.functions import SinkContext, SinkFunction
from beadline.master.snapshots import calls as calls_module
from beadline.master.snapshots.calls import Calls
from beadline.master.spark.engine import SparkEngine

pytestmark = pytest.mark.spark


def calls(spark: Any) -> Calls:
    plan: Any = SimpleNamespace(job_name="publishing", nodes={})
    return Calls(SparkEngine(spark), "job", plan)


def die_once(marker: Path) -> None:
    """As the kernel ends a worker that takes too much memory."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Lines(SinkFunction):
    """Adds its lines to a file when it has them all; the first worker that does so dies."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._lines: list[str] = []

    def invoke(self, value: Any, context: SinkContext) -> None:
        self._lines.append(f"{value}\n")

    def finish(self) -> None:
        die_once(self._folder / "died")
        with open(self._folder / "lines", "a") as stream:
            stream.writelines(self._lines)


def test_what_a_killed_worker_was_doing_is_done_again(spark: Any, tmp_path: Path) -> None:
    def publish(item: int) -> int:
        if item == 2:
            die_once(tmp_path / "died")
        return item * 10

    assert calls(spark).on_each("publish", publish, [0, 1, 2, 3]) == [0, 10, 20, 30]
    assert (tmp_path / "died").exists()


def test_a_worker_that_always_dies_fails_the_call(spark: Any, tmp_path: Path) -> None:
    def publish(item: int) -> None:
        (tmp_path / f"{os.getpid()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(Exception, match=r"Connection reset|exited unexpectedly"):
        calls(spark).on_each("publish", publish, [0])
    assert len(list(tmp_path.iterdir())) == calls_module._TRIES


def test_what_the_sink_itself_raises_is_not_tried_again(spark: Any, tmp_path: Path) -> None:
    """Output that comes at least once would come several times."""

    def publish(item: int) -> None:
        with open(tmp_path / "tries", "a") as stream:
            stream.write("x")
        raise ValueError("a bad row")

    with pytest.raises(Exception, match="a bad row"):
        calls(spark).on_each("publish", publish, [0])
    assert (tmp_path / "tries").read_text() == "x"


def test_a_job_does_not_restart_for_it(
    spark: Any, spark_engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "_LIGHT", -1)  # tasks do it all
    env = StreamExecutionEnvironment.get_execution_environment()  # without checkpoints there is no restart
    env.set_parallelism(1)
    env.from_collection(list(range(50)), Types.INT()).add_sink(Lines(tmp_path))
    env.execute()
    assert (tmp_path / "died").exists()
    assert [int(line) for line in (tmp_path / "lines").read_text().split()] == list(range(50))
