"""Calls that change a job: cancel, stop, savepoints, checkpoints, and disposing of savepoints.

Paths, bodies, answers and error texts are Flink's. What takes long gets a trigger id, see
:mod:`beadline.web.operations`; which paths a body may name, :mod:`beadline.web.targets` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from beadline.checkpoint.cleanup.disposal import dispose_savepoint
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.errors import ConfigurationError
from beadline.master.client.control import MasterControl
from beadline.master.engines.threads import Threads
from beadline.master.job import JobMaster
from beadline.web.jobs import Jobs, flink_id
from beadline.web.operations import Operations, as_json, is_trigger_id
from beadline.web.problems import Problem, answer
from beadline.web.reading import ERRORS, JobId, found_record
from beadline.web.targets import checked_path

_NO_DIRECTORY = "Config key [execution.checkpointing.savepoint-dir] is not set. Property [{}] must be provided."
_CHECKPOINT = re.compile(r"chk-(\d+)$")

TriggerId = Annotated[str, Path(description="What the call that started the operation has answered: 32 hex digits.")]


class _Body(BaseModel):
    model_config = ConfigDict(populate_by_name=True, extra="ignore")

    trigger_id: str | None = Field(None, alias="triggerId", pattern="^[0-9a-fA-F]{32}$")


class SavepointBody(_Body):
    """``POST /jobs/:jobid/savepoints``"""

    target_directory: str | None = Field(None, alias="target-directory")
    cancel_job: bool | None = Field(False, alias="cancel-job")
    format_type: Literal["CANONICAL", "NATIVE"] | None = Field(None, alias="formatType")


class StopBody(_Body):
    """``POST /jobs/:jobid/stop``"""

    target_directory: str | None = Field(None, alias="targetDirectory")
    drain: bool | None = False
    format_type: Literal["CANONICAL", "NATIVE"] | None = Field(None, alias="formatType")


class CheckpointBody(_Body):
    """``POST /jobs/:jobid/checkpoints``"""

    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = Field(None, alias="checkpointType")


class DisposalBody(_Body):
    """``POST /savepoint-disposal``"""

    savepoint_path: str | None = Field(None, alias="savepoint-path")


class Actions:
    """Carries out what requests ask of the jobs of this process.

    :param any_directory: whether requests may name any directory; otherwise those that are configured
    """

    def __init__(
        self, jobs: Jobs, operations: Operations, any_directory: bool, directories: Callable[[], list[str]]
    ) -> None:
        self._jobs = jobs
        self._operations = operations
        self._any_directory = any_directory
        self._directories = directories
        self._threads = Threads(1, "beadline-disposal")

    def cancel(self, job_id: str) -> None:
        master = self._jobs.master(job_id)
        if master is not None:
            master.cancel()
            return
        record = self._jobs.get(job_id)
        if record is None:
            raise Problem(404, "Job could not be found.")
        if record.state != "CANCELED":
            raise Problem(
                409,
                f"Job cancellation failed because the job has already reached another terminal state ({record.state}).",
            )

    def savepoint(self, job_id: str, body: SavepointBody) -> str:
        master = self._running(job_id)
        directory = self._target(master, body.target_directory, "target-directory")
        format, control = SavepointFormatType.of(body.format_type), MasterControl(master)
        take = control.cancel_with_savepoint if body.cancel_job else control.trigger_savepoint
        return self._operations.start(_savepoints(master), lambda: take(directory, format), body.trigger_id)

    def stop(self, job_id: str, body: StopBody) -> str:
        master = self._running(job_id)
        directory = self._target(master, body.target_directory, "targetDirectory")
        format, control = SavepointFormatType.of(body.format_type), MasterControl(master)
        return self._operations.start(
            _savepoints(master),
            lambda: control.stop_with_savepoint(bool(body.drain), directory, format),
            body.trigger_id,
        )

    def checkpoint(self, job_id: str, body: CheckpointBody) -> str:
        master = self._running(job_id)
        if body.checkpoint_type == "INCREMENTAL":
            raise Problem(400, "An incremental checkpoint can't be asked for: use CONFIGURED or FULL.")
        return self._operations.start(_checkpoints(master), MasterControl(master).trigger_checkpoint, body.trigger_id)

    def dispose(self, body: DisposalBody) -> str:
        if body.savepoint_path is None:
            raise Problem(400, "Field savepoint-path must not be omitted or be null.")
        path = self._checked(body.savepoint_path)
        return self._operations.start(
            "disposal", lambda: self._threads.submit(dispose_savepoint, path), body.trigger_id
        )

    def _running(self, job_id: str) -> JobMaster:
        master = self._jobs.master(job_id)
        if master is None:
            record = found_record(self._jobs, job_id)
            raise Problem(409, f"Job {job_id} has ended: {record.state}")
        return master

    def _target(self, master: JobMaster, directory: str | None, field: str) -> str:
        if directory is None:
            configured = master.job.settings.checkpoints.savepoint_directory
            if configured is None:
                raise Problem(400, _NO_DIRECTORY.format(field))
            return configured
        return self._checked(directory)

    def _checked(self, path: str) -> str:
        return checked_path(path, None if self._any_directory else self._directories())


def _savepoints(master: JobMaster) -> str:
    return f"savepoints of {flink_id(master.job_id)}"


def _checkpoints(master: JobMaster) -> str:
    return f"checkpoints of {flink_id(master.job_id)}"


def router(actions: Actions, operations: Operations) -> APIRouter:
    """The routes of all changing calls, and of the outcomes of those that take long."""
    made = APIRouter(responses=ERRORS, tags=["changes"])

    def outcome(about: str, trigger_id: str, missing: str, result: Callable[[Any], Any], failure: str) -> Response:
        if not is_trigger_id(trigger_id):
            raise Problem(400, f'Bad request: cannot resolve path parameter (triggerid) from value "{trigger_id}".')
        operation = operations.find(about, trigger_id)
        if operation is None:
            raise Problem(404, missing)
        return answer(as_json(operation, result, failure))

    @made.patch("/jobs/{jobid}", status_code=202, summary="Cancel a job")
    async def cancel(
        jobid: JobId, mode: Annotated[Literal["cancel", "stop"], Query(description="cancel")] = "cancel"
    ) -> Response:
        if mode == "stop":
            raise Problem(
                308,
                'The termination mode "stop" has been removed. For an ungraceful shutdown, please use "cancel" '
                'instead. For a graceful shutdown, please use "jobs/:jobId/stop" instead.',
            )
        actions.cancel(jobid)
        return answer({}, 202)

    @made.post("/jobs/{jobid}/stop", status_code=202, summary="Stop a job with a savepoint")
    async def stop(jobid: JobId, body: StopBody | None = None) -> Response:
        return answer({"request-id": actions.stop(jobid, body or StopBody.model_validate({}))}, 202)

    @made.post("/jobs/{jobid}/savepoints", status_code=202, summary="Take a savepoint, perhaps to cancel the job")
    async def savepoint(jobid: JobId, body: SavepointBody | None = None) -> Response:
        return answer({"request-id": actions.savepoint(jobid, body or SavepointBody.model_validate({}))}, 202)

    @made.get("/jobs/{jobid}/savepoints/{triggerid}", summary="What became of a savepoint or a stop")
    async def savepoint_outcome(jobid: JobId, triggerid: TriggerId) -> Response:
        missing = f"There is no savepoint operation with triggerId={triggerid} for job {jobid}."
        about = f"savepoints of {flink_id(jobid)}"
        return outcome(about, triggerid, missing, lambda path: {"location": path}, "failure-cause")

    @made.post("/jobs/{jobid}/checkpoints", status_code=202, summary="Take a checkpoint")
    async def checkpoint(jobid: JobId, body: CheckpointBody | None = None) -> Response:
        return answer({"request-id": actions.checkpoint(jobid, body or CheckpointBody.model_validate({}))}, 202)

    @made.get("/jobs/{jobid}/checkpoints/{triggerid}", summary="What became of a checkpoint")
    async def checkpoint_outcome(jobid: JobId, triggerid: TriggerId) -> Response:
        missing = f"There is no checkpoint operation with triggerId={triggerid} for job {jobid}."
        about = f"checkpoints of {flink_id(jobid)}"
        return outcome(about, triggerid, missing, _checkpoint_id, "failureCause")

    @made.post("/savepoint-disposal", summary="Remove a savepoint")
    async def dispose(body: DisposalBody | None = None) -> Response:
        return answer({"request-id": actions.dispose(body or DisposalBody.model_validate({}))})

    @made.get("/savepoint-disposal/{triggerid}", summary="What became of a disposal")
    async def disposal_outcome(triggerid: TriggerId) -> Response:
        missing = f"There is no savepoint disposal with triggerId={triggerid}."
        return outcome("disposal", triggerid, missing, lambda _: {}, "failure-cause")

    return made


def _checkpoint_id(pointer: str) -> dict[str, int]:
    found = _CHECKPOINT.search(pointer.rstrip("/"))
    if found is None:
        raise ConfigurationError(f"{pointer} is not the name of a checkpoint")
    return {"checkpointId": int(found[1])}
