"""What functions and parallelisms must be."""

from __future__ import annotations

from typing import Any

from beadline.api.checkpointed import check_inherits
from beadline.api.function import Function
from beadline.errors import GraphError, TypeMismatchError


def check_function(func: Any, kind: type[Function]) -> None:
    if isinstance(func, type) and issubclass(func, Function):
        raise TypeMismatchError(
            f"a {kind.__name__} object is needed, got the class {func.__name__}: did you mean {func.__name__}()?"
        )
    if not isinstance(func, kind) and not callable(func):
        raise TypeMismatchError(
            f"The input must be a {kind.__name__} or a callable function, got {type(func).__name__}: {func!r}"
        )
    check_inherits(func)


def check_process_function(func: Any, kind: type[Function] | tuple[type[Function], ...], what: str) -> None:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(func, kinds):
        names = " or ".join(k.__name__ for k in kinds)
        got = f"the class {func.__name__}" if isinstance(func, type) else type(func).__name__
        raise TypeMismatchError(f"{what} takes a {names}, got {got}")
    check_inherits(func)


def checked_parallelism(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise GraphError(f"'{where}': parallelism must be a positive int, got {value!r}")
    return value
