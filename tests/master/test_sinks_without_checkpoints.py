"""What a job without checkpoints says of its sinks before it starts."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beadline.checkpoint.settings import CheckpointSettings
from beadline.common import Configuration, Encoder
from beadline.datastream import StreamExecutionEnvironment
from beadline.datastream.connectors.file_system import FileSink, RollingPolicy
from beadline.graph.specs import SourceSpec
from beadline.master.definition import Job, JobSettings

WARNING = "publishes with checkpoints, and this job never ends and takes none"


def warned(folder: Path, log: Any, endless: bool, checkpoints: str | None = None, policy: Any = None) -> bool:
    env = StreamExecutionEnvironment.get_execution_environment()
    sink: Any = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    sink = (sink if policy is None else sink.with_rolling_policy(policy)).build()
    env.from_collection(["a"]).sink_to(sink).name("lines")
    plan = env._plan("files")
    for node in plan.nodes.values():
        if isinstance(node.spec, SourceSpec):
            node.spec.source.bounded = not endless
    options = {} if checkpoints is None else {"execution.checkpointing.interval": checkpoints}
    settings = JobSettings(checkpoints=CheckpointSettings.from_configuration(Configuration.from_dict(options)))
    with log.at_level(logging.WARNING, "beadline"):
        Job.check_sinks(cast(Job, SimpleNamespace(plan=plan, settings=settings)))
    return "sink 'lines'" in log.text and WARNING in log.text


def test_files_of_an_endless_job_are_not_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert warned(tmp_path, caplog, endless=True)
    assert "only when its rolling policy closes it" in caplog.text
    assert warned(tmp_path, caplog, endless=True, policy=RollingPolicy.on_checkpoint_rolling_policy())
    assert "no file will be seen while it runs" in caplog.text


def test_files_are_seen_with_checkpoints(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not warned(tmp_path, caplog, endless=True, checkpoints="1 s")


def test_files_of_a_job_that_ends_are_seen_at_its_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not warned(tmp_path, caplog, endless=False)
