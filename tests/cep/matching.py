"""Patterns over words: the events are "a1", "b", …, a stage takes those that begin with its letter."""

from __future__ import annotations

from typing import Any

from beadline.cep.automaton import Automaton
from beadline.cep.matcher import Matcher, State
from beadline.cep.pattern import Pattern


def letter(letters: str) -> Any:
    return lambda event: event[0] in letters


class Walk:
    """Shows events to a matcher, one a millisecond unless told otherwise.

    :ivar found: matches, each as its events joined by spaces
    :ivar timed_out: partial matches that ran out of time, with that time
    """

    def __init__(self, pattern: Pattern) -> None:
        self.matcher = Matcher(Automaton(pattern))
        self.state: State | None = None
        self.time = 0
        self.found: list[str] = []
        self.timed_out: list[tuple[str, int]] = []

    def until(self, time: int) -> Walk:
        self.time = time
        outcome = self.matcher.advance(self.state, time)
        self._note(outcome)
        return self

    def show(self, events: str) -> Walk:
        for event in events.split():
            self.until(self.time + 1)
            self._note(self.matcher.process(self.state, self.time, event))
        return self

    def _note(self, outcome: Any) -> None:
        self.state = outcome.state
        self.found += [self._text(path) for path in outcome.matches]
        self.timed_out += [(self._text(path), time) for path, time in outcome.timed_out]

    def _text(self, path: Any) -> str:
        return " ".join(event for events in self.matcher.as_match(path).values() for event in events)


def matches(pattern: Pattern, events: str) -> list[str]:
    """All matches among the events, sorted."""
    return sorted(Walk(pattern).show(events).found)
