"""Paths that only read. What they answer is computed from records by :mod:`beadline.web.answers`.

All functions are coroutines: a program that is over answers its last callers, and by then Python starts no threads.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import PlainTextResponse, Response

from beadline import __version__
from beadline.web.answers import (
    applications,
    checkpoints,
    cluster,
    exceptions,
    jobs,
    metrics,
    own,
    prometheus,
    vertices,
)
from beadline.web.answers.words import settings_of
from beadline.web.jobs import Jobs, flink_id
from beadline.web.problems import Problem, answer
from beadline.web.record import JobRecord

_ERROR: dict[str, Any] = {
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["errors"],
                "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
            }
        }
    }
}
_MEANINGS = {
    400: "The request is not as it should be.",
    401: "The token is missing, or is another one.",
    403: "The request comes from where it must not come from.",
    404: "There is no such job, operator, checkpoint or operation.",
    405: "The path has no such method.",
    409: "The job has ended.",
    413: "The body is too long.",
    429: "Too many operations are under way.",
    503: "The job can't answer now.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": meaning, **_ERROR} for status, meaning in _MEANINGS.items()
}

JobId = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        description="The id of a job: 32 hex digits, or the name that the user chose as id.",
    ),
]
VertexId = Annotated[str, Path(pattern=r"^[0-9a-fA-F]{32}$", description="The id of an operator: 32 hex digits.")]
CheckpointId = Annotated[int, Path(ge=0, lt=1 << 63, description="The number of a checkpoint.")]
Number = Annotated[int, Path(ge=0, lt=1 << 31)]
Names = Annotated[str | None, Query(description="Metrics to give the values of, with commas.")]
Aggregates = Annotated[str | None, Query(description="min, max, avg, sum or skew, with commas.")]

JobAnswer = Callable[[JobRecord], Any]
VertexAnswer = Callable[[JobRecord, str], Any]

_OF_JOBS: dict[str, tuple[JobAnswer, str]] = {
    "": (jobs.details, "A job: state, times, operators with their numbers, plan"),
    "/config": (jobs.config, "How the job was configured to execute"),
    "/plan": (jobs.plan, "The graph of its operators"),
    "/status": (jobs.status, "Its state"),
    "/vertices": (jobs.vertices, "Its operators"),
    "/execution-result": (jobs.execution_result, "What came out of it, once it has ended"),
    "/accumulators": (jobs.accumulators, "Its accumulators"),
    "/checkpoints": (checkpoints.statistics, "Its checkpoints: counts, summary, history"),
    "/checkpoints/config": (checkpoints.config, "How its checkpoints are taken"),
}
_OWN: dict[str, tuple[JobAnswer, str]] = {
    "/config": (own.config, "The options that were set, and where"),
    "/vertices": (own.vertices, "Its operators with rates, backlog, busy time and watermark"),
    "/timeline": (own.timeline, "Steps, checkpoints, failures, starts and states over time"),
}
_OF_VERTICES: dict[str, tuple[VertexAnswer, str]] = {
    "": (vertices.details, "An operator with its subtasks"),
    "/accumulators": (vertices.accumulators, "Its accumulators"),
    "/backpressure": (vertices.backpressure, "How busy its subtasks are"),
    "/subtasktimes": (vertices.subtask_times, "When its subtasks reached which state"),
    "/subtasks/accumulators": (vertices.subtask_accumulators, "The accumulators of its subtasks"),
    "/taskmanagers": (vertices.task_managers, "The workers that run it"),
    "/watermarks": (vertices.watermarks, "The watermarks of its subtasks"),
}


def found_record(all_jobs: Jobs, job_id: str) -> JobRecord:
    """The record of a job, or a 404."""
    record = all_jobs.get(job_id)
    if record is None:
        raise Problem(404, f"Job {job_id} not found")
    return record


def _in_flinks_form(record: JobRecord) -> JobRecord:
    id = flink_id(record.job_id)
    return record if id == record.job_id else replace(record, job_id=id)


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name for name in names.split(",") if name]


def job_router(all_jobs: Jobs, token_required: bool) -> APIRouter:
    """``/jobs/:jobid`` and what is below it. Pages want to know whether changes need a token."""
    made = APIRouter(prefix="/jobs/{jobid}", responses=ERRORS, tags=["jobs"])

    def of(jobid: str) -> JobRecord:
        return _in_flinks_form(found_record(all_jobs, jobid))

    def add_job_path(path: str, give: JobAnswer, summary: str) -> None:
        async def read(jobid: JobId) -> Response:
            return answer(give(of(jobid)))

        made.add_api_route(path, read, methods=["GET"], summary=summary, name=f"job{path}")

    def add_own_path(path: str, give: JobAnswer, summary: str) -> None:
        async def read(jobid: JobId) -> Response:
            return answer(give(found_record(all_jobs, jobid)))

        made.add_api_route(f"/beadline{path}", read, methods=["GET"], summary=summary, name=f"own{path}")

    def add_vertex_path(path: str, give: VertexAnswer, summary: str) -> None:
        async def read(jobid: JobId, vertexid: VertexId) -> Response:
            return answer(give(of(jobid), vertexid.lower()))

        made.add_api_route(f"/vertices/{{vertexid}}{path}", read, methods=["GET"], summary=summary, name=f"v{path}")

    for path, (give, summary) in _OF_JOBS.items():
        add_job_path(path, give, summary)
    for path, (give, summary) in _OWN.items():
        add_own_path(path, give, summary)
    for path, (of_vertex, summary) in _OF_VERTICES.items():
        add_vertex_path(path, of_vertex, summary)

    @made.get("/beadline", summary="The job in a few numbers")
    async def in_short(jobid: JobId) -> Response:
        return answer({**own.job(found_record(all_jobs, jobid)), "token_required": token_required})

    @made.get("/exceptions", summary="What made its executions fail, newest first")
    async def failures(
        jobid: JobId, maxExceptions: Annotated[int, Query(ge=0, lt=1 << 31)] = exceptions.MOST
    ) -> Response:
        return answer(exceptions.history(of(jobid), maxExceptions))

    @made.get("/metrics", summary="Its metrics; with get, their values")
    async def job_metrics(jobid: JobId, get: Names = None) -> Response:
        return answer(metrics.job(of(jobid), _listed(get)))

    @made.get("/jobmanager/config", summary="The options that were set")
    async def options(jobid: JobId) -> Response:
        return answer(cluster.job_manager_config(settings_of(of(jobid)).options))

    @made.get("/jobmanager/environment", summary="What the driver runs on")
    async def environment(jobid: JobId) -> Response:
        of(jobid)
        return answer(_environment())

    @made.get("/checkpoints/details/{checkpointid}", summary="A checkpoint, by operator")
    async def checkpoint(jobid: JobId, checkpointid: CheckpointId) -> Response:
        return answer(checkpoints.details(of(jobid), checkpointid))

    @made.get("/checkpoints/details/{checkpointid}/subtasks/{vertexid}", summary="A checkpoint of an operator")
    async def checkpoint_subtasks(jobid: JobId, checkpointid: CheckpointId, vertexid: VertexId) -> Response:
        return answer(checkpoints.subtasks(of(jobid), checkpointid, vertexid.lower()))

    @made.get("/vertices/{vertexid}/metrics", summary="Metrics of an operator's subtasks")
    async def vertex_metrics(jobid: JobId, vertexid: VertexId, get: Names = None) -> Response:
        return answer(metrics.vertex(of(jobid), vertexid.lower(), _listed(get)))

    @made.get("/vertices/{vertexid}/flamegraph", summary="Where an operator spends its time: not measured")
    async def flame_graph(jobid: JobId, vertexid: VertexId) -> Response:
        vertices.details(of(jobid), vertexid.lower())
        return answer({"endTimestamp": -2})

    @made.get("/vertices/{vertexid}/jm-operator-metrics", summary="Metrics of an operator's coordinator: none")
    async def coordinator_metrics(jobid: JobId, vertexid: VertexId) -> Response:
        vertices.details(of(jobid), vertexid.lower())
        return answer([])

    @made.get("/vertices/{vertexid}/subtasks/metrics", summary="Metrics over an operator's subtasks")
    async def subtasks_metrics(jobid: JobId, vertexid: VertexId, get: Names = None, agg: Aggregates = None) -> Response:
        return answer(metrics.subtasks(of(jobid), vertexid.lower(), _listed(get), _listed(agg)))

    @made.get("/vertices/{vertexid}/subtasks/{index}", summary="A subtask")
    async def subtask(jobid: JobId, vertexid: VertexId, index: Number) -> Response:
        return answer(vertices.subtask(of(jobid), vertexid.lower(), index))

    @made.get("/vertices/{vertexid}/subtasks/{index}/metrics", summary="Metrics of a subtask")
    async def subtask_metrics(jobid: JobId, vertexid: VertexId, index: Number, get: Names = None) -> Response:
        return answer(metrics.subtask(of(jobid), vertexid.lower(), index, _listed(get)))

    @made.get("/vertices/{vertexid}/subtasks/{index}/attempts/{attempt}", summary="An attempt of a subtask")
    async def attempt(jobid: JobId, vertexid: VertexId, index: Number, attempt: Number) -> Response:
        return answer(vertices.attempt(of(jobid), vertexid.lower(), index, attempt))

    @made.get(
        "/vertices/{vertexid}/subtasks/{index}/attempts/{attempt}/accumulators", summary="Accumulators of an attempt"
    )
    async def attempt_accumulators(jobid: JobId, vertexid: VertexId, index: Number, attempt: Number) -> Response:
        return answer(vertices.attempt_accumulators(of(jobid), vertexid.lower(), index, attempt))

    return made


def cluster_router(all_jobs: Jobs, may_cancel: bool) -> APIRouter:
    """Paths about all jobs, and about what runs them."""
    made = APIRouter(responses=ERRORS, tags=["cluster"])

    def records() -> list[JobRecord]:
        return [_in_flinks_form(record) for record in all_jobs.all()]

    def newest() -> JobRecord | None:
        found = all_jobs.all()
        return found[-1] if found else None

    @made.get("/config", summary="What Flink's page asks first")
    async def config() -> Response:
        return answer(cluster.config(may_cancel=may_cancel, is_history=all_jobs.is_history))

    @made.get("/overview", summary="How many workers, slots and jobs there are")
    async def overview() -> Response:
        return answer(cluster.overview(records()))

    @made.get("/jobs", summary="The ids and states of all jobs")
    async def job_ids() -> Response:
        return answer(jobs.ids(records()))

    @made.get("/jobs/overview", summary="All jobs, in a line each")
    async def jobs_overview() -> Response:
        return answer(jobs.overview(records()))

    @made.get("/jobs/metrics", summary="Metrics over all jobs")
    async def jobs_metrics(get: Names = None, agg: Aggregates = None) -> Response:
        return answer(metrics.jobs(records(), _listed(get), _listed(agg)))

    @made.get("/taskmanagers", summary="The processes that run tasks")
    async def task_managers() -> Response:
        return answer(cluster.task_managers(records()))

    @made.get("/taskmanagers/metrics", summary="Metrics of those processes: none")
    async def task_managers_metrics() -> Response:
        return answer([])

    @made.get("/taskmanagers/{taskmanagerid}", summary="A process that runs tasks")
    async def task_manager(taskmanagerid: str) -> Response:
        return answer(cluster.task_manager(records(), taskmanagerid))

    @made.get("/taskmanagers/{taskmanagerid}/metrics", summary="Its metrics: none")
    async def task_manager_metrics(taskmanagerid: str) -> Response:
        cluster.task_manager(records(), taskmanagerid)
        return answer([])

    @made.get("/taskmanagers/{taskmanagerid}/logs", summary="Its logs: none, they are the engine's")
    async def task_manager_logs(taskmanagerid: str) -> Response:
        cluster.task_manager(records(), taskmanagerid)
        return answer({"logs": []})

    @made.get("/jobmanager/config", summary="The options of the job that was started last")
    async def options() -> Response:
        record = newest()
        return answer(cluster.job_manager_config(record.settings.options if record is not None else {}))

    @made.get("/jobmanager/environment", summary="What the driver runs on")
    async def environment() -> Response:
        return answer(_environment())

    @made.get("/jobmanager/metrics", summary="Metrics of the driver: none")
    async def driver_metrics() -> Response:
        return answer([])

    @made.get("/jobmanager/logs", summary="Logs of the driver: none here, see `beadline logs`")
    async def logs() -> Response:
        return answer({"logs": []})

    @made.get("/applications/overview", summary="The programs: here, one for each job")
    async def programs() -> Response:
        return answer(applications.overview(records()))

    @made.get("/applications/{applicationid}", summary="A program")
    async def program(applicationid: JobId) -> Response:
        return answer(applications.details(_in_flinks_form(found_record(all_jobs, applicationid))))

    @made.get("/applications/{applicationid}/exceptions", summary="What made a program fail, apart from its jobs")
    async def program_failures(applicationid: JobId) -> Response:
        return answer(applications.exceptions(found_record(all_jobs, applicationid)))

    @made.get("/applications/{applicationid}/jobmanager/config", summary="The options that were set")
    async def program_options(applicationid: JobId) -> Response:
        return answer(cluster.job_manager_config(found_record(all_jobs, applicationid).settings.options))

    @made.get("/datasets", summary="Cached results of batch jobs: none")
    async def datasets() -> Response:
        return answer({"dataSets": []})

    @made.get("/metrics", summary="All metrics, for Prometheus", response_class=PlainTextResponse)
    async def for_prometheus() -> Response:
        return Response(prometheus.exposition(all_jobs.all()), media_type="text/plain; version=0.0.4; charset=utf-8")

    return made


def _environment() -> dict[str, Any]:
    python = f"Python {platform.python_version()} ({platform.python_implementation()}), Beadline {__version__}"
    return {"jvm": {"version": python, "arch": platform.machine(), "options": []}, "classpath": []}
