"""What to do after a failure: how often to restart, and how long to wait before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from beadline.errors import ConfigurationError

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]

#: Milliseconds, or a ``timedelta``.
Interval: TypeAlias = int | timedelta


class RestartStrategyConfiguration(ABC):
    """One of the strategies that :class:`RestartStrategies` makes."""

    @abstractmethod
    def get_description(self) -> str:
        """A sentence for people."""


def _interval(name: str, value: Interval) -> timedelta:
    if isinstance(value, int) and not isinstance(value, bool):
        value = timedelta(milliseconds=value)
    if not isinstance(value, timedelta):
        raise TypeError(f"{name} takes milliseconds or a timedelta, got {value!r} of type {type(value).__name__}.")
    if value < timedelta(0):
        raise ConfigurationError(f"{name} can't be negative, got {value}.")
    return value


def _count(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, got {value!r} of type {type(value).__name__}.")
    if value < least:
        raise ConfigurationError(f"{name} must be at least {least}, got {value}.")


def _shown(interval: timedelta) -> str:
    return f"{interval // timedelta(milliseconds=1)} ms"


class RestartStrategies:
    """Makes strategies. By default a job with checkpoints restarts with growing delays, and a job without does not."""

    @dataclass(frozen=True)
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        def get_description(self) -> str:
            return "No restart: the first failure ends the job."

    @dataclass(frozen=True)
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        def get_description(self) -> str:
            return "The strategy that the configuration names under restart-strategy.type."

    @dataclass(frozen=True)
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        restart_attempts: int
        delay_between_attempts_interval: Interval

        def __post_init__(self) -> None:
            _count("restart_attempts", self.restart_attempts, 0)
            delay = _interval("delay_between_attempts_interval", self.delay_between_attempts_interval)
            object.__setattr__(self, "delay_between_attempts_interval", delay)

        def get_restart_attempts(self) -> int:
            return self.restart_attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            return _interval("delay_between_attempts_interval", self.delay_between_attempts_interval)

        def get_description(self) -> str:
            delay = _shown(self.get_delay_between_attempts_interval())
            return f"Up to {self.restart_attempts} restarts, each after {delay}."

    @dataclass(frozen=True)
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        max_failure_rate: int
        failure_interval: Interval
        delay_between_attempts_interval: Interval

        def __post_init__(self) -> None:
            _count("max_failure_rate", self.max_failure_rate, 1)
            for name in ("failure_interval", "delay_between_attempts_interval"):
                object.__setattr__(self, name, _interval(name, getattr(self, name)))

        def get_max_failure_rate(self) -> int:
            return self.max_failure_rate

        def get_failure_interval(self) -> timedelta:
            return _interval("failure_interval", self.failure_interval)

        def get_delay_between_attempts_interval(self) -> timedelta:
            return _interval("delay_between_attempts_interval", self.delay_between_attempts_interval)

        def get_description(self) -> str:
            return (
                f"Restarts, each after {_shown(self.get_delay_between_attempts_interval())}, as long as there are at "
                f"most {self.max_failure_rate} failures within {_shown(self.get_failure_interval())}."
            )

    @dataclass(frozen=True)
    class ExponentialDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        initial_backoff: timedelta
        max_backoff: timedelta
        backoff_multiplier: float
        reset_backoff_threshold: timedelta
        jitter_factor: float
        attempts_before_reset_backoff: int | None

        def __post_init__(self) -> None:
            if self.initial_backoff <= timedelta(0):
                raise ConfigurationError(f"initial_backoff must be more than 0, got {self.initial_backoff}.")
            if self.max_backoff < self.initial_backoff:
                raise ConfigurationError(
                    f"max_backoff {self.max_backoff} must not be shorter than initial_backoff {self.initial_backoff}."
                )
            if self.backoff_multiplier < 1:
                raise ConfigurationError(f"backoff_multiplier must be at least 1, got {self.backoff_multiplier}.")
            if not 0 <= self.jitter_factor <= 1:
                raise ConfigurationError(f"jitter_factor must be from 0 to 1, got {self.jitter_factor}.")
            if self.attempts_before_reset_backoff is not None:
                _count("attempts_before_reset_backoff", self.attempts_before_reset_backoff, 1)

        def get_description(self) -> str:
            attempts = self.attempts_before_reset_backoff
            return (
                f"{'Any number of' if attempts is None else f'Up to {attempts}'} restarts, the first after "
                f"{_shown(self.initial_backoff)}, then {self.backoff_multiplier} times longer each, up to "
                f"{_shown(self.max_backoff)}, starting over after {_shown(self.reset_backoff_threshold)} "
                "without failure."
            )

    @staticmethod
    def no_restart() -> NoRestartStrategyConfiguration:
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> FallbackRestartStrategyConfiguration:
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: Interval
    ) -> FixedDelayRestartStrategyConfiguration:
        """Restart up to ``restart_attempts`` times, each after the same delay."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: Interval, delay_interval: Interval
    ) -> FailureRateRestartStrategyConfiguration:
        """Restart until more than ``failure_rate`` failures fall into one ``failure_interval``."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(failure_rate, failure_interval, delay_interval)

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: Interval = timedelta(seconds=1),
        max_backoff: Interval = timedelta(minutes=1),
        backoff_multiplier: float = 1.5,
        reset_backoff_threshold: Interval = timedelta(hours=1),
        jitter_factor: float = 0.1,
        attempts_before_reset_backoff: int | None = None,
    ) -> ExponentialDelayRestartStrategyConfiguration:
        """Restart after a delay that grows by ``backoff_multiplier``; ``jitter_factor`` spreads it at random."""
        return RestartStrategies.ExponentialDelayRestartStrategyConfiguration(
            _interval("initial_backoff", initial_backoff),
            _interval("max_backoff", max_backoff),
            backoff_multiplier,
            _interval("reset_backoff_threshold", reset_backoff_threshold),
            jitter_factor,
            attempts_before_reset_backoff,
        )
