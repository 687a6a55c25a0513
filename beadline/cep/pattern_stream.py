"""Patterns on streams."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from beadline.api.output_tag import OutputTag
from beadline.cep.automaton import Automaton
from beadline.cep.functions import (
    Match,
    PatternProcessFunction,
    Select,
    SelectWithTimeout,
    TimedOutPartialMatchHandler,
)
from beadline.cep.operator import EventTimeOperator, PatternOperator, ProcessingTimeOperator
from beadline.cep.pattern import Pattern
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.data_stream import DataStream
from beadline.datastream.streams.keyed import KeyedStream
from beadline.datastream.streams.operator_settings import check_process_function
from beadline.errors import ConfigurationError, GraphError, TypeMismatchError


class CEP:
    """Where patterns meet streams."""

    @staticmethod
    def pattern(
        stream: KeyedStream, pattern: Pattern, comparator: Callable[[Any, Any], int] | None = None
    ) -> PatternStream:
        """Look for a pattern among the events of each key.

        :param comparator: orders events of the same timestamp: negative, 0 or positive as the first comes before, with
            or after the second. Without it they come in the order of arrival, which with several sources may differ
            from run to run.
        """
        if not isinstance(stream, KeyedStream):
            if isinstance(stream, DataStream):
                raise GraphError(
                    "patterns are looked for in the events of one key: put a key_by() before CEP.pattern(), "
                    "key_by(lambda event: 0) if all events belong together"
                )
            raise TypeMismatchError(f"CEP.pattern() takes the stream that key_by() returns, got {stream!r}")
        if not isinstance(pattern, Pattern):
            raise TypeMismatchError(f"CEP.pattern() takes a Pattern, such as Pattern.begin('first'), got {pattern!r}")
        if comparator is not None and not callable(comparator):
            raise TypeMismatchError(f"the comparator is a function of two events, got {comparator!r}")
        Automaton(pattern)  # errors in it are raised here, not in a worker
        return PatternStream(stream, pattern, comparator)


class PatternStream:
    """Matches of a pattern, before results are made of them. In event time by default."""

    def __init__(
        self, stream: KeyedStream, pattern: Pattern, comparator: Callable[[Any, Any], int] | None = None
    ) -> None:
        self._stream = stream
        self._pattern = pattern
        self._comparator = comparator
        self._late_tag: OutputTag | None = None
        self._event_time = True

    def __repr__(self) -> str:
        return f"<PatternStream of {self._pattern!r} on {self._stream!r}>"

    def in_event_time(self) -> PatternStream:
        """Events in the order of their timestamps, each as soon as the watermark has passed it."""
        return self._with(_event_time=True)

    def in_processing_time(self) -> PatternStream:
        """Events in the order of arrival; ``within`` goes by the wall clock."""
        return self._with(_event_time=False)

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> PatternStream:
        """Events that the watermark had already passed go to this side output instead of being dropped."""
        return self._with(_late_tag=_checked_tag(late_data_output_tag, "side_output_late_data()"))

    def _with(self, **changed: Any) -> PatternStream:
        other = copy.copy(self)
        vars(other).update(changed)
        return other

    # -- results

    def select(
        self,
        select_function: Callable[[Match], Any],
        output_type: TypeInformation | None = None,
        timed_out_tag: OutputTag | None = None,
        timeout_function: Callable[[Match, int], Any] | None = None,
    ) -> DataStream:
        """One result for each match: ``select_function({"first": [event], …})``.

        With a tag and ``timeout_function(match, time)``, partial matches that ran out of time go to a side output.
        """
        return self._select("select", select_function, False, output_type, timed_out_tag, timeout_function)

    def flat_select(
        self,
        flat_select_function: Callable[[Match], Any],
        output_type: TypeInformation | None = None,
        timed_out_tag: OutputTag | None = None,
        timeout_function: Callable[[Match, int], Any] | None = None,
    ) -> DataStream:
        """Any number of results for each match, and for each partial match that ran out of time."""
        return self._select("flat_select", flat_select_function, True, output_type, timed_out_tag, timeout_function)

    def process(
        self, pattern_process_function: PatternProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Matches with the clocks and side outputs. To hear of partial matches that ran out of time, let the function
        be a :class:`TimedOutPartialMatchHandler` as well."""
        check_process_function(pattern_process_function, PatternProcessFunction, "process() of a pattern stream")
        return self._apply(pattern_process_function, output_type)

    def _select(
        self,
        what: str,
        function: Any,
        flat: bool,
        output_type: TypeInformation | None,
        tag: OutputTag | None,
        timeout_function: Any,
    ) -> DataStream:
        for given in (function, timeout_function):
            if given is not None and (isinstance(given, type) or not callable(given)):
                raise TypeMismatchError(f"{what}() takes a function of a match, got {given!r}")
        if function is None:
            raise TypeMismatchError(f"{what}() takes a function of a match, got None")
        if (tag is None) != (timeout_function is None):
            raise ConfigurationError(f"{what}(): timed_out_tag and timeout_function belong together; give both or none")
        if tag is None:
            return self._apply(Select(function, flat), output_type)
        chosen = SelectWithTimeout(function, flat, _checked_tag(tag, f"{what}()"), timeout_function)
        result = self._apply(chosen, output_type)
        result._edges[0].source.side_types[tag.tag_id] = tag.type_info
        return result

    def _apply(self, function: PatternProcessFunction, output_type: TypeInformation | None) -> DataStream:
        if isinstance(function, TimedOutPartialMatchHandler) and self._pattern.get_window_time() is None:
            raise GraphError("nothing can run out of time, since the pattern has no within(): add within(…)")
        if not self._event_time and (self._comparator is not None or self._late_tag is not None):
            raise ConfigurationError(
                "in processing time events are matched as they arrive: there are no late ones for a side output, and "
                "none of the same timestamp for a comparator"
            )
        operator: PatternOperator
        if self._event_time:
            operator = EventTimeOperator(self._pattern, function, self._comparator, self._late_tag)
        else:
            operator = ProcessingTimeOperator(self._pattern, function)
        result = self._stream.process(operator, output_type).name("Pattern")
        if self._late_tag is not None:
            result._edges[0].source.side_types[self._late_tag.tag_id] = self._late_tag.type_info
        return result


def _checked_tag(tag: Any, what: str) -> OutputTag:
    if not isinstance(tag, OutputTag):
        raise TypeMismatchError(f"{what} takes an OutputTag, got {tag!r}")
    return tag
