"""``/jobs/:jid/exceptions``: what made executions fail, newest first, with the user's line on top."""

from __future__ import annotations

from beadline.web.answers.words import Json, address
from beadline.web.record import Failure, JobRecord

#: How many are given if nobody asks for another number, as in Flink.
MOST = 20


def history(record: JobRecord, most: int = MOST) -> Json:
    """``/jobs/:jid/exceptions?maxExceptions=most``. Fields of older Flink versions are there too: ``root-exception``,
    ``timestamp``, ``all-exceptions``, ``truncated``."""
    shown = record.failures[::-1][: max(0, most)]
    truncated = len(record.failures) > len(shown)
    newest = shown[0] if shown else None
    return {
        "root-exception": None if newest is None else stack_trace(newest),
        "timestamp": None if newest is None else newest.at,
        "all-exceptions": [_older(record, failure) for failure in shown],
        "truncated": truncated,
        "exceptionHistory": {"entries": [_entry(record, failure) for failure in shown], "truncated": truncated},
    }


def stack_trace(failure: Failure) -> str:
    """The error and the user's line first; then the rest of the user's frames and the cause."""
    return failure.traceback or failure.error


def _entry(record: JobRecord, failure: Failure) -> Json:
    worker = next((each for each in record.workers if each.id == failure.worker), None)
    in_task = failure.operator is not None
    return {
        "exceptionName": failure.name or "JobExecutionError",
        "stacktrace": stack_trace(failure),
        "timestamp": failure.at,
        "failureLabels": {},
        "taskName": _task(record, failure),
        "endpoint": address(worker) if in_task else None,
        "taskManagerId": failure.worker if in_task else None,
        "concurrentExceptions": [],
    }


def _task(record: JobRecord, failure: Failure) -> str | None:
    """As Flink names one: the operator, which of its subtasks, and the attempt, from 0."""
    if failure.operator is None:
        return None
    vertex = next((vertex for vertex in record.vertices if vertex.name == failure.operator), None)
    number = "" if failure.subtask is None else f" ({failure.subtask + 1}/{vertex.parallelism if vertex else '?'})"
    return f"{failure.operator}{number} - execution #{failure.attempt - 1}"


def _older(record: JobRecord, failure: Failure) -> Json:
    entry = _entry(record, failure)
    return {
        "exception": entry["stacktrace"],
        "task": entry["taskName"],
        "location": entry["endpoint"],
        "endpoint": entry["endpoint"],
        "timestamp": failure.at,
        "taskManagerId": entry["taskManagerId"],
    }
