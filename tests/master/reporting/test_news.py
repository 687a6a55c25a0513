"""What watchers of a job hear, and what is left of it for the next driver."""

from __future__ import annotations

import json
import threading
import time
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


def test_what_comes_while_the_writer_ends_is_written_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer takes what waits while the next event is put into words, and must be called again for that one."""
    storage = take_over(tmp_path, "first")
    stream = NewsStream(storage)
    wanted, written, encoded = threading.Event(), threading.Event(), module._encoded

    def write(data: bytes) -> None:
        wanted.wait(10)
        type(storage).keep_history(storage, data)
        written.set()

    def encode(history: list[News]) -> bytes:
        found = encoded(history)
        if len(history) == 3:
            wanted.set()
            written.wait(10)
            while stream._to_write is not None:
                time.sleep(0.001)
        return found

    monkeypatch.setattr(storage, "keep_history", write)
    monkeypatch.setattr(module, "_encoded", encode)
    for number in range(4):
        stream.tell(ExecutionStarted(number, number, None, 0))
    stream.close()
    assert [entry["at"] for entry in json.loads(storage.history() or b"[]")] == [0, 1, 2, 3]


def test_nobody_hears_of_passwords_and_none_is_kept(tmp_path: Path) -> None:
    storage = take_over(tmp_path, "first")
    heard: list[News] = []
    stream = NewsStream(storage, [heard.append])
    stream.join(lambda number, event: heard.append(event))
    text = "can't reach postgresql://ann:hun/t@er2@db with api_key=hunter2"
    stream.tell(
        ExecutionFailed(1, 1, text, None, "ValueError", f"Traceback\n{text}", "map", 0, str({"password": text}))
    )
    stream.tell(StatusChanged(2, "FAILED", "ending", text))
    stream.tell(CheckpointChanged(3, 1, "checkpoint", "failed", failure=text))
    stream.close()
    assert len(heard) == 6
    for told in (str(heard), str(stream.history), (storage.history() or b"").decode()):
        assert "er2" not in told
        assert "can't reach postgresql://ann:****@db" in told


def test_what_an_earlier_version_kept_is_masked_when_it_is_read(tmp_path: Path) -> None:
    storage = take_over(tmp_path, "first")
    storage.keep_history(
        json.dumps(
            [{"event": "StatusChanged", "at": 1, "status": "FAILED", "state": "ending", "reason": "password=hunter2"}]
        ).encode()
    )
    assert NewsStream(storage).history == [StatusChanged(1, "FAILED", "ending", "password=****")]


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
