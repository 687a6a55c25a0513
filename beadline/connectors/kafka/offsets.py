"""Where reading starts and stops, before the broker is asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Reset = Literal["earliest", "latest", "none"]


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"

    @classmethod
    def named(cls, name: str) -> Partition:
        topic, _, number = name.rpartition("-")
        return cls(topic, int(number))


class Range(NamedTuple):
    """The records of a partition from one offset up to another, which is not included.

    ``epoch``: the records before ``start`` are of this leader epoch or of earlier ones; -1 if that is not known
    """

    partition: Partition
    start: int
    end: int
    epoch: int = -1

    def __str__(self) -> str:
        return f"{self.partition.name} from offset {self.start} to {self.end}"


@dataclass(frozen=True)
class Offsets:
    """One offset for each partition, to be found when the job starts.

    :ivar reset: what to take where the group, or ``given``, has none, and where the one that it has is gone
    """

    kind: Literal["earliest", "latest", "committed", "timestamp", "given"]
    reset: Reset
    timestamp: int = 0
    given: Mapping[Partition, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Subscription:
    """Which partitions are read: those of some topics, those of the topics whose whole name matches a pattern, or some
    that are named."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[Partition, ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics like {self.pattern!r}"
        return ", ".join(self.topics or sorted(partition.name for partition in self.partitions))

    def names(self) -> tuple[str, ...] | None:
        """The topics that must exist; None for any."""
        if self.pattern is not None:
            return None
        return tuple(sorted(set(self.topics) | {partition.topic for partition in self.partitions}))

    def chosen(self, there: Mapping[str, Iterable[int]]) -> list[Partition]:
        """Those of the partitions that are there, in a fixed order."""
        found = [Partition(topic, number) for topic in there for number in there[topic]]
        return sorted(partition for partition in found if self.has(partition))

    def has(self, partition: Partition) -> bool:
        if self.partitions:
            return partition in self.partitions
        if self.pattern is not None:
            return re.fullmatch(self.pattern, partition.topic) is not None
        return partition.topic in self.topics
