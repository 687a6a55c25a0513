"""Which guarantee a job has, and what makes it weaker than it could be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beadline.common import Configuration, Encoder
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.file_system import FileSink
from beadline.master.reporting.guarantee import Guarantee, announce


def guarantee(options: dict[str, str], sink: Any) -> str:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    sink(env.from_sequence(1, 10))
    return json.loads(env.get_execution_plan())["guarantee"]


def to_files(folder: Path) -> Any:
    return lambda stream: stream.sink_to(FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).build())


CHECKPOINTS = {"execution.checkpointing.interval": "1 s"}


@pytest.mark.parametrize(
    ("options", "level", "because"),
    [
        (CHECKPOINTS, "exactly-once", "sources, engine and sinks"),
        ({**CHECKPOINTS, "execution.checkpointing.mode": "AT_LEAST_ONCE"}, "at-least-once", "AT_LEAST_ONCE"),
        ({"restart-strategy.type": "fixed-delay"}, "at-most-once", "after the step that failed"),
        ({}, "none", "a failure ends the job"),
    ],
)
def test_the_engine_sets_the_limit(options: dict[str, str], level: str, because: str, tmp_path: Path) -> None:
    told = guarantee(options, to_files(tmp_path))
    assert told.startswith(level)
    assert because in told


def test_a_sink_may_be_the_weakest_link() -> None:
    assert guarantee(CHECKPOINTS, lambda stream: stream.print()).startswith("at-least-once (sink 'Print")


def test_each_guarantee_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "beadline")
    weak, strong = Guarantee("none", "of this test"), Guarantee("exactly-once", "of this test")
    for number, of_job in enumerate([weak, weak, strong, weak]):
        announce("count", f"id-{number}", of_job)
    assert caplog.messages == [
        "job 'count' id-0, guarantee: none (of this test)",
        "job 'count' id-2, guarantee: exactly-once (of this test)",
    ]
