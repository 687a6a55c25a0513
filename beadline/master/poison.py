"""Counts how often a record has made the job fail, and decides when to go on without it."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import dataclass

from beadline.common.configuration import Configuration
from beadline.errors import ConfigurationError, JobExecutionError
from beadline.master.telling import shortened
from beadline.runtime.task.poison import TAG, Poison

_LOG = logging.getLogger("beadline")

ACTION = "beadline.poison.action"
TRIES = "beadline.poison.tries"
KEYS = frozenset({ACTION, TRIES})

_ACTIONS = ("fail", "skip", "side-output")
_ADVICE = f" (to go on without it, set {ACTION}=skip or {ACTION}=side-output)"


@dataclass(frozen=True)
class PoisonSettings:
    """What happens to a record that fails again and again.

    :ivar action: ``fail`` (leave it to the restart strategy), ``skip`` or ``side-output``
    :ivar tries: how often it may fail before
    """

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
        """A failure; after the last try of a record it is poison from now on.

        Gives how often the same error or record has failed by now.
        """
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
