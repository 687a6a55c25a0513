"""The functions that streams bring along: aggregations, functions of an element and a state, projections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beadline.api.function import FilterFunction, FlatMapFunction, Function, MapFunction, ReduceFunction
from beadline.api.runtime_context import RuntimeContext
from beadline.api.state import ValueState
from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.common import Row
from beadline.common.typeinfo import TypeInformation, Types
from beadline.errors import TypeMismatchError


class PositionReduce(ReduceFunction):
    """Folds one field; tuples, lists and rows by position or field name, other elements as a whole."""

    def __init__(self, how: str, position: int | str) -> None:
        if not isinstance(position, int | str):
            raise TypeMismatchError(f"{how}() takes the number or the name of a field, got {position!r}")
        self._how = how
        self._position = position

    def reduce(self, value1: Any, value2: Any) -> Any:
        if not isinstance(value2, tuple | list | Row):
            if self._position != 0:
                raise TypeMismatchError(
                    f"{self._how}({self._position!r}): the element {value2!r} has no fields; use "
                    "position 0 for the element itself"
                )
            return self._choose(value1, value2)
        old, new = self._field(value1), self._field(value2)
        if self._how in ("min_by", "max_by"):
            return value2 if (new < old if self._how == "min_by" else new > old) else value1
        folded = self._choose(old, new)
        if isinstance(value1, tuple):
            fields = list(value1)
            fields[self._position] = folded  # type: ignore[index]
            return tuple(fields)
        value1[self._position] = folded
        return value1

    def _field(self, value: Any) -> Any:
        try:
            return value[self._position]
        except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise TypeMismatchError(
                f"{self._how}({self._position!r}): the element {value!r} has no such field"
            ) from error

    def _choose(self, old: Any, new: Any) -> Any:
        if self._how == "sum":
            return old + new
        if self._how in ("min", "min_by"):
            return new if new < old else old
        return new if new > old else old


class _WithState(Function):
    """Calls ``func(element, state)``, which gives a result and the new state."""

    def __init__(self, func: Callable[[Any, Any], tuple[Any, Any]], state_type: TypeInformation | None) -> None:
        if not callable(func):
            raise TypeMismatchError(f"a function of (element, state) is needed, got {func!r}")
        self._func = func
        self._type = state_type if state_type is not None else Types.PICKLED_BYTE_ARRAY()
        self._state: ValueState[Any]

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("_with_state", self._type))

    def _call(self, value: Any) -> Any:
        answer = self._func(value, self._state.value())
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeMismatchError(f"the function must return a pair (result, new state), got {answer!r}")
        result, state = answer
        self._state.update(state)
        return result


class FlatMapWithState(_WithState, FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return self._call(value)


class MapWithState(_WithState, MapFunction):
    def map(self, value: Any) -> Any:
        return self._call(value)


class FilterWithState(_WithState, FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(self._call(value))


class Projection(MapFunction):
    def __init__(self, indexes: tuple[int, ...]) -> None:
        self._indexes = indexes

    def map(self, value: Any) -> Any:
        return tuple(value[i] for i in self._indexes)
