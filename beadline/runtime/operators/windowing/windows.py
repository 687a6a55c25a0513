"""The window operator: assigns elements to windows, lets triggers decide, evaluates, cleans up.

Contents live in keyed state by (key, window); with a fold they are one accumulator. A window and everything that
belongs to it is dropped when its end and its allowed lateness have passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from beadline.api.function import AggregateFunction
from beadline.api.state import MapState
from beadline.api.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
)
from beadline.api.time_domain import TimeDomain
from beadline.api.windows.assigner import MergingWindowAssigner
from beadline.api.windows.trigger import TriggerResult
from beadline.api.windows.window import TimeWindow
from beadline.common.typeinfo import Types
from beadline.errors import ConfigurationError
from beadline.graph.specs import WindowSpec
from beadline.runtime.exchange.gate import MAX_WATERMARK, MIN_WATERMARK
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.functions.aliasing import add_settled, settle_keyed
from beadline.runtime.operators.base import KeyedFunctionOperator, Setup
from beadline.runtime.operators.windowing.contexts import AssignerContext, TriggerCallContext, WindowCallContext

_EMIT_AT = 4096
_PICKLED = Types.PICKLED_BYTE_ARRAY()

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]


def namespace_of(window: Any) -> Any:
    """What stands for a window in a slot: a plain tuple hashes many times faster than an object."""
    return (window.start, window.end) if window.__class__ is TimeWindow else window


def window_of(namespace: Any) -> Any:
    return TimeWindow(*namespace) if namespace.__class__ is tuple else namespace


class MergingWindows:
    """The merging windows of the current key, kept in map state: window to *state window*.

    Contents stay where they are when a window grows: the new window keeps the slot of one of the merged ones, so
    that an element costs the same however many came before it.
    """

    def __init__(self, assigner: MergingWindowAssigner[Any, Any], windows: MapState[Any, Any]) -> None:
        self._assigner = assigner
        self._windows = windows

    def state_window(self, window: Any) -> Any:
        """Where a window's contents are; None if there is no such window any more."""
        return self._windows.get(window)

    def retire(self, window: Any) -> None:
        self._windows.remove(window)

    def add(self, window: Any, on_merge: OnMerge) -> Any:
        """Add a window and merge what belongs together. Gives the window that the new one has become part of.

        ``on_merge(result, merged, state window, merged state windows)`` is called for every merge of existing windows.
        """
        known = list(self._windows.keys())
        merges: list[tuple[Any, list[Any]]] = []

        class Callback(MergingWindowAssigner.MergeCallback[Any]):
            def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
                merges.append((merge_result, list(to_be_merged)))

        self._assigner.merge_windows([*known, window], Callback())
        result = window
        for merge_result, parts in merges:
            existing = [part for part in parts if part in known]
            if window in parts:
                result = merge_result
            state_windows = [self._windows.get(part) for part in existing]
            for part in existing:
                self._windows.remove(part)
            kept = state_windows[0] if state_windows else merge_result
            self._windows.put(merge_result, kept)
            if existing and existing != [merge_result]:
                on_merge(merge_result, [part for part in existing if part != merge_result], kept, state_windows[1:])
        if self._windows.get(result) is None:
            self._windows.put(result, result)
        return result


class WindowOperator(KeyedFunctionOperator[WindowSpec]):
    """Windows of a keyed stream; a whole stream's windows are those of one key."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        spec = self.spec
        self._assigner = spec.assigner
        self._event_time = spec.assigner.is_event_time()
        self._results: list[Any] = []
        self._times: list[int] = []
        self._late: list[Any] = []
        self._late_times: list[int] = []
        self._late_dropped = self.context.metrics.counter("numLateRecordsDropped") if spec.late_tag is None else None
        self._assigning = AssignerContext(self.clock, self.context)
        self._triggering = TriggerCallContext(self.clock, self.backend, self.context.metrics)
        self._calling = WindowCallContext(self.clock, self.backend)

    def open(self) -> None:
        super().open()
        fold = self.spec.fold
        descriptor: Any
        if fold is None:
            descriptor = ListStateDescriptor("window-contents", _PICKLED)
        elif isinstance(fold, AggregateFunction):
            descriptor = AggregatingStateDescriptor("window-contents", fold, _PICKLED)
        else:
            descriptor = ReducingStateDescriptor("window-contents", fold, _PICKLED)
        self._contents = self.backend.state(descriptor, windowed=True)
        self._merging: MergingWindows | None = None
        if isinstance(self._assigner, MergingWindowAssigner):
            windows = self.backend.state(MapStateDescriptor("merging-windows", _PICKLED, _PICKLED))
            self._merging = MergingWindows(self._assigner, windows)

    # -- elements

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        assert keys is not None
        self.records_in += len(records)
        scope, assign, assigning = self.backend.scope, self._assigner.assign_windows, self._assigning
        add_to = self._add_merging if self._merging is not None else self._add
        if timestamps is None and self._event_time and records:
            self.fail(
                records[0],
                ConfigurationError(
                    "event-time windows need records with timestamps, and this stream has none: call "
                    "assign_timestamps_and_watermarks() before the window, or use processing-time windows"
                ),
            )
        record = None
        time = MIN_WATERMARK
        try:
            for position, record in enumerate(records):
                scope.slot = keys[position]
                if timestamps is not None:
                    time = timestamps[position]
                accepted = False
                for window in assign(record, time, assigning):
                    accepted = add_to(record, time, window) or accepted
                if not accepted and self._is_late(time):
                    self._take_late(record, time)
        except Exception as error:
            self.fail(record, error)
        self._flush()

    def _add(self, record: Any, time: int, window: Any) -> bool:
        if self._is_window_late(window):
            return False
        self.backend.window_scope.slot = (self.backend.scope.slot, namespace_of(window))
        self._contents.add(self._held(record, time))
        self._react(self.spec.trigger.on_element(record, time, window, self._triggering), window, window)
        self._register_cleanup(window)
        return True

    def _add_merging(self, record: Any, time: int, window: Any) -> bool:
        assert self._merging is not None
        actual = self._merging.add(window, self._merged)
        if self._is_window_late(actual):
            self._merging.retire(actual)
            return False
        state_window = self._merging.state_window(actual)
        self._enter_window(state_window)
        self._contents.add(self._held(record, time))
        self._enter_window(actual)
        self._react(self.spec.trigger.on_element(record, time, actual, self._triggering), actual, state_window)
        self._register_cleanup(actual)
        return True

    def _held(self, record: Any, time: int) -> Any:
        """An evictor may ask for an element's time, so the time is kept with it."""
        return record if self.spec.evictor is None else (time, record)

    def _merged(self, result: Any, merged: list[Any], state_window: Any, merged_states: list[Any]) -> None:
        """Several windows have become one: merge triggers and contents, drop the old windows' timers."""
        if self._is_late(result.max_timestamp()):
            raise ConfigurationError(
                f"the windows {merged} were merged to {result}, whose end is before the watermark "
                f"{self.clock.watermark}; a merging assigner must not make windows that are already over"
            )
        self._enter_window(result)
        self._triggering.merged = [self._key_and(window) for window in merged]
        self.spec.trigger.on_merge(result, self._triggering)
        for window in merged:
            self._enter_window(window)
            self.spec.trigger.clear(window, self._triggering)
            self._delete_cleanup(window)
        if merged_states:
            self._contents.merge_slots([self._key_and(w) for w in merged_states], self._key_and(state_window))

    # -- what the trigger says

    def _react(self, said: TriggerResult, window: Any, state_window: Any) -> None:
        if said is TriggerResult.CONTINUE:
            return
        self._enter_window(state_window)
        if said.is_fire():
            self._evaluate(window, state_window)
        if said.is_purge():
            self._enter_window(state_window)
            self._contents.clear()
        self._enter_window(window)

    def _evaluate(self, window: Any, state_window: Any) -> None:
        contents = self._contents.get()
        if contents is None or (self.spec.fold is None and not contents):
            return
        if self.spec.evictor is not None:
            contents = self._evicted(list(contents), window, state_window)
        add_settled(self._results, self._call(window, contents), settle_keyed)
        time = window.max_timestamp()
        self._times.extend([time] * (len(self._results) - len(self._times)))

    def _evicted(self, held: list[Any], window: Any, state_window: Any) -> list[Any]:
        """Let the evictor take elements out, before the function or after it; they are gone from the contents."""
        evictor = self.spec.evictor
        kept = evictor.evict_before(held, len(held), window, self.clock)
        remaining = evictor.evict_after(list(kept), len(kept), window, self.clock)
        self._enter_window(state_window)
        self._contents.update(remaining)
        return [record for _, record in kept]

    def _call(self, window: Any, contents: Any) -> Iterable[Any]:
        function = self.spec.function
        if function is None:
            return [contents]
        inputs = [contents] if self.spec.fold is not None else contents
        self._enter_window(window)
        self._calling.current = window
        key = self.call.get_current_key()
        process = getattr(function, "process", None)
        if process is not None:
            produced = process(self._calling, inputs) if self.spec.unkeyed else process(key, self._calling, inputs)
        else:
            apply = function.apply
            produced = apply(window, inputs) if self.spec.unkeyed else apply(key, window, inputs)
        return produced if produced is not None else ()

    # -- timers

    def enter(self, slot: Any) -> None:
        self.backend.scope.slot = slot[0]
        self.backend.window_scope.slot = slot

    def _enter_window(self, window: Any) -> None:
        self.backend.window_scope.slot = self._key_and(window)

    def _key_and(self, window: Any) -> Any:
        return self.backend.scope.slot, namespace_of(window)

    def on_timer(self, timestamp: int, context: Any) -> Any:
        window = window_of(self.backend.window_scope.slot[1])
        state_window = window
        if self._merging is not None:
            state_window = self._merging.state_window(window)
            if state_window is None:
                return None  # a timer of a window that has been merged away
        event_time = context.domain is TimeDomain.EVENT_TIME
        trigger = self.spec.trigger
        react = trigger.on_event_time if event_time else trigger.on_processing_time
        self._react(react(timestamp, window, self._triggering), window, state_window)
        if event_time is self._event_time and timestamp == self._cleanup_time(window):
            self._drop(window, state_window)
        if len(self._results) >= _EMIT_AT:
            self._flush()
        return None

    def _fire(self, due: Any, domain: TimeDomain) -> None:
        super()._fire(due, domain)
        self._flush()

    def _drop(self, window: Any, state_window: Any) -> None:
        self._enter_window(state_window)
        self._contents.clear()
        self._enter_window(window)
        self.spec.trigger.clear(window, self._triggering)
        clear = getattr(self.spec.function, "clear", None)
        if clear is not None:
            self._calling.current = window
            clear(self._calling)
        if self._merging is not None:
            self._merging.retire(window)

    def _cleanup_time(self, window: Any) -> int:
        last: int = window.max_timestamp()
        return min(last + self.spec.allowed_lateness, MAX_WATERMARK) if self._event_time else last

    def _register_cleanup(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time != MAX_WATERMARK:  # a window without end is not cleaned up
            self._timers().register(time, self._key_and(window))

    def _delete_cleanup(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time != MAX_WATERMARK:
            self._timers().delete(time, self._key_and(window))

    def _timers(self) -> Any:
        return self.backend.event_timers if self._event_time else self.backend.processing_timers

    # -- lateness and results

    def _is_window_late(self, window: Any) -> bool:
        return self._event_time and self._cleanup_time(window) <= self.clock.watermark

    def _is_late(self, time: int) -> bool:
        return self._event_time and time + self.spec.allowed_lateness <= self.clock.watermark

    def _take_late(self, record: Any, time: int) -> None:
        if self._late_dropped is not None:
            self._late_dropped.inc()
        else:
            self._late.append(record)
            self._late_times.append(time)

    def _flush(self) -> None:
        if self._results:
            results, times, self._results, self._times = self._results, self._times, [], []
            self.emit(results, times)
        if self._late:
            assert self.spec.late_tag is not None
            late, times, self._late, self._late_times = self._late, self._late_times, [], []
            self.output.emit_side(self.spec.late_tag, late, times)

    def start(self) -> Iterator[None]:
        self._triggering.begin()
        return super().start()
