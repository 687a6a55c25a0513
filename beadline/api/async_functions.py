"""Functions that wait for something outside, many at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from beadline.api.function import Function

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Says which outcomes are worth another attempt."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """True for a result that should be tried again; ``None`` if every result is accepted."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
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
        from beadline.api.async_retry import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[OUT]:
        """Up to ``max_attempts`` more attempts, each after the same wait."""
        from beadline.api.async_retry import FixedDelayRetryStrategy

        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[OUT]:
        """Up to ``max_attempts`` more attempts, each after ``multiplier`` times the wait before, up to a maximum."""
        from beadline.api.async_retry import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


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


class AsyncFunctionDescriptor:
    """An asynchronous function with the settings that it was attached with."""

    class OutputMode(Enum):
        """Whether results keep the order of the elements."""

        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: AsyncFunction[Any, Any],
        timeout: Any,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy[Any],
        output_mode: AsyncFunctionDescriptor.OutputMode,
    ) -> None:
        self.async_function = async_function
        self.timeout = timeout
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode
