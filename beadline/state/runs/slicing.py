"""Cutting the work on a handle's runs into pieces that are done in about a third of a second each.

A merged run, or a table of a savepoint, may be several files, each with some key groups: a *layer* of the handle.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from beadline.state.runs.version import RunRef

PIECE_ENTRIES = 45_000
PIECE_BYTES = 5 << 20


def load_of(runs: Iterable[RunRef]) -> float:
    """How many pieces of work some runs make."""
    runs = tuple(runs)
    return max(sum(run.entries for run in runs) / PIECE_ENTRIES, sum(run.weight for run in runs) / PIECE_BYTES)


def slices_of(key_groups: range, load: float) -> list[range]:
    """As many slices of key groups as there are pieces of work, of about equal width."""
    number = max(1, min(math.ceil(load), len(key_groups)))
    cuts = [key_groups.start + len(key_groups) * i // number for i in range(number + 1)]
    return [range(start, end) for start, end in itertools.pairwise(cuts)]


def within(runs: Iterable[RunRef], key_groups: range) -> tuple[RunRef, ...]:
    """The runs that hold something of some key groups, restricted to these."""
    return tuple(part for run in runs if (part := run.restricted(key_groups)).key_groups)


def layers_of(runs: Sequence[RunRef]) -> list[tuple[RunRef, ...]]:
    """Runs that follow each other and share no key group lie side by side; others one above the other."""
    layers: list[tuple[RunRef, ...]] = []
    for run in runs:
        last = layers[-1][-1] if layers else None
        if last is not None and last.groups and run.groups and run.groups[0] >= last.groups[1]:
            layers[-1] = (*layers[-1], run)
        else:
            layers.append((run,))
    return layers
