"""Patterns: a sequence of stages, each with a condition, a number of times, and what may lie before it.

::

    Pattern.begin("first").followed_by_any("second").where(
        lambda reading, ctx: abs(reading.temperature - ctx.get_events_for_pattern("first")[0].temperature) > 20
    ).within(Time.minutes(1))
"""

from __future__ import annotations

from typing import Any

from beadline.api.arguments import as_milliseconds
from beadline.cep.conditions import Condition, as_condition
from beadline.errors import ConfigurationError, GraphError, TypeMismatchError, UnsupportedFeatureError


class Contiguity:
    """What may lie between the event before and the one that a stage takes."""

    STRICT = "strict"
    RELAXED = "relaxed"
    RELAXED_ANY = "relaxed, any"
    NOT_NEXT = "not next"
    NOT_FOLLOWED_BY = "not followed by"

    NEGATIVE = (NOT_NEXT, NOT_FOLLOWED_BY)


class Pattern:
    """The last stage of a sequence, and through it the sequence.

    Methods that describe the stage change it and return it; :meth:`next` and the like begin a new stage after it.
    """

    def __init__(
        self, name: str, previous: Pattern | None, contiguity: str, skip: AfterMatchSkipStrategy | None = None
    ) -> None:
        if isinstance(name, Pattern):
            raise UnsupportedFeatureError("groups (a pattern inside of a pattern) are not supported by Beadline yet")
        if not isinstance(name, str) or not name:
            raise TypeMismatchError(f"a stage of a pattern needs a name, a str that is not empty, got {name!r}")
        self._name = name
        self._previous = previous
        self._contiguity = contiguity
        self._skip = skip if skip is not None else AfterMatchSkipStrategy.no_skip()
        self._condition: Condition | None = None
        self._until: Condition | None = None
        self._within: int | None = None
        self._quantified = False
        self._from = 1
        self._to: int | None = 1  # None: as often as it comes
        self._inner = Contiguity.RELAXED
        self._optional = False
        self._greedy = False

    def __repr__(self) -> str:
        return f"<Pattern {' '.join(f'{stage._name!r} ({stage._contiguity})' for stage in self._stages())}>"

    # -- the sequence

    @staticmethod
    def begin(name: str, after_match_skip_strategy: AfterMatchSkipStrategy | None = None) -> Pattern:
        """The first stage of a pattern."""
        if after_match_skip_strategy is not None and not isinstance(after_match_skip_strategy, AfterMatchSkipStrategy):
            raise TypeMismatchError(f"an AfterMatchSkipStrategy is needed, got {after_match_skip_strategy!r}")
        return Pattern(name, None, Contiguity.STRICT, after_match_skip_strategy)

    def next(self, name: str) -> Pattern:
        """A stage whose event directly follows the event of the stage before."""
        return Pattern(name, self, Contiguity.STRICT, self._skip)

    def followed_by(self, name: str) -> Pattern:
        """A stage that takes the next event that fits; those in between are passed over."""
        return Pattern(name, self, Contiguity.RELAXED, self._skip)

    def followed_by_any(self, name: str) -> Pattern:
        """A stage that takes any later event that fits: each gives a match of its own."""
        return Pattern(name, self, Contiguity.RELAXED_ANY, self._skip)

    def not_next(self, name: str) -> Pattern:
        """The event that directly follows must not fit."""
        return self._negative(name, Contiguity.NOT_NEXT)

    def not_followed_by(self, name: str) -> Pattern:
        """No event that fits may come before the stage after this one takes its event; as the last stage, before the
        time of :meth:`within` is over."""
        return self._negative(name, Contiguity.NOT_FOLLOWED_BY)

    def _negative(self, name: str, contiguity: str) -> Pattern:
        if self._optional:
            raise GraphError(
                f"stage '{self._name}' is optional, so the negation '{name}' can't follow it: write two patterns, "
                "one with the optional stage and one without"
            )
        return Pattern(name, self, contiguity, self._skip)

    # -- conditions

    def where(self, condition: Any) -> Pattern:
        """What an event must fulfil; several ``where`` must all hold. Called with ``(event)`` or ``(event, ctx)``."""
        made = as_condition(condition, f"where() of stage '{self._name}'")
        self._condition = made if self._condition is None else self._condition & made
        return self

    def or_where(self, condition: Any) -> Pattern:
        """Another way to fit: the conditions so far, or this one."""
        made = as_condition(condition, f"or_where() of stage '{self._name}'")
        self._condition = made if self._condition is None else self._condition | made
        return self

    def until(self, condition: Any) -> Pattern:
        """An event like this ends a stage that loops, by :meth:`one_or_more` or :meth:`times_or_more`."""
        if self._until is not None:
            raise GraphError(f"stage '{self._name}' already has an until()")
        if self._to is not None:
            raise GraphError(f"stage '{self._name}': until() needs one_or_more() or times_or_more() before it")
        self._until = as_condition(condition, f"until() of stage '{self._name}'")
        return self

    def within(self, window_time: Any) -> Pattern:
        """The whole match takes less time than this, from its first event to its last. The shortest one counts."""
        length = as_milliseconds(window_time, f"time of within() at stage '{self._name}'")
        if length <= 0:
            raise ConfigurationError(
                f"within() of stage '{self._name}' needs at least a millisecond, got {window_time!r}"
            )
        self._within = length
        return self

    # -- how often

    def times(self, times: int, to: int | None = None) -> Pattern:
        """Exactly ``times`` events, or from ``times`` to ``to``. A stage that may take 0 events is optional."""
        self._check_countable("times()")
        low, high = _count(times, "times()", self._name), times if to is None else _count(to, "times()", self._name)
        if high < 1 or low > high:
            given = f"times({times})" if to is None else f"times({times}, {to})"
            raise ConfigurationError(f"stage '{self._name}': {given} matches nothing; give 1 or more, the lower first")
        self._quantified = True
        self._optional = self._optional or low == 0
        self._from, self._to = max(low, 1), high
        return self

    def one_or_more(self) -> Pattern:
        """One event or any number of them. Needs :meth:`within` or :meth:`until`, or its state grows for ever."""
        return self._loop(1, "one_or_more()")

    def times_or_more(self, times: int) -> Pattern:
        """At least ``times`` events."""
        if _count(times, "times_or_more()", self._name) < 1:
            raise ConfigurationError(f"stage '{self._name}': times_or_more({times}) needs a number of 1 or more")
        return self._loop(times, "times_or_more()")

    def _loop(self, low: int, what: str) -> Pattern:
        self._check_countable(what)
        self._quantified = True
        self._from, self._to = low, None
        return self

    def optional(self) -> Pattern:
        """A match may do without this stage."""
        if self._contiguity in Contiguity.NEGATIVE:
            raise GraphError(f"stage '{self._name}' is a negation and can't be optional")
        if self._optional:
            raise GraphError(f"stage '{self._name}' is already optional")
        self._optional = True
        return self

    def greedy(self) -> Pattern:
        """Take as many events as there are, before the stage after it gets any."""
        self._check_looping("greedy()")
        if self._inner == Contiguity.RELAXED_ANY:
            raise GraphError(f"stage '{self._name}': greedy() and allow_combinations() contradict each other")
        self._greedy = True
        return self

    def consecutive(self) -> Pattern:
        """Between the events of the stage nothing else may lie."""
        return self._set_inner("consecutive()", Contiguity.STRICT)

    def allow_combinations(self) -> Pattern:
        """The stage may leave out events that fit: every selection gives a match."""
        if self._greedy:
            raise GraphError(f"stage '{self._name}': greedy() and allow_combinations() contradict each other")
        return self._set_inner("allow_combinations()", Contiguity.RELAXED_ANY)

    def _set_inner(self, what: str, inner: str) -> Pattern:
        self._check_looping(what)
        if self._inner != Contiguity.RELAXED:
            raise GraphError(f"stage '{self._name}': call either consecutive() or allow_combinations(), once")
        self._inner = inner
        return self

    def _check_looping(self, what: str) -> None:
        if not self._quantified:
            raise GraphError(f"stage '{self._name}': {what} needs times(), times_or_more() or one_or_more() before it")

    def _check_countable(self, what: str) -> None:
        if self._contiguity in Contiguity.NEGATIVE:
            raise GraphError(f"stage '{self._name}' is a negation: {what} does not apply to it")
        if self._quantified:
            raise GraphError(f"stage '{self._name}': {what} is a second quantifier; give only one")

    # -- for the compiler

    def _stages(self) -> list[Pattern]:
        stages: list[Pattern] = []
        stage: Pattern | None = self
        while stage is not None:
            stages.append(stage)
            stage = stage._previous
        return stages[::-1]

    def get_name(self) -> str:
        return self._name

    def get_window_time(self) -> int | None:
        """The milliseconds within which a match must be complete, None if there is no limit."""
        times = [stage._within for stage in self._stages() if stage._within is not None]
        return min(times) if times else None

    def get_after_match_skip_strategy(self) -> AfterMatchSkipStrategy:
        return self._skip

    def check(self) -> None:
        """Raise errors that only the whole sequence shows."""
        stages = self._stages()
        names = [stage._name for stage in stages]
        for name in names:
            if names.count(name) > 1:
                raise GraphError(f"two stages of the pattern are named '{name}': each needs a name of its own")
        if stages[-1]._contiguity == Contiguity.NOT_FOLLOWED_BY and self.get_window_time() is None:
            raise GraphError(
                f"not_followed_by('{names[-1]}') is the last stage, so only within() could tell when nothing more can "
                "follow: add within(…)"
            )
        for position, stage in enumerate(stages):
            behind = [later for later in stages[position + 1 :] if later._contiguity not in Contiguity.NEGATIVE]
            if stage._greedy and all(later._optional for later in behind):
                raise GraphError(
                    f"stage '{stage._name}' is greedy and no stage after it is required, so it would never end: "
                    "leave out greedy(), or skip with AfterMatchSkipStrategy"
                )
        if self._skip.target is not None and self._skip.target not in names:
            raise GraphError(f"{self._skip!r} names no stage of the pattern; its stages are {', '.join(names)}")


def _count(value: Any, what: str, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeMismatchError(f"stage '{name}': {what} takes whole numbers, got {value!r}")
    return value


class AfterMatchSkipStrategy:
    """Which partial matches are given up when one is complete: ``Pattern.begin("a", AfterMatchSkipStrategy.…)``.

    With any strategy but :meth:`no_skip` a match waits until no partial match began before it, since the earlier one
    would win.
    """

    __slots__ = ("how", "strict", "target")

    def __init__(self, how: str, target: str | None = None, strict: bool = False) -> None:
        self.how = how
        self.target = target
        self.strict = strict

    @classmethod
    def no_skip(cls) -> AfterMatchSkipStrategy:
        """Every possible match is found. The default."""
        return cls("no_skip")

    @classmethod
    def skip_to_next(cls) -> AfterMatchSkipStrategy:
        """Gives up what began with the same event as the match."""
        return cls("skip_to_next")

    @classmethod
    def skip_past_last_event(cls) -> AfterMatchSkipStrategy:
        """Gives up what began before the match ended: matches share no events."""
        return cls("skip_past_last_event")

    @classmethod
    def skip_to_first(cls, name: str) -> AfterMatchSkipStrategy:
        """Gives up what began before the first event that the stage ``name`` took in the match."""
        return cls("skip_to_first", _stage_name(name))

    @classmethod
    def skip_to_last(cls, name: str) -> AfterMatchSkipStrategy:
        """Gives up what began before the last event that the stage ``name`` took in the match."""
        return cls("skip_to_last", _stage_name(name))

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail if the stage to skip to took no event in a match, or the match's first one; else nothing is skipped."""
        if self.target is None:
            raise ConfigurationError(f"{self!r} skips to no stage, so no stage can be missing")
        return AfterMatchSkipStrategy(self.how, self.target, strict=True)

    def keeps_from(self, path: tuple[Any, ...], target: int) -> int:
        """The number of the first event with which a partial match may begin and survive the match ``path``.

        ``target`` is the stage to skip to. A path is stage, (number, event), stage, (number, event), …
        """
        first: int = path[1][0]
        if self.how == "skip_to_next":
            return first + 1
        if self.how == "skip_past_last_event":
            last: int = path[-1][0]
            return last + 1
        taken = [path[at + 1][0] for at in range(0, len(path), 2) if path[at] == target]
        if not taken:
            if self.strict:
                raise ConfigurationError(f"{self!r}: stage '{self.target}' took no event in a match")
            return 0
        found: int = taken[0] if self.how == "skip_to_first" else taken[-1]
        if self.strict and found == first:
            raise ConfigurationError(f"{self!r}: stage '{self.target}' took the first event of a match")
        return found

    def __repr__(self) -> str:
        return f"AfterMatchSkipStrategy.{self.how}({'' if self.target is None else repr(self.target)})"


def _stage_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeMismatchError(f"the stage to skip to is given by its name, got {name!r}")
    return name
