"""The handle of a job that was started with ``execute_async``."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Protocol

from beadline.common.completable_future import CompletableFuture
from beadline.common.job_execution_result import JobExecutionResult
from beadline.common.job_id import JobID
from beadline.common.job_status import JobStatus
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.common.without_java import WithoutJava

__all__ = ["JobClient", "JobControl"]


class JobControl(Protocol):
    """What runs the job and answers questions about it. Every answer but the id may take time."""

    def get_job_id(self) -> JobID: ...

    def get_job_status(self) -> Future[JobStatus]: ...

    def cancel(self) -> Future[None]: ...

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None, format_type: SavepointFormatType
    ) -> Future[str]: ...

    def cancel_with_savepoint(
        self, savepoint_directory: str | None, format_type: SavepointFormatType
    ) -> Future[str]: ...

    def trigger_savepoint(self, savepoint_directory: str | None, format_type: SavepointFormatType) -> Future[str]: ...

    def trigger_checkpoint(self) -> Future[str]: ...

    def get_checkpoint_statistics(self) -> list[dict[str, Any]]: ...

    def get_exceptions(self) -> list[dict[str, Any]]: ...

    def get_accumulators(self) -> Future[dict[str, Any]]: ...

    def get_job_execution_result(self) -> Future[JobExecutionResult]: ...


class JobClient(WithoutJava):
    """Asks about one job, stops it, and takes savepoints of it."""

    def __init__(self, control: JobControl) -> None:
        self._control = control

    def get_job_id(self) -> JobID:
        return self._control.get_job_id()

    def get_job_status(self) -> CompletableFuture:
        """The job's :class:`~beadline.common.job_status.JobStatus`."""
        return CompletableFuture(self._control.get_job_status())

    def cancel(self) -> CompletableFuture:
        """End the job without a savepoint."""
        return CompletableFuture(self._control.cancel())

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType | str | None = None,
    ) -> CompletableFuture:
        """End the job with a savepoint, and give its path. What the job has written so far is committed.

        :param advance_to_end_of_event_time: fire all event-time timers first. Don't, if the job is to go on from the
            savepoint.
        :param savepoint_directory: where to write it; the configured directory if not given
        :param format_type: canonical (Parquet) if not given, or native
        """
        format = SavepointFormatType.of(format_type)
        return CompletableFuture(
            self._control.stop_with_savepoint(advance_to_end_of_event_time, savepoint_directory, format)
        )

    def cancel_with_savepoint(
        self, savepoint_directory: str | None = None, format_type: SavepointFormatType | str | None = None
    ) -> CompletableFuture:
        """Take a savepoint, cancel the job, and give the savepoint's path. Nothing runs between the two; what the job
        has written since its last checkpoint is in the savepoint, and is committed by the job that goes on from it."""
        format = SavepointFormatType.of(format_type)
        return CompletableFuture(self._control.cancel_with_savepoint(savepoint_directory, format))

    def trigger_savepoint(
        self, savepoint_directory: str | None = None, format_type: SavepointFormatType | str | None = None
    ) -> CompletableFuture:
        """Take a savepoint while the job goes on, and give its path."""
        format = SavepointFormatType.of(format_type)
        return CompletableFuture(self._control.trigger_savepoint(savepoint_directory, format))

    def trigger_checkpoint(self) -> CompletableFuture:
        """Take a checkpoint now, and give its path."""
        return CompletableFuture(self._control.trigger_checkpoint())

    def get_checkpoint_statistics(self) -> list[dict[str, Any]]:
        """The newest checkpoints of the job, newest first: id, status, duration_ms, size, path and so on."""
        return self._control.get_checkpoint_statistics()

    def get_exceptions(self) -> list[dict[str, Any]]:
        """The failures that the job was restarted after, and the one that ended it, oldest first."""
        return self._control.get_exceptions()

    def get_accumulators(self) -> CompletableFuture:
        """The accumulators by name, also while the job runs."""
        return CompletableFuture(self._control.get_accumulators())

    def get_job_execution_result(self) -> CompletableFuture:
        """The :class:`~beadline.common.job_execution_result.JobExecutionResult`, once the job has ended."""
        return CompletableFuture(self._control.get_job_execution_result())

    def __repr__(self) -> str:
        return f"JobClient({self.get_job_id()})"
