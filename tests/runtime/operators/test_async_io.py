"""Asynchronous functions: order, concurrency, timeouts, retries, failures, and the life of their event loop."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.api.async_functions import (
    NO_RETRY_STRATEGY,
    AsyncFunction,
    AsyncRetryStrategy,
    empty_result_predicate,
    has_exception_predicate,
)
from beadline.api.output_tag import OutputTag
from beadline.api.process import ProcessFunction
from beadline.api.runtime_context import RuntimeContext
from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.common.typeinfo import Types
from beadline.common.watermark_strategy import WatermarkStrategy
from beadline.errors import JobExecutionError
from beadline.graph.specs import AsyncSpec, Node, Rebalance, TimestampsSpec
from tests.graph.programs import ANY, Program, by
from tests.runtime.harness import Given, Job
from tests.timestamps import Itself

hypothesis = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def wait_for(
    program: Program,
    function: AsyncFunction[Any, Any],
    source: Any,
    timeout_ms: int = 0,
    capacity: int = 100,
    retry: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY,
    **options: Any,
) -> Node:
    return program.add("lookup", AsyncSpec(function, timeout_ms, capacity, retry), source, **options)


def results_of(
    folder: Path, function: AsyncFunction[Any, Any], records: list[Any], sizes: list[int] | None = None, **options: Any
) -> list[Any]:
    program = Program()
    program.collect(wait_for(program, function, program.source(Given()), **options))
    return Job(program, folder, parallelism=1).work_through({1: [records]}, sizes).out.get("out", [])


class Unhurried(AsyncFunction[int, tuple[int, int]]):
    """As many results as the record's remainder by three, after a wait that turns the order around."""

    async def async_invoke(self, value: int) -> list[tuple[int, int]]:
        await asyncio.sleep(0.0001 * (7 - value % 7))
        return [(value, copy) for copy in range(value % 3)]


@hypothesis
@given(
    st.lists(st.integers(0, 99), max_size=30),
    st.lists(st.integers(0, 6), max_size=8).map(lambda sizes: [*sizes, 4]),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_results_come_in_the_order_of_the_records(
    tmp_path: Path, numbers: list[int], sizes: list[int], capacity: int, seed: int
) -> None:
    program = Program()
    source = program.source(Given())
    program.collect(wait_for(program, Unhurried(), source, capacity=capacity, timeout_ms=10_000))
    job = Job(program, tmp_path, parallelism=1, workers=2, trouble=random.Random(seed))
    out = job.work_through({1: [numbers]}, sizes).out.get("out", [])
    assert out == [(n, copy) for n in numbers for copy in range(n % 3)]


class Meeting(AsyncFunction[int, tuple[int, int]]):
    """Tells how many calls are under way at a time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.under_way = 0

    async def async_invoke(self, value: int) -> list[tuple[int, int]]:
        self.under_way += 1
        most = self.under_way
        for _ in range(5):
            await asyncio.sleep(0)
            most = max(most, self.under_way)
        self.under_way -= 1
        return [(value, most)]


@pytest.mark.parametrize("capacity", [1, 3, 7])
def test_as_many_calls_are_under_way_as_the_capacity_allows(tmp_path: Path, capacity: int) -> None:
    # The source gives batches of three: calls of different batches meet.
    out = results_of(tmp_path, Meeting(), list(range(20)), capacity=capacity)
    assert [value for value, _ in out] == list(range(20))
    assert max(most for _, most in out) == capacity


def test_more_records_than_are_held_at_a_time(tmp_path: Path) -> None:
    numbers = list(range(10_000))
    assert results_of(tmp_path, Unhurried(), numbers, capacity=2000) == [(n, c) for n in numbers for c in range(n % 3)]


# -- event time


class Stamped(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


@hypothesis
@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 20))
def test_results_stay_between_their_watermarks_and_keep_their_timestamps(
    tmp_path: Path, size: int, every: int, seed: int
) -> None:
    def seen(with_lookup: bool) -> list[Any]:
        program = Program()
        node = program.add(
            "times",
            TimestampsSpec(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself()), every),
            program.source(Given()),
        )
        if with_lookup:
            node = wait_for(program, Unhurried(), node)
        else:
            node = program.function("flat_map", lambda n: [(n, copy) for copy in range(n % 3)], node)
        program.collect(program.function("process", Stamped(), node))
        job = Job(program, tmp_path, parallelism=1, workers=2, trouble=random.Random(seed) if with_lookup else None)
        return job.work_through({1: [list(range(30))]}, [size]).out["out"]

    assert seen(True) == seen(False)


def test_idleness_passes(tmp_path: Path) -> None:
    program = Program()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    quiet = strategy.with_idleness(_seconds(1))
    one = program.add("one", TimestampsSpec(strategy, 1), program.source(Given()), output_type=ANY)
    other = program.add("other", TimestampsSpec(quiet, 1), program.source(Given()), output_type=ANY)
    node = wait_for(program, Unhurried(), other)
    program.collect(program.map((one, Rebalance()), (node, Rebalance())))
    job = Job(program, tmp_path, parallelism=1)
    join, source = 6, 1
    job.step({source: [[5, 8]]}, now=0)
    assert job.watermarks[join, 0] == -(1 << 63), "the silent source holds the watermark back"
    job.step({source: [[9]]}, now=2000)
    job.step({source: [[10]]}, now=2001)
    assert job.watermarks[join, 0] == 9


def _seconds(n: int) -> Any:
    from beadline.common.time import Duration

    return Duration.of_seconds(n)


# -- timeouts, retries, failures


class Stuck(AsyncFunction[int, Any]):
    async def async_invoke(self, value: int) -> list[Any]:
        if value % 2:
            await asyncio.sleep(60)
        return [value]


class Patient(Stuck):
    def timeout(self, value: int) -> list[Any]:
        return [value, "late"]


def test_a_call_that_takes_too_long_gets_the_result_of_timeout(tmp_path: Path) -> None:
    assert results_of(tmp_path, Patient(), [0, 1, 2, 3], timeout_ms=20) == [0, 1, "late", 2, 3, "late"]


def failure(folder: Path, function: AsyncFunction[Any, Any], records: list[Any], **options: Any) -> JobExecutionError:
    with pytest.raises(JobExecutionError) as caught:
        results_of(folder, function, records, **options)
    return caught.value


def test_a_timeout_is_an_error_that_names_operator_and_record(tmp_path: Path) -> None:
    error = failure(tmp_path, Stuck(), [0, 7, 2], timeout_ms=20)
    assert (error.operator, error.record) == ("lookup", "7")
    assert "Async function call has timed out for input: " in str(error)


class OwnTimeout(AsyncFunction[int, Any]):
    async def async_invoke(self, value: int) -> list[Any]:
        raise TimeoutError("the server said so")


class OwnCancellation(AsyncFunction[int, Any]):
    async def async_invoke(self, value: int) -> list[Any]:
        raise asyncio.CancelledError("gave up")


class Nothing(AsyncFunction[int, Any]):
    async def async_invoke(self, value: int) -> list[Any]:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (OwnTimeout(), "the server said so"),
        (OwnCancellation(), "gave up"),
        (Nothing(), "The result of AsyncFunction cannot be none: async_invoke or timeout of Nothing"),
    ],
)
def test_what_the_function_does_wrong_names_operator_and_record(
    tmp_path: Path, function: AsyncFunction[Any, Any], message: str
) -> None:
    error = failure(tmp_path, function, [5], timeout_ms=10_000)
    assert (error.operator, error.record) == ("lookup", "5")
    assert message in str(error)


class Flaky(AsyncFunction[int, Any]):
    """Fails, or gives nothing, as often as the record says; remembers when it was called."""

    def __init__(self, raises: bool) -> None:
        self._raises = raises

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls: dict[int, list[float]] = {}

    async def async_invoke(self, value: int) -> list[Any]:
        calls = self.calls.setdefault(value, [])
        calls.append(asyncio.get_running_loop().time())
        if len(calls) <= value:
            if self._raises:
                raise ConnectionError(f"attempt {len(calls)}")
            return []
        waits = [round((b - a) * 1000) for a, b in itertools.pairwise(calls)]
        return [(value, len(calls), waits)]


def test_exceptions_are_tried_again_after_a_fixed_delay(tmp_path: Path) -> None:
    retry = AsyncRetryStrategy.fixed_delay(3, 20, None, has_exception_predicate)
    out = results_of(tmp_path, Flaky(raises=True), [3, 0, 1, 2], timeout_ms=10_000, retry=retry)
    assert [(value, attempts) for value, attempts, _ in out] == [(3, 4), (0, 1), (1, 2), (2, 3)]
    assert all(20 <= wait < 400 for *_, waits in out for wait in waits)


def test_attempts_are_limited(tmp_path: Path) -> None:
    retry = AsyncRetryStrategy.fixed_delay(3, 1, None, has_exception_predicate)
    error = failure(tmp_path, Flaky(raises=True), [1, 4], timeout_ms=10_000, retry=retry)
    assert (error.record, "attempt 4" in str(error)) == ("4", True)


def test_an_exception_that_the_predicate_does_not_take_is_not_tried_again(tmp_path: Path) -> None:
    retry = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: isinstance(error, KeyError))
    assert "attempt 1" in str(failure(tmp_path, Flaky(raises=True), [1], timeout_ms=10_000, retry=retry))


def test_results_are_tried_again_and_the_last_one_counts(tmp_path: Path) -> None:
    retry = AsyncRetryStrategy.exponential_backoff(2, 10, 1000, 4.0, empty_result_predicate, None)
    out = results_of(tmp_path, Flaky(raises=False), [2, 3, 0], timeout_ms=10_000, retry=retry)
    assert [(value, attempts) for value, attempts, _ in out] == [(2, 3), (0, 1)], "3 is still empty after 3 attempts"
    first, second = out[0][2]
    assert first >= 10
    assert second >= 40


class Refused(AsyncFunction[int, Any]):
    async def async_invoke(self, value: int) -> list[Any]:
        raise ConnectionError("refused")

    def timeout(self, value: int) -> list[Any]:
        return ["gave up"]


def test_the_timeout_is_for_all_attempts_together(tmp_path: Path) -> None:
    retry = AsyncRetryStrategy.fixed_delay(10_000, 10, None, has_exception_predicate)
    assert results_of(tmp_path, Refused(), [1], timeout_ms=50, retry=retry) == ["gave up"]


# -- the life of the function


class Client(AsyncFunction[int, Any]):
    """Needs the loop in open(), as clients of network libraries do."""

    closed: list[str] = []  # noqa: RUF012

    def open(self, runtime_context: RuntimeContext) -> None:
        self.loop = asyncio.get_running_loop()
        self.queue: asyncio.Queue[int] = asyncio.Queue()
        self.echo = self.loop.create_task(self._echo())

    async def _echo(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            await self.queue.put(0)

    async def async_invoke(self, value: int) -> list[Any]:
        assert asyncio.get_running_loop() is self.loop
        return [value + await self.queue.get()]

    async def close(self) -> None:  # type: ignore[override]
        await self.queue.get()
        Client.closed.append("awaited")


class PlainClose(Client):
    def close(self) -> None:  # type: ignore[override]
        asyncio.run(asyncio.sleep(0))  # possible, since no loop runs here
        Client.closed.append("called")


class AsyncOpen(Client):
    async def open(self, runtime_context: RuntimeContext) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().open(runtime_context)


@pytest.mark.parametrize(
    ("function", "how"), [(Client(), "awaited"), (PlainClose(), "called"), (AsyncOpen(), "awaited")]
)
def test_open_runs_in_the_loop_that_serves_all_steps(tmp_path: Path, function: Client, how: str) -> None:
    Client.closed.clear()
    assert results_of(tmp_path, function, [1, 2, 3, 4], [1]) == [1, 2, 3, 4]
    assert Client.closed == [how]


class Stateful(AsyncFunction[Any, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("n", Types.LONG()))

    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


def test_there_is_no_keyed_state_behind_key_by(tmp_path: Path) -> None:
    program = Program()
    program.collect(wait_for(program, Stateful(), (program.source(Given()), by(lambda n: n))))
    with pytest.raises(JobExecutionError, match="only accessible by functions executed on a KeyedStream"):
        Job(program, tmp_path).work_through({1: [[1]]})


def test_elements_go_where_their_key_puts_them(tmp_path: Path) -> None:
    program = Program()
    program.collect(wait_for(program, Unhurried(), (program.source(Given(), parallelism=1), by(lambda n: n))))
    out = Job(program, tmp_path, parallelism=2).work_through({1: [list(range(30))]}, [7]).out["out"]
    assert sorted(out) == [(n, copy) for n in range(30) for copy in range(n % 3)]


TAG = OutputTag("odd", Types.LONG())


class Sorting(AsyncFunction[int, Any]):
    async def async_invoke(self, value: int) -> list[Any]:
        return [(TAG, value)] if value % 2 else [value]


def test_side_outputs(tmp_path: Path) -> None:
    program = Program()
    node = wait_for(program, Sorting(), program.source(Given()), side_types={"odd": Types.LONG()})
    program.collect(node)
    program.collect((node, None, 0, "odd"), name="odd")
    job = Job(program, tmp_path, parallelism=1).work_through({1: [[1, 2, 3, 4]]})
    assert (job.out["out"], job.out["odd"]) == ([2, 4], [1, 3])
