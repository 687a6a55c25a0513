"""Process functions: elements one by one, with both clocks and, after ``key_by``, state and timers.

All of them emit with ``yield``; ``yield tag, value`` goes to the side output of ``tag``. A context is valid only during
the call that it is passed to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from beadline.api.function import Function
from beadline.api.state import BroadcastState, ReadOnlyBroadcastState, State
from beadline.api.state_descriptors import MapStateDescriptor, StateDescriptor
from beadline.api.time_domain import TimeDomain
from beadline.api.timer_service import Clocks, TimerService

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class _WithTimestamp(ABC):
    """What every function gets that processes element after element."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """The event time of the element, or of the timer that fires; ``None`` if the stream has no timestamps."""


class _Context(_WithTimestamp):
    """What every process function gets with an element."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Both clocks and, after ``key_by``, timers."""


class _KeyedContext(_Context):
    """What a process function after ``key_by`` gets with an element."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key that state and timers belong to during this call."""


class _TimerContext(_KeyedContext):
    """What a process function gets with a timer."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """The clock that the timer followed."""


class ProcessFunction(Function):
    """Processes the elements of a stream that is not keyed: clocks to read, no timers and no keyed state."""

    class Context(_Context):
        """Passed to :meth:`process_element`."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Yields the results of ``value``."""


class KeyedProcessFunction(Function):
    """Processes the elements of a keyed stream, with state and timers per key.

    ::

        class Count(KeyedProcessFunction):
            def open(self, runtime_context):
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def process_element(self, value, ctx):
                n = (self.count.value() or 0) + 1
                self.count.update(n)
                ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)

            def on_timer(self, timestamp, ctx):
                yield ctx.get_current_key(), self.count.value()
    """

    class Context(_KeyedContext):
        """Passed to :meth:`process_element`."""

    class OnTimerContext(_TimerContext, Context):
        """Passed to :meth:`on_timer`."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Yields the results of ``value``."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Yields the results of a timer that fires; by default nothing."""


class CoProcessFunction(Function):
    """Processes two connected streams that are not keyed."""

    class Context(_Context):
        """Passed to both process methods."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Yields the results of an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Yields the results of an element of the second stream."""


class KeyedCoProcessFunction(Function):
    """Processes two connected streams with a common key; both sides share state and timers of that key."""

    class Context(_KeyedContext):
        """Passed to both process methods."""

    class OnTimerContext(_TimerContext, Context):
        """Passed to :meth:`on_timer`."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Yields the results of an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Yields the results of an element of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Yields the results of a timer that fires; by default nothing."""


# -- a stream that is connected to a broadcast one, for example events and the rules for them


class BaseBroadcastProcessFunction(Function):
    """What the keyed and the non-keyed broadcast function have in common."""

    class BaseContext(_WithTimestamp, Clocks):
        """Passed with every element, whatever its side."""

    class Context(BaseContext):
        """Passed with a broadcast element: the broadcast state can be changed."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """The broadcast state of that name, one of those that ``broadcast(...)`` was called with."""

    class ReadOnlyContext(BaseContext):
        """Passed with an element of the other side: the broadcast state can only be read."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """The broadcast state of that name, one of those that ``broadcast(...)`` was called with."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Processes a stream that is not keyed, together with a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context):
        """Passed to :meth:`process_broadcast_element`."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """Passed to :meth:`process_element`."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[OUT] | None:
        """Yields the results of an element of the stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Iterable[OUT] | None:
        """Yields the results of a broadcast element; every subtask gets it."""


class KeyedStateFunction(ABC, Generic[KEY]):
    """What ``apply_to_keyed_state`` calls for every key; a plain callable of key and state will do as well."""

    @abstractmethod
    def process(self, key: KEY, state: Any) -> None:
        """Read or change the state of one key."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Processes a keyed stream together with a broadcast one; the keyed side has keyed state and timers."""

    class Context(BaseBroadcastProcessFunction.Context):
        """Passed to :meth:`process_broadcast_element`. No key is current, so keyed state is reached through
        :meth:`apply_to_keyed_state` only."""

        @abstractmethod
        def apply_to_keyed_state(
            self,
            state_descriptor: StateDescriptor,
            function: KeyedStateFunction[Any] | Callable[[Any, State], None],
        ) -> None:
            """Calls ``function(key, state)`` for every key of this subtask that has an entry, in a fixed order."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, _KeyedContext):
        """Passed to :meth:`process_element`."""

    class OnTimerContext(ReadOnlyContext, _TimerContext):
        """Passed to :meth:`on_timer`."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[OUT] | None:
        """Yields the results of an element of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[OUT] | None:
        """Yields the results of a broadcast element; every subtask gets it."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[OUT] | None:
        """Yields the results of a timer that fires; by default nothing."""
