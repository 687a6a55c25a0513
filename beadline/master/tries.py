"""Doing again what an engine gave up on. Tasks have no effect that counts before the driver says so. So each of
them may run as often as it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from beadline.errors import BeadlineError, JobExecutionError, StepError
from beadline.master.engine import Engine

R = TypeVar("R")


class OutOfTries(Exception):
    """No further try is made.

    :ivar tries: how many there were
    :ivar error: the error of the last one
    """

    def __init__(self, tries: int, error: Exception) -> None:
        super().__init__(f"after {tries} tries: {error}")
        self.tries = tries
        self.error = error


def worth_another_try(error: Exception) -> bool:
    """Whether the engine or a check gave up; errors of the program or the set-up itself come the same way every
    time."""
    if "beadline.errors.StorageError" in str(error):
        return False
    return isinstance(error, StepError) or not isinstance(error, BeadlineError)


def tried(
    call: Callable[[], R],
    most: int,
    engine: Engine,
    unwanted: Callable[[], bool],
    again: Callable[[int, Exception], None],
    worth: Callable[[Exception], bool] = worth_another_try,
) -> tuple[R, int]:
    """What the call gives, and how many tries it took.

    :param unwanted: whether the result is not needed any more
    :param again: gets the number and the error of a failed try, before the next one
    :param worth: whether another try may help
    :raises OutOfTries: with the error of the last try
    """
    number = 1
    while True:
        try:
            return call(), number
        except Exception as error:
            explained = None if isinstance(error, JobExecutionError) else engine.explain(error)
            if explained is not None:
                raise explained from error
            if unwanted() or number == most or not worth(error):
                raise OutOfTries(number, error) from error
            again(number, error)
        number += 1
