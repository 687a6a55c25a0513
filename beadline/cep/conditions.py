"""What an event must fulfil to be taken by a stage of a pattern."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from beadline.api.function import FilterFunction
from beadline.errors import TypeMismatchError


class ConditionContext(ABC):
    """What a condition with two parameters is told: ``lambda event, ctx: …``."""

    @abstractmethod
    def get_events_for_pattern(self, name: str) -> list[Any]:
        """The events that the stage of that name has taken so far, in order; empty if there are none."""

    @abstractmethod
    def timestamp(self) -> int:
        """The time of the event that is asked about: its timestamp, or the clock's time in processing time."""


@dataclass(slots=True, eq=False)
class Condition:
    """A test of one event. ``with_context`` tells whether it looks at earlier events too. If not, one test counts for
    all partial matches."""

    call: Callable[..., Any]
    with_context: bool

    def __and__(self, other: Condition) -> Condition:
        first, second = self.call, other.call
        if not self.with_context and not other.with_context:
            return Condition(lambda event: first(event) and second(event), False)
        first, second = self._in_context(), other._in_context()
        return Condition(lambda event, ctx: first(event, ctx) and second(event, ctx), True)

    def __or__(self, other: Condition) -> Condition:
        first, second = self.call, other.call
        if not self.with_context and not other.with_context:
            return Condition(lambda event: first(event) or second(event), False)
        first, second = self._in_context(), other._in_context()
        return Condition(lambda event, ctx: first(event, ctx) or second(event, ctx), True)

    def _in_context(self) -> Callable[[Any, ConditionContext], Any]:
        call = self.call
        return call if self.with_context else lambda event, _: call(event)


def as_condition(given: Any, where: str) -> Condition:
    """A callable of ``(event)`` or of ``(event, ctx)``, or a ``FilterFunction``."""
    if isinstance(given, FilterFunction):
        return Condition(given.filter, False)
    if isinstance(given, type) or not callable(given):
        raise TypeMismatchError(
            f"{where} takes a function of (event) or of (event, ctx) that says whether the event fits, got {given!r}"
        )
    try:
        parameters = inspect.signature(given).parameters.values()
    except ValueError:  # some built-in functions don't tell
        return Condition(given, False)
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p.name for p in parameters if p.kind in places and p.default is inspect.Parameter.empty]
    if len(needed) == 2:
        return Condition(given, True)
    takes_one = needed or any(p.kind in (*places, inspect.Parameter.VAR_POSITIONAL) for p in parameters)
    if len(needed) > 2 or not takes_one:
        raise TypeMismatchError(
            f"{where} takes a function of (event) or of (event, ctx); this one needs ({', '.join(needed)})"
        )
    return Condition(given, False)
