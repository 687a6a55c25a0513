"""Operators that call user functions, one class per shape.

They work on whole batches: apart from user code, the loop over records is the only Python that runs per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import length_hint
from typing import Any

from beadline.api.function import Function
from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.common.typeinfo import Types
from beadline.graph.specs import FunctionSpec
from beadline.runtime.exchange.gate import MAX_WATERMARK, MIN_WATERMARK
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.failure import UserCodeError
from beadline.runtime.functions.aliasing import add_settled, add_taken, only_atoms, settle_keyed, settle_unkeyed
from beadline.runtime.operators.base import FunctionOperator, KeyedFunctionOperator, Setup
from beadline.state.access.keyed import KeyedValueState
from beadline.state.codec import ATOMS


class _UserFunctionOperator(FunctionOperator[FunctionSpec]):
    """Finds the user's method: a callable is taken as it is, a Function by the method of its shape."""

    methods: tuple[str, ...]

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.function = function = self.spec.function
        self.calls: list[Callable[..., Any]] = [
            getattr(function, method) if isinstance(function, Function) else function for method in self.methods
        ]


def _last_taken(records: list[Any], waiting: Iterator[Any]) -> Any:
    """The record that an iterator over a list gave last."""
    return records[len(records) - length_hint(waiting) - 1]


class MapOperator(_UserFunctionOperator):
    methods: tuple[str, ...] = ("map",)

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self.records_in += len(records)
        call, take = self.calls[input_index], self.output.take
        if take is not None and self.backend is None:
            self._map_typed(call, take, records, timestamps)
            return
        results: list[Any] = []
        add = results.append
        record = None
        try:
            if self.backend is None:
                for record in records:
                    result = call(record)
                    kind = result.__class__
                    if (kind is tuple and only_atoms(map(type, result))) or kind in ATOMS or result is record:
                        add(result)
                    else:
                        add(settle_unkeyed(result))
            else:
                assert keys is not None
                scope = self.backend.scope
                for record, scope.slot in zip(records, keys, strict=True):
                    add(settle_keyed(call(record)))
        except Exception as error:
            self.fail(record, error)
        self.emit(results, timestamps)

    def _map_typed(
        self, call: Callable[[Any], Any], take: Callable[[Any], Any], records: list[Any], timestamps: Timestamps
    ) -> None:
        waiting = iter(records)
        try:
            results = list(map(take, map(call, waiting)))
        except Exception as error:
            self.fail(_last_taken(records, waiting), error)
        self.emit(results, timestamps, taken=True)


class FilterOperator(_UserFunctionOperator):
    methods = ("filter",)

    def _output_type(self) -> Any:
        return None  # records pass as they are

    def doubt(self) -> None:
        self.output.expect(self.node.output_type)

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self.records_in += len(records)
        call = self.calls[0]
        if self.backend is None and timestamps is None:
            self._filter(call, records)
            return
        kept: list[int] = []
        record = None
        scope = self.backend.scope if self.backend is not None else None
        try:
            for position, record in enumerate(records):
                if scope is not None:
                    assert keys is not None
                    scope.slot = keys[position]
                if call(record):
                    kept.append(position)
        except Exception as error:
            self.fail(record, error)
        times = None if timestamps is None else [timestamps[i] for i in kept]
        passed = [records[i] for i in kept]
        self.output.emit(passed if self.backend is None else list(map(settle_keyed, passed)), times)

    def _filter(self, call: Callable[[Any], Any], records: list[Any]) -> None:
        waiting = iter(records)
        try:
            results = [record for record in waiting if call(record)]
        except Exception as error:
            self.fail(_last_taken(records, waiting), error)
        self.output.emit(results, None)


class _ManyOperator(_UserFunctionOperator):
    def _loop(
        self,
        call: Callable[[Any], Iterable[Any] | None],
        records: list[Any],
        timestamps: Timestamps,
        keys: list[Any] | None,
    ) -> None:
        self.records_in += len(records)
        results: list[Any] = []
        scope = self.backend.scope if self.backend is not None else None
        take = self.output.take
        settle = take or (settle_unkeyed if self.backend is None else settle_keyed)
        gather = add_taken if take is not None else add_settled
        context = self.call
        record = produced = None
        times: list[int] | None = None
        try:
            if timestamps is None:
                context.time = MIN_WATERMARK
                if scope is not None:
                    assert keys is not None
                    for record, key in zip(records, keys, strict=True):
                        scope.slot = key
                        produced = call(record)
                        if produced is not None:
                            gather(results, produced, settle)
                else:
                    for record in records:
                        produced = call(record)
                        if produced is not None:
                            gather(results, produced, settle)
            else:
                times = []
                for position, record in enumerate(records):
                    context.time = time = timestamps[position]
                    if scope is not None:
                        assert keys is not None
                        scope.slot = keys[position]
                    produced = call(record)
                    if produced is not None:
                        gather(results, produced, settle)
                        times.extend([time] * (len(results) - len(times)))
        except UserCodeError:
            raise
        except Exception as error:
            self.fail(record, error)
        self.returned_text |= produced.__class__ is str
        self.emit(results, times, taken=take is not None)


class FlatMapOperator(_ManyOperator):
    methods: tuple[str, ...] = ("flat_map",)

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        self._loop(self.calls[input_index], records, timestamps, keys)


class ProcessOperator(_ManyOperator):
    methods: tuple[str, ...] = ("process_element",)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._on_timer = getattr(self.function, "on_timer", None)

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        context, call = self.call, self.calls[input_index]
        if timestamps is not None or keys is None:
            self._loop(lambda record: call(record, context), records, timestamps, keys)
            return
        self.process_keyed(call, context, records, keys)

    def on_timer(self, timestamp: int, context: Any) -> Any:
        return None if self._on_timer is None else self._on_timer(timestamp, context)


class CoMapOperator(MapOperator):
    methods = ("map1", "map2")

    def emit(self, results: list[Any], timestamps: Timestamps, taken: bool = False) -> None:
        """A map of connected streams may return None for nothing, as in PyFlink."""
        kept = [i for i, result in enumerate(results) if result is not None]
        if len(kept) < len(results):
            timestamps = None if timestamps is None else [timestamps[i] for i in kept]
            results = [results[i] for i in kept]
        super().emit(results, timestamps, taken)


class CoFlatMapOperator(FlatMapOperator):
    methods = ("flat_map1", "flat_map2")


class CoProcessOperator(ProcessOperator):
    methods = ("process_element1", "process_element2")


class ReduceOperator(_UserFunctionOperator, KeyedFunctionOperator[FunctionSpec]):
    """A running fold per key. In batch mode only the last value of each key is emitted, at the end of input."""

    methods = ("reduce",)

    def _output_type(self) -> Any:
        return None  # converted before it enters the state

    def open(self) -> None:
        super().open()
        descriptor = ValueStateDescriptor("_reduce", Types.PICKLED_BYTE_ARRAY())
        state = self.backend.state(descriptor, holds=self.node.output_type)
        assert isinstance(state, KeyedValueState)
        self._state = state

    def records(self, input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        assert keys is not None
        self.records_in += len(records)
        scope, reduce = self.backend.scope, self.calls[0]
        value, update = self._state.value, self._state.update
        convert = self.node.output_type.converter()
        results: list[Any] = []
        add = results.append
        record = None
        try:
            for record, scope.slot in zip(records, keys, strict=True):
                current = value()
                if current is None:
                    if self.spec.batch:
                        self.backend.event_timers.register(MAX_WATERMARK, scope.slot)
                    reduced = record
                else:
                    reduced = reduce(current, record)
                    if convert is not None:
                        reduced = convert(reduced)
                update(reduced)
                add(settle_keyed(reduced))
        except Exception as error:
            self.fail(record, error)
        if not self.spec.batch:
            self.emit(results, timestamps)

    def on_timer(self, timestamp: int, context: Any) -> Any:
        return [self._state.value()]


FUNCTION_OPERATORS: dict[str, type[FunctionOperator[FunctionSpec]]] = {
    "map": MapOperator,
    "filter": FilterOperator,
    "flat_map": FlatMapOperator,
    "process": ProcessOperator,
    "reduce": ReduceOperator,
    "co_map": CoMapOperator,
    "co_flat_map": CoFlatMapOperator,
    "co_process": CoProcessOperator,
}
