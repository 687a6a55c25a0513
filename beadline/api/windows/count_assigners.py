"""Windows by the number of elements, and the one window for everything."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from beadline.api.arguments import check_positive
from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.api.windows.assigner import AssignerContext, WindowAssigner
from beadline.api.windows.trigger import Trigger
from beadline.api.windows.triggers import CountTrigger, NeverTrigger
from beadline.api.windows.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    ShowsNumbers,
)
from beadline.common.serializer import TypeSerializer
from beadline.common.typeinfo import Types

T = TypeVar("T")


class _CountWindows(ShowsNumbers, WindowAssigner[T, CountWindow]):
    """Numbers the elements of each key from 0 and assigns by that number."""

    _window_size: int
    _count_descriptor: ValueStateDescriptor

    def _next_number(self, context: AssignerContext) -> int:
        count = context.get_runtime_context().get_state(self._count_descriptor)
        number: int = count.value() or 0
        count.update(number + 1)
        return number

    def get_default_trigger(self, env: Any) -> Trigger[T, CountWindow]:
        return CountTrigger(self._window_size)

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Every ``window_size`` elements of a key make a window."""

    def __init__(self, window_size: int) -> None:
        self._window_size = check_positive(window_size, "window_size", "CountTumblingWindowAssigner")
        self._count_descriptor = ValueStateDescriptor("tumble-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Any]:
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(self, element: T, timestamp: int, context: AssignerContext) -> Collection[CountWindow]:
        return [CountWindow(self._next_number(context) // self._window_size)]


class CountSlidingWindowAssigner(_CountWindows[T]):
    """A window of ``window_size`` elements begins every ``window_slide`` elements of a key."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        self._window_size = check_positive(window_size, "window_size", "CountSlidingWindowAssigner")
        self._window_slide = check_positive(window_slide, "window_slide", "CountSlidingWindowAssigner")
        self._count_descriptor = ValueStateDescriptor("slide-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Any]:
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(self, element: T, timestamp: int, context: AssignerContext) -> Collection[CountWindow]:
        # Window i holds the numbers from i * slide up to i * slide + size - 1.
        number = self._next_number(context)
        newest = number // self._window_slide
        oldest = max(0, (number - self._window_size) // self._window_slide + 1)
        return [CountWindow(i) for i in range(newest, oldest - 1, -1)]


class GlobalWindows(ShowsNumbers, WindowAssigner[T, GlobalWindow]):
    """Puts everything in one window that never ends; give it a trigger, or nothing comes out."""

    @staticmethod
    def create() -> GlobalWindows[Any]:
        return GlobalWindows()

    def assign_windows(self, element: T, timestamp: int, context: AssignerContext) -> Collection[GlobalWindow]:
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> Trigger[T, GlobalWindow]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False
