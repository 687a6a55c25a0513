"""Operations that take longer than a request: who asks again gets the same one, and outcomes are kept for a while."""

from __future__ import annotations

import base64
from concurrent.futures import Future
from typing import Any

import pytest

from beadline.errors import ConfigurationError
from beadline.web.operations import KEPT_SECONDS, Operations, as_json, is_trigger_id

JOB = "savepoints of a job"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def answer(operations: Operations, id: str) -> dict[str, Any] | None:
    found = operations.find(JOB, id)
    return None if found is None else as_json(found, lambda path: {"location": path}, "failure-cause")


def test_it_is_in_progress_then_completed() -> None:
    operations, outcome = Operations(), Future[str]()
    id = operations.start(JOB, lambda: outcome)
    assert is_trigger_id(id)
    assert answer(operations, id) == {"status": {"id": "IN_PROGRESS"}}
    outcome.set_result("/savepoints/1")
    assert answer(operations, id) == {"status": {"id": "COMPLETED"}, "operation": {"location": "/savepoints/1"}}


def test_who_asks_again_with_its_own_id_starts_nothing() -> None:
    operations = Operations()
    begun: list[Future[str]] = []

    def begin() -> Future[str]:
        begun.append(Future())
        return begun[-1]

    id = "AB" * 16
    assert operations.start(JOB, begin, id) == id.lower() == operations.start(JOB, begin, id.lower())
    assert len(begun) == 1
    assert operations.find(JOB, id) is not None
    assert operations.find("savepoints of another job", id) is None


def test_outcomes_are_forgotten_after_five_minutes_and_what_is_under_way_never() -> None:
    clock = Clock()
    operations = Operations(clock)
    done, running = Future[str](), Future[str]()
    first, second = operations.start(JOB, lambda: done), operations.start(JOB, lambda: running)
    done.set_result("/savepoints/1")
    clock.now = KEPT_SECONDS - 1
    assert answer(operations, first) is not None
    clock.now = KEPT_SECONDS + 1
    assert answer(operations, first) is None
    assert answer(operations, second) == {"status": {"id": "IN_PROGRESS"}}


def test_an_answer_is_owed_until_the_outcome_was_read() -> None:
    operations, outcome = Operations(), Future[str]()
    assert not operations.owes_answers
    id = operations.start(JOB, lambda: outcome)
    operations.find(JOB, id)
    assert operations.owes_answers
    outcome.set_result("/savepoints/1")
    assert operations.owes_answers
    operations.find(JOB, id)
    assert not operations.owes_answers


def test_what_can_not_even_begin_leaves_nothing() -> None:
    operations = Operations()

    def begin() -> Future[str]:
        raise ConfigurationError("no")

    with pytest.raises(ConfigurationError):
        operations.start(JOB, begin)
    assert not operations.owes_answers


def test_a_failure_is_told_as_flink_tells_it_and_without_passwords() -> None:
    operations, outcome = Operations(), Future[str]()
    id = operations.start(JOB, lambda: outcome)
    outcome.set_exception(ConfigurationError("can't reach postgresql://me:hunter2@host/db"))
    told = answer(operations, id)
    assert told is not None
    cause = told["operation"]["failure-cause"]
    assert cause["class"] == "beadline.errors.ConfigurationError"
    assert cause["stack-trace"] == "beadline.errors.ConfigurationError: can't reach postgresql://me:****@host/db"
    data = base64.b64decode(cause["serialized-throwable"])
    assert data.startswith(b"\xac\xed\x00\x05sr\x00)org.apache.flink.util.SerializedThrowable")
    assert b"can't reach postgresql://me:****@host/db" in data
    assert b"hunter2" not in data
