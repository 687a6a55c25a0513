"""Numbers over many: smallest, largest, mean and percentiles, computed as Flink computes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


def percentile(ordered: Sequence[int | float], percent: float) -> float:
    """The value below which ``percent`` of the ordered values lie: at place ``percent * (n + 1) / 100``, between two
    values if that is no whole number, and never beyond the first or the last."""
    if not ordered:
        return math.nan
    place = percent * (len(ordered) + 1) / 100
    below = math.floor(place)
    if below < 1:
        return float(ordered[0])
    if below >= len(ordered):
        return float(ordered[-1])
    return float(ordered[below - 1] + (place - below) * (ordered[below] - ordered[below - 1]))


def summarized(values: Sequence[int]) -> dict[str, Any]:
    """As in the summary of checkpoints. Of no value at all, percentiles are ``"NaN"``, which JSON has no number for."""
    ordered = sorted(values)
    found: dict[str, Any] = {
        "min": ordered[0] if ordered else 0,
        "max": ordered[-1] if ordered else 0,
        "avg": sum(ordered) // len(ordered) if ordered else 0,
    }
    for name, percent in _PERCENTILES.items():
        found[name] = percentile(ordered, percent) if ordered else "NaN"
    return found


def spread(values: Sequence[int]) -> dict[str, int]:
    """As in the details of a vertex, over its subtasks."""
    ordered = sorted(values)
    return {
        "min": ordered[0] if ordered else 0,
        "avg": sum(ordered) // len(ordered) if ordered else 0,
        "median": _whole(ordered, 50),
        "max": ordered[-1] if ordered else 0,
        "sum": sum(ordered),
        "p25": _whole(ordered, 25),
        "p75": _whole(ordered, 75),
        "p95": _whole(ordered, 95),
    }


def _whole(ordered: Sequence[int], percent: float) -> int:
    return int(percentile(ordered, percent)) if ordered else 0
