"""What follows from a failure: whether the job is restarted, when, and from where; and what ended it if it is not."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from beadline.errors import (
    ConfigurationError,
    EnvironmentSetupError,
    JobExecutionError,
    SerializationError,
    StateMismatchError,
    UnsupportedFeatureError,
)
from beadline.master.news import ExecutionFailed, NewsStream
from beadline.master.poison import PoisonWatch
from beadline.master.settings import JobSettings
from beadline.master.telling import first_line

_LOG = logging.getLogger("beadline")


@dataclass(frozen=True)
class FailedAttempt:
    """One entry of a job's history of failures.

    :ivar attempt: the number of the execution that failed
    :ivar restarted_from: where the next one starts, None if there is none
    """

    attempt: int
    at: int
    error: BaseException
    restarted_from: str | None


class Failures:
    """Asks the restart strategy, and keeps the history.

    :ivar history: the executions that failed, oldest first
    """

    def __init__(self, settings: JobSettings, news: NewsStream) -> None:
        self._settings = settings
        self._news = news
        self.history: list[FailedAttempt] = []

    def delay_ms(self, number: int, error: Exception, poison: PoisonWatch, worked: bool, latest: int | None) -> int:
        """How long to wait for the restart; raises the error again if the job is not to be restarted.

        :param number: of the execution that failed
        :param worked: whether a step of the job has been sealed
        :param latest: the newest checkpoint
        """
        if self._is_lasting(error, poison, worked or number > 1):
            self._note(number, error, None)
            raise error
        times = poison.failed(error)
        decision = self._settings.restart.failed(self._settings.monotonic())
        start = f"checkpoint {latest}" if latest is not None else "the beginning"
        if not self._settings.checkpoints.enabled:
            start = "after the step that failed"
        self._note(number, error, start if decision.restart else None)
        if not decision.restart:
            if decision.why:
                repeated = poison.told(error, times, again=True)
                error.add_note(f"The job is not restarted: {decision.why}{repeated}")
            raise error
        _LOG.warning(
            "attempt %d failed: %s%s. The job goes on %s in %d ms",
            number,
            first_line(error).rstrip("."),
            poison.told(error, times),
            start if start.startswith("after") else f"from {start}",
            decision.delay_ms,
        )
        return decision.delay_ms

    def _note(self, number: int, error: Exception, restarted_from: str | None) -> None:
        at = self._settings.clock()
        self.history.append(FailedAttempt(number, at, error, restarted_from))
        self._news.tell(ExecutionFailed(at, number, first_line(error), restarted_from))

    def _is_lasting(self, error: Exception, poison: PoisonWatch, worked: bool) -> bool:
        """Whether a restart can't help. A bad set-up is certain only before the first step is sealed: if
        it has worked once, a machine or a file system that is unreachable for a while may look the same."""
        if isinstance(error, StateMismatchError | SerializationError | UnsupportedFeatureError):
            return True
        if isinstance(error, EnvironmentSetupError | ConfigurationError):
            return not worked
        if not isinstance(error, JobExecutionError) or not error.lasting:
            return False
        return not worked and (error.culprit is None or not poison.leaves_out)
