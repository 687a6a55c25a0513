"""The contract of triggers: when a window is evaluated and when it is emptied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from beadline.api.metrics import MetricGroup
    from beadline.api.state_descriptors import StateDescriptor

T = TypeVar("T")
W = TypeVar("W")


class TriggerResult(Enum):
    """What a trigger wants done with the window. A window without elements is not evaluated even on FIRE."""

    CONTINUE = (False, False)
    """Nothing."""

    FIRE_AND_PURGE = (True, True)
    """Evaluate it, then drop its elements."""

    FIRE = (True, False)
    """Evaluate it and keep its elements."""

    PURGE = (False, True)
    """Drop its elements without evaluating it."""

    def is_fire(self) -> bool:
        return self.value[0]

    def is_purge(self) -> bool:
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides, for each key and window, when the window is evaluated.

    One trigger object serves all keys and windows of a subtask, so it must not keep anything in its fields: what it has
    to remember goes in ``ctx.get_partitioned_state(descriptor)``, which belongs to the key and window of the call.
    """

    class TriggerContext(ABC):
        """The clocks, timers and state of the key and window that the call is about."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The wall-clock time of this step, in milliseconds."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Where the trigger registers metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The event time up to which everything has been seen."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Calls :meth:`Trigger.on_processing_time` once the wall clock reaches ``time``."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Calls :meth:`Trigger.on_event_time` once the watermark reaches ``time``."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Takes a processing-time timer back."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Takes an event-time timer back."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """State of this key and window, of the kind that the descriptor says."""

    class OnMergeContext(TriggerContext):
        """The context of :meth:`Trigger.on_merge`; it is about the merged window."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Moves the state of the merged windows into that of the new one, folded with the descriptor's function."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called for every element after it was added to ``window``."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when a processing-time timer of this trigger fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when an event-time timer of this trigger fires."""

    def can_merge(self) -> bool:
        """Whether the trigger works with windows that merge; then :meth:`on_merge` must do its part."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Called when windows were merged into ``window``: merge state, set the timers that the new one needs."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Called when ``window`` goes away: delete its timers and clear its state."""
