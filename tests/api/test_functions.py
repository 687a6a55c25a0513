"""What the base classes of functions do by themselves."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from beadline.datastream import functions
from beadline.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from beadline.datastream.functions import (
    AsyncFunction,
    AsyncRetryStrategy,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    SinkFunction,
    SourceFunction,
)
from beadline.errors import ConfigurationError, UnsupportedFeatureError

MUST_IMPLEMENT = {
    "MapFunction": {"map"},
    "CoMapFunction": {"map1", "map2"},
    "FlatMapFunction": {"flat_map"},
    "CoFlatMapFunction": {"flat_map1", "flat_map2"},
    "ReduceFunction": {"reduce"},
    "AggregateFunction": {"create_accumulator", "add", "get_result", "merge"},
    "KeySelector": {"get_key"},
    "FilterFunction": {"filter"},
    "Partitioner": {"partition"},
    "ProcessFunction": {"process_element"},
    "KeyedProcessFunction": {"process_element"},
    "CoProcessFunction": {"process_element1", "process_element2"},
    "KeyedCoProcessFunction": {"process_element1", "process_element2"},
    "WindowFunction": {"apply"},
    "AllWindowFunction": {"apply"},
    "ProcessWindowFunction": {"process"},
    "ProcessAllWindowFunction": {"process"},
    "BroadcastProcessFunction": {"process_element", "process_broadcast_element"},
    "KeyedBroadcastProcessFunction": {"process_element", "process_broadcast_element"},
    "AsyncFunction": {"async_invoke"},
}


@pytest.mark.parametrize("name", MUST_IMPLEMENT)
def test_a_function_has_to_implement_its_own_methods_and_no_more(name: str) -> None:
    assert getattr(functions, name).__abstractmethods__ == MUST_IMPLEMENT[name]


def test_open_and_close_do_nothing_unless_they_are_overridden() -> None:
    class Double(MapFunction):
        def map(self, value: int) -> int:
            return value * 2

    double = Double()
    assert double.open(None) is None  # type: ignore[arg-type,func-returns-value]
    assert double.map(21) == 42
    assert double.close() is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("base", [KeyedProcessFunction, KeyedCoProcessFunction, KeyedBroadcastProcessFunction])
def test_a_timer_emits_nothing_by_default(base: Any) -> None:
    without_abstract_methods = type("F", (base,), dict.fromkeys(base.__abstractmethods__, lambda *_: None))
    assert without_abstract_methods().on_timer(1, None) is None


@pytest.mark.parametrize("base", [ProcessWindowFunction, ProcessAllWindowFunction])
def test_a_window_function_that_keeps_no_state_need_not_clear_it(base: Any) -> None:
    class Sizes(base):  # type: ignore[misc]
        def process(self, *args: Any) -> list[int]:
            return [len(args[-1])]

    assert Sizes().process(None, [1, 2, 3]) == [3]
    assert Sizes().clear(None) is None


def test_an_on_timer_context_is_a_context_as_well() -> None:
    for function in (KeyedProcessFunction, KeyedCoProcessFunction):
        assert issubclass(function.OnTimerContext, function.Context)
        assert function.OnTimerContext.__abstractmethods__ == {
            "get_current_key",
            "time_domain",
            "timer_service",
            "timestamp",
        }
    broadcast = KeyedBroadcastProcessFunction
    assert issubclass(broadcast.OnTimerContext, broadcast.ReadOnlyContext)
    assert "timer_service" not in broadcast.Context.__abstractmethods__


@pytest.mark.parametrize(("wrapper", "instead"), [(SourceFunction, "FileSource"), (SinkFunction, "FileSink")])
def test_wrappers_of_java_objects_say_what_to_use_instead(wrapper: Any, instead: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"org.example.Thing.*{instead}"):
        wrapper("org.example.Thing")


class Lookup(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        return [value + 1]


def test_an_async_call_that_takes_too_long_is_an_error_by_default() -> None:
    assert asyncio.run(Lookup().async_invoke(1)) == [2]
    with pytest.raises(TimeoutError, match=r"7.*Lookup"):
        Lookup().timeout(7)


class TestRetries:
    def test_none(self) -> None:
        strategy = AsyncRetryStrategy.no_restart()
        assert not strategy.can_retry(1)
        assert strategy.get_retry_predicate().result_predicate() is None
        assert strategy.get_retry_predicate().exception_predicate() is None

    def test_a_fixed_wait(self) -> None:
        strategy = AsyncRetryStrategy.fixed_delay(3, 100, empty_result_predicate, has_exception_predicate)
        assert [strategy.can_retry(n) for n in (1, 3, 4)] == [True, True, False]
        assert {strategy.get_backoff_time_millis(n) for n in range(1, 9)} == {100}
        assert strategy.get_retry_predicate().result_predicate() is empty_result_predicate
        assert strategy.get_retry_predicate().exception_predicate() is has_exception_predicate

    def test_a_growing_wait_depends_on_the_attempt_alone(self) -> None:
        strategy = AsyncRetryStrategy.exponential_backoff(6, 100, 1000, 2, None, None)
        assert [strategy.get_backoff_time_millis(n) for n in (1, 2, 3, 4, 5)] == [100, 200, 400, 800, 1000]
        # Another element, whose turn it is in between, changes nothing.
        assert strategy.get_backoff_time_millis(2) == 200
        assert strategy.get_backoff_time_millis(2) == 200

    def test_a_wait_that_grows_beyond_all_numbers_is_the_longest_allowed(self) -> None:
        strategy = AsyncRetryStrategy.exponential_backoff(10_000, 100, 1000, 10.0, None, None)
        assert strategy.get_backoff_time_millis(9_999) == 1000

    def test_predicates(self) -> None:
        assert empty_result_predicate([])
        assert empty_result_predicate(None)
        assert not empty_result_predicate([0])
        assert has_exception_predicate(KeyError())
        assert not has_exception_predicate(None)
        on_key_error = functools.partial(exception_type_predicate, expected_error_type=KeyError)
        assert on_key_error(KeyError())
        assert not on_key_error(ValueError())

    @pytest.mark.parametrize("attempts", [0, -1])
    def test_numbers_must_be_positive(self, attempts: int) -> None:
        with pytest.raises(ConfigurationError, match=f"max_attempts.*{attempts}"):
            AsyncRetryStrategy.fixed_delay(attempts, 100, None, None)
        with pytest.raises(ConfigurationError, match="multiplier"):
            AsyncRetryStrategy.exponential_backoff(1, 1, 1, float(attempts), None, None)
