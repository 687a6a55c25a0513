"""A user's exception is data: it is caught in the task and travels to the driver as a row."""

from __future__ import annotations

import os
import re
import traceback
from dataclasses import dataclass
from typing import Any

from beadline.errors import InputError
from beadline.graph.plan import PlanNode
from beadline.state.disks import FREE_SPACE, is_full

_LIMIT = 500
_NOT_ITERABLE = re.compile(r"'(.+)' object is not iterable")
_RUNTIME = os.path.dirname(__file__) + os.sep


class UserCodeError(Exception):
    """User code raised while an operator worked on a record.

    :ivar node: the operator's number, if the record reached it and can be kept away from it
    :ivar split: what a source was reading, if it is not a record's fault
    :ivar made_at: the line of the program that made the operator
    """

    def __init__(
        self, operator: str | PlanNode, record: Any, cause: BaseException, split: Any = None, made_at: str = ""
    ) -> None:
        self.node = None if isinstance(operator, str) else operator.id
        self.operator = operator if isinstance(operator, str) else operator.name
        self.made_at = made_at if isinstance(operator, str) else operator.made_at
        cause = _explained(cause)
        super().__init__(f"{self.operator}: {cause}")
        self.record = record
        self.cause = cause
        self.split = split


def _explained(cause: BaseException) -> BaseException:
    """A function that returns its result, where its results are gone through, fails in our loop over them."""
    found = _NOT_ITERABLE.fullmatch(str(cause)) if isinstance(cause, TypeError) else None
    at = cause.__traceback__
    while found is not None and at is not None and at.tb_next is not None:
        at = at.tb_next
    if found is None or at is None or not at.tb_frame.f_code.co_filename.startswith(_RUNTIME):
        return cause
    told = TypeError(
        f"the function returned one {found[1]}, and it must give any number of results: use yield instead of return, "
        "or return a list"
    )
    return told.with_traceback(cause.__traceback__)


@dataclass(frozen=True)
class Failure:
    """What the driver learns about a failed task.

    :ivar traceback: empty for errors that Beadline raises on purpose: their message is enough
    :ivar culprit: the operator's number and a digest of the record, if it is the record's fault
    :ivar split: what a source was reading
    :ivar made_at: the line of the program that made the operator
    """

    operator: str
    subtask: int
    record: str | None
    error_type: str
    message: str
    traceback: str
    culprit: tuple[int, str] | None = None
    split: str | None = None
    made_at: str = ""

    @staticmethod
    def of(error: BaseException, operator: str, subtask: int) -> Failure:
        record: str | None = None
        split: str | None = None
        made_at = ""
        if isinstance(error, UserCodeError):
            operator, cause, made_at = error.operator, error.cause, error.made_at
            record = None if error.record is NO_RECORD else shorten(error.record)
            split = None if error.split is None else shorten(error.split)
        else:
            cause = error
        message = str(cause)
        text = "".join(traceback.format_exception(type(cause), cause, cause.__traceback__))
        if is_full(cause):
            message += f". {FREE_SPACE}"
        if isinstance(cause, InputError) or (is_full(cause) and record is None):
            text = ""
        return Failure(operator, subtask, record, type(cause).__name__, message, text, split=split, made_at=made_at)


NO_RECORD: Any = object()


def shorten(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raised {error!r}>"
    return text if len(text) <= _LIMIT else text[:_LIMIT] + "…"
