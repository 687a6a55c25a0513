"""``/jobs/:jid/vertices/:vid`` and what is below it. A vertex is one operator; Flink's are chains of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beadline.web.answers.jobs import user_accumulators
from beadline.web.answers.summary import spread
from beadline.web.answers.words import (
    NO_WATERMARK,
    TASK_STATES,
    Json,
    NotFound,
    counted,
    endpoint,
    flink_name,
    io_metrics,
    started_at,
    subtask_of,
    task_state,
    times,
    vertex_of,
)
from beadline.web.record import SOURCE, JobRecord, Subtask, Vertex

_COUNTED = (
    "read-bytes",
    "write-bytes",
    "read-records",
    "write-records",
    "accumulated-backpressured-time",
    "accumulated-idle-time",
    "accumulated-busy-time",
)


def details(record: JobRecord, vertex_id: str) -> Json:
    """``/jobs/:jid/vertices/:vid``"""
    vertex = vertex_of(record, vertex_id)
    return {
        "id": vertex.id,
        "name": flink_name(vertex),
        "parallelism": vertex.parallelism,
        "maxParallelism": vertex.max_parallelism,
        "now": record.now,
        "subtasks": [_subtask(record, subtask) for subtask in vertex.subtasks],
        "aggregated": _aggregated(record, vertex.subtasks),
    }


def subtask(record: JobRecord, vertex_id: str, index: int) -> Json:
    """``/jobs/:jid/vertices/:vid/subtasks/:n``: its present attempt"""
    return _subtask(record, subtask_of(vertex_of(record, vertex_id), index))


def attempt(record: JobRecord, vertex_id: str, index: int, number: int) -> Json:
    """``/jobs/:jid/vertices/:vid/subtasks/:n/attempts/:a``: only of the present attempt there are numbers"""
    found = subtask_of(vertex_of(record, vertex_id), index)
    _check_attempt(record, number)
    return _subtask(record, found)


def _check_attempt(record: JobRecord, number: int) -> None:
    if number != record.attempt - 1:
        raise NotFound(
            f"of attempt {number} no numbers are kept; the present one is {record.attempt - 1}, and what ended the "
            f"others is in /jobs/{record.job_id}/exceptions"
        )


def _subtask(record: JobRecord, given: Subtask) -> Json:
    host, worker = endpoint(record, given)
    when = times(record)
    return {
        "subtask": given.index,
        "status": task_state(record),
        "attempt": record.attempt - 1,
        "endpoint": host,
        **when,
        "metrics": io_metrics([given]),
        "taskmanager-id": worker,
        "status-duration": _durations(record),
        "start_time": when["start-time"],
    }


def _aggregated(record: JobRecord, subtasks: Sequence[Subtask]) -> Json:
    each = [io_metrics([subtask]) for subtask in subtasks]
    return {
        "metrics": {name: spread([int(one[name]) for one in each]) for name in _COUNTED},
        "status-duration": {state: spread([ms for _ in subtasks]) for state, ms in _durations(record).items()},
    }


def _durations(record: JobRecord) -> dict[str, int]:
    """How long a subtask was in each state that is not an end. All the time of an execution counts for one of them."""
    state = "RUNNING" if record.has_ended else task_state(record)
    return {**dict.fromkeys(TASK_STATES[:5], 0), state: times(record)["duration"]}


def subtask_times(record: JobRecord, vertex_id: str) -> Json:
    """``/jobs/:jid/vertices/:vid/subtasktimes``"""
    vertex = vertex_of(record, vertex_id)
    stamps = dict.fromkeys(TASK_STATES, 0)
    stamps.update({state: started_at(record) for state in ("CREATED", "SCHEDULED", "DEPLOYING", "RUNNING")})
    if record.ended_at is not None:
        stamps[task_state(record)] = record.ended_at
    return {
        "id": vertex.id,
        "name": flink_name(vertex),
        "now": record.now,
        "subtasks": [
            {
                "subtask": subtask.index,
                "endpoint": endpoint(record, subtask)[0],
                "duration": times(record)["duration"],
                "timestamps": dict(stamps),
            }
            for subtask in vertex.subtasks
        ],
    }


def task_managers(record: JobRecord, vertex_id: str) -> Json:
    """``/jobs/:jid/vertices/:vid/taskmanagers``: its subtasks by the workers that ran them last"""
    vertex = vertex_of(record, vertex_id)
    places: dict[tuple[str, str], list[Subtask]] = {}
    for subtask in vertex.subtasks:
        places.setdefault(endpoint(record, subtask), []).append(subtask)
    state = task_state(record)
    return {
        "id": vertex.id,
        "name": flink_name(vertex),
        "now": record.now,
        "taskmanagers": [
            {
                "endpoint": host,
                "status": state,
                **times(record),
                "metrics": io_metrics(there),
                "status-counts": counted(state for _ in there),
                "taskmanager-id": worker,
                "aggregated": _aggregated(record, there),
            }
            for (host, worker), there in places.items()
        ],
    }


def accumulators(record: JobRecord, vertex_id: str) -> Json:
    """``/jobs/:jid/vertices/:vid/accumulators``"""
    vertex = vertex_of(record, vertex_id)
    return {"id": vertex.id, "user-accumulators": user_accumulators(vertex.counters)}


def subtask_accumulators(record: JobRecord, vertex_id: str) -> Json:
    """``/jobs/:jid/vertices/:vid/subtasks/accumulators``"""
    vertex = vertex_of(record, vertex_id)
    return {
        "id": vertex.id,
        "parallelism": vertex.parallelism,
        "subtasks": [
            {
                "subtask": subtask.index,
                "attempt": record.attempt - 1,
                "endpoint": endpoint(record, subtask)[0],
                "user-accumulators": _own(subtask),
            }
            for subtask in vertex.subtasks
        ],
    }


def attempt_accumulators(record: JobRecord, vertex_id: str, index: int, number: int) -> Json:
    """``/jobs/:jid/vertices/:vid/subtasks/:n/attempts/:a/accumulators``"""
    vertex = vertex_of(record, vertex_id)
    found = subtask_of(vertex, index)
    _check_attempt(record, number)
    return {
        "subtask": index,
        "attempt": number,
        "id": f"{record.flink_id}_{vertex.id}_{index}_{number}",
        "user-accumulators": _own(found),
    }


def _own(subtask: Subtask) -> list[Json]:
    return user_accumulators(subtask.metrics.counters if subtask.metrics is not None else {})


def backpressure(record: JobRecord, vertex_id: str) -> Json:
    """``/jobs/:jid/vertices/:vid/backpressure``: there is none between operators, for a step reads no more than it can
    hold; what waits is the backlog of the sources. Busy and idle time are measured."""
    vertex = vertex_of(record, vertex_id)
    level = "ok"
    return {
        "status": "ok",
        "backpressureLevel": level,
        "backpressure-level": level,
        "end-timestamp": record.now,
        "subtasks": [_pressed(subtask, level) for subtask in vertex.subtasks],
    }


def _pressed(subtask: Subtask, level: str) -> dict[str, Any]:
    busy = min(1.0, max(0.0, subtask.busy))
    return {
        "subtask": subtask.index,
        "backpressureLevel": level,
        "backpressure-level": level,
        "ratio": 0.0,
        "idleRatio": 1.0 - busy,
        "busyRatio": busy,
    }


def watermarks(record: JobRecord, vertex_id: str) -> list[Json]:
    """``/jobs/:jid/vertices/:vid/watermarks``: a source has no input, so it has none"""
    vertex: Vertex = vertex_of(record, vertex_id)
    if vertex.kind == SOURCE:
        return []
    return [
        {
            "id": f"{subtask.index}.currentInputWatermark",
            "value": str(NO_WATERMARK if subtask.watermark is None else subtask.watermark),
        }
        for subtask in vertex.subtasks
    ]
