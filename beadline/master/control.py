"""A running job as its client sees it: requests in, futures out."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from beadline.common.job_execution_result import JobExecutionResult
from beadline.common.job_id import JobID
from beadline.common.job_status import JobStatus
from beadline.errors import JobExecutionError, UnsupportedFeatureError
from beadline.master.job import JobMaster


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

    def get_metrics(self) -> Any:
        """The user's metrics, added up over sealed steps."""
        return self._master.metrics.as_dict()

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
        """The result of a job that has ended; raises what made it fail."""
        master = self._master
        if master.error is not None:
            raise master.error
        if master.status is JobStatus.CANCELED:
            raise JobExecutionError(f"job '{master.plan.job_name}' ({master.job_id}) was cancelled")
        counters = master.metrics.as_dict()["counters"]
        return JobExecutionResult(JobID(master.job_id), master.runtime_ms, counters)

    def _when_ended(self, action: Any) -> None:
        def wait() -> None:
            self._master.wait()
            action()

        threading.Thread(target=wait, name="beadline-client", daemon=True).start()

    def stop_with_savepoint(self, advance_to_end_of_event_time: bool, savepoint_directory: str | None) -> Future[str]:
        return _unsupported("stop_with_savepoint")

    def trigger_savepoint(self, savepoint_directory: str | None) -> Future[str]:
        return _unsupported("trigger_savepoint")


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def _unsupported(what: str) -> Future[str]:
    future: Future[str] = Future()
    future.set_exception(UnsupportedFeatureError(f"{what}: this version of Beadline takes no savepoints yet"))
    return future
