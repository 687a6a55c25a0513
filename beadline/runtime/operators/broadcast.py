"""The operator over a stream and a broadcast one.

The broadcast rows of a step come before its data, chunk by chunk over all channels in one order that is the same for
every subtask. So every subtask and every re-run gets the same state from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from beadline.graph.specs import BroadcastSpec
from beadline.runtime.exchange.gate import MIN_WATERMARK
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.functions.aliasing import add_settled, add_taken, settle_keyed
from beadline.runtime.functions.broadcast_context import BroadcastContexts, KeyedBroadcastContext, KeyedElementContext
from beadline.runtime.functions.context import KeyedCallContext
from beadline.runtime.operators.base import FunctionOperator, Setup

BROADCAST_INPUT = 1


class BroadcastOperator(FunctionOperator[BroadcastSpec]):
    """Calls ``process_element`` for the elements of one side, ``process_broadcast_element`` for those of the other."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._function = self.spec.function
        states = [self.states.broadcast_state(descriptor, self._function) for descriptor in self.spec.descriptors]
        self._contexts = BroadcastContexts(self.node.name, states, self.clock, self.backend)

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        contexts = self._contexts
        if input_index != BROADCAST_INPUT:
            if timestamps is None and keys is not None:
                self.process_keyed(self._function.process_element, contexts.element, records, keys)
            else:
                self._loop(self._function.process_element, contexts.element, records, timestamps, keys)
            return
        if self.backend is not None:
            assert isinstance(contexts.broadcast, KeyedBroadcastContext)
            self.backend.scope.slot = contexts.broadcast.no_key
        contexts.gate.open = True
        try:
            self._loop(self._function.process_broadcast_element, contexts.broadcast, records, timestamps, None)
        finally:
            contexts.gate.open = False

    def _loop(
        self,
        call: Callable[[Any, Any], Iterable[Any] | None],
        context: Any,
        records: list[Any],
        timestamps: Timestamps,
        keys: list[Any] | None,
    ) -> None:
        self.records_in += len(records)
        scope = self.backend.scope if self.backend is not None and keys is not None else None
        take = self.output.take
        # What a function gives may be part of the broadcast state, with a key or without.
        settle, gather = (take, add_taken) if take is not None else (settle_keyed, add_settled)
        context.time = MIN_WATERMARK
        results: list[Any] = []
        times: list[int] = []
        record = None
        try:
            for position, record in enumerate(records):
                if timestamps is not None:
                    context.time = timestamps[position]
                if scope is not None:
                    assert keys is not None
                    scope.slot = keys[position]
                produced = call(record, context)
                if produced is not None:
                    gather(results, produced, settle)
                    if timestamps is not None:
                        times.extend([context.time] * (len(results) - len(times)))
        except Exception as error:
            self.fail(record, error)
        self.emit(results, None if timestamps is None else times, taken=take is not None)

    def on_timer(self, timestamp: int, context: Any) -> Any:
        own = self._contexts.element
        assert isinstance(own, KeyedElementContext)
        assert isinstance(context, KeyedCallContext)
        own.time, own.domain = timestamp, context.domain
        return self._function.on_timer(timestamp, own)
