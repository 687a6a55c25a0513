"""The clocks and timers that a process function sees."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Clocks(ABC):
    """Reads both clocks."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The wall-clock time in milliseconds; it stands still within one step, so that a re-run gives the same
        results."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time up to which this operator has seen everything."""


class TimerService(Clocks):
    """Reads both clocks and sets timers for the current key.

    All times are milliseconds since the epoch. A timer is known by its key, its clock and its timestamp: registering
    the same one twice makes it fire once. Timers are state: they are part of every checkpoint.
    """

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Calls ``on_timer`` for the current key once the wall clock reaches ``timestamp``."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Calls ``on_timer`` for the current key once the watermark reaches ``timestamp``."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Takes back a timer of the current key; does nothing if there is none or it has already fired."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Takes back a timer of the current key; does nothing if there is none or it has already fired."""
