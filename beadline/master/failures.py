"""What follows from a failure: whether the job is restarted, when, and from where; and without which records, because
they have made it fail too often."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beadline.common.configuration import Configuration
from beadline.errors import (
    ConfigurationError,
    EnvironmentSetupError,
    JobExecutionError,
    SerializationError,
    StateMismatchError,
    UnsupportedFeatureError,
)
from beadline.master.reporting.news import ExecutionFailed, NewsStream
from beadline.master.reporting.telling import first_line, in_full, shortened
from beadline.runtime.task.poison import TAG, Poison

if TYPE_CHECKING:
    from beadline.master.definition import JobSettings

_LOG = logging.getLogger("beadline")

ACTION = "beadline.poison.action"
TRIES = "beadline.poison.tries"
POISON_KEYS = frozenset({ACTION, TRIES})
_ACTIONS = ("fail", "skip", "side-output")
_ADVICE = f" (to go on without it, set {ACTION}=skip or {ACTION}=side-output)"


@dataclass(frozen=True)
class FailedAttempt:
    """One entry of a job's history of failures; ``restarted_from`` is None if no execution came after it."""

    attempt: int
    at: int
    error: BaseException
    restarted_from: str | None


class Failures:
    """Asks the restart strategy, and keeps the history of executions that failed, oldest first."""

    def __init__(self, settings: JobSettings, news: NewsStream) -> None:
        self._settings = settings
        self._news = news
        self.history: list[FailedAttempt] = []

    def delay_ms(self, number: int, error: Exception, poison: PoisonWatch, worked: bool, latest: int | None) -> int:
        """How long to wait for the restart; raises the error if there is none. ``worked``: a step has been sealed."""
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
        facts = {name: getattr(error, name, None) for name in ("operator", "subtask", "record")}
        name = getattr(error, "raised", None) or type(error).__name__
        self._news.tell(ExecutionFailed(at, number, first_line(error), restarted_from, name, in_full(error), **facts))

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


@dataclass(frozen=True)
class PoisonSettings:
    """What happens to a record that has failed ``tries`` times: ``fail`` leaves it to the restart strategy."""

    action: str = "fail"
    tries: int = 3

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> PoisonSettings:
        action = configuration.get_string(ACTION, cls.action)
        tries = configuration.get_integer(TRIES, cls.tries)
        if action not in _ACTIONS:
            raise ConfigurationError(f"{ACTION} is {action!r}; it must be one of {', '.join(_ACTIONS)}")
        if tries < 1:
            raise ConfigurationError(f"{TRIES} is {tries}; it must be at least 1")
        return cls(action, tries)


class PoisonWatch:
    """Learns from failures which records to leave out."""

    def __init__(self, settings: PoisonSettings) -> None:
        self._settings = settings
        self._failures: Counter[tuple[int | str, str]] = Counter()
        self._advised = False
        self.poison: Poison | None = None

    def failed(self, error: BaseException) -> int:
        """A failure; after its last try a record is poison. Gives how often the same has failed by now."""
        culprit = _culprit(error)
        same = culprit or _likeness(error)
        self._failures[same] += 1
        times = self._failures[same]
        if culprit is None or not self.leaves_out or times < self._settings.tries:
            return times
        assert isinstance(error, JobExecutionError)
        known = dict(self.poison.records) if self.poison is not None else {}
        known[culprit[0]] = known.get(culprit[0], frozenset()) | {culprit[1]}
        to_side = self._settings.action == "side-output"
        self.poison = Poison(known, to_side)
        what = f"sent to the side output '{TAG}'" if to_side else "skipped"
        _LOG.warning(
            "record %s has failed %d times in operator '%s': from now on it is %s",
            shortened(error.record or "", 160),
            times,
            error.operator,
            what,
        )
        return times

    def told(self, error: BaseException, times: int, again: bool = False) -> str:
        """What to tell the user about an error that came this often; the advice comes once, or ``again``."""
        if times < 2:
            return ""
        if _culprit(error) is None:
            return f"; the same error has come {times} times"
        known, self._advised = self._advised and not again, True
        return f"; the same record has failed {times} times" + ("" if known or self.leaves_out else _ADVICE)

    @property
    def leaves_out(self) -> bool:
        """Whether records that fail too often are left out."""
        return self._settings.action != "fail"


def _culprit(error: BaseException) -> tuple[int, str] | None:
    return error.culprit if isinstance(error, JobExecutionError) else None


def _likeness(error: BaseException) -> tuple[str, str]:
    """Equal for errors that differ in numbers only: those of steps, subtasks, ports and addresses."""
    operator = error.operator if isinstance(error, JobExecutionError) else None
    return f"{operator} {type(error).__name__}", re.sub(r"0x[0-9a-f]+|\d+", "0", shortened(str(error)))
