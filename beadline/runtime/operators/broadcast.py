"""The operator over a stream and a broadcast one, and what its functions are handed: contexts, and the broadcast state
as either side sees it.

The broadcast rows of a step come before its data, chunk by chunk over all channels in one order that is the same for
every subtask. So every subtask and every re-run gets the same state from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from beadline.api.process import BroadcastProcessFunction, KeyedBroadcastProcessFunction, KeyedStateFunction
from beadline.api.state import BroadcastState, ReadOnlyBroadcastState
from beadline.api.state_descriptors import MapStateDescriptor, StateDescriptor
from beadline.api.timer_service import TimerService
from beadline.errors import StateAccessError
from beadline.graph.specs import BroadcastSpec
from beadline.runtime.exchange.gate import MIN_WATERMARK
from beadline.runtime.exchange.writer import Timestamps
from beadline.runtime.functions.aliasing import add_settled, add_taken, settle_keyed
from beadline.runtime.functions.context import Clock, KeyedCallContext, KeyedClock, WithKey
from beadline.runtime.operators.base import FunctionOperator, Setup
from beadline.state.access.backend import KeyedBackend
from beadline.state.access.keyed import NoKey
from beadline.state.codec import Frozen
from beadline.state.key_groups import BoxedKey
from beadline.state.operator.states import OperatorBroadcastState

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
        contexts.writing = True
        try:
            self._loop(self._function.process_broadcast_element, contexts.broadcast, records, timestamps, None)
        finally:
            contexts.writing = False

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


# -- the broadcast state


def _no_key(operator: str) -> NoKey:
    return NoKey(
        lambda: (
            f"operator '{operator}': there is no current key in process_broadcast_element(), so keyed state and "
            "timers can't be used; use ctx.apply_to_keyed_state(descriptor, function)"
        )
    )


class _View(ReadOnlyBroadcastState[Any, Any]):
    _state: OperatorBroadcastState

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def keys(self) -> Iterator[Any]:
        return self._state.keys()

    def is_empty(self) -> bool:
        return self._state.is_empty()


class ReadOnlyView(_View):
    """The broadcast state in ``process_element`` and ``on_timer``. Values must not be changed: they are shared by all
    elements of a step."""

    def __init__(self, state: OperatorBroadcastState, operator: str) -> None:
        self._state = state
        self._operator = operator
        self._stored = state.entries.get  # bound here, since get() runs once per record

    def __repr__(self) -> str:
        return f"<read-only {repr(self._state)[1:]}"

    def get(self, key: Any) -> Any:
        value = self._stored(key)
        if value is None:
            return self._state.look(key)
        return self._state.look_through(key, value) if value.__class__ is Frozen else value

    def items(self) -> Iterator[tuple[Any, Any]]:
        return self._state.look_at_all()

    def values(self) -> Iterator[Any]:
        return (value for _, value in self._state.look_at_all())

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StateAccessError(
            f"operator '{self._operator}': broadcast state '{self._state.name}' can only be read here, since each "
            "subtask sees different elements and the copies would differ; write it in process_broadcast_element()"
        )

    put = put_all = remove = clear = __setitem__ = __delitem__ = _refuse


class WritableView(_View, BroadcastState[Any, Any]):
    """The broadcast state in ``process_broadcast_element``; it can't be written outside of that."""

    def __init__(self, state: OperatorBroadcastState, check: Callable[[str], None]) -> None:
        self._state = state
        self._check = check

    def __repr__(self) -> str:
        return repr(self._state)

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def items(self) -> Iterator[tuple[Any, Any]]:
        return self._state.items()

    def values(self) -> Iterator[Any]:
        return self._state.values()

    def put(self, key: Any, value: Any) -> None:
        self._check(self._state.name)
        self._state.put(key, value)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        self._check(self._state.name)
        self._state.put_all(dict_value)

    def remove(self, key: Any) -> None:
        self._check(self._state.name)
        self._state.remove(key)

    def clear(self) -> None:
        self._check(self._state.name)
        self._state.clear()


class _Views(dict[str, Any]):
    """The views of one side, by the name of the state."""

    def __init__(
        self,
        operator: str,
        states: list[OperatorBroadcastState],
        make: Callable[[OperatorBroadcastState], Any],
    ) -> None:
        super().__init__((state.name, make(state)) for state in states)
        self._operator = operator

    def __missing__(self, name: str) -> NoReturn:
        declared = ", ".join(f"'{known}'" for known in self)
        raise StateAccessError(
            f"operator '{self._operator}': '{name}' is no broadcast state of this stream, which has {declared}. Name "
            "its descriptor in the call of broadcast(…) as well."
        )


class BroadcastContexts:
    """All contexts of one operator. They are made once and get time and key with every element.

    :ivar element: for ``process_element`` and ``on_timer``
    :ivar broadcast: for ``process_broadcast_element``
    :ivar writing: broadcast elements are processed. A function may keep the writable state in a field
    """

    def __init__(
        self,
        operator: str,
        states: list[OperatorBroadcastState],
        clock: Clock,
        backend: KeyedBackend | None,
    ) -> None:
        self._operator = operator
        self.writing = False
        readable = _Views(operator, states, lambda state: ReadOnlyView(state, operator))
        writable = _Views(operator, states, lambda state: WritableView(state, self._check_writing))
        self.element: ElementContext | KeyedElementContext
        self.broadcast: BroadcastContext | KeyedBroadcastContext
        if backend is None:
            self.element = ElementContext(clock, readable)
            self.broadcast = BroadcastContext(clock, writable)
        else:
            assert isinstance(clock, KeyedClock)
            self.element = KeyedElementContext(clock, readable, backend)
            self.broadcast = KeyedBroadcastContext(clock, writable, backend, _no_key(operator))

    def _check_writing(self, name: str) -> None:
        if not self.writing:
            raise StateAccessError(
                f"operator '{self._operator}': broadcast state '{name}' was kept from process_broadcast_element() and "
                "is written elsewhere, where each subtask sees different elements; write it in "
                "process_broadcast_element() only"
            )


class _Timed:
    def __init__(self, clock: Clock, views: _Views) -> None:
        self._clock = clock
        self._views = views
        self.time = MIN_WATERMARK  # what Flink shows for a record without a timestamp

    def timestamp(self) -> int:
        return self.time

    def current_processing_time(self) -> int:
        return self._clock.now

    def current_watermark(self) -> int:
        return self._clock.watermark

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> Any:
        return self._views[state_descriptor.name]


class ElementContext(_Timed, BroadcastProcessFunction.ReadOnlyContext):
    """Of the side without a key that only reads."""


class BroadcastContext(_Timed, BroadcastProcessFunction.Context):
    """Of the broadcast side."""


class KeyedElementContext(_Timed, WithKey, KeyedBroadcastProcessFunction.OnTimerContext):
    """Of the keyed side that only reads, with timers."""

    def __init__(self, clock: KeyedClock, views: _Views, backend: KeyedBackend) -> None:
        _Timed.__init__(self, clock, views)
        WithKey.__init__(self, backend.scope)

    def timer_service(self) -> TimerService:
        return self._clock


class KeyedBroadcastContext(_Timed, KeyedBroadcastProcessFunction.Context):
    """Of the broadcast side next to a keyed one."""

    def __init__(self, clock: KeyedClock, views: _Views, backend: KeyedBackend, no_key: NoKey) -> None:
        super().__init__(clock, views)
        self._backend = backend
        self.no_key = no_key

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: KeyedStateFunction[Any] | Callable[[Any, Any], None]
    ) -> None:
        call = function.process if isinstance(function, KeyedStateFunction) else function
        scope = self._backend.scope
        try:
            for slot, state in self._backend.entries(state_descriptor):
                scope.slot = slot
                call(slot.copied() if slot.__class__ is BoxedKey else slot, state)
        finally:
            scope.slot = self.no_key
