"""Functions over the elements of one window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from beadline.api.function import Function
from beadline.api.runtime_context import KeyedStateStore
from beadline.api.timer_service import Clocks

W = TypeVar("W")
W2 = TypeVar("W2")
IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Evaluates one window of one key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Yields, or returns as an iterable, the results of the window."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Evaluates one window of a stream that is not keyed."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Yields, or returns as an iterable, the results of the window."""


class _Context(ABC, Generic[W2]):
    @abstractmethod
    def window(self) -> W2:
        """The window that is evaluated."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this window, and of the key if there is one."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State shared by all windows, or by all windows of the key if there is one."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Evaluates one window of one key, with the clocks and with state.

    State in ``context.window_state()`` belongs to one window: remove it in :meth:`clear`; Beadline does not. State in
    ``context.global_state()`` belongs to the key, across its windows.
    """

    class Context(_Context[W2], Clocks):
        """The window that is evaluated, and what surrounds it."""

    @abstractmethod
    def process(self, key: KEY, context: ProcessWindowFunction.Context[Any], elements: Iterable[IN]) -> Iterable[OUT]:
        """Yields, or returns as an iterable, the results of the window."""

    def clear(self, context: ProcessWindowFunction.Context[Any]) -> None:
        """Called when the window and its allowed lateness are over: clear what was put in ``window_state()``."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Evaluates one window of a stream that is not keyed, with state."""

    class Context(_Context[W2]):
        """The window that is evaluated, and its state."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[Any], elements: Iterable[IN]) -> Iterable[OUT]:
        """Yields, or returns as an iterable, the results of the window."""

    def clear(self, context: ProcessAllWindowFunction.Context[Any]) -> None:
        """Called when the window and its allowed lateness are over: clear what was put in ``window_state()``."""
