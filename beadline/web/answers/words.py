"""Flink's words for what a record says: names of operators, states of tasks, the shapes that many answers share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from beadline.errors import BeadlineError
from beadline.web.record import SINK, SOURCE, JobRecord, Settings, Subtask, Vertex, Worker

#: Flink's words for the states of tasks, in its order.
TASK_STATES = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
)
#: Flink's lowest watermark: none has come yet.
NO_WATERMARK = -(2**63)

_BY_LIFE = {
    "created": "CREATED",
    "preparing": "DEPLOYING",
    "restoring": "INITIALIZING",
    "restarting": "SCHEDULED",
}
_BY_END = {"FINISHED": "FINISHED", "FAILED": "FAILED", "CANCELED": "CANCELED", "SUSPENDED": "CANCELED"}
_PREFIXES = {SOURCE: "Source: ", SINK: "Sink: "}

Json = dict[str, Any]


class NotFound(BeadlineError, LookupError):
    """A path names something that the job does not have: answered with status 404."""


def settings_of(record: JobRecord) -> Settings:
    """How the job was run; not found if that went with a driver that was killed."""
    if not record.settings.known:
        raise NotFound(f"The settings of job {record.job_id} are not known: its driver was killed.")
    return record.settings


def vertex_of(record: JobRecord, id: str) -> Vertex:
    found = record.vertex(id)
    if found is None:
        raise NotFound(f"JobVertex {id} not found; /jobs/{record.job_id} lists those that there are")
    return found


def subtask_of(vertex: Vertex, index: int) -> Subtask:
    if not 0 <= index < len(vertex.subtasks):
        raise NotFound(f"vertex '{vertex.name}' has no subtask {index}: they are 0 to {len(vertex.subtasks) - 1}")
    return vertex.subtasks[index]


def flink_name(vertex: Vertex) -> str:
    """Sources and sinks say that they are."""
    prefix = _PREFIXES.get(vertex.kind, "")
    return vertex.name if vertex.name.startswith(prefix) else prefix + vertex.name


def metric_scope(vertex: Vertex) -> str:
    """An operator's name as a part of the names of its metrics."""
    return re.sub(r"[^A-Za-z0-9]", "_", flink_name(vertex))


def task_state(record: JobRecord) -> str:
    """All tasks of a job are in the same state: a step needs all of them."""
    if record.has_ended:
        return _BY_END[record.state]
    return _BY_LIFE.get(record.life, "RUNNING")


def counted(states: Iterable[str]) -> dict[str, int]:
    """How many tasks are in each state."""
    found = dict.fromkeys(TASK_STATES, 0)
    for state in states:
        found[state] += 1
    return found


def started_at(record: JobRecord) -> int:
    """When the present execution started."""
    return record.starts[-1].at if record.starts else record.started_at


def times(record: JobRecord) -> Json:
    """Of whatever runs as long as the present execution does."""
    start, end = started_at(record), record.ended_at
    return {
        "start-time": start,
        "end-time": -1 if end is None else end,
        "duration": max(0, (record.now if end is None else end) - start),
    }


def endpoint(record: JobRecord, subtask: Subtask) -> tuple[str, str]:
    """Host and id of the worker that ran a subtask last."""
    worker = next((each for each in record.workers if each.id == subtask.worker), None)
    return address(worker), worker.id if worker is not None else "(unassigned)"


def address(worker: Worker | None) -> str:
    return f"{worker.host}:{worker.pid}" if worker is not None else "(unassigned)"


def io_metrics(subtasks: Sequence[Subtask]) -> Json:
    """What subtasks have read and written. Nothing presses back here: a step reads no more than it can hold."""
    return {
        "read-bytes": sum(each.bytes_in for each in subtasks),
        "read-bytes-complete": True,
        "write-bytes": sum(each.bytes_out for each in subtasks),
        "write-bytes-complete": True,
        "read-records": sum(each.records_in for each in subtasks),
        "read-records-complete": True,
        "write-records": sum(each.records_out for each in subtasks),
        "write-records-complete": True,
        "accumulated-backpressured-time": 0,
        "accumulated-idle-time": sum(each.idle_ms for each in subtasks),
        "accumulated-busy-time": float(sum(each.busy_ms for each in subtasks)),
    }
