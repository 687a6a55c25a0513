"""Joins of two keyed inputs: by window, and by an interval of time."""

from __future__ import annotations

from typing import Any

from beadline.api.join_functions import ProcessJoinFunction
from beadline.api.state_descriptors import ListStateDescriptor
from beadline.common.typeinfo import Types
from beadline.errors import ConfigurationError
from beadline.graph.specs import IntervalJoinSpec
from beadline.runtime.exchange.gate import MAX_WATERMARK, MIN_WATERMARK
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.functions.aliasing import add_settled, settle_keyed
from beadline.runtime.messages import StepHeader, SubtaskInput
from beadline.runtime.operators.base import KeyedFunctionOperator, Setup
from beadline.runtime.operators.windowing.windows import WindowOperator
from beadline.state.codec import dumps, is_immutable, loads_trusted
from beadline.state.store import Store

# How many buckets an interval has: more of them take longer to search, fewer keep elements longer.
_BUCKETS = 4
_PICKLED = Types.PICKLED_BYTE_ARRAY()


class JoinWindowOperator(WindowOperator):
    """Windows over two inputs, whose elements are held with the number of their input."""

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        super().records(0, [(input_index, record) for record in records], timestamps, keys)


class PairContext(ProcessJoinFunction.Context):
    def __init__(self) -> None:
        self.left = self.right = MIN_WATERMARK

    def get_left_timestamp(self) -> int:
        return self.left

    def get_right_timestamp(self) -> int:
        return self.right

    def get_timestamp(self) -> int:
        return max(self.left, self.right)


class IntervalJoinOperator(KeyedFunctionOperator[IntervalJoinSpec]):
    """Keeps the elements of both sides until nothing that can still come would match them.

    Elements lie in buckets of time, each a list in the state of (key, (side, bucket)). An element that comes looks
    through the few buckets of the other side that its interval touches. A bucket has one timer, which drops it when
    the watermark has passed everything that could match its last element.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        spec = self.spec
        # By side: how far before and after an element the other side's matches are.
        self._bounds = ((spec.lower, spec.upper), (-spec.upper, -spec.lower))
        self._width = max(1, -(-(spec.upper - spec.lower + 1) // _BUCKETS))
        self._process = spec.function.process_element
        self._late_tags = spec.late_tags
        self._pair = PairContext()
        self._late_dropped = self.context.metrics.counter("numLateRecordsDropped")
        self._touched: set[Any] = set()

    def open(self) -> None:
        super().open()
        self._held = self.backend.state(ListStateDescriptor("_interval-join", _PICKLED), windowed=True)

    def begin(self, header: StepHeader, start: SubtaskInput, store: Store | None) -> None:
        super().begin(header, start, store)
        self._touched.clear()  # timers of an attempt that was not sealed are not registered

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        assert keys is not None
        self.records_in += len(records)
        if timestamps is None or MIN_WATERMARK in timestamps:
            first = records[0 if timestamps is None else timestamps.index(MIN_WATERMARK)]
            self.fail(
                first,
                ConfigurationError(
                    f"an interval join needs elements with timestamps, and the {('left', 'right')[input_index]} stream "
                    "has none: call assign_timestamps_and_watermarks() with a timestamp assigner before key_by()"
                ),
            )
        scope = self.backend.scope
        watermark = self.clock.watermark
        results: list[Any] = []
        times: list[int] = []
        late: list[Any] = []
        late_times: list[int] = []
        record = None
        try:
            for record, time, scope.slot in zip(records, timestamps, keys, strict=True):
                if time < watermark:
                    late.append(record)
                    late_times.append(time)
                else:
                    self._hold(record, time, input_index)
                    self._match(record, time, input_index, results, times)
        except Exception as error:
            self.fail(record, error)
        self.emit(results, times)
        tag = self._late_tags[input_index]
        if late and tag is None:
            self._late_dropped.inc(len(late))
        elif late and tag is not None:
            self.output.emit_side(tag, late, late_times)

    def _hold(self, record: Any, time: int, side: int) -> None:
        bucket = time // self._width
        slot = (self.backend.scope.slot, (side, bucket))
        self._held._table.append(slot, (time, record))
        if slot not in self._touched:
            self._touched.add(slot)
            last = (bucket + 1) * self._width - 1
            gone = min(last + max(self._bounds[side][1], 0), MAX_WATERMARK)
            self.backend.event_timers.register(gone, slot)

    def _match(self, record: Any, time: int, side: int, results: list[Any], times: list[int]) -> None:
        """Call the function with the element and each one of the other side that lies in its interval."""
        key, table = self.backend.scope.slot, self._held._table
        overlay, base = table.overlay, table.base
        first, last = time + self._bounds[side][0], time + self._bounds[side][1]
        pair, process, other = self._pair, self._process, 1 - side
        data: bytes | None = None
        for bucket in range(first // self._width, last // self._width + 1):
            slot = (key, (other, bucket))
            # Most buckets are empty.
            for other_time, element in (table.get(slot) or ()) if slot in overlay or slot in base else ():
                if first <= other_time <= last:
                    if data is None:
                        data = b"" if is_immutable(record) else dumps(record)
                    # Each pair gets its own copy: the function may change it.
                    own = loads_trusted(data) if data else record
                    if side == 0:
                        pair.left, pair.right = time, other_time
                        produced = process(own, element, pair)
                    else:
                        pair.left, pair.right = other_time, time
                        produced = process(element, own, pair)
                    if produced is not None:
                        add_settled(results, produced, settle_keyed)
                        times.extend([max(time, other_time)] * (len(results) - len(times)))

    # -- timers

    def enter(self, slot: Any) -> None:
        self.backend.scope.slot = slot[0]
        self.backend.window_scope.slot = slot

    def on_timer(self, timestamp: int, context: Any) -> None:
        self._held.clear()
        self._touched.discard(self.backend.window_scope.slot)
