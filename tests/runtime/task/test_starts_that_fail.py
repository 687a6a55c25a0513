"""What fails before the first record of a step is told like any failure of the program, and not tried again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beadline.api.process import KeyedProcessFunction
from beadline.errors import JobExecutionError
from beadline.state.segments.segment import TableChanges, encode_segment
from beadline.state.segments.version import SegmentRef, next_version
from tests.graph.programs import Program, by
from tests.runtime.harness import Given, Job


class Alarm(KeyedProcessFunction):
    """Its timer is due in a later step, and fails."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_processing_time_timer(20)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        raise ValueError(f"woken at {timestamp}")


def key(record: Any) -> Any:
    return record[0]


def alarmed(folder: Path) -> Job:
    program = Program()
    program.collect(program.function("process", Alarm(), (program.source(Given()), by(key))))
    job = Job(program, folder)
    job.step({1: [[("a", 1)]]}, now=10)
    return job


def test_a_processing_time_timer_that_fails_is_a_failure_of_its_function(tmp_path: Path) -> None:
    job = alarmed(tmp_path)
    with pytest.raises(JobExecutionError, match="woken at 20"):
        job.step(now=30)


def test_state_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    job = alarmed(tmp_path)
    (place,) = (place for place, handle in job.handles.items() if handle.segments)
    handle = job.handles[place]
    data = encode_segment({"strange": TableChanges("value", False, {"a": tmp_path})}, 128)
    job.book.handles[place] = handle.plus(SegmentRef(next_version(handle.version, data), 1, len(data), inline=data))
    job.workers = [job.new_worker() for _ in job.workers]
    with pytest.raises(JobExecutionError, match=r"state refers to pathlib\.\w*Path"):
        job.step(now=15)
