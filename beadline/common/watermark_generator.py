"""Watermarks made by the program itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class WatermarkOutput(ABC):
    """Where a generator's watermarks go."""

    @abstractmethod
    def emit_watermark(self, watermark: int) -> None:
        """Event time has come to ``watermark``, in milliseconds. Unless it is higher than the last, nothing changes."""

    @abstractmethod
    def mark_idle(self) -> None:
        """No events are expected for now: this stream no longer holds back the watermark of the others."""

    @abstractmethod
    def mark_active(self) -> None:
        """The stream counts again. A watermark says the same."""


class WatermarkGenerator(ABC):
    """Makes watermarks from events; used with ``WatermarkStrategy.for_generator``::

        class EndOfMinute(WatermarkGenerator):
            def on_event(self, event, event_timestamp, output):
                if event.is_marker:
                    output.emit_watermark(event_timestamp)

            def on_periodic_emit(self, output):
                pass

    Each subtask has a generator of its own. Its fields are kept with the job's state, so they must be plain data or
    anything else that pickles.
    """

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """An event has passed; a watermark emitted here follows it."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called after a number of events of the subtask (``beadline.watermark.records``), and when it has caught up
        with its source."""
