"""A user's exception is data: it is caught in the task and travels to the driver as a row."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

_LIMIT = 500


class UserCodeError(Exception):
    """User code raised while an operator worked on a record."""

    def __init__(self, operator: str, record: Any, cause: BaseException) -> None:
        super().__init__(f"{operator}: {cause}")
        self.operator = operator
        self.record = record
        self.cause = cause


@dataclass(frozen=True)
class Failure:
    """What the driver learns of a failed task.

    :ivar culprit: the operator's number and a digest of the record, if it is the record's fault
    """

    operator: str
    subtask: int
    record: str | None
    error_type: str
    message: str
    traceback: str
    culprit: tuple[int, str] | None = None

    @staticmethod
    def of(error: BaseException, operator: str, subtask: int) -> Failure:
        record: str | None = None
        if isinstance(error, UserCodeError):
            operator, cause = error.operator, error.cause
            record = None if error.record is NO_RECORD else shorten(error.record)
        else:
            cause = error
        text = "".join(traceback.format_exception(type(cause), cause, cause.__traceback__))
        return Failure(operator, subtask, record, type(cause).__name__, str(cause), text)


NO_RECORD: Any = object()


def shorten(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raised {error!r}>"
    return text if len(text) <= _LIMIT else text[:_LIMIT] + "…"
