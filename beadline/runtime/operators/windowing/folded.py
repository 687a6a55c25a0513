"""A short path for the windows of most programs: tumbling and sliding ones in event time, with a fold.

Their trigger fires once, when the watermark passes the end of the window, and then the window is gone. So a window has
one timer, registered with its first element of a step, and all that is left to do for an element is to fold it.
"""

from __future__ import annotations

from typing import Any

from beadline.api.function import AggregateFunction
from beadline.api.time_domain import TimeDomain
from beadline.api.windows.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from beadline.api.windows.triggers import EventTimeTrigger
from beadline.graph.specs import WindowSpec
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.failure import UserCodeError
from beadline.runtime.functions.aliasing import only_atoms, settle_keyed
from beadline.runtime.operators.base import Operator, Setup
from beadline.runtime.operators.windowing.windows import WindowOperator, namespace_of
from beadline.state.codec import ATOMS

_EMIT_AT = 4096
_KNOWN = 4096


def make_window_operator(setup: Setup) -> Operator[WindowSpec]:
    spec = setup.node.spec
    assert isinstance(spec, WindowSpec)
    return FoldedWindowOperator(setup) if _fits(spec) else WindowOperator(setup)


def _fits(spec: WindowSpec) -> bool:
    """Whether the short path gives what the long one would. Subclasses of assigners and triggers may do anything."""
    assigner = spec.assigner
    if type(assigner) is SlidingEventTimeWindows:
        regular = assigner._size % assigner._slide == 0
    else:
        regular = type(assigner) is TumblingEventTimeWindows
    return (
        regular
        and type(spec.trigger) is EventTimeTrigger
        and spec.fold is not None
        and spec.evictor is None
        and spec.allowed_lateness == 0
    )


class FoldedWindowOperator(WindowOperator):
    """Does what :class:`WindowOperator` does for the same spec, state and timers included."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        assigner = self._assigner
        self._period: int = assigner._slide if type(assigner) is SlidingEventTimeWindows else assigner._size
        self._offset: int = assigner._offset
        # By number of the period: (last time, what stands for the window) of each window, the latest first.
        self._known: dict[int, list[tuple[int, Any]]] = {}
        fold = self.spec.fold
        aggregates = isinstance(fold, AggregateFunction)
        self._reduce: Any = None  # set when there is a state to ask
        self._add_to: Any = fold.add if aggregates else None
        self._create: Any = fold.create_accumulator if aggregates else None
        self._get_result: Any = fold.get_result if aggregates else None

    def open(self) -> None:
        super().open()
        self._reduce = None if self._add_to is not None else self._contents._reduce

    def _learn(self, record: Any, time: int) -> list[tuple[int, Any]]:
        if len(self._known) >= _KNOWN:
            self._known.clear()
        windows = self._assigner.assign_windows(record, time, self._assigning)
        found = self._known[(time - self._offset) // self._period] = [
            (window.max_timestamp(), namespace_of(window)) for window in windows
        ]
        return found

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        if timestamps is None:
            super().records(input_index, records, timestamps, keys)  # which raises an error that says what is missing
            return
        assert keys is not None
        self.records_in += len(records)
        scope, register = self.backend.scope, self.backend.event_timers.register
        # The handle's insides: going through it would cost more than the fold itself.
        writes, get = self._contents._table.writes, self._contents._table.get
        reduce, add, create = self._reduce, self._add_to, self._create
        known, offset, period = self._known.get, self._offset, self._period
        watermark = self.clock.watermark
        record = None
        try:
            for record, time, key in zip(records, timestamps, keys, strict=True):
                scope.slot = key
                accepted = False
                for last, namespace in known((time - offset) // period) or self._learn(record, time):
                    if last <= watermark:
                        break  # and so are the windows before it
                    slot = key, namespace
                    current = writes.get(slot)
                    if current is None:
                        register(last, slot)
                        current = get(slot)
                        if current is None and add is not None:
                            current = create()
                    if add is not None:
                        writes[slot] = add(record, current)
                    else:
                        writes[slot] = record if current is None else reduce(current, record)
                    accepted = True
                if not accepted and time <= watermark:
                    self._take_late(record, time)
        except Exception as error:
            self.fail(record, error)
        self._flush()

    def _fire(self, due: Any, domain: TimeDomain) -> None:
        """Windows without a function of their own: their contents are the results."""
        if self.spec.function is not None or domain is not TimeDomain.EVENT_TIME:
            super()._fire(due, domain)
            return
        table = self._contents._table
        get, writes, base = table.get, table.writes, table.base
        get_result = self._get_result
        results: list[Any] = []
        times: list[int] = []
        for timestamp, slot in due:
            result = get(slot)
            if slot in base:
                writes[slot] = None
            else:
                writes.pop(slot, None)  # opened and over within the step: there is nothing to store
            if result is None:
                continue
            if get_result is not None:
                try:
                    result = get_result(result)
                except Exception as error:
                    self.enter(slot)
                    key = self.call.get_current_key()
                    raise UserCodeError(
                        f"{self.node.name} (timer at {timestamp})", key, error, made_at=self.node.made_at
                    ) from error
            kind = result.__class__
            plain = kind in ATOMS or (kind is tuple and only_atoms(map(type, result)))
            results.append(result if plain else settle_keyed(result))
            times.append(timestamp)
            if len(results) >= _EMIT_AT:
                self.emit(results, times)
                results, times = [], []
        self.emit(results, times)
