"""The retry strategies and predicates that come with Beadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from beadline.api.async_functions import AsyncRetryPredicate, AsyncRetryStrategy
from beadline.errors import ConfigurationError

OUT = TypeVar("OUT")


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Tries again if nothing came back."""
    return not result


def has_exception_predicate(error: Exception | None) -> bool:
    """Tries again after any exception."""
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type[Exception]) -> bool:
    """Tries again after exceptions of one type; bind the type with a lambda or ``functools.partial``."""
    return isinstance(error, expected_error_type)


class RetryPredicate(AsyncRetryPredicate[OUT], Generic[OUT]):
    """A retry predicate made of two functions."""

    def __init__(
        self,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """One attempt only."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(None, None)


class _Limited(AsyncRetryStrategy[OUT], Generic[OUT]):
    """A number of attempts, for what the predicates say."""

    _max_attempts: int
    _predicate: RetryPredicate[OUT]

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return self._predicate


class FixedDelayRetryStrategy(_Limited[OUT]):
    """The same wait before each attempt."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _check_positive(max_attempts=max_attempts, backoff_time_millis=backoff_time_millis)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis


class ExponentialBackoffDelayRetryStrategy(_Limited[OUT]):
    """A wait that grows from attempt to attempt.

    The wait depends on the number of the attempt only: elements that are retried at the same time don't lengthen each
    other's.
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        _check_positive(
            max_attempts=max_attempts,
            initial_delay=initial_delay,
            max_retry_delay=max_retry_delay,
            multiplier=multiplier,
        )
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        if current_attempts <= 1:
            return self._initial_delay
        try:
            delay = self._initial_delay * self._multiplier ** (current_attempts - 1)
        except OverflowError:
            return self._max_retry_delay
        return int(min(delay, self._max_retry_delay))


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not isinstance(value, (int, float)) or value <= 0:
            raise ConfigurationError(f"{name} of a retry strategy must be positive, not {value!r}.")


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()
