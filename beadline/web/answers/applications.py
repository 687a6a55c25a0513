"""``/applications``: Flink's word for a program and the jobs that it has started. Here each job is one, with its id."""

from __future__ import annotations

from collections.abc import Iterable

from beadline.web.answers import jobs
from beadline.web.answers.words import Json
from beadline.web.record import JobRecord

_STATES = ("CREATED", "RUNNING", "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED")
# What applications know fewer of than jobs.
_AS = {"RESTARTING": "RUNNING", "INITIALIZING": "CREATED", "SUSPENDED": "CANCELED", "CANCELLING": "CANCELING"}


def overview(records: Iterable[JobRecord]) -> Json:
    """``/applications/overview``"""
    return {"applications": [{**_line(record), "jobs": {record.state: 1}} for record in records]}


def details(record: JobRecord) -> Json:
    """``/applications/:applicationid``"""
    timestamps = dict.fromkeys(_STATES, 0)
    for state, at in record.timestamps.items():
        name = _AS.get(state, state)
        if name in timestamps:
            timestamps[name] = at
    return {**_line(record), "timestamps": timestamps, "jobs": jobs.overview([record])["jobs"]}


def exceptions(record: JobRecord) -> Json:
    """``/applications/:applicationid/exceptions``: of the program itself, apart from its jobs. A program that fails
    ends its driver, so there are none while anybody can ask."""
    return {"exceptionHistory": {"entries": []}}


def _line(record: JobRecord) -> Json:
    return {
        "id": record.job_id,
        "name": record.name,
        "status": _AS.get(record.state, record.state),
        "start-time": record.started_at,
        "end-time": -1 if record.ended_at is None else record.ended_at,
        "duration": record.duration_ms,
    }
