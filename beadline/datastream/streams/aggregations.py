"""sum, min, max, min_by and max_by as reduce functions."""

from __future__ import annotations

from typing import Any

from beadline.api.function import ReduceFunction
from beadline.common import Row
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
