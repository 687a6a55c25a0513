"""Process functions: elements one by one, with both clocks and, after ``key_by``, state and timers.

All of them emit with ``yield``; ``yield tag, value`` goes to the side output of ``tag``. A context is valid only during
the call that it is passed to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from beadline.api.function import Function
from beadline.api.time_domain import TimeDomain
from beadline.api.timer_service import TimerService


class WithTimestamp(ABC):
    """What every function gets that processes element after element."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """The event time of the element, or of the timer that fires; ``None`` if the stream has no timestamps."""


class _Context(WithTimestamp):
    """What every process function gets with an element."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Both clocks and, after ``key_by``, timers."""


class KeyedContext(_Context):
    """What a process function after ``key_by`` gets with an element."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key that state and timers belong to during this call."""


class TimerContext(KeyedContext):
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

    class Context(KeyedContext):
        """Passed to :meth:`process_element`."""

    class OnTimerContext(TimerContext, Context):
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

    class Context(KeyedContext):
        """Passed to both process methods."""

    class OnTimerContext(TimerContext, Context):
        """Passed to :meth:`on_timer`."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Yields the results of an element of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Yields the results of an element of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Yields the results of a timer that fires; by default nothing."""
