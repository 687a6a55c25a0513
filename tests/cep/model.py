"""Patterns by brute force: a match is a choice of events, and the rules are asked for every choice.

Knows nothing of automata: events lie in a list, and a stage says which positions may come behind a given one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beadline.cep import Pattern
from beadline.common.time import Time

HOW = {"next": "strict", "followed_by": "relaxed", "followed_by_any": "any"}
INNER = {"consecutive": "strict", None: "relaxed", "allow_combinations": "any"}


@dataclass(frozen=True)
class Stage:
    """Takes from ``low`` to ``high`` events of one of its letters; ``high`` 0 means any number."""

    letters: str
    how: str = "followed_by"
    low: int = 1
    high: int = 1
    inner: str | None = None
    optional: bool = False

    @property
    def loops(self) -> bool:
        return (self.low, self.high) != (1, 1)


def fits(letters: str) -> Any:
    return lambda event: event[2] in letters


def as_pattern(stages: list[Stage], within: int | None, after: Any = None) -> Pattern:
    """The same with Beadline's words. Events are (key, time, letter, …)."""
    pattern = Pattern.begin("s0", after)
    for number, stage in enumerate(stages):
        if number > 0:
            pattern = getattr(pattern, stage.how)(f"s{number}")
        pattern.where(fits(stage.letters))
        if stage.loops:
            pattern = pattern.times(stage.low, stage.high) if stage.high else pattern.times_or_more(stage.low)
            if stage.inner is not None:
                getattr(pattern, stage.inner)()
        if stage.optional:
            pattern.optional()
    return pattern if within is None else pattern.within(Time.milliseconds(within))


Chosen = tuple[tuple[int, int], ...]  # of (stage, position)


def all_matches(stages: list[Stage], within: int | None, events: list[Any]) -> list[Chosen]:
    """Every match among the events of one key, which lie in the order of time."""

    def candidates(last: int | None, letters: str, rule: str) -> Iterator[int]:
        if last is None:
            yield from (at for at, event in enumerate(events) if event[2] in letters)
            return
        later = [at for at in range(last + 1, len(events)) if events[at][2] in letters]
        if rule == "strict":
            later = [at for at in later if at == last + 1]
        elif rule == "relaxed":
            later = later[:1]
        yield from later

    def take(number: int, count: int, last: int | None, rule: str, chosen: Chosen) -> Iterator[Chosen]:
        stage = stages[number]
        for at in candidates(last, stage.letters, rule):
            longer = (*chosen, (number, at))
            if count + 1 >= stage.low:
                yield from behind(number + 1, at, longer)
            if stage.high == 0 or count + 1 < stage.high:
                yield from take(number, count + 1, at, INNER[stage.inner], longer)

    def behind(number: int, last: int | None, chosen: Chosen) -> Iterator[Chosen]:
        if number == len(stages):
            if chosen:
                yield chosen
            return
        yield from take(number, 0, last, HOW[stages[number].how], chosen)
        if stages[number].optional:
            yield from behind(number + 1, last, chosen)

    found = list(behind(0, None, ()))
    if within is not None:
        found = [chosen for chosen in found if events[chosen[-1][1]][1] - events[chosen[0][1]][1] < within]
    return found


def described(stages: list[Stage], within: int | None, events: list[Any]) -> list[Any]:
    """The matches of all keys, as (key, ((stage, event), …))."""
    found = []
    for key in sorted({event[0] for event in events}):
        own = sorted((event for event in events if event[0] == key), key=lambda event: event[1])
        for chosen in all_matches(stages, within, own):
            found.append((key, tuple((f"s{stage}", own[at]) for stage, at in chosen)))
    return found
