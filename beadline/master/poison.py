"""Counts how often a record has made the job fail, and decides when to go on without it."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass

from beadline.common.configuration import Configuration
from beadline.errors import ConfigurationError, JobExecutionError
from beadline.runtime.poison import TAG, Poison

_LOG = logging.getLogger("beadline")

ACTION = "beadline.poison.action"
TRIES = "beadline.poison.tries"
KEYS = frozenset({ACTION, TRIES})

_ACTIONS = ("fail", "skip", "side-output")


@dataclass(frozen=True)
class PoisonSettings:
    """What becomes of a record that fails again and again.

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
    """Learns from failures which records to keep out."""

    def __init__(self, settings: PoisonSettings) -> None:
        self._settings = settings
        self._failures: Counter[tuple[int, str]] = Counter()
        self.poison: Poison | None = None

    def failed(self, error: BaseException) -> None:
        """A failure; after the last try of a record it is poison from now on."""
        culprit = error.culprit if isinstance(error, JobExecutionError) else None
        if culprit is None or self._settings.action == "fail":
            return
        self._failures[culprit] += 1
        assert isinstance(error, JobExecutionError)
        if self._failures[culprit] < self._settings.tries:
            return
        known = dict(self.poison.records) if self.poison is not None else {}
        known[culprit[0]] = known.get(culprit[0], frozenset()) | {culprit[1]}
        to_side = self._settings.action == "side-output"
        self.poison = Poison(known, to_side)
        what = f"sent to the side output '{TAG}'" if to_side else "skipped"
        _LOG.warning(
            "record %s has failed %d times in operator '%s': from now on it is %s",
            error.record,
            self._failures[culprit],
            error.operator,
            what,
        )
