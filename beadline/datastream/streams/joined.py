"""Joins and co-groups of two streams by key and window."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from itertools import chain, product, starmap
from typing import Any, NoReturn

from beadline.api.function import Function, KeySelector
from beadline.api.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from beadline.api.window_functions import WindowFunction
from beadline.api.windows.assigner import WindowAssigner
from beadline.api.windows.trigger import Trigger
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.data_stream import DataStream, Selector
from beadline.datastream.streams.keyed import KeyedStream
from beadline.datastream.streams.operator_settings import check_function
from beadline.datastream.streams.windowed import WindowedStream
from beadline.errors import GraphError, TypeMismatchError
from beadline.graph.specs import Edge, Hash, JoinWindowSpec, Spec, WindowSpec


def _missing(method: str, needed: str) -> Callable[..., NoReturn]:
    def refused(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise GraphError(
            f"{method}() of a join comes too early: call {needed} first. The whole chain is "
            "stream1.join(stream2).where(…).equal_to(…).window(…).apply(…)."
        )

    return refused


class _TwoStreams:
    """Two streams to be brought together, and the keys that are known so far."""

    _pairs: bool

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first, self._second = checked_sides(first, second, "join()" if self._pairs else "co_group()")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._first!r} and {self._second!r}>"

    def where(self, key_selector: Selector, key_type: TypeInformation | None = None) -> Where:
        """The key of the first stream's elements."""
        check_function(key_selector, KeySelector)
        return Where(self, Hash(key_selector, key_type))

    equal_to = _missing("equal_to", "where(…)")
    window = _missing("window", "where(…) and equal_to(…)")
    apply = _missing("apply", "where(…), equal_to(…) and window(…)")


class JoinedStreams(_TwoStreams):
    """Two streams to be joined: each element is paired with those of the other that share its key and its window.

    ::

        orders.join(payments).where(lambda o: o.id).equal_to(lambda p: p.order_id)
            .window(TumblingEventTimeWindows.of(Time.minutes(10)))
            .apply(lambda order, payment: (order.id, payment.amount))
    """

    _pairs = True


class CoGroupedStreams(_TwoStreams):
    """Two streams to be grouped together: all elements of both that share a key and a window are evaluated at once."""

    _pairs = False


@dataclass(eq=False)
class Where:
    """A join that knows the key of its first stream."""

    _streams: _TwoStreams
    _first_key: Hash

    def equal_to(self, key_selector: Selector, key_type: TypeInformation | None = None) -> EqualTo:
        """The key of the second stream's elements, which must equal the first stream's key."""
        check_function(key_selector, KeySelector)
        keys = same_key_type(self._first_key, Hash(key_selector, key_type))
        streams = self._streams
        return EqualTo(TwoKeyedInputs(streams._first, streams._second, keys), streams._pairs)

    window = _missing("window", "equal_to(…)")
    apply = _missing("apply", "equal_to(…) and window(…)")


@dataclass(eq=False)
class EqualTo:
    """A join that knows both keys."""

    _inputs: TwoKeyedInputs
    _pairs: bool

    def window(self, assigner: WindowAssigner[Any, Any]) -> JoinWindow | CoGroupWindow:
        """The windows in which elements meet.

        Your own assigners, triggers and evictors see ``(0, element)`` for the first stream's elements and
        ``(1, element)`` for the second's.
        """
        return (JoinWindow if self._pairs else CoGroupWindow)(self._inputs, assigner)

    apply = _missing("apply", "window(…)")


class _WithWindow:
    """A join that knows its windows."""

    def __init__(self, inputs: TwoKeyedInputs, assigner: WindowAssigner[Any, Any]) -> None:
        self._windows = WindowedStream(inputs, assigner)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._windows!r}>"

    def trigger(self, trigger: Trigger[Any, Any]) -> Any:
        self._windows.trigger(trigger)
        return self

    def evictor(self, evictor: Any) -> Any:
        self._windows.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> Any:
        """How long after its end a window still takes elements; each makes it fire again, for all of its elements."""
        self._windows.allowed_lateness(time_ms)
        return self

    def _apply(self, name: str, function: WindowFunction[Any, Any, Any, Any], output: Any) -> DataStream:
        return self._windows._apply(None, function, output, name)


class JoinWindow(_WithWindow):
    """A window join, waiting for its function."""

    def apply(
        self,
        function: Callable[[Any, Any], Any] | JoinFunction | FlatJoinFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Call the function with each pair of elements that share a key and a window.

        A callable gives one element for a pair; one that yields gives as many as it yields.
        """
        if not isinstance(function, FlatJoinFunction):
            check_function(function, JoinFunction)
        return self._apply("Window Join", _JoinOfWindow(function), output_type)


class CoGroupWindow(_WithWindow):
    """A co-group, waiting for its function."""

    def apply(
        self,
        function: Callable[[Iterable[Any], Iterable[Any]], Iterable[Any] | None] | CoGroupFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Call the function once for each key and window, with the elements of both streams."""
        check_function(function, CoGroupFunction)
        return self._apply("Window CoGroup", _CoGroupOfWindow(function), output_type)


class TwoKeyedInputs(DataStream):
    """Two streams on their way into one operator, each by its own key."""

    def __init__(self, first: DataStream, second: DataStream, keys: tuple[Hash, Hash]) -> None:
        edges = [
            Edge(edge.source, key, edge.tag, index)
            for index, (stream, key) in enumerate(zip((first, second), keys, strict=True))
            for edge in stream._edges
        ]
        super().__init__(first._env, edges, first._type)

    def _input_edges(self, input_index: int = 0) -> list[Edge]:
        return self._edges

    def _apply(
        self, name: str, spec: Spec, output_type: TypeInformation | None, parallelism: int | None = None
    ) -> DataStream:
        if isinstance(spec, WindowSpec):
            spec = JoinWindowSpec(**{field.name: getattr(spec, field.name) for field in fields(spec)})
        return super()._apply(name, spec, output_type, parallelism)


def checked_sides(first: DataStream, second: Any, what: str) -> tuple[DataStream, DataStream]:
    """The streams without the keys they may have by now."""
    if not isinstance(second, DataStream):
        raise TypeMismatchError(f"{what} takes a DataStream, got {type(second).__name__}: {second!r}")
    if second._env is not first._env:
        raise GraphError(f"{what} needs two streams of one environment; these belong to two")
    one, two = (s._origin if isinstance(s, KeyedStream) else s for s in (first, second))
    return one, two


def same_key_type(first: Hash, second: Hash) -> tuple[Hash, Hash]:
    """Both keys with one type: if it was declared for one of them only, it holds for both."""
    one, two = first.key_type, second.key_type
    if one is not None and two is not None and one != two:
        raise TypeMismatchError(
            f"the keys of a join must be of one type, but the first stream declares {one} and the second {two}. "
            "Convert one of them in its key selector and declare the same type."
        )
    return Hash(first.selector, one or two), Hash(second.selector, two or one)


class _OfWindow(WindowFunction[Any, Any, Any, Any]):
    """Hands the elements of a window to the user's function, which the operator opens and closes."""

    _method: str

    def __init__(self, function: Any) -> None:
        self.user_function = function
        self._call = getattr(function, self._method) if isinstance(function, Function) else function


class _JoinOfWindow(_OfWindow):
    """Every element of the first stream with every one of the second."""

    _method = "join"

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._flat = isinstance(function, FlatJoinFunction) or inspect.isgeneratorfunction(self._call)

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        first, second = _split(inputs)
        pairs = starmap(self._call, product(first, second))
        return chain.from_iterable(filter(None, pairs)) if self._flat else pairs


class _CoGroupOfWindow(_OfWindow):
    """Both groups at once."""

    _method = "co_group"

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return self._call(*_split(inputs)) or ()


def _split(inputs: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    sides: tuple[list[Any], list[Any]] = ([], [])
    for side, element in inputs:
        sides[side].append(element)
    return sides
