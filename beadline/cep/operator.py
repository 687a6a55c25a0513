"""A pattern over a keyed stream, on keyed state and timers.

In event time an event waits in a buffer until the watermark passes its timestamp. A timer for each timestamp takes the
events out in the order of time, so that matches depend neither on the order of arrival nor on how the stream was cut
into steps. Deadlines of ``within`` are timers too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cmp_to_key
from typing import Any

from beadline.api.output_tag import OutputTag
from beadline.api.process import KeyedProcessFunction
from beadline.api.runtime_context import RuntimeContext
from beadline.api.state_descriptors import MapStateDescriptor, ValueStateDescriptor
from beadline.cep.automaton import Automaton
from beadline.cep.functions import PatternProcessFunction, TimedOutPartialMatchHandler
from beadline.cep.matcher import Matcher, Outcome, Path
from beadline.cep.pattern import Pattern
from beadline.common.typeinfo import Types
from beadline.errors import ConfigurationError

_NO_TIMESTAMP = -(1 << 63)


class _MatchContext(PatternProcessFunction.Context):
    """One object for all calls."""

    def __init__(self) -> None:
        self.time = 0
        self.call: Any = None

    def timestamp(self) -> int:
        return self.time

    def current_processing_time(self) -> int:
        now: int = self.call.timer_service().current_processing_time()
        return now

    def get_current_key(self) -> Any:
        return self.call.get_current_key()


class PatternOperator(KeyedProcessFunction):
    """What both clocks share: the matcher, its state, and what is made of matches."""

    def __init__(self, pattern: Pattern, function: PatternProcessFunction) -> None:
        self._pattern = pattern
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        self._function.open(runtime_context)
        self._matcher = Matcher(Automaton(self._pattern))
        self._matches = runtime_context.get_state(ValueStateDescriptor("_cep_matches", Types.PICKLED_BYTE_ARRAY()))
        self._context = _MatchContext()
        on_timeout = isinstance(self._function, TimedOutPartialMatchHandler)
        self._on_timeout = self._function.process_timed_out_match if on_timeout else None  # type: ignore[attr-defined]

    def close(self) -> None:
        self._function.close()

    def _advance(self, time: int, ctx: Any, results: list[Any]) -> Any:
        """The state at a time, without the partial matches whose time is over by then."""
        before = self._matches.value()
        if before is None:
            return None
        outcome = self._matcher.advance(before, time)
        if outcome.state is not before:
            self._matches.update(outcome.state)
            self._tell(outcome, time, ctx, results)
        return outcome.state

    def _show(self, state: Any, time: int, event: Any, ctx: Any, results: list[Any]) -> Outcome:
        """Match an event. If that began a partial match, the caller sets a timer for its deadline."""
        outcome = self._matcher.process(state, time, event)
        if outcome.state is not state:
            self._matches.update(outcome.state)
        if outcome.matches:
            self._tell(outcome, time, ctx, results)
        return outcome

    def _tell(self, outcome: Outcome, time: int, ctx: Any, results: list[Any]) -> None:
        if self._on_timeout is not None:
            for path, deadline in outcome.timed_out:
                self._call(self._on_timeout, path, deadline, ctx, results)
        for path in outcome.matches:
            self._call(self._function.process_match, path, time, ctx, results)

    def _call(self, function: Callable[..., Any], path: Path, time: int, ctx: Any, results: list[Any]) -> None:
        self._context.time, self._context.call = time, ctx
        produced = function(self._matcher.as_match(path), self._context)
        if produced is not None:
            results.extend(produced)


class ProcessingTimeOperator(PatternOperator):
    """Events are matched as they arrive."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        if self._matches.value() is None and not self._matcher.begins(value):
            return None
        timers = ctx.timer_service()
        now = timers.current_processing_time()
        results: list[Any] = []
        outcome = self._show(self._advance(now, ctx, results), now, value, ctx, results)
        if outcome.started:
            deadline = self._matcher.deadline(now)
            if deadline is not None:
                timers.register_processing_time_timer(deadline)
        return results or None

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        results: list[Any] = []
        self._advance(timestamp, ctx, results)
        return results or None


class EventTimeOperator(PatternOperator):
    """Events are matched in the order of their timestamps; of equal ones in that of the comparator, or of arrival."""

    def __init__(
        self,
        pattern: Pattern,
        function: PatternProcessFunction,
        comparator: Callable[[Any, Any], int] | None,
        late_tag: OutputTag | None,
    ) -> None:
        super().__init__(pattern, function)
        self._comparator = comparator
        self._late_tag = late_tag

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        # The first event of a timestamp is under the timestamp, the n-th under (timestamp, n), and from the second
        # on their number under (timestamp, 0): what comes does not write again what is there.
        kind = Types.PICKLED_BYTE_ARRAY()
        self._buffer = runtime_context.get_map_state(MapStateDescriptor("_cep_events", kind, kind))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        time = ctx.timestamp()
        if time is None or time == _NO_TIMESTAMP:
            raise ConfigurationError(
                "a pattern in event time needs timestamps: call assign_timestamps_and_watermarks() before key_by(), or "
                "in_processing_time() on the pattern stream"
            )
        timers = ctx.timer_service()
        if time <= timers.current_watermark():
            return None if self._late_tag is None else ((self._late_tag, value),)
        if not self._matcher.matters(value):
            return None
        buffer = self._buffer
        if buffer.get(time) is None:
            buffer.put(time, (value,))
            timers.register_event_time_timer(time)
        else:
            count = (buffer.get((time, 0)) or 1) + 1
            buffer.put((time, 0), count)
            buffer.put((time, count), (value,))
        return None

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        results: list[Any] = []
        state = self._advance(timestamp, ctx, results)
        first = self._buffer.get(timestamp)
        if first is None:  # a deadline alone
            return results or None
        started = False
        for event in self._take(timestamp, first[0]):
            if state is not None or self._matcher.begins(event):
                outcome = self._show(state, timestamp, event, ctx, results)
                state, started = outcome.state, started or outcome.started
        if started:
            deadline = self._matcher.deadline(timestamp)
            if deadline is not None:
                ctx.timer_service().register_event_time_timer(deadline)
        return results or None

    def _take(self, time: int, first: Any) -> list[Any]:
        """The events of a timestamp, which leave the buffer."""
        buffer = self._buffer
        buffer.remove(time)
        count = buffer.get((time, 0))
        if count is None:
            return [first]
        buffer.remove((time, 0))
        events = [first]
        for number in range(2, count + 1):
            entry = buffer.get((time, number))
            assert entry is not None
            events.append(entry[0])
            buffer.remove((time, number))
        if self._comparator is not None:
            events.sort(key=cmp_to_key(self._comparator))
        return events
