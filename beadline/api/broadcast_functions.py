"""Functions over a stream that is connected to a broadcast one, for example events and the rules for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from beadline.api.function import Function
from beadline.api.process import KeyedContext, TimerContext, WithTimestamp
from beadline.api.state import BroadcastState, ReadOnlyBroadcastState, State
from beadline.api.state_descriptors import MapStateDescriptor, StateDescriptor
from beadline.api.timer_service import Clocks

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class BaseBroadcastProcessFunction(Function):
    """What the keyed and the non-keyed broadcast function have in common."""

    class BaseContext(WithTimestamp, Clocks):
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

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, KeyedContext):
        """Passed to :meth:`process_element`."""

    class OnTimerContext(ReadOnlyContext, TimerContext):
        """Passed to :meth:`on_timer`."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[OUT] | None:
        """Yields the results of an element of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[OUT] | None:
        """Yields the results of a broadcast element; every subtask gets it."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[OUT] | None:
        """Yields the results of a timer that fires; by default nothing."""
