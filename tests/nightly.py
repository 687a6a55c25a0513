"""How much is tried. ``make test`` tries every point and every case once; with ``BEADLINE_NIGHTLY=1`` each is tried in
every combination, and what is left to chance more often."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

NIGHTLY = bool(os.environ.get("BEADLINE_NIGHTLY"))


def seeds(by_day: int, at_night: int) -> range:
    return range(at_night if NIGHTLY else by_day)


def pairs(points: Iterable[Any], variants: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Every point with every variant; by day every point with one of them, in turns.

    Neighbours that come in groups, such as *before* and *after*, begin each group with another variant.
    """
    points = list(points)
    if NIGHTLY:
        return list(product(points, variants))
    count = len(variants)
    return [(point, variants[(number + number // count) % count]) for number, point in enumerate(points)]
