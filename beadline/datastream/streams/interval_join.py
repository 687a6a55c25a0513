from __future__ import annotations

from typing import Any, NoReturn

from beadline.api.arguments import as_milliseconds
from beadline.api.join_functions import ProcessJoinFunction
from beadline.api.output_tag import OutputTag
from beadline.common.time import Duration, Time
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.data_stream import DataStream
from beadline.datastream.streams.joined import TwoKeyedInputs, checked_sides, same_key_type
from beadline.datastream.streams.keyed import KeyedStream
from beadline.datastream.streams.operator_settings import check_process_function
from beadline.errors import ConfigurationError, GraphError, TypeMismatchError, UnsupportedFeatureError
from beadline.graph.specs import IntervalJoinSpec


class IntervalJoin:
    """Two keyed streams to be joined by time.

    ::

        orders.key_by(…).interval_join(shipments.key_by(…))
            .between(Time.hours(0), Time.hours(4))     # shipped at most four hours after the order
            .process(Shipped())
    """

    def __init__(self, left: KeyedStream, right: Any) -> None:
        if isinstance(right, DataStream) and not isinstance(right, KeyedStream):
            raise GraphError("interval_join() joins two keyed streams: call key_by() on the other stream too")
        checked_sides(left, right, "interval_join()")
        self._left = left
        self._right: KeyedStream = right

    def __repr__(self) -> str:
        return f"<IntervalJoin of {self._left!r} and {self._right!r}>"

    def in_event_time(self) -> IntervalJoin:
        """Join by the timestamps of the elements, which is the default and the only way."""
        return self

    def in_processing_time(self) -> NoReturn:
        raise UnsupportedFeatureError(
            "Time-bounded stream joins are only supported in event time: leave out in_processing_time(). To join by "
            "the wall clock, use join() with processing-time windows, or a KeyedCoProcessFunction."
        )

    def between(self, lower_bound: Time | Duration, upper_bound: Time | Duration) -> IntervalJoined:
        """A right element matches if its time is the left element's time plus something from ``lower_bound`` to
        ``upper_bound``, both included; both may be negative."""
        lower = as_milliseconds(lower_bound, "lower bound")
        upper = as_milliseconds(upper_bound, "upper bound")
        if lower > upper:
            raise ConfigurationError(
                f"between(): the lower bound ({lower} ms) is larger than the upper bound ({upper} ms), so "
                "nothing could match"
            )
        return IntervalJoined(self._left, self._right, lower, upper)


class IntervalJoined:
    """A join that knows its interval, waiting for its function."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower: int, upper: int) -> None:
        self._left = left
        self._right = right
        self._lower = lower
        self._upper = upper
        self._exclusive = [False, False]
        self._late_tags: list[OutputTag | None] = [None, None]

    def __repr__(self) -> str:
        return f"<IntervalJoined of {self._left!r} and {self._right!r} between {self._text()}>"

    def _text(self) -> str:
        opening, closing = "(" if self._exclusive[0] else "[", ")" if self._exclusive[1] else "]"
        return f"{opening}{self._lower} ms, {self._upper} ms{closing}"

    def lower_bound_exclusive(self) -> IntervalJoined:
        self._exclusive[0] = True
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        self._exclusive[1] = True
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Left elements that are late go to this side output instead of being dropped."""
        return self._late(0, output_tag, "side_output_left_late_data()")

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Right elements that are late go to this side output instead of being dropped."""
        return self._late(1, output_tag, "side_output_right_late_data()")

    def _late(self, side: int, output_tag: Any, what: str) -> IntervalJoined:
        if not isinstance(output_tag, OutputTag):
            raise TypeMismatchError(f"{what} takes an OutputTag, got {output_tag!r}")
        self._late_tags[side] = output_tag
        return self

    def process(
        self, process_join_function: ProcessJoinFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Call the function with each pair of elements that share a key and lie within the interval.

        What it yields has the later of the two timestamps.
        """
        check_process_function(process_join_function, ProcessJoinFunction, "process() of an interval join")
        lower, upper = self._lower + self._exclusive[0], self._upper - self._exclusive[1]
        if lower > upper:
            raise ConfigurationError(f"the interval {self._text()} of the join is empty, so nothing could match")
        left, right = (None if tag is None else tag.tag_id for tag in self._late_tags)
        spec = IntervalJoinSpec(process_join_function, lower, upper, (left, right))
        keys = same_key_type(self._left._hash, self._right._hash)
        inputs = TwoKeyedInputs(self._left._origin, self._right._origin, keys)
        result = inputs._apply("Interval Join", spec, output_type)
        for tag in self._late_tags:
            if tag is not None:
                result.get_side_output(tag)  # makes the type known, and refuses two types for one tag
        return result
