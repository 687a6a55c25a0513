"""Functions that wait for something outside, many at a time, and when they try again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

from beadline.api.function import Function
from beadline.errors import ConfigurationError

IN = TypeVar("IN")
OUT = TypeVar("OUT")

ResultPredicate: TypeAlias = Callable[[list[OUT]], bool]
ExceptionPredicate: TypeAlias = Callable[[Exception], bool]


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Says which outcomes are worth another attempt."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate[OUT] | None:
        """True for a result that should be tried again; ``None`` if every result is accepted."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """True for an exception that should be tried again; ``None`` if none is."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Says whether and when another attempt is made. Use one of the static methods, or your own subclass."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether another attempt may follow after ``current_attempts`` of them."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait before the attempt that follows ``current_attempts``."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Which outcomes are worth it."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """One attempt only."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate[OUT] | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[OUT]:
        """Up to ``max_attempts`` more attempts, each after the same wait."""
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate[OUT] | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[OUT]:
        """Up to ``max_attempts`` more attempts, each after ``multiplier`` times the wait before, up to a maximum."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


# -- the predicates and strategies that come with Beadline


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
        self, result_predicate: ResultPredicate[OUT] | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate[OUT] | None:
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
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
        result_predicate: ResultPredicate[OUT] | None,
        exception_predicate: ExceptionPredicate | None,
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
        result_predicate: ResultPredicate[OUT] | None,
        exception_predicate: ExceptionPredicate | None,
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


# -- functions


class AsyncFunction(Function, Generic[IN, OUT]):
    """Looks something up for each element while others wait as well; used with ``AsyncDataStream``."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """The results for ``value``. An exception fails the job unless the retry strategy takes it."""

    def timeout(self, value: IN) -> list[OUT]:
        """The results for a value that took too long; by default that is an error."""
        raise TimeoutError(
            f"Async function call has timed out for input: {value}. Raise the timeout, or override timeout(value) in "
            f"{type(self).__name__} to give a result instead."
        )


@dataclass(eq=False)
class AsyncFunctionDescriptor:
    """An asynchronous function with the settings that it was attached with."""

    class OutputMode(Enum):
        """Whether results keep the order of the elements."""

        ORDERED = 0
        UNORDERED = 1

    async_function: AsyncFunction[Any, Any]
    timeout: Any
    capacity: int
    async_retry_strategy: AsyncRetryStrategy[Any]
    output_mode: AsyncFunctionDescriptor.OutputMode
