"""Every answer has the fields of Flink's, with values of the same types.

``flink_shapes.json`` was recorded from the REST server of Flink 2.3.0: of a job that had failed once, had checkpoints
and a savepoint, and of the same job after it was stopped. ``field?`` is a field that is there at times.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from beadline.web.answers import checkpoints, cluster, exceptions, jobs, metrics, vertices
from beadline.web.record import JobRecord
from tests.web.records import NOW, record

with open(os.path.join(os.path.dirname(__file__), "flink_shapes.json")) as file:
    SHAPES = json.load(file)

V = f"{1:032x}"
# Older versions of Flink have the first four; the recorded job did not fail for good.
UNSEEN = {"root-exception", "timestamp", "all-exceptions", "truncated", "failure-cause"}

ANSWERS = {
    "jobs.ids": lambda r: jobs.ids([r]),
    "jobs.overview": lambda r: jobs.overview([r]),
    "jobs.details": jobs.details,
    "jobs.config": jobs.config,
    "jobs.plan": jobs.plan,
    "jobs.accumulators": jobs.accumulators,
    "jobs.status": jobs.status,
    "jobs.execution_result": jobs.execution_result,
    "cluster.overview": lambda r: cluster.overview([r]),
    "cluster.config": lambda r: cluster.config(),
    "cluster.task_managers": lambda r: cluster.task_managers([r]),
    "cluster.task_manager": lambda r: cluster.task_manager([r], "w1"),
    "cluster.job_manager_config": lambda r: cluster.job_manager_config(r.settings.options),
    "exceptions.history": exceptions.history,
    "checkpoints.statistics": checkpoints.statistics,
    "checkpoints.config": checkpoints.config,
    "checkpoints.details": lambda r: checkpoints.details(r, 2),
    "checkpoints.subtasks": lambda r: checkpoints.subtasks(r, 2, V),
    "metrics.job": metrics.job,
    "metrics.job get": lambda r: metrics.job(r, ["numRestarts", "lastCheckpointExternalPath"]),
    "metrics.jobs get": lambda r: metrics.jobs([r], ["numRestarts", "uptime"]),
    "metrics.vertex get": lambda r: metrics.vertex(r, V, ["0.numRecordsIn", "1.busyTimeMsPerSecond"]),
    "metrics.subtasks get": lambda r: metrics.subtasks(r, V, ["numRecordsIn"], ["min", "max", "avg", "sum"]),
    "vertices.details": lambda r: vertices.details(r, V),
    "vertices.subtask_times": lambda r: vertices.subtask_times(r, V),
    "vertices.task_managers": lambda r: vertices.task_managers(r, V),
    "vertices.accumulators": lambda r: vertices.accumulators(r, V),
    "vertices.backpressure": lambda r: vertices.backpressure(r, V),
    "vertices.watermarks": lambda r: vertices.watermarks(r, V),
    "vertices.subtask": lambda r: vertices.subtask(r, V, 0),
    "vertices.subtask_accumulators": lambda r: vertices.subtask_accumulators(r, V),
    "vertices.attempt_accumulators": lambda r: vertices.attempt_accumulators(r, V, 0, 1),
}
KINDS = {"bool": bool, "int": int, "float": (int, float), "str": str, "null": type(None)}


def differences(shape: Any, value: Any, where: str = "") -> list[str]:
    """Where a value is not of a shape."""
    if value is None or shape == "any" or shape == "null":
        return []
    if isinstance(shape, str):
        kinds = [KINDS[kind] for kind in shape.split("|")]
        if where.rsplit(".p", 1)[-1].isdigit():
            kinds += [float, str]  # percentiles of nothing are the text "NaN"
        good = any(isinstance(value, kind) for kind in kinds) and (isinstance(value, bool) <= ("bool" in shape))
        return [] if good else [f"{where} is {value!r}, not {shape}"]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where} is {value!r}, not a list"]
        return [text for item in value for text in differences(shape[0], item, f"{where}[]")] if shape else []
    if not isinstance(value, dict):
        return [f"{where} is {value!r}, not an object"]
    if "*" in shape:
        return [text for key, item in value.items() for text in differences(shape["*"], item, f"{where}.{key}")]
    if not shape:  # whatever keys there are
        return []
    known = {name.rstrip("?"): part for name, part in shape.items()}
    found = [f"{where}.{name} is missing" for name in shape if not name.endswith("?") and name not in value]
    found += [f"{where}.{name} is not one of Flink's" for name in value if name not in known and name not in UNSEEN]
    for name, part in known.items():
        if name in value:
            found += differences(part, value[name], f"{where}.{name}")
    return found


@pytest.fixture(params=["running", "ended", "failed", "empty"])
def job(request: pytest.FixtureRequest) -> JobRecord:
    if request.param == "running":
        return record()
    if request.param == "ended":
        return record(state="FINISHED", life="ended", ended_at=NOW)
    if request.param == "failed":
        return record(state="FAILED", life="ended", ended_at=NOW, error="ValueError: bad")
    young = record(failures=[], starts=[], statuses=[])
    young.checkpoints = []
    return young


@pytest.mark.parametrize("name", SHAPES)
def test_answers_have_the_fields_of_flinks(name: str, job: JobRecord) -> None:
    if not job.checkpoints and name in ("checkpoints.details", "checkpoints.subtasks"):
        pytest.skip("there is no checkpoint")
    if job.has_ended and name == "cluster.task_manager":
        pytest.skip("no worker is left")
    answer = json.loads(json.dumps(ANSWERS[name](job), allow_nan=False))
    assert differences(SHAPES[name]["shape"], answer, SHAPES[name]["path"]) == []


def test_a_field_that_is_missing_or_of_another_type_is_found() -> None:
    shape = {"id": "int", "name?": "str", "list": [{"x": "float"}]}
    assert differences(shape, {"id": 1, "list": [{"x": 2}]}) == []
    assert differences(shape, {"id": "1", "list": [{}], "more": 0}) == [
        ".more is not one of Flink's",
        ".id is '1', not int",
        ".list[].x is missing",
    ]
