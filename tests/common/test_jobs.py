"""The handles of a job: client, futures, status, id and result."""

from __future__ import annotations

import pickle
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import pytest

from beadline.common import (
    CompletableFuture,
    InputDependencyConstraint,
    JobClient,
    JobExecutionResult,
    JobID,
    JobStatus,
)
from beadline.common.savepoint_format_type import SavepointFormatType
from beadline.errors import ConfigurationError

T = TypeVar("T")


def done(value: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return future


class RecordedControl:
    """Answers at once, and remembers what it was asked."""

    def __init__(self) -> None:
        self.job_id = JobID()
        self.asked: list[tuple[Any, ...]] = []

    def get_job_id(self) -> JobID:
        return self.job_id

    def get_job_status(self) -> Future[JobStatus]:
        return done(JobStatus.RUNNING)

    def cancel(self) -> Future[None]:
        self.asked.append(("cancel",))
        return done(None)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None, format_type: SavepointFormatType
    ) -> Future[str]:
        self.asked.append(("stop", advance_to_end_of_event_time, savepoint_directory, format_type.name))
        return done("file:///sp-1")

    def cancel_with_savepoint(self, savepoint_directory: str | None, format_type: SavepointFormatType) -> Future[str]:
        self.asked.append(("cancel with", savepoint_directory, format_type.name))
        return done("file:///sp-3")

    def trigger_savepoint(self, savepoint_directory: str | None, format_type: SavepointFormatType) -> Future[str]:
        self.asked.append(("savepoint", savepoint_directory, format_type.name))
        return done("file:///sp-2")

    def get_accumulators(self) -> Future[dict[str, Any]]:
        return done({"n": 3})

    def get_job_execution_result(self) -> Future[JobExecutionResult]:
        return done(JobExecutionResult(self.job_id, 12))


def test_the_client_passes_every_request_on() -> None:
    control = RecordedControl()
    client = JobClient(control)
    assert client.get_job_id() == control.job_id
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert client.cancel().result() is None
    assert client.stop_with_savepoint(True).result() == "file:///sp-1"
    assert client.stop_with_savepoint(False, "file:///d").result() == "file:///sp-1"
    assert client.trigger_savepoint().result() == "file:///sp-2"
    assert client.trigger_savepoint("file:///d", "native").result() == "file:///sp-2"
    assert client.cancel_with_savepoint(format_type=SavepointFormatType.NATIVE).result() == "file:///sp-3"
    with pytest.raises(ConfigurationError, match="the savepoint format 'orc' is none of CANONICAL, NATIVE"):
        client.trigger_savepoint(format_type="orc")
    assert client.get_accumulators().result() == {"n": 3}
    assert client.get_job_execution_result().result().get_net_runtime() == 12
    assert control.asked == [
        ("cancel",),
        ("stop", True, None, "CANONICAL"),
        ("stop", False, "file:///d", "CANONICAL"),
        ("savepoint", None, "CANONICAL"),
        ("savepoint", "file:///d", "NATIVE"),
        ("cancel with", None, "NATIVE"),
    ]
    assert repr(client) == f"JobClient({control.job_id})"


def test_a_future_that_completes() -> None:
    source: Future[str] = Future()
    future = CompletableFuture(source, int)
    assert not future.done()
    assert future.exception() is None
    assert str(future) == "CompletableFuture[pending]"
    source.set_result("5")
    assert future.done()
    assert future.result() == 5
    assert future.exception() is None
    assert not future.cancel()
    assert str(future) == "CompletableFuture[result=5]"


def test_a_future_that_fails() -> None:
    source: Future[str] = Future()
    source.set_exception(RuntimeError("disk full"))
    future = CompletableFuture(source)
    assert str(future.exception()) == "disk full"
    with pytest.raises(RuntimeError, match="disk full"):
        future.result()
    assert "disk full" in str(future)


def test_a_future_that_is_cancelled() -> None:
    future = CompletableFuture(Future())
    assert future.cancel()
    assert future.cancelled()
    assert future.done()
    assert isinstance(future.exception(), CancelledError)
    assert str(future) == "CompletableFuture[cancelled]"
    with pytest.raises(CancelledError):
        future.result()


def test_which_states_end_a_job() -> None:
    over = {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}
    assert {status for status in JobStatus if status.is_globally_terminal_state()} == over
    assert {status for status in JobStatus if status.is_terminal_state()} == over | {JobStatus.SUSPENDED}


def test_job_ids_are_32_hexadecimal_digits_or_what_the_user_chose() -> None:
    assert len(str(JobID())) == 32
    assert JobID() != JobID()
    digits = "66cd6c64862bfc970b7f067c65265a8c"
    assert str(JobID(digits)) == digits
    assert JobID(digits.upper()) == JobID(digits)
    assert pickle.loads(pickle.dumps(JobID(digits))) == JobID(digits)
    assert {JobID(digits): 1}[JobID(digits)] == 1
    assert str(JobID("Orders_eu-1")) == "Orders_eu-1"
    for text in ("", "a b", "-a", "a/b", "..", "x" * 65, "ä"):
        with pytest.raises(ConfigurationError, match="at most 64 letters, digits, '-' and '_'") as caught:
            JobID(text)
        assert repr(text) in str(caught.value)
    for text in ("shared", "chk-17", "latest", "lease-1", "savepoint-a1-b2"):
        with pytest.raises(ConfigurationError, match=f"'{text}' can't be a job id"):
            JobID(text)


def test_the_result_of_a_job() -> None:
    job_id = JobID()
    result = JobExecutionResult(job_id, 12, {"n": 3})
    assert result.get_job_id() == job_id
    assert result.get_net_runtime() == 12
    assert result.get_accumulator_result("n") == 3
    assert result.get_accumulator_result("m") is None
    assert result.get_all_accumulator_results() == {"n": 3}
    assert str(JobExecutionResult(job_id, 12)) == (
        f"Program execution finished\nJob with JobID {job_id} has finished.\nJob Runtime: 12 ms\n"
    )
    assert "- n: 3" in str(result)


def test_the_names_of_the_input_constraint() -> None:
    assert [constraint.name for constraint in InputDependencyConstraint] == ["ANY", "ALL"]
