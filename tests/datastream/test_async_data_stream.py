"""AsyncDataStream as the program sees it: what it takes, what it refuses, and one job on Spark."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from beadline.common import Duration, Time, Types
from beadline.datastream import AsyncDataStream, DataStream, StreamExecutionEnvironment
from beadline.datastream.functions import AsyncFunction, AsyncRetryStrategy, RuntimeContext
from beadline.errors import ConfigurationError, JobExecutionError, TypeMismatchError
from beadline.graph.specs import AsyncSpec


class Twice(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        return [value * 2]


class NotAsync(AsyncFunction[int, int]):
    def async_invoke(self, value: int) -> list[int]:  # type: ignore[override]
        return [value]


def numbers() -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    return env.from_collection(list(range(20)), Types.LONG())


RETRY: AsyncRetryStrategy[Any] = AsyncRetryStrategy.fixed_delay(1, 1, None, lambda error: True)


def test_settings_arrive_at_the_operator() -> None:
    stream = AsyncDataStream.unordered_wait_with_retry(
        numbers(), Twice(), Duration.of_seconds(2), RETRY, 7, Types.LONG()
    )
    node = stream._edges[0].source
    assert (node.name, stream.get_type()) == ("async wait operator", Types.LONG())
    assert isinstance(node.spec, AsyncSpec)
    assert (node.spec.timeout_ms, node.spec.capacity, node.spec.retry) == (2000, 7, RETRY)
    plain = AsyncDataStream.ordered_wait(numbers(), Twice(), Time.seconds(0))._edges[0].source.spec
    assert isinstance(plain, AsyncSpec)
    assert (plain.timeout_ms, plain.capacity) == (0, 100)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (NotAsync(), Time.seconds(1)),
            TypeMismatchError,
            "Method 'async_invoke' of class 'NotAsync' should be declared as 'async def'",
        ),
        ((Twice, Time.seconds(1)), TypeMismatchError, "takes a AsyncFunction, got the class Twice"),
        ((Twice(), 5), TypeMismatchError, "timeout must be a Time or a Duration"),
        ((Twice(), Time.seconds(1), 0), ConfigurationError, "capacity is the number of calls"),
        ((Twice(), Time.seconds(1), True), ConfigurationError, "capacity is the number of calls"),
    ],
)
def test_what_is_refused(arguments: Any, error: type[Exception], message: str) -> None:
    for wait in (AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait):
        with pytest.raises(error, match=message):
            wait(numbers(), *arguments)


def test_retries_need_a_timeout_and_a_strategy() -> None:
    with pytest.raises(ConfigurationError, match="retries need a timeout"):
        AsyncDataStream.ordered_wait_with_retry(numbers(), Twice(), Time.seconds(0), RETRY)
    with pytest.raises(TypeMismatchError, match="AsyncRetryStrategy is needed, got None"):
        AsyncDataStream.unordered_wait_with_retry(numbers(), Twice(), Time.seconds(1), None)  # type: ignore[arg-type]


class Session(AsyncFunction[int, Any]):
    """Holds something that belongs to the loop, as a client does."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.lock = asyncio.Lock()
        self.loop = asyncio.get_running_loop()

    async def async_invoke(self, value: int) -> list[Any]:
        await asyncio.sleep(0.001 * (5 - value % 5))
        async with self.lock:
            if value == 13:
                raise ConnectionError("unlucky")
        return [value] * (value % 3)


def test_a_job_on_spark(spark: Any) -> None:
    stream = numbers().filter(lambda n: n != 13)
    waited = AsyncDataStream.ordered_wait(stream, Session(), Time.seconds(60), 4, Types.LONG())
    seen = waited.execute_and_collect(limit=100)
    assert sorted(seen) == sorted(n for n in range(20) if n != 13 for _ in range(n % 3))
    failing = AsyncDataStream.unordered_wait(numbers(), Session(), Time.seconds(60), 4, Types.LONG()).name("ask")
    with pytest.raises(JobExecutionError, match="unlucky") as caught:
        failing.execute_and_collect(limit=100)
    assert (caught.value.operator, caught.value.record) == ("ask", "13")
