"""Our own paths, next to Flink's: the job in a line, its operators with rates, and what happened when."""

from __future__ import annotations

from beadline.web.answers.words import Json, settings_of
from beadline.web.record import SOURCE, JobRecord, Vertex


def job(record: JobRecord) -> Json:
    """``/jobs/:jid/beadline``. ``lag`` is how many records wait in the sources, null if one of them can't say;
    ``watermark`` is the lowest of all operators after the sources."""
    sources = [vertex for vertex in record.vertices if vertex.kind == SOURCE]
    newest = next((each for each in record.checkpoints if each.status == "COMPLETED" and not each.savepoint), None)
    return {
        "job_id": record.job_id,
        "name": record.name,
        "state": record.state,
        "life": record.life,
        "engine": record.engine,
        "application": record.application,
        "guarantee": record.guarantee,
        "step": record.step,
        "records": record.records,
        "records_per_second": record.records_per_second,
        "lag": _total([source.backlog for source in sources]),
        "lag_bytes": _total([source.backlog_bytes for source in sources]),
        "watermark": record.watermark,
        "keys": record.keys,
        "state_bytes": record.state_bytes,
        "attempt": record.attempt,
        "restarts": record.restarts,
        "rerun_steps": record.rerun_steps,
        "last_checkpoint": None
        if newest is None
        else {
            "id": newest.id,
            "type": newest.type,
            "step": newest.step,
            "triggered_at": newest.triggered_at,
            "ended_at": newest.ended_at,
            "duration_ms": newest.duration_ms,
            "size": newest.size,
            "full_size": newest.full_size,
            "path": newest.path,
        },
        "resume_from": record.last_checkpoint,
        "error": record.error,
        "settings_known": record.settings.known,
        "script": record.script,
        "arguments": list(record.arguments),
        "pid": record.pid,
        "host": record.host,
        "log": record.log,
        "started_at": record.started_at,
        "now": record.now,
        "ended_at": record.ended_at,
    }


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def config(record: JobRecord) -> Json:
    """``/jobs/:jid/beadline/config``: the options that were set, and where."""
    settings = settings_of(record)
    return {
        "options": [
            {"key": key, "value": value, "origin": settings.origins.get(key)} for key, value in settings.options.items()
        ]
    }


def vertices(record: JobRecord) -> Json:
    """``/jobs/:jid/beadline/vertices``"""
    return {"vertices": [_vertex(vertex) for vertex in record.vertices]}


def _vertex(vertex: Vertex) -> Json:
    return {
        "id": vertex.id,
        "name": vertex.name,
        "uid": vertex.uid,
        "kind": vertex.kind,
        "shape": vertex.shape,
        "level": vertex.level,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism,
        "inputs": [edge.as_dict() for edge in vertex.inputs],
        "records_in": vertex.total("records_in"),
        "records_out": vertex.total("records_out"),
        "records_in_per_second": vertex.total("records_in_per_second"),
        "records_out_per_second": vertex.total("records_out_per_second"),
        "bytes_out": vertex.total("bytes_out"),
        "bytes_out_per_second": vertex.total("bytes_out_per_second"),
        "backlog": vertex.backlog,
        "backlog_bytes": vertex.backlog_bytes,
        "busy": vertex.busy,
        "watermark": vertex.watermark,
        "keys": vertex.total("keys"),
        "state_bytes": vertex.total("state_bytes"),
        "subtasks": [subtask.as_dict() for subtask in vertex.subtasks],
    }


def timeline(record: JobRecord) -> Json:
    """``/jobs/:jid/beadline/timeline``: oldest first"""
    return {
        "steps": [step.as_dict() for step in record.steps],
        "checkpoints": [
            {
                "id": checkpoint.id,
                "type": checkpoint.type,
                "status": checkpoint.status,
                "step": checkpoint.step,
                "triggered_at": checkpoint.triggered_at,
                "taken_at": checkpoint.taken_at,
                "ended_at": checkpoint.ended_at,
                "size": checkpoint.size,
                "full_size": checkpoint.full_size,
            }
            for checkpoint in reversed(record.checkpoints)
        ],
        "failures": [
            {
                "at": failure.at,
                "attempt": failure.attempt,
                "error": failure.error,
                "operator": failure.operator,
                "restarted_from": failure.restarted_from,
            }
            for failure in record.failures
        ],
        "starts": [
            {"at": start.at, "attempt": start.attempt, "checkpoint": start.checkpoint, "step": start.step}
            for start in record.starts
        ],
        "statuses": [change.as_dict() for change in record.statuses],
    }
