"""An operator's keyed state, some key groups at a time, and how large an entry is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from beadline.checkpoint.contents.snapshot import OperatorSnapshot
from beadline.state.codec import dumps
from beadline.state.key_groups import key_group_range
from beadline.state.segments.merging import BUDGET, merged
from beadline.state.segments.segment import SegmentContent

# Little enough that a reader who has to be considerate can pause often.
_SMALL_BUDGET = 4 << 20
_LONGEST_PAUSE_SECONDS = 1.0


class TimeIsUp(Exception):
    """A reader has taken as long as it may; what it has seen so far counts."""


@dataclass(frozen=True)
class Pace:
    """How much of a processor a reader takes, and for how long.

    A driver runs steps, and on the local engine tasks too: a reader in its process must not take their time.

    :ivar share: of the time that it works; 1 for not to pause at all
    :ivar seconds: after which it gives up; None for never
    """

    share: float = 1.0
    seconds: float | None = None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    @property
    def budget(self) -> int:
        """How many bytes of memory a slice may take."""
        return BUDGET if self.share >= 1 else _SMALL_BUDGET

    def over(self, slices: Iterator[Part]) -> Iterator[Part]:
        """The slices one by one, with pauses; raises :class:`TimeIsUp` after that long."""
        started = worked_from = self.clock()
        for part in slices:
            if self.seconds is not None and self.clock() - started > self.seconds:
                raise TimeIsUp
            yield part
            if self.share < 1:
                self.sleep(min((self.clock() - worked_from) * (1 / self.share - 1), _LONGEST_PAUSE_SECONDS))
                worked_from = self.clock()


UNHURRIED = Pace()


@dataclass(frozen=True)
class Part:
    """Settled entries of some key groups of a subtask. All entries of a key are in the same part."""

    subtask: int
    groups: range
    content: SegmentContent


def parts_of(operator: OperatorSnapshot, pace: Pace = UNHURRIED) -> Iterator[Part]:
    """All keyed state of an operator, in the order of its key groups."""
    return pace.over(_parts(operator, pace.budget))


def _parts(operator: OperatorSnapshot, budget: int) -> Iterator[Part]:
    for subtask, handle in enumerate(operator.keyed):
        if handle is not None and handle.segments:
            owned = key_group_range(subtask, operator.parallelism, operator.max_parallelism)
            for groups, content in merged(handle.segments, owned, budget):
                yield Part(subtask, groups, content)


def entry_size(slot: Any, change: Any) -> int:
    """How many bytes an entry takes when it is written, its key included."""
    return len(dumps((slot, change)))
