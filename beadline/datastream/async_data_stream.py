from __future__ import annotations

import inspect
from typing import Any

from beadline.api.arguments import as_milliseconds
from beadline.api.async_functions import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from beadline.api.async_functions import AsyncFunctionDescriptor as AsyncFunctionDescriptor
from beadline.common.time import Duration, Time
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.data_stream import DataStream
from beadline.datastream.streams.operator_settings import check_process_function
from beadline.errors import ConfigurationError, TypeMismatchError
from beadline.graph.specs import AsyncSpec

__all__ = ["AsyncDataStream"]


class AsyncDataStream:
    """Applies an :class:`AsyncFunction`::

        AsyncDataStream.unordered_wait(stream, Lookup(), Time.seconds(10), capacity=50, output_type=Types.STRING())

    The function's ``open`` is called with its event loop running, so clients can be made there; ``open`` and ``close``
    may be ``async def``. A task that Spark runs again asks again: calls are made at least once, their results take
    effect exactly once.
    """

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Results in the order of the elements.

        :param timeout: for one element, all attempts together; 0 for none
        :param capacity: how many calls of a subtask may be under way at a time
        """
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As ``ordered_wait``, with more attempts where the strategy asks for them."""
        if not isinstance(data_stream, DataStream):
            raise TypeMismatchError(f"AsyncDataStream takes a DataStream first, got {type(data_stream).__name__}")
        check_process_function(async_function, AsyncFunction, "AsyncDataStream")
        name = type(async_function).__name__
        if not inspect.iscoroutinefunction(async_function.async_invoke):
            raise TypeMismatchError(f"Method 'async_invoke' of class '{name}' should be declared as 'async def'")
        if not isinstance(async_retry_strategy, AsyncRetryStrategy):
            raise TypeMismatchError(
                f"an AsyncRetryStrategy is needed, got {async_retry_strategy!r}; use AsyncRetryStrategy.no_restart()"
            )
        if async_retry_strategy.get_retry_predicate() is None:
            raise ConfigurationError(f"get_retry_predicate() of {type(async_retry_strategy).__name__} gave None")
        millis = as_milliseconds(timeout, "timeout")
        if async_retry_strategy is not NO_RETRY_STRATEGY and millis <= 0:
            raise ConfigurationError(
                f"retries need a timeout of more than 0 ms, got {millis} ms: it ends the attempts for an element"
            )
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise ConfigurationError(
                f"capacity is the number of calls at a time, an int of 1 or more, got {capacity!r}"
            )
        return data_stream._apply(
            "async wait operator", AsyncSpec(async_function, millis, capacity, async_retry_strategy), output_type
        )

    # Results are visible when their step is sealed, and by then the function has made all of them. No result gains by
    # going first, so unordered results keep the order of the elements too.
    unordered_wait = ordered_wait
    unordered_wait_with_retry = ordered_wait_with_retry
