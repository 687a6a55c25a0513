"""What watchers of a job hear, and what is left of it for the next driver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration, Types, WatermarkStrategy
from beadline.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from beadline.datastream.state import ValueStateDescriptor
from beadline.master.reporting import news as module
from beadline.master.reporting.news import (
    CheckpointChanged,
    ExecutionFailed,
    ExecutionStarted,
    News,
    NewsStream,
    StatusChanged,
    StepReport,
)
from beadline.testing import AwaitCheckpoint, Crash, EndStep, TestSource
from tests.checkpoint.snapshots import take_over


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._count.update((self._count.value() or 0) + 1)
        yield value


def run(folder: Path, script: list[Any], heard: list[News]) -> None:
    settings = Configuration()
    for key, value in {
        "beadline.engine": "local",
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(folder),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        settings.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.add_event_listener(heard.append)
    stream = env.from_source(TestSource(script), WatermarkStrategy.no_watermarks(), "script")
    stream.key_by(lambda number: number % 3).process(Count()).map(lambda x: x).print()
    env.execute("news")


def of_kind(heard: list[News], kind: type[Any]) -> list[Any]:
    return [event for event in heard if isinstance(event, kind)]


def test_all_that_happens_is_told_in_its_order(tmp_path: Path) -> None:
    heard: list[News] = []
    run(tmp_path, [1, 2, EndStep(), AwaitCheckpoint(), 3, Crash(), 4], heard)
    statuses = [event.status for event in of_kind(heard, StatusChanged)]
    assert statuses == ["RUNNING", "RESTARTING", "RUNNING", "FINISHED"]
    started = of_kind(heard, ExecutionStarted)
    assert [event.attempt for event in started] == [1, 2]
    assert started[0].checkpoint is None
    (failed,) = of_kind(heard, ExecutionFailed)
    assert (failed.attempt, failed.restarted_from) == (1, f"checkpoint {started[1].checkpoint}")
    assert "crash" in failed.error.lower()
    phases = [(event.id, event.phase) for event in of_kind(heard, CheckpointChanged) if event.id == 1]
    assert phases == [(1, "triggered"), (1, "taken"), (1, "completed")]
    steps = of_kind(heard, StepReport)
    assert [step.step for step in steps] == sorted(step.step for step in steps)
    assert sum(step.records for step in steps if step.step > started[1].step) >= 2, "what was read again is told again"
    assert all(event.at > 0 for event in heard)


def test_a_listener_that_raises_does_not_stop_the_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Bad(list[News]):
        def append(self, event: News) -> None:
            super().append(event)
            raise ValueError("no")

    heard = Bad()
    run(tmp_path, [1], heard)
    assert of_kind(heard, StatusChanged)[-1].status == "FINISHED"
    assert "a listener raised ValueError('no')" in caplog.text


def test_the_history_outlives_the_driver(tmp_path: Path) -> None:
    first = NewsStream(take_over(tmp_path, "first"))
    told: list[News] = [
        StatusChanged(1, "RUNNING", "preparing"),
        StepReport("job", 1, 2, 2, 0.5, 1, 1, 10, None, 1, False, {0: "driver"}, {0: 77}, at=2),
        CheckpointChanged(3, 1, "aligned checkpoint", "completed", 1, 12, 100, 200, "/somewhere"),
        ExecutionFailed(4, 1, "ValueError: no", "checkpoint 1"),
        ExecutionStarted(5, 2, 1, 1),
    ]
    for event in told:
        first.tell(event)
    first.close()
    second = NewsStream(take_over(tmp_path, "second"))
    assert second.history == told


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OTHERS", 3)
    stream = NewsStream(take_over(tmp_path, "first"))
    for number in range(10):
        stream.tell(ExecutionStarted(number, number, None, 0))
    stream.close()
    assert [event.at for event in NewsStream(take_over(tmp_path, "second")).history] == [7, 8, 9]


@pytest.mark.parametrize("kept", [b"", b"{", b"7", b'[{"event": "Later", "x": 1}, {"event": "StatusChanged", "y": 2}]'])
def test_a_history_that_makes_no_sense_is_no_history(kept: bytes, tmp_path: Path) -> None:
    storage = take_over(tmp_path, "first")
    storage.keep_history(kept)
    assert NewsStream(storage).history == []


def test_a_fenced_driver_writes_no_history(tmp_path: Path) -> None:
    storage = take_over(tmp_path, "first")
    stream = NewsStream(storage)
    stream.tell(ExecutionStarted(1, 1, None, 0))
    stream.close()
    stream.tell(ExecutionStarted(9, 9, None, 0))  # is heard, and not written
    stream = NewsStream(storage)
    take_over(tmp_path, "second")
    stream.tell(ExecutionStarted(2, 2, None, 0))
    stream.close()
    assert [entry["at"] for entry in json.loads(storage.history() or b"[]")] == [1]
