"""The basic functions: one method over one or two elements.

Wherever a stream method takes one of these, a plain callable will do as well; the class is for functions that want
``open``, ``close`` and state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from beadline.api.runtime_context import RuntimeContext
from beadline.errors import UnsupportedFeatureError


class Function(ABC):  # noqa: B024 - subclasses say what is abstract
    """Base of all functions.

    One object lives in each subtask. Its fields are not state: what must survive a failure belongs in a state handle
    from ``open``.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once before the first element; get state handles and connections here."""

    def close(self) -> None:
        """Called when the subtask ends in good order; after a failure the object is dropped without it."""


class MapFunction(Function):
    """Turns each element into exactly one other."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The element that takes the place of ``value``."""


class CoMapFunction(Function):
    """Maps two connected streams; both methods share the object and its state."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """The element that takes the place of one from the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """The element that takes the place of one from the second stream."""


class FlatMapFunction(Function):
    """Turns each element into any number of others.

    ::

        class Words(FlatMapFunction):
            def flat_map(self, value):
                yield from value.split()
    """

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Yields, or returns as an iterable, the results of ``value``; ``None`` means none."""


class CoFlatMapFunction(Function):
    """Flat-maps two connected streams; both methods share the object and its state."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Yields the results of an element of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Yields the results of an element of the second stream."""


class ReduceFunction(Function):
    """Folds two values of a type into one of the same type; it should be associative."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """``value1`` is what has been folded so far, ``value2`` what is new."""


class CallableReduceFunction(ReduceFunction):
    """A reduce function made of a plain callable of two values."""

    def __init__(self, func: Callable[[Any, Any], Any]) -> None:
        # The callable itself stands in for the method: one call less for every record.
        self.reduce = func  # type: ignore[assignment,method-assign]

    def reduce(self, value1: Any, value2: Any) -> Any:
        raise AssertionError("set in the constructor")


class AggregateFunction(Function):
    """Aggregates with an accumulator that may be of another type than the elements and the result.

    ::

        class Average(AggregateFunction):
            def create_accumulator(self): return 0, 0
            def add(self, value, accumulator): return accumulator[0] + value, accumulator[1] + 1
            def get_result(self, accumulator): return accumulator[0] / accumulator[1]
            def merge(self, acc_a, acc_b): return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """The accumulator of no elements."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with ``value`` added; it may be the given one, changed."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result of the accumulator, which is still used afterwards."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Both accumulators in one, as session windows need; neither is used afterwards."""


class KeySelector(Function):
    """Reads the key off an element. The same element must always give the same key."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key of ``value``."""


class FilterFunction(Function):
    """Decides which elements stay; it must not change them."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """True to keep ``value``."""


class Partitioner(Function):
    """Chooses the subtask that an element goes to, for ``partition_custom``."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """The number of the subtask, from 0 to ``num_partitions`` - 1."""


class SourceFunction:
    """PyFlink's wrapper of a Java source. There is no JVM operator here to wrap: making one raises."""

    def __init__(self, source_func: Any) -> NoReturn:
        raise UnsupportedFeatureError(
            f"SourceFunction({source_func!r}) wraps a Java object and can't run here. Read with "
            f"env.from_source(...) and FileSource or NumberSequenceSource, with "
            f"env.from_collection(...), or give from_source a pyspark.sql.datasource.DataSource of your own."
        )
