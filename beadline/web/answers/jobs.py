"""``/jobs``, ``/jobs/overview``, and ``/jobs/:jid`` with its plan, settings, accumulators and result."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from beadline.web.answers.words import Json, counted, flink_name, io_metrics, settings_of, task_state, times
from beadline.web.record import JobRecord, Vertex

_STATES = (
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
)
_RESULTS = {"FINISHED": "SUCCEEDED", "FAILED": "FAILED", "CANCELED": "CANCELED", "SUSPENDED": "UNKNOWN"}
_NO_SHARING_GROUP = "0" * 32


def ids(records: Iterable[JobRecord]) -> Json:
    """``/jobs``"""
    return {"jobs": [{"id": record.flink_id, "status": record.state} for record in records]}


def overview(records: Iterable[JobRecord]) -> Json:
    """``/jobs/overview``"""
    return {"jobs": [_line(record) for record in records]}


def _line(record: JobRecord) -> Json:
    tasks = counted(task_state(record) for vertex in record.vertices for _ in vertex.subtasks)
    return {
        "jid": record.flink_id,
        "name": record.name,
        "jobType": _type(record),
        "schedulerType": "Default",
        "start-time": record.started_at,
        "end-time": -1 if record.ended_at is None else record.ended_at,
        "duration": record.duration_ms,
        "state": record.state,
        "last-modification": max(record.timestamps.values()),
        "tasks": {"total": sum(tasks.values()), **{state.lower(): count for state, count in tasks.items()}},
        "pending-operators": 0,
    }


def _type(record: JobRecord) -> str:
    return "BATCH" if record.settings.batch else "STREAMING"


def details(record: JobRecord) -> Json:
    """``/jobs/:jid``"""
    state = task_state(record)
    return {
        "jid": record.flink_id,
        "application-id": record.flink_id,
        "name": record.name,
        "isStoppable": False,  # Flink says so of every job: it means an older way of stopping
        "state": record.state,
        "job-type": _type(record),
        "schedulerType": "Default",
        "start-time": record.started_at,
        "end-time": -1 if record.ended_at is None else record.ended_at,
        "duration": record.duration_ms,
        "maxParallelism": -1,
        "now": record.now,
        "timestamps": {**dict.fromkeys(_STATES, 0), "INITIALIZING": record.started_at, **record.timestamps},
        "vertices": [_vertex(record, vertex) for vertex in record.vertices],
        "status-counts": counted(state for _ in record.vertices),
        "plan": _plan(record),
        "pending-operators": 0,
    }


def _vertex(record: JobRecord, vertex: Vertex) -> Json:
    state = task_state(record)
    return {
        "id": vertex.id,
        "slotSharingGroupId": _NO_SHARING_GROUP,
        "name": flink_name(vertex),
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": state,
        **times(record),
        "tasks": counted(state for _ in vertex.subtasks),
        "metrics": io_metrics(vertex.subtasks),
    }


def vertices(record: JobRecord) -> Json:
    """``/jobs/:jid/vertices``"""
    return {"vertices": [_vertex(record, vertex) for vertex in record.vertices]}


def plan(record: JobRecord) -> Json:
    """``/jobs/:jid/plan``"""
    return {"plan": _plan(record)}


def _plan(record: JobRecord) -> Json:
    return {
        "jid": record.flink_id,
        "name": record.name,
        "type": _type(record),
        "nodes": [_node(vertex) for vertex in reversed(record.vertices)],
    }


def _node(vertex: Vertex) -> Json:
    node: Json = {
        "id": vertex.id,
        "operator": "",
        "parallelism": vertex.parallelism,
        "operator_strategy": "",
        # Flink's page shows it as HTML.
        "description": f"{html.escape(flink_name(vertex))}<br/>",
        "optimizer_properties": {},
    }
    if vertex.inputs:
        node["inputs"] = [
            {
                "id": edge.source,
                "num": number,
                "exchange": "pipelined_bounded",
                "ship_strategy": edge.ship_strategy,
            }
            for number, edge in enumerate(vertex.inputs)
        ]
    return node


def config(record: JobRecord) -> Json:
    """``/jobs/:jid/config``"""
    settings = settings_of(record)
    return {
        "jid": record.flink_id,
        "name": record.name,
        "execution-config": {
            "restart-strategy": settings.restart_strategy,
            "job-parallelism": settings.parallelism,
            "object-reuse-mode": False,
            "user-config": dict(settings.parameters),
        },
    }


def status(record: JobRecord) -> Json:
    """``/jobs/:jid/status``"""
    return {"status": record.state}


def execution_result(record: JobRecord) -> Json:
    """``/jobs/:jid/execution-result``"""
    if not record.has_ended:
        return {"status": {"id": "IN_PROGRESS"}}
    result: Json = {
        "id": record.flink_id,
        "name": record.name,
        "application-status": _RESULTS[record.state],
        "accumulator-results": {},
        "net-runtime": record.duration_ms,
        "application-id": record.flink_id,
        "start-time": record.started_at,
        "end-time": record.ended_at,
    }
    if record.error is not None:
        failure = record.failures[-1] if record.failures else None
        trace = failure.traceback if failure is not None and failure.traceback else record.error
        name = failure.name if failure is not None and failure.name else "JobExecutionError"
        result["failure-cause"] = {"class": name, "stack-trace": trace, "serialized-throwable": ""}
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


def accumulators(record: JobRecord) -> Json:
    """``/jobs/:jid/accumulators``: counters of the user's functions, as ``JobClient.get_accumulators()`` gives them."""
    return {
        "job-accumulators": [],
        "user-task-accumulators": user_accumulators(record.metrics.counters),
        "serialized-user-task-accumulators": {},
    }


def user_accumulators(counters: dict[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "type": "LongCounter", "value": str(value)} for name, value in sorted(counters.items())]
