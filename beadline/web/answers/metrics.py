"""``…/metrics`` of jobs, vertices and subtasks, by Flink's names. Without ``get`` they are listed; values are text.

The same numbers are what Prometheus gets (:mod:`beadline.web.answers.prometheus`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beadline.web.answers.words import NO_WATERMARK, Json, metric_scope, subtask_of, vertex_of
from beadline.web.record import SOURCE, JobRecord, Metrics, Subtask, Vertex

_AGGREGATES = ("min", "max", "avg", "sum", "skew")

# -- of a job


def job(record: JobRecord, get: Sequence[str] | None = None) -> list[Json]:
    """``/jobs/:jid/metrics[?get=a,b]``"""
    return _answer(job_values(record), get)


def jobs(
    records: Iterable[JobRecord], get: Sequence[str] | None = None, agg: Sequence[str] | None = None
) -> list[Json]:
    """``/jobs/metrics[?get=a,b][&agg=min,max]``: over all jobs"""
    return _aggregated([job_values(record) for record in records], get, agg)


def job_values(record: JobRecord) -> dict[str, Any]:
    """Of the job as a whole, which Flink keeps in its job manager."""
    done = [checkpoint for checkpoint in record.checkpoints if checkpoint.status == "COMPLETED"]
    newest = done[0] if done else None
    counts = record.counts
    restored = next((start for start in reversed(record.starts) if start.checkpoint is not None), None)
    running_since = record.timestamps.get("RUNNING", record.now)
    uptime = record.now - running_since if record.state == "RUNNING" else -1 if record.has_ended else 0
    down = (
        record.now - record.timestamps["RESTARTING"] if record.state == "RESTARTING" else -1 if record.has_ended else 0
    )
    return {
        "lastCheckpointSize": -1 if newest is None else newest.size,
        "lastCheckpointFullSize": -1 if newest is None else newest.full_size,
        "lastCheckpointDuration": -1 if newest is None else newest.duration_ms,
        "lastCheckpointExternalPath": "n/a" if newest is None or newest.path is None else newest.path,
        "lastCheckpointCompletedTimestamp": -1 if newest is None else newest.ended_at,
        "lastCompletedCheckpointId": -1 if newest is None else newest.id,
        "lastCheckpointRestoreTimestamp": -1 if restored is None else restored.at,
        "lastCheckpointProcessedData": 0,
        "lastCheckpointPersistedData": 0,
        "numberOfInProgressCheckpoints": sum(each.status == "IN_PROGRESS" for each in record.checkpoints),
        "numberOfCompletedCheckpoints": counts.completed,
        "numberOfFailedCheckpoints": counts.failed,
        "totalNumberOfCheckpoints": counts.triggered,
        "numRestarts": record.restarts,
        "uptime": uptime,
        "runningTime": max(0, uptime),
        "downtime": down,
        "restartingTime": max(0, down),
    }


# -- of a vertex


def vertex(record: JobRecord, vertex_id: str, get: Sequence[str] | None = None) -> list[Json]:
    """``/jobs/:jid/vertices/:vid/metrics[?get=0.numRecordsIn]``: all subtasks, their numbers before the names"""
    found = vertex_of(record, vertex_id)
    values = {
        f"{subtask.index}.{name}": value
        for subtask in found.subtasks
        for name, value in subtask_values(found, subtask).items()
    }
    return _answer(values, get)


def subtask(record: JobRecord, vertex_id: str, index: int, get: Sequence[str] | None = None) -> list[Json]:
    """``/jobs/:jid/vertices/:vid/subtasks/:n/metrics[?get=numRecordsIn]``"""
    found = vertex_of(record, vertex_id)
    return _answer(subtask_values(found, subtask_of(found, index)), get)


def subtasks(
    record: JobRecord,
    vertex_id: str,
    get: Sequence[str] | None = None,
    agg: Sequence[str] | None = None,
    only: Sequence[int] | None = None,
) -> list[Json]:
    """``/jobs/:jid/vertices/:vid/subtasks/metrics[?get=a,b][&agg=min,max][&subtasks=0,2]``: over all or these"""
    found = vertex_of(record, vertex_id)
    chosen = found.subtasks if only is None else [subtask_of(found, index) for index in only]
    return _aggregated([subtask_values(found, subtask) for subtask in chosen], get, agg)


def subtask_values(vertex: Vertex, subtask: Subtask) -> dict[str, Any]:
    """Of the task, and with the operator's name before them those of the operator, the user's among them."""
    scope = metric_scope(vertex)
    found = task_values(vertex, subtask)
    for name, value in operator_values(vertex, subtask).items():
        found[f"{scope}.{name}"] = value
    for name, value in user_values(subtask.metrics).items():
        found[f"{scope}.{name}"] = value
    return found


def task_values(vertex: Vertex, subtask: Subtask) -> dict[str, Any]:
    """What Flink tells of a task. One operator is one task here."""
    busy = round(1000 * min(1.0, subtask.busy))
    found = _io(subtask)
    found.update(
        busyTimeMsPerSecond=float(busy),
        idleTimeMsPerSecond=1000 - busy,
        backPressuredTimeMsPerSecond=0,
        softBackPressuredTimeMsPerSecond=0,
        hardBackPressuredTimeMsPerSecond=0,
        isBackPressured=False,
        accumulateBusyTimeMs=float(subtask.busy_ms),
        accumulateIdleTimeMs=subtask.idle_ms,
        accumulateBackPressuredTimeMs=0,
    )
    if vertex.kind != SOURCE:
        found["currentInputWatermark"] = _watermark(subtask)
    return found


def operator_values(vertex: Vertex, subtask: Subtask) -> dict[str, Any]:
    """What Flink tells of an operator."""
    found = _io(subtask)
    if vertex.kind != SOURCE:
        found["currentInputWatermark"] = _watermark(subtask)
    elif subtask.index == 0:  # known of the source as a whole
        if vertex.backlog is not None:
            found["pendingRecords"] = vertex.backlog
        if vertex.backlog_bytes is not None:
            found["pendingBytes"] = vertex.backlog_bytes
    return found


def user_values(metrics: Metrics | None) -> dict[str, Any]:
    """The user's own. A meter gives its rate, and ``_count``; a distribution its smallest, largest, mean, and count."""
    if metrics is None:
        return {}
    found: dict[str, Any] = {**metrics.counters, **metrics.gauges}
    for name, meter in metrics.meters.items():
        found[name], found[f"{name}_count"] = meter["rate"], meter["count"]
    for name, values in metrics.distributions.items():
        found.update({f"{name}_{part}": values[part] for part in ("min", "max", "mean", "count")})
    return found


def _io(subtask: Subtask) -> dict[str, Any]:
    return {
        "numRecordsIn": subtask.records_in,
        "numRecordsInPerSecond": subtask.records_in_per_second,
        "numRecordsOut": subtask.records_out,
        "numRecordsOutPerSecond": subtask.records_out_per_second,
        "numBytesIn": subtask.bytes_in,
        "numBytesInPerSecond": subtask.bytes_in_per_second,
        "numBytesOut": subtask.bytes_out,
        "numBytesOutPerSecond": subtask.bytes_out_per_second,
    }


def _watermark(subtask: Subtask) -> int:
    return NO_WATERMARK if subtask.watermark is None else subtask.watermark


# -- listed, asked for, added up


def _answer(values: Mapping[str, Any], get: Sequence[str] | None) -> list[Json]:
    """Names that are not known are left out, as in Flink."""
    if get is None:
        return [{"id": name} for name in values]
    return [{"id": name, "value": text(values[name])} for name in get if name in values]


def text(value: Any) -> str:
    """As Java writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _aggregated(each: Sequence[Mapping[str, Any]], get: Sequence[str] | None, agg: Sequence[str] | None) -> list[Json]:
    if get is None:
        return [{"id": name} for name in dict.fromkeys(name for values in each for name in values)]
    wanted = [name for name in _AGGREGATES if agg is None or name in agg]
    found = []
    for name in get:
        numbers = [float(values[name]) for values in each if isinstance(values.get(name), int | float)]
        if numbers:
            told = _told(numbers)
            found.append({"id": name, **{kind: told[kind] for kind in wanted}})
    return found


def _told(numbers: Sequence[float]) -> dict[str, float]:
    mean = sum(numbers) / len(numbers)
    # How far values lie from their mean, as a percentage of it, up to 100.
    off = sum(abs(number - mean) for number in numbers) / len(numbers)
    skew = min(100.0, 100 * off / abs(mean)) if mean else 0.0
    return {"min": min(numbers), "max": max(numbers), "avg": mean, "sum": sum(numbers), "skew": skew}
