"""Evictors: which elements of a window are taken out when it is evaluated.

An evictor sees elements as ``(timestamp, element)`` pairs, oldest first, and gives back those that stay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from beadline.api.arguments import as_milliseconds
from beadline.api.timer_service import TimerService
from beadline.common.time import Duration, Time
from beadline.errors import ConfigurationError

Held = list[tuple[int, Any]]


class Evictor(ABC):
    """Takes elements out of a window."""

    @abstractmethod
    def evict_before(self, elements: Held, size: int, window: Any, clock: TimerService) -> Held:
        """What the window function gets to see."""

    @abstractmethod
    def evict_after(self, elements: Held, size: int, window: Any, clock: TimerService) -> Held:
        """What the window keeps afterwards."""


class _OneSided(Evictor):
    """Evicts before the function by default, or after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self._after = do_evict_after

    def evict_before(self, elements: Held, size: int, window: Any, clock: TimerService) -> Held:
        return self._kept(elements) if elements and not self._after else elements

    def evict_after(self, elements: Held, size: int, window: Any, clock: TimerService) -> Held:
        return self._kept(elements) if elements and self._after else elements

    def _kept(self, elements: Held) -> Held:
        raise NotImplementedError


class CountEvictor(_OneSided):
    """Keeps the last ``max_count`` elements."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        if max_count < 1:
            raise ConfigurationError(f"CountEvictor keeps at least one element, got {max_count}")
        super().__init__(do_evict_after)
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        return CountEvictor(max_count, do_evict_after)

    def _kept(self, elements: Held) -> Held:
        return elements[-self._max_count :]


class TimeEvictor(_OneSided):
    """Keeps the elements of the last ``window_size`` before the newest one."""

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        if window_size <= 0:
            raise ConfigurationError(f"TimeEvictor needs a positive time, got {window_size} ms")
        super().__init__(do_evict_after)
        self._window_size = window_size

    @staticmethod
    def of(window_size: Time | Duration, do_evict_after: bool = False) -> TimeEvictor:
        return TimeEvictor(as_milliseconds(window_size, "window_size"), do_evict_after)

    def _kept(self, elements: Held) -> Held:
        oldest = max(time for time, _ in elements) - self._window_size
        return [held for held in elements if held[0] > oldest]


class DeltaEvictor(_OneSided):
    """Keeps the elements whose distance to the newest one is below the threshold.

    :param delta: gives the distance of an older element and the newest
    """

    def __init__(self, threshold: float, delta: Callable[[Any, Any], float], do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta = delta

    @staticmethod
    def of(threshold: float, delta: Callable[[Any, Any], float], do_evict_after: bool = False) -> DeltaEvictor:
        return DeltaEvictor(threshold, delta, do_evict_after)

    def _kept(self, elements: Held) -> Held:
        newest = elements[-1][1]
        return [held for held in elements if self._delta(held[1], newest) < self._threshold]
