"""The entries of a table as a person sees them: a key, perhaps a window, and a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beadline.api.windows.window import CountWindow, TimeWindow
from beadline.state.codec import thaw
from beadline.state.key_groups import unboxed


def key_of(slot: Any, namespaced: bool) -> Any:
    return unboxed(slot[0] if namespaced else slot)


def window_of(namespace: Any) -> tuple[int, int] | None:
    """Start and end of a window; None for the global one. A count window begins with its number."""
    if namespace.__class__ is tuple and len(namespace) == 2 and all(part.__class__ is int for part in namespace):
        return namespace[0], namespace[1]
    if isinstance(namespace, TimeWindow):
        return namespace.start, namespace.end
    if isinstance(namespace, CountWindow):
        return namespace.id, namespace.id + 1
    return None


def reader_of(kind: str) -> Callable[[Any], Any]:
    """What turns a settled change of a table into a value: itself, a list or a dictionary."""
    return {"value": thaw, "list": _list, "map": _map}[kind]


def _list(change: Any) -> list[Any]:
    return [thaw(item) for item in change[1]]


def _map(change: Any) -> dict[Any, Any]:
    return {unboxed(key): thaw(value) for key, value in change[1].items()}


def without_times(kind: str, value: Any) -> Any:
    """A value of a state with a time to live, without the times that its entries begin with."""
    if value is None:
        return None
    if kind == "list":
        return [item for _, item in value]
    if kind == "map":
        return {key: item for key, (_, item) in value.items()}
    return value[1]


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal. Values that can't be compared differ."""
    if one.__class__ is not other.__class__:
        return False
    try:
        return bool(one == other)
    except Exception:
        return False
