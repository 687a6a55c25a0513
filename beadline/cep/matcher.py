"""Moves the partial matches of one key over its events, in the order of time.

The state of a key is plain data that is never changed, only replaced: ``(next number, partial matches, held matches)``.

- A partial match is ``(node, start time, number of its first event, path)``; they lie in the order of their beginnings.
- A path is ``stage, (number, event), stage, (number, event), …``. Partial matches share those pairs, and events with
  them, also when the state is pickled.
- A held match is ``(number of its first event, path)``: complete, but an earlier partial match may still win over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from beadline.cep.automaton import ALWAYS, MATCH, NEVER, NOT_NEXT, PENDING, Automaton, Node, Test, anything
from beadline.cep.conditions import ConditionContext
from beadline.errors import ConfigurationError

Path = tuple[Any, ...]
Partial = tuple[int, int, int, Path]
Held = tuple[int, Path]
State = tuple[int, tuple[Partial, ...], tuple[Held, ...]]

EMPTY: State = (0, (), ())


class Outcome(NamedTuple):
    """What one event, or time alone, led to.

    :ivar state: the state afterwards, None if nothing is left to remember
    :ivar matches: paths of complete matches
    :ivar timed_out: paths of partial matches that ran out of time, with the time at which they did
    :ivar started: whether a partial match began
    """

    state: State | None
    matches: list[Path]
    timed_out: list[tuple[Path, int]]
    started: bool


class _Context(ConditionContext):
    """Shows a condition the path of the current partial match."""

    def __init__(self, stages: dict[str, int]) -> None:
        self._stages = stages
        self.path: Path = ()
        self.time = 0

    def get_events_for_pattern(self, name: str) -> list[Any]:
        stage = self._stages.get(name)
        if stage is None:
            raise ConfigurationError(f"the pattern has no stage '{name}'; its stages are {', '.join(self._stages)}")
        path = self.path
        return [path[at + 1][1] for at in range(0, len(path), 2) if path[at] == stage]

    def timestamp(self) -> int:
        return self.time


class Matcher:
    """A pattern at work. Holds nothing of any key."""

    def __init__(self, automaton: Automaton) -> None:
        self._nodes = automaton.nodes
        self._start = automaton.start
        self._names = automaton.names
        self._within = automaton.pattern.get_window_time()
        self._skip = automaton.pattern.get_after_match_skip_strategy()
        self._skips = self._skip.how != "no_skip"
        self._skip_to = automaton.names.index(self._skip.target) if self._skip.target is not None else MATCH
        self._ctx = _Context({name: number for number, name in enumerate(automaton.names)})
        self._no_answers: list[bool | None] = [None] * len(automaton.tests)
        self._answers = self._no_answers
        self._event: Any = None
        first = automaton.first_tests
        plain = [test.call for test in first if test is not None and not test.with_context]
        #: Whether a match could begin with an event; False is certain, and cheap to find.
        self.begins = _any_holds(plain) if len(plain) == len(first) else anything
        every = [test.call for test in automaton.tests]
        #: Whether an event could make a difference to any partial match, now or later; False is certain.
        self.matters = _any_holds(every) if automaton.skips_what_nothing_takes else anything

    def as_match(self, path: Path) -> dict[str, list[Any]]:
        """The events by the names of their stages, in the order of the stages."""
        by_stage: dict[int, list[Any]] = {}
        for at in range(0, len(path), 2):
            by_stage.setdefault(path[at], []).append(path[at + 1][1])
        return {self._names[stage]: by_stage[stage] for stage in sorted(by_stage)}

    # -- events

    def process(self, state: State | None, time: int, event: Any) -> Outcome:
        """Show an event to all partial matches, and begin new ones with it. Time must have advanced to the event's."""
        number, partials, held = state if state is not None else EMPTY
        self._event = event
        self._answers = self._no_answers.copy()
        self._ctx.time = time
        pair = (number, event)
        kept: list[Partial] = []
        matches: list[Held] = []
        changed = False
        for partial in partials:
            before = len(kept)
            self._move(partial, pair, kept, matches)
            if len(kept) != before + 1 or kept[before] is not partial:
                changed = True
        count = len(kept)
        self._move((self._start, time, number, ()), pair, kept, matches)
        self._event = None
        started = len(kept) > count
        if not (changed or started or matches):
            return Outcome(state, [], [], False)
        return self._outcome(number + 1, kept, held, matches, [], started)

    def advance(self, state: State | None, time: int) -> Outcome:
        """Give up the partial matches that can't be complete in time any more."""
        if state is None or self._within is None:
            return Outcome(state, [], [], False)
        number, partials, held = state
        latest = time - self._within
        late = 0
        while late < len(partials) and partials[late][1] <= latest:
            late += 1
        if late == 0:
            return Outcome(state, [], [], False)
        matches: list[Held] = []
        timed_out: dict[Any, tuple[Path, int]] = {}
        for node, start, first, path in partials[:late]:
            if self._nodes[node].accepts_silence:
                matches.append((first, path))
            else:
                # The same events may be at several nodes; they are reported once.
                timed_out.setdefault(_numbers(path), (path, start + self._within))
        return self._outcome(number, list(partials[late:]), held, matches, list(timed_out.values()), False)

    def deadline(self, time: int) -> int | None:
        return None if self._within is None else time + self._within

    def _move(self, partial: Partial, pair: tuple[int, Any], kept: list[Partial], matches: list[Held]) -> None:
        """Where an event leads one partial match: to any number of others, to matches, or to its end."""
        index, start, first, path = partial
        nodes = self._nodes
        self._ctx.path = path
        before = len(kept)
        while index != MATCH:
            node = nodes[index]
            if node.stops and path and self._is_stopped(node, path):
                del kept[before:]
                return
            if node.kind == NOT_NEXT:
                if self._fits(node.test):
                    del kept[before:]
                    return
                if node.onward == MATCH:
                    matches.append((first, path))
            elif node.kind == PENDING:
                kept.append(partial if nodes[partial[0]] is node else (index, start, first, path))
            else:
                test = node.test  # as _fits() does, without a call: this runs for every partial match and event
                if test is None:
                    fits = True
                elif test.with_context:
                    fits = bool(test.call(self._event, self._ctx))
                else:
                    known = self._answers[test.number]
                    fits = self._fits(test) if known is None else known
                ended = node.until is not None and self._fits(node.until)
                if fits and not ended:
                    longer = (*path, node.stage, pair)
                    if node.taken == MATCH:
                        matches.append((first, longer))
                    else:
                        kept.append((node.taken, start, first, longer))
                        if nodes[node.taken].accepting:
                            matches.append((first, longer))
                passes = node.passes
                if path and passes != NEVER and (passes == ALWAYS or not fits) and not (ended and node.until_ends):
                    kept.append(partial if node.passed == partial[0] else (node.passed, start, first, path))
                if node.greedy and node.onward is not None and not self._may_leave(node, fits, ended):
                    return
            if node.onward is None:
                return
            index = node.onward

    def _is_stopped(self, node: Node, path: Path) -> bool:
        for test in node.stops.get(path[-2], ()):
            if self._fits(test):
                return True
        return False

    def _may_leave(self, node: Node, fits: bool, ended: bool) -> bool:
        """A greedy stage lets a partial match go where it does not take the event and the next stage does, or where
        the partial match would end."""
        if fits and not ended:
            return False
        for following in node.following:
            if self._fits(following.test) and not (following.until is not None and self._fits(following.until)):
                return True
        return node.passes == NEVER or (node.passes != ALWAYS and fits) or (ended and node.until_ends)

    def _fits(self, test: Test | None) -> bool:
        if test is None:
            return True
        if test.with_context:
            return bool(test.call(self._event, self._ctx))
        answer = self._answers[test.number]
        if answer is None:
            answer = self._answers[test.number] = bool(test.call(self._event))
        return answer

    # -- matches

    def _outcome(
        self,
        number: int,
        partials: list[Partial],
        held: tuple[Held, ...],
        matches: list[Held],
        timed_out: list[tuple[Path, int]],
        started: bool,
    ) -> Outcome:
        if self._skips:
            partials, waiting, found = self._skip_over(partials, [*held, *matches])
        else:
            waiting, found = [], [path for _, path in matches]
        state = (number, tuple(partials), tuple(waiting)) if partials or waiting else None
        return Outcome(state, found, timed_out, started)

    def _skip_over(self, partials: list[Partial], waiting: list[Held]) -> tuple[list[Partial], list[Held], list[Path]]:
        """Release matches, the earliest first, as long as nothing earlier is under way; each gives up others."""
        waiting.sort(key=_first)
        found: list[Path] = []
        while waiting and not (partials and partials[0][2] < waiting[0][0]):
            path = waiting.pop(0)[1]
            found.append(path)
            limit = self._skip.keeps_from(path, self._skip_to)
            partials = [partial for partial in partials if partial[2] >= limit]
            waiting = [match for match in waiting if match[0] >= limit]
        return partials, waiting, found


def _any_holds(calls: list[Callable[[Any], Any]]) -> Callable[[Any], bool]:
    def holds(event: Any) -> bool:
        for call in calls:
            if call(event):
                return True
        return False

    return holds


def _first(match: Held) -> int:
    return match[0]


def _numbers(path: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(part[0] if part.__class__ is tuple else part for part in path)
