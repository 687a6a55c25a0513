"""The contract of window assigners: which windows an element belongs to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from beadline.api.windows.trigger import Trigger

if TYPE_CHECKING:
    from beadline.api.runtime_context import RuntimeContext
    from beadline.common.serializer import TypeSerializer

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns elements to windows. One object serves all keys of a subtask: keep nothing in its fields."""

    class WindowAssignerContext(ABC):
        """The clock and the state of the current key."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The wall-clock time of this step, in milliseconds."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """State of the current key, across its windows."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """The windows that ``element`` belongs to; none drops it."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """The trigger that is used unless ``.trigger(...)`` names another."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """How the windows are written."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows follow the elements' timestamps rather than the wall clock."""


AssignerContext: TypeAlias = WindowAssigner.WindowAssignerContext


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner of windows that grow together, such as sessions."""

    class MergeCallback(ABC, Generic[W2]):
        """Told by :meth:`MergingWindowAssigner.merge_windows` which windows become one."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """``to_be_merged`` become ``merge_result``, which may be one of them."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Calls ``callback.merge`` for each group of ``windows`` to be merged."""


class SessionWindowTimeGapExtractor(ABC):
    """Reads off an element how long its session stays open after it."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The gap in milliseconds, more than 0."""
