"""Fields are not state: finds fields of user functions that changed during a step."""

from __future__ import annotations

from collections import deque
from typing import Any

from beadline.api.function import Function
from beadline.api.metrics import Metric, MetricGroup
from beadline.api.runtime_context import RuntimeContext
from beadline.api.state import State

_ATOMS = (str, int, float, bool, bytes, complex, type(None))
_OURS = (State, Metric, MetricGroup, RuntimeContext)
_CONTAINERS = (list, dict, set, deque, bytearray)
_LOOK_INTO = 16


def fingerprint(function: Function) -> dict[str, Any]:
    """A cheap picture of a function's fields; equal pictures mean that nothing obvious changed."""
    return {name: _picture(value, depth=2) for name, value in vars(function).items() if not isinstance(value, _OURS)}


def changed(before: dict[str, Any], function: Function) -> list[str]:
    after = fingerprint(function)
    # In tuples, where a NaN equals itself.
    return sorted(name for name in before.keys() | after.keys() if (before.get(name),) != (after.get(name),))


def _picture(value: Any, depth: int) -> Any:
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, _CONTAINERS):
        if depth == 0 or len(value) > _LOOK_INTO:
            return id(value), len(value)
        items = list(value.items()) if isinstance(value, dict) else list(value)
        return id(value), len(value), tuple(_picture(item, depth - 1) for item in items)
    if isinstance(value, tuple) and depth > 0 and len(value) <= _LOOK_INTO:
        return tuple(_picture(item, depth - 1) for item in value)
    return id(value)
