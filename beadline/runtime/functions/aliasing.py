"""Results that user code may still change.

Operators hand results on a batch at a time, so a mutable result could change before anybody looks at it: a function may
yield the object that its state holds and go on changing it. Such results are copied when they are produced. Immutable
ones never are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from beadline.state.codec import ATOMS, dumps, is_immutable, loads_trusted

only_atoms = ATOMS.issuperset


def copy_of(result: Any) -> Any:
    """A copy that shares nothing with the result; tagged results keep their tag."""
    return loads_trusted(dumps(result))


def add_settled(results: list[Any], produced: Iterable[Any], settle: Callable[[Any], Any]) -> None:
    """Append what a generator yields, each element settled before the generator goes on."""
    add = results.append
    for result in produced:
        kind = result.__class__
        if kind in ATOMS or (kind is tuple and only_atoms(map(type, result))):
            add(result)
        else:
            add(settle(result))


def add_taken(results: list[Any], produced: Iterable[Any], take: Callable[[Any], Any]) -> None:
    """Append what a generator yields, each element converted to a type that can't change."""
    results.extend(map(take, produced))


def settle_keyed(result: Any) -> Any:
    """State may hold any part of a keyed function's result: copy whatever is mutable."""
    return result if is_immutable(result) else copy_of(result)


def settle_unkeyed(result: Any) -> Any:
    """Copy a mutable result that is also referenced elsewhere, for example by a function that reuses a buffer.

    A fresh object has no more references than this call itself makes; the same is asked of the parts of a tuple.
    """
    if is_immutable(result):
        return result
    if sys.getrefcount(result) > _ALONE or (result.__class__ is tuple and any(map(_is_shared, result))):
        return copy_of(result)
    return result


def _is_shared(part: Any) -> bool:
    return sys.getrefcount(part) > _ALONE_IN_TUPLE and not is_immutable(part)


def _fresh() -> Iterator[Any]:
    yield ([],)


def _count(result: Any) -> int:
    return sys.getrefcount(result)


def _calibrated() -> tuple[int, int]:
    """How many references a fresh result, and a fresh part of a tuple, has where they are counted."""
    for result in _fresh():
        return _count(result), next(map(_count, result))
    raise AssertionError("unreachable")


_ALONE, _ALONE_IN_TUPLE = _calibrated()
