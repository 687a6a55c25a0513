"""A pattern as nodes: every place at which a partial match can stand, and what an event does there.

A stage that takes up to n events becomes a node for each number of events already taken. Where a partial match may go
on to the next stage, passing over an event leads to a second node from which it may not: that stage was already tried
with that event, and would otherwise give the same match twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from beadline.cep.conditions import Condition
from beadline.cep.pattern import Contiguity, Pattern

MATCH = -1

TAKES = 0
NOT_NEXT = 1
PENDING = 2

NEVER = 0
UNLESS_IT_FITS = 1
ALWAYS = 2

_PASSES_OVER = {Contiguity.STRICT: NEVER, Contiguity.RELAXED: UNLESS_IT_FITS, Contiguity.RELAXED_ANY: ALWAYS}


@dataclass(slots=True, eq=False)
class Test:
    """A condition in its place: ``number`` is where its answer is kept while one event is looked at."""

    number: int
    call: Callable[..., Any]
    with_context: bool


@dataclass(slots=True, eq=False)
class Node:
    """One place.

    :ivar kind: ``TAKES`` events; ``NOT_NEXT`` looks at one event and is gone; ``PENDING`` waits for the time to be over
    :ivar test: what an event must fulfil here, None if any will do
    :ivar until: from such an event on nothing is taken
    :ivar taken: where a partial match goes when it takes an event
    :ivar passes: whether it may pass over an event: ``NEVER``, ``UNLESS_IT_FITS``, ``ALWAYS``
    :ivar until_ends: whether an ``until`` event can't be passed over either
    :ivar passed: where it goes then
    :ivar onward: the node that it may go to without an event, None if there is none
    :ivar greedy: go onward only where this stage does not take the event
    :ivar following: the nodes that might take the event after a greedy stage
    :ivar stops: by the stage that took the last event: what must not happen here
    :ivar accepting: standing here is a match as well
    :ivar accepts_silence: standing here when the time is over is a match
    """

    kind: int
    stage: int
    test: Test | None = None
    until: Test | None = None
    taken: int = MATCH
    passes: int = NEVER
    until_ends: bool = False
    passed: int = MATCH
    onward: int | None = None
    greedy: bool = False
    following: tuple[Node, ...] = ()
    stops: dict[int, tuple[Test, ...]] = field(default_factory=dict)
    accepting: bool = False
    accepts_silence: bool = False


class Automaton:
    """The nodes of a pattern. Stages are numbered in their order, negations included."""

    def __init__(self, pattern: Pattern) -> None:
        pattern.check()
        self.pattern = pattern
        self.stages = pattern._stages()
        self.names = [stage._name for stage in self.stages]
        self.nodes: list[Node] = []
        self.tests: list[Test] = []
        self._tests = [self._stage_test(stage) for stage in self.stages]
        onward = MATCH
        heads: list[Node] = []  # of the stages after this one, as far as its greed looks
        if self.stages[-1]._contiguity == Contiguity.NOT_FOLLOWED_BY:
            onward = self._add(Node(PENDING, len(self.stages)))
            self.nodes[onward].passes, self.nodes[onward].passed = ALWAYS, onward
        for number in range(len(self.stages) - 1, -1, -1):
            stage = self.stages[number]
            if stage._contiguity == Contiguity.NOT_FOLLOWED_BY:
                continue
            if stage._contiguity == Contiguity.NOT_NEXT:
                node = Node(NOT_NEXT, number, self._tests[number])
                node.onward = onward
                onward = self._add(node)
                continue
            onward = self._add_stage(number, stage, onward, tuple(heads))
            heads = [self.nodes[onward], *(heads if stage._optional else ())]
        self.start = onward
        for node in self.nodes:
            node.stops = self._stops(node)
            self._settle_ends(node)
        # Every condition that the first event of a match could fulfil; None among them stands for "any event".
        self.first_tests = self._first_tests()
        self.skips_what_nothing_takes = self._skips_what_nothing_takes()

    def _stage_test(self, stage: Pattern) -> Test | None:
        if stage._condition is None and stage._contiguity in Contiguity.NEGATIVE:
            return self._test(Condition(anything, False))
        return self._test(stage._condition)

    def _test(self, condition: Condition | None) -> Test | None:
        if condition is None:
            return None
        self.tests.append(Test(len(self.tests), condition.call, condition.with_context))
        return self.tests[-1]

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _add_stage(self, number: int, stage: Pattern, onward: int, following: tuple[Node, ...]) -> int:
        """The nodes of one stage, from that which has taken most events to that which has taken none."""
        until = self._test(stage._until)
        last = stage._from if stage._to is None else stage._to - 1
        behind = onward
        for count in range(last, -1, -1):
            may_go_on = count >= stage._from if count else stage._optional
            passes = _PASSES_OVER[stage._inner if count else stage._contiguity]
            node = Node(TAKES, number, self._tests[number], until)
            index = self._add(node)
            loops = stage._to is None and count == last
            node.taken = index if loops else behind
            node.passes, node.until_ends = passes, until is not None and count > 0
            node.passed = index
            if may_go_on:
                node.onward, node.greedy, node.following = onward, stage._greedy, following
                if passes != NEVER:
                    waiting = Node(TAKES, number, self._tests[number], until)
                    node.passed = waiting.passed = self._add(waiting)
                    waiting.taken, waiting.passes, waiting.until_ends = node.taken, passes, node.until_ends
                    if stage._greedy:
                        waiting.onward, waiting.greedy, waiting.following = onward, True, following
            behind = index
        return behind

    def _stops(self, node: Node) -> dict[int, tuple[Test, ...]]:
        """What must not happen at a node, by the stage that took the last event.

        That stage itself is among them where the node belongs to it: it repeats, and a negation after it already
        holds while it does.
        """
        found = {}
        for last in range(min(node.stage + 1, len(self.stages))):
            end = self._end_of_gap(last) if last == node.stage else node.stage
            gap = range(last + 1, end)
            negations = [n for n in gap if self.stages[n]._contiguity == Contiguity.NOT_FOLLOWED_BY]
            if negations:
                found[last] = tuple(test for n in negations if (test := self._tests[n]) is not None)
        return found

    def _end_of_gap(self, stage: int) -> int:
        """The first stage after this one that is no ``not_followed_by``."""
        end = stage + 1
        while end < len(self.stages) and self.stages[end]._contiguity == Contiguity.NOT_FOLLOWED_BY:
            end += 1
        return end

    def _settle_ends(self, node: Node) -> None:
        """Follow the way onward as far as no event is needed: does it end the match, or wait for time to be over?"""
        at = node
        while at.kind == TAKES and at.onward is not None and not at.greedy:
            if at.onward == MATCH:
                node.accepting = True
                return
            at = self.nodes[at.onward]
        node.accepts_silence = at.kind == PENDING

    def _first_tests(self) -> list[Test | None]:
        found: list[Test | None] = []
        at: int | None = self.start
        while at is not None and at != MATCH:
            found.append(self.nodes[at].test)
            at = self.nodes[at].onward
        return found

    def _skips_what_nothing_takes(self) -> bool:
        """Whether an event that fulfils no condition at all changes nothing: no stage is strict, and every condition
        is there and looks at the event alone."""
        for position, stage in enumerate(self.stages):
            strict = position > 0 and stage._contiguity in (Contiguity.STRICT, Contiguity.NOT_NEXT)
            if strict or stage._condition is None or stage._inner == Contiguity.STRICT:
                return False
        return not any(test.with_context for test in self.tests)


def anything(event: Any) -> bool:
    return True
