"""A running job as its client sees it: requests in, futures out."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from beadline.checkpoint.coordinator.actions import CheckpointKind
from beadline.checkpoint.ends import End
from beadline.common.job_execution_result import JobExecutionResult
from beadline.common.job_id import JobID
from beadline.common.job_status import JobStatus
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.errors import ConfigurationError, JobExecutionError
from beadline.master.job import JobMaster
from beadline.master.reporting.telling import bare


class MasterControl:
    """Answers for one job master in this process."""

    def __init__(self, master: JobMaster) -> None:
        self._master = master

    def __repr__(self) -> str:
        return repr(self._master)

    def get_job_id(self) -> JobID:
        return JobID(self._master.job_id)

    def get_job_status(self) -> Future[JobStatus]:
        return _done(self._master.status)

    def cancel(self) -> Future[None]:
        """Completes when the job has really ended."""
        self._master.cancel()
        future: Future[None] = Future()
        self._when_ended(lambda: future.set_result(None))
        return future

    def has_ended(self) -> bool:
        return self._master.wait(0)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if it came."""
        return self._master.wait(timeout)

    def get_accumulators(self) -> Future[dict[str, Any]]:
        return _done(dict(self._master.metrics.as_dict()["counters"]))

    def get_checkpoint_statistics(self) -> list[dict[str, Any]]:
        """The newest checkpoints, newest first."""
        return [stats.as_dict() for stats in self._master.checkpoint_statistics]

    def get_exceptions(self) -> list[dict[str, Any]]:
        """The executions that failed, oldest first."""
        return [
            {"attempt": f.attempt, "timestamp": f.at, "error": str(f.error), "restarted_from": f.restarted_from}
            for f in self._master.history
        ]

    def get_job_execution_result(self) -> Future[JobExecutionResult]:
        future: Future[JobExecutionResult] = Future()

        def complete() -> None:
            try:
                future.set_result(self.result())
            except BaseException as error:
                future.set_exception(error)

        self._when_ended(complete)
        return future

    def result(self) -> JobExecutionResult:
        """The result of a job that has ended; raises what made it fail, or :class:`JobSuspended`."""
        master = self._master
        if master.error is not None:
            raise bare(master.error)
        if master.end is End.SUSPENDED:
            raise JobSuspended(master.exit_code)
        if master.status is JobStatus.CANCELED:
            missing = f", and {master.unpublished}" if master.unpublished else ""
            raise JobExecutionError(f"job '{master.plan.job_name}' ({master.job_id}) was cancelled{missing}")
        counters = master.metrics.as_dict()["counters"]
        return JobExecutionResult(JobID(master.job_id), master.runtime_ms, counters)

    def _when_ended(self, action: Any) -> None:
        def wait() -> None:
            self._master.wait()
            action()

        threading.Thread(target=wait, name="beadline-client", daemon=True).start()

    def suspend(self, at_once: bool = False) -> bool:
        """Take a checkpoint, unless ``at_once`` or none is durable, and end; gives whether a last checkpoint is
        taken."""
        self._master.suspend(at_once)
        return self._master.is_resumable and not at_once

    def trigger_checkpoint(self) -> Future[str]:
        return self._master.trigger(CheckpointKind.CHECKPOINT)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None, format_type: SavepointFormatType
    ) -> Future[str]:
        kind = CheckpointKind.STOP_WITH_SAVEPOINT
        return self._savepoint(kind, savepoint_directory, format_type, advance_to_end_of_event_time)

    def cancel_with_savepoint(self, savepoint_directory: str | None, format_type: SavepointFormatType) -> Future[str]:
        return self._savepoint(CheckpointKind.CANCEL_WITH_SAVEPOINT, savepoint_directory, format_type)

    def trigger_savepoint(self, savepoint_directory: str | None, format_type: SavepointFormatType) -> Future[str]:
        return self._savepoint(CheckpointKind.SAVEPOINT, savepoint_directory, format_type)

    def _savepoint(
        self, kind: CheckpointKind, directory: str | None, format: SavepointFormatType, drain: bool = False
    ) -> Future[str]:
        directory = directory or self._master.job.settings.checkpoints.savepoint_directory
        if directory is None:
            future: Future[str] = Future()
            future.set_exception(
                ConfigurationError(
                    "a savepoint needs a directory: name one, or set execution.checkpointing.savepoint-dir"
                )
            )
            return future
        return self._master.trigger(kind, directory, drain, format)


class JobSuspended(SystemExit):
    """The job has ended because its process is told to end, and the program that waits for it should end too. Not an
    ``Exception``: a handler would take it for a failure. The log has said how to resume it. If nobody catches it, the
    program exits with 0 after a last checkpoint whose output is visible, with 1 if some output is not, and with 143
    without a last checkpoint."""


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future
