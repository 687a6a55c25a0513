"""What follows a failure: whether to restart, and after how long. Without threads, clock or dice of its own."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from beadline.common.configuration import Configuration
from beadline.errors import ConfigurationError

_UNLIMITED = 2**31 - 1
# Where a delay stops growing, long after the option for the longest one has cut it.
_LARGEST = 2.0**62


class Key:
    """The options that :func:`restart_strategy` reads."""

    TYPE = "restart-strategy.type"
    FIXED_ATTEMPTS = "restart-strategy.fixed-delay.attempts"
    FIXED_DELAY = "restart-strategy.fixed-delay.delay"
    RATE_FAILURES = "restart-strategy.failure-rate.max-failures-per-interval"
    RATE_INTERVAL = "restart-strategy.failure-rate.failure-rate-interval"
    RATE_DELAY = "restart-strategy.failure-rate.delay"
    INITIAL_BACKOFF = "restart-strategy.exponential-delay.initial-backoff"
    MAX_BACKOFF = "restart-strategy.exponential-delay.max-backoff"
    MULTIPLIER = "restart-strategy.exponential-delay.backoff-multiplier"
    RESET_THRESHOLD = "restart-strategy.exponential-delay.reset-backoff-threshold"
    JITTER = "restart-strategy.exponential-delay.jitter-factor"
    ATTEMPTS_BEFORE_RESET = "restart-strategy.exponential-delay.attempts-before-reset-backoff"


KEYS = frozenset(key for name, key in vars(Key).items() if name.isupper())


@dataclass(frozen=True)
class Decision:
    """Whether to restart, after how many milliseconds, and why, for the log."""

    restart: bool
    delay_ms: int
    why: str


class RestartStrategy(ABC):
    """Decides on restarts. Times are in milliseconds and never go back. ``restarts``: whether it ever does."""

    restarts = True

    @abstractmethod
    def failed(self, now: int) -> Decision:
        """The job has failed."""

    def running(self, now: int) -> None:
        """The job runs again after a restart: the quiet time begins. Only the first call after a failure counts."""

    @property
    @abstractmethod
    def in_words(self) -> str:
        """What it does, for people."""

    @abstractmethod
    def __repr__(self) -> str:
        """The strategy, with where it stands."""


class NoRestart(RestartStrategy):
    """The first failure ends the job."""

    restarts = False

    def failed(self, now: int) -> Decision:
        return Decision(False, 0, f"the restart strategy is 'none'; set {Key.TYPE} or turn checkpoints on to restart")

    @property
    def in_words(self) -> str:
        return "no restart"

    def __repr__(self) -> str:
        return "NoRestart()"


class FixedDelay(RestartStrategy):
    """A number of restarts, ``None`` for any, with the same delay before each."""

    def __init__(self, attempts: int | None, delay_ms: int) -> None:
        if attempts is not None:
            _at_least(0, attempts, Key.FIXED_ATTEMPTS)
        self._attempts = None if attempts is None or attempts >= _UNLIMITED else attempts
        self._delay = _at_least(0, delay_ms, Key.FIXED_DELAY)
        self._failures = 0

    def failed(self, now: int) -> Decision:
        self._failures += 1
        if self._attempts is None:
            return Decision(True, self._delay, f"restart {self._failures}")
        if self._failures <= self._attempts:
            return Decision(True, self._delay, f"restart {self._failures} of {self._attempts}")
        return Decision(False, 0, f"all {self._attempts} restarts are used up ({Key.FIXED_ATTEMPTS})")

    @property
    def in_words(self) -> str:
        limit = "any number of" if self._attempts is None else f"at most {self._attempts}"
        return f"{limit} restarts, each after {_span(self._delay)}"

    def __repr__(self) -> str:
        limit = "any number" if self._attempts is None else self._attempts
        return f"FixedDelay({self._failures} failures, {limit} allowed, {self._delay} ms)"


class FailureRate(RestartStrategy):
    """Restarts with the same delay, until more than ``failures`` fall into one interval."""

    def __init__(self, failures: int, interval_ms: int, delay_ms: int) -> None:
        self._failures = _at_least(1, failures, Key.RATE_FAILURES)
        self._interval = _at_least(1, interval_ms, Key.RATE_INTERVAL)
        self._delay = _at_least(0, delay_ms, Key.RATE_DELAY)
        self._times: deque[int] = deque(maxlen=failures + 1)

    def failed(self, now: int) -> Decision:
        self._times.append(now)
        recent = sum(now - time <= self._interval for time in self._times)
        if recent <= self._failures:
            return Decision(True, self._delay, f"failure {recent} of {self._failures} within {self._interval} ms")
        why = f"{recent} failures within {self._interval} ms, {self._failures} are allowed ({Key.RATE_FAILURES})"
        return Decision(False, 0, why)

    @property
    def in_words(self) -> str:
        return f"restarts after {_span(self._delay)}, for at most {self._failures} failures in {_span(self._interval)}"

    def __repr__(self) -> str:
        return f"FailureRate({self._failures} in {self._interval} ms, {self._delay} ms, last {list(self._times)})"


class ExponentialDelay(RestartStrategy):
    """Restarts with a delay that grows from failure to failure, and starts over after a quiet time. Failures while a
    restart is still waited for belong to the same attempt. ``attempts`` is how many there may be without a quiet time;
    numbers from ``uniform``, from 0 up to, but not, 1, spread the delays."""

    def __init__(
        self,
        initial_ms: int,
        max_ms: int,
        multiplier: float,
        reset_ms: int,
        jitter: float,
        attempts: int | None = None,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._initial = _at_least(1, initial_ms, Key.INITIAL_BACKOFF)
        self._max = max_ms
        if max_ms < initial_ms:
            raise ConfigurationError(
                f"{Key.MAX_BACKOFF} is {max_ms} ms; it must not be shorter than {Key.INITIAL_BACKOFF}, {initial_ms} ms."
            )
        self._multiplier = multiplier
        if not 1 <= multiplier < float("inf"):
            raise ConfigurationError(f"{Key.MULTIPLIER} is {multiplier}; it must be at least 1.")
        self._reset = _at_least(1, reset_ms, Key.RESET_THRESHOLD)
        self._jitter = jitter
        if not 0 <= jitter <= 1:
            raise ConfigurationError(f"{Key.JITTER} is {jitter}; it must be from 0 to 1.")
        if attempts is not None:
            _at_least(1, attempts, Key.ATTEMPTS_BEFORE_RESET)
        self._attempts = None if attempts is None or attempts >= _UNLIMITED else attempts
        self._uniform = uniform
        self._attempt = 0
        self._backoff = float(initial_ms)
        self._restart_at: int | None = None
        self._quiet_since: int | None = None

    def failed(self, now: int) -> Decision:
        if self._restart_at is None or now > self._restart_at:
            since = self._restart_at if self._quiet_since is None else self._quiet_since
            if since is not None and now - since >= self._reset:
                self._attempt, self._backoff = 0, float(self._initial)
            self._restart_at = now + self._next_delay()
            self._quiet_since = None
        if self._attempts is not None and self._attempt > self._attempts:
            why = f"all {self._attempts} restarts are used up ({Key.ATTEMPTS_BEFORE_RESET})"
            return Decision(False, 0, why)
        limit = "" if self._attempts is None else f" of {self._attempts}"
        return Decision(True, self._restart_at - now, f"restart {self._attempt}{limit}")

    def running(self, now: int) -> None:
        if self._quiet_since is None and self._restart_at is not None:
            self._quiet_since = max(now, self._restart_at)

    def _next_delay(self) -> int:
        spread = int(self._backoff * self._jitter)
        delay = int(self._backoff) - spread + int(self._uniform() * (2 * spread + 1))
        self._attempt += 1
        self._backoff = min(self._backoff * self._multiplier, _LARGEST)
        return max(self._initial, min(delay, self._max))

    @property
    def in_words(self) -> str:
        limit = "" if self._attempts is None else f", at most {self._attempts} of them"
        return (
            f"restarts after {_span(self._initial)}, then {self._multiplier:g} times as long each, up to "
            f"{_span(self._max)}{limit}; from the beginning after {_span(self._reset)} without a failure"
        )

    def __repr__(self) -> str:
        limit = "any number" if self._attempts is None else self._attempts
        return (
            f"ExponentialDelay({self._initial} to {self._max} ms, times {self._multiplier}, "
            f"reset after {self._reset} ms, jitter {self._jitter}, {self._attempt} of {limit} used)"
        )


def restart_strategy(
    configuration: Configuration, *, checkpointing: bool, uniform: Callable[[], float] = random.random
) -> RestartStrategy:
    """The strategy that ``configuration`` names; if it names none, exponential delay with checkpoints, else none.
    Options of one strategy select it as its type does: ``fixed-delay.delay`` alone means fixed delays."""
    kind = configuration.get_string(Key.TYPE, None)
    attempts: int | None = 1
    if kind is None:
        if not checkpointing:
            return NoRestart()
        kind, attempts = _meant(configuration), None
    name = kind.strip().lower().replace("-", "").replace("_", "")
    if name in ("none", "off", "disable", "false"):
        return NoRestart()
    if name == "fixeddelay":
        delay = configuration.get_duration_ms(Key.FIXED_DELAY, 1000)
        return FixedDelay(configuration.get_integer(Key.FIXED_ATTEMPTS, attempts), delay)
    if name == "failurerate":
        return FailureRate(
            configuration.get_integer(Key.RATE_FAILURES, 1),
            configuration.get_duration_ms(Key.RATE_INTERVAL, 60_000),
            configuration.get_duration_ms(Key.RATE_DELAY, 1000),
        )
    if name == "exponentialdelay":
        return ExponentialDelay(
            configuration.get_duration_ms(Key.INITIAL_BACKOFF, 1000),
            configuration.get_duration_ms(Key.MAX_BACKOFF, 60_000),
            configuration.get_float(Key.MULTIPLIER, 1.5),
            configuration.get_duration_ms(Key.RESET_THRESHOLD, 3_600_000),
            configuration.get_float(Key.JITTER, 0.1),
            configuration.get_integer(Key.ATTEMPTS_BEFORE_RESET, None),
            uniform,
        )
    raise ConfigurationError(f"{Key.TYPE}: must be none, fixed-delay, failure-rate or exponential-delay, not {kind!r}.")


def _meant(configuration: Configuration) -> str:
    """The strategy whose options are set; Flink's default if there are none."""
    chosen = {key.split(".")[1] for key in KEYS - {Key.TYPE} if configuration.contains_key(key)}
    found = [name for name in ("fixed-delay", "failure-rate", "exponential-delay") if name in chosen]
    if len(found) > 1:
        raise ConfigurationError(f"options of {' and '.join(found)} are set: choose one of them with {Key.TYPE}.")
    return found[0] if found else "exponential-delay"


def _at_least(minimum: int, value: int, key: str) -> int:
    if value < minimum:
        raise ConfigurationError(f"{key} is {value}; it must be at least {minimum}.")
    return value


def _span(milliseconds: int) -> str:
    """In the largest unit that needs no fraction."""
    for unit, size in (("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"
