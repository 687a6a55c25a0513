"""Functions of an element and a state, without a class around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beadline.api.function import FilterFunction, FlatMapFunction, Function, MapFunction
from beadline.api.runtime_context import RuntimeContext
from beadline.api.state import ValueState
from beadline.api.state_descriptors import ValueStateDescriptor
from beadline.common.typeinfo import TypeInformation, Types
from beadline.errors import TypeMismatchError


class _WithState(Function):
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
