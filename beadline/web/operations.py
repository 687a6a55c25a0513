"""Operations that take longer than a request: savepoints, stops, checkpoints, disposals.

A call starts one and gets a **trigger id**; with it, it asks for the outcome until there is one. Outcomes are kept for
five minutes, as in Flink. A program that is over stays a little for callers that have not read theirs
(:attr:`Operations.owes_answers`): who stops a job ends the program, and wants to know where the savepoint is.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from beadline.common.secrets import without_passwords
from beadline.web.java_errors import failure_cause

KEPT_SECONDS = 300.0
_MOST = 1000
_TRIGGER_ID = re.compile(r"[0-9a-fA-F]{32}")


class TooManyOperations(Exception):
    """More operations are under way than anybody can want."""


@dataclass
class Operation:
    """One operation. ``read`` says whether somebody has seen its outcome."""

    outcome: Future[Any]
    done_at: float | None = None
    read: bool = False


class Operations:
    """The operations that are under way, and those that ended a short while ago, by what they are about and their
    trigger id."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Operation] = {}

    def start(self, about: str, begin: Callable[[], Future[Any]], trigger_id: str | None = None) -> str:
        """Begin an operation and give its trigger id. With the id of one that is known, nothing is begun: a caller that
        got no answer may ask again."""
        id = (trigger_id or uuid.uuid4().hex).lower()
        with self._lock:
            self._forget()
            if (about, id) in self._known:
                return id
            if len(self._known) >= _MOST:
                raise TooManyOperations(f"{len(self._known)} operations are under way or ended in the last minutes")
            operation = self._known[about, id] = Operation(Future())
        try:
            begun = begin()
        except BaseException:
            with self._lock:
                self._known.pop((about, id), None)
            raise
        begun.add_done_callback(lambda future: self._ended(operation, future))
        return id

    def find(self, about: str, trigger_id: str) -> Operation | None:
        """The operation, if it is known; reading the outcome of one that has ended is noted."""
        with self._lock:
            self._forget()
            found = self._known.get((about, trigger_id.lower()))
            if found is not None and found.outcome.done():
                found.read = True
            return found

    @property
    def owes_answers(self) -> bool:
        """Whether somebody may still come for an outcome."""
        with self._lock:
            return any(not operation.read for operation in self._known.values())

    def _ended(self, operation: Operation, future: Future[Any]) -> None:
        operation.done_at = self._clock()
        error = future.exception()
        if error is not None:
            operation.outcome.set_exception(error)
        else:
            operation.outcome.set_result(future.result())

    def _forget(self) -> None:
        now = self._clock()
        for key, operation in list(self._known.items()):
            if operation.done_at is not None and now - operation.done_at > KEPT_SECONDS:
                del self._known[key]


def is_trigger_id(text: str) -> bool:
    return _TRIGGER_ID.fullmatch(text) is not None


def as_json(operation: Operation, result: Callable[[Any], dict[str, Any]], failure: str) -> dict[str, Any]:
    """What Flink answers on an operation: in progress, completed with a result, or completed with an error.

    :param failure: the name under which the error stands
    """
    outcome = operation.outcome
    if not outcome.done():
        return {"status": {"id": "IN_PROGRESS"}}
    error = outcome.exception()
    if error is None:
        return {"status": {"id": "COMPLETED"}, "operation": result(outcome.result())}
    return {"status": {"id": "COMPLETED"}, "operation": {failure: error_as_json(error)}}


def error_as_json(error: BaseException) -> dict[str, str]:
    """The error in Flink's form, without its frames, which say nothing to callers."""
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    message = without_passwords(str(error) or kind.__name__)
    return failure_cause(name, message, f"{name}: {message}")
