"""A job says that it runs when it is known where its sources begin: what arrives from then on is read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from beadline.common import Configuration, JobStatus, WatermarkStrategy
from beadline.connectors.source import Position, StepSource
from beadline.datastream import StreamExecutionEnvironment
from beadline.errors import InputError

pytestmark = pytest.mark.usefixtures("local_engine")


class Log:
    """A system outside: what has arrived, and when it answers."""

    records: ClassVar[list[str]] = []
    answers: ClassVar[threading.Event] = threading.Event()
    breaks: ClassVar[int] = 0
    asked: ClassVar[int] = 0


class FromTheLatest(StepSource):
    """Begins with what arrives after it has asked, as sources do that read from the latest offset."""

    def __init__(self) -> None:
        self._beginning: int | None = None

    def initial(self) -> Position:
        return {}

    def begin(self, position: Position) -> bool:
        Log.asked += 1
        if Log.breaks:
            Log.breaks -= 1
            raise InputError("The log is away.")
        if not position and self._beginning is None and Log.answers.is_set():
            self._beginning = len(Log.records)
        return bool(position) or self._beginning is not None

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        if not start and not self.begin(start):
            return start, []
        at = start.get("at", self._beginning)
        end = min(len(Log.records), at + rows)
        return {"at": end}, [Log.records[at:end]] if end > at else []

    def finished(self, position: Position) -> bool:
        return False

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        yield split


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    Log.records, Log.breaks, Log.asked = ["before"], 0, 0
    Log.answers.clear()


def environment() -> StreamExecutionEnvironment:
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(1)


def wait_for(condition: Any) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("breaks", [0, 2], ids=["away", "broken"])
def test_what_arrives_when_the_job_says_that_it_runs_is_read(breaks: int) -> None:
    Log.breaks = breaks
    stream = environment().from_source(FromTheLatest(), WatermarkStrategy.no_watermarks(), "log")
    with stream.execute_and_collect() as results:
        job = results._client
        wait_for(lambda: Log.asked > breaks + 2)
        assert job.get_job_status().result() is not JobStatus.RUNNING, "nobody knows yet where it begins"
        Log.records.append("meanwhile")
        Log.answers.set()
        wait_for(lambda: job.get_job_status().result() is JobStatus.RUNNING)
        Log.records.append("after")
        assert next(iter(results)) == "after"
