"""The contract of a source.

A source lives on both sides: the driver asks it for the range of the next step, tasks read the splits of that range.
Reading a split twice must give the same records in the same order.

A source may consist of **parts** that move on in event time at their own pace, such as the partitions of a topic. Each
part then has its own watermark generator, and the watermark of a subtask is the lowest of its parts that are not idle.
All splits of a part go to one subtask, the same in every step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from beadline.errors import BeadlineError, ConfigurationError, UnsupportedFeatureError

BATCH = 4096
_SHOWN = 100
Position = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Unreadable:
    """Stands in a source's output for a record that can't be read. The source can go on after it, so the job can
    be told to do so too (``beadline.poison.action``).

    :ivar place: where the record is, for people
    :ivar data: what is there
    :ivar problem: what the job fails with if it is not to go on
    """

    place: str
    data: bytes
    problem: BeadlineError

    def __repr__(self) -> str:
        shown = repr(self.data[:_SHOWN]) + ("…" if len(self.data) > _SHOWN else "")
        return f"{shown} ({self.place})"

    @property
    def identity(self) -> tuple[str, bytes]:
        """Equal when the same record is read again."""
        return self.place, self.data


@dataclass(frozen=True)
class Watermark:
    """Stands in a source's output where event time moves on, for a source that knows it by itself."""

    timestamp: int


@dataclass(frozen=True)
class Part:
    """Stands in a source's output before the records of one of its parts."""

    name: str


@dataclass(frozen=True)
class PartSplit:
    """What a step reads from one part of a source.

    :ivar part: its name, the same for as long as the part exists
    :ivar split: what :meth:`StepSource.read_batches` is given
    """

    part: str
    split: Any


@dataclass(frozen=True)
class Backlog:
    """What waits to be read, as far as it is known: in records, in bytes, or both."""

    records: int | None = None
    bytes: int | None = None


class StepSource(ABC):
    """What the engine asks of a source.

    :ivar bounded: whether the source ends
    :ivar timed: whether records have timestamps; :meth:`read_batches` then gives pairs of records and timestamps
    :ivar single: whether one subtask reads everything, whatever the parallelism of the job
    :ivar parted: whether it has parts; known when it is prepared. Its splits are then all :class:`PartSplit`
    :ivar holds_parts: whether it can leave some parts out, see :meth:`hold`
    """

    bounded: bool = False
    timed: bool = False
    single: bool = False
    parted: bool = False
    holds_parts: bool = False

    def prepare(self, batch: bool) -> None:
        """Called once on the driver before the first step. ``batch``: read what is there now, then end."""

    @abstractmethod
    def initial(self) -> Position:
        """Where a new job starts reading."""

    def begin(self, position: Position) -> bool:
        """Find out where reading begins, if that depends on when it is asked, as "the latest offset" does. Asked before
        the job says that it runs: what arrives later must be read. False: nobody knows yet, ask again."""
        return True

    @abstractmethod
    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        """The end of the next range of about ``rows`` records, and its splits. An end equal to the start means no
        new data."""

    @abstractmethod
    def finished(self, position: Position) -> bool:
        """Whether nothing will ever come after this position."""

    @abstractmethod
    def read_batches(self, split: Any) -> Iterator[Any]:
        """The records of a split, in lists of moderate length; an :class:`Unreadable` in the place of a record that
        can't be read, a :class:`Watermark` where event time moves on. Runs in tasks."""

    # -- parts

    def parts(self, position: Position) -> list[str]:
        """The names of all parts from which records may come after this position, also of those that had none so far.
        They follow from the position alone: a new part is named by the end that :meth:`plan` gives. Only for a source
        with parts."""
        return []

    def hold(self, parts: frozenset[str]) -> None:
        """Plan nothing of these parts, until told otherwise: they are too far ahead of others. What has finished does
        not depend on it. Only for a source that says that it holds parts."""

    def read_parts(self, splits: Sequence[PartSplit]) -> Iterator[Any]:
        """The records of all splits of a subtask, with a :class:`Part` before each change of part. A batch belongs to
        one part. Override it to read several parts at a time. Runs in tasks."""
        for given in splits:
            yield Part(given.part)
            yield from self.read_batches(given.split)

    # -- the rest

    def backlog(self, position: Position) -> Backlog:
        """What lies after this position. It is for people, and any thread may ask at any time: the answer comes from
        what is known from planning, and nobody outside is asked for it."""
        return Backlog()

    def guarantee(self) -> str:
        """What the source can give at best: ``exactly-once`` if a split that is read again gives the same records."""
        return "exactly-once"

    def poll_interval(self) -> float:
        """Seconds to wait before asking again when there was no new data."""
        return 0.1

    def commit(self, position: Position) -> None:
        """A checkpoint up to this position has completed."""

    def stop(self) -> None:
        """The job has ended."""


def as_source(source: Any, call: str = "from_source") -> StepSource:
    """A source from whatever the user handed to ``from_source``, or to another call of that name."""
    make = getattr(source, "_make_source", None)
    if make is not None:
        source = make()
    if isinstance(source, StepSource):
        return source
    if isinstance(source, type):
        raise ConfigurationError(
            f"{call} needs an object, got the class {source.__name__}: did you mean {source.__name__}(…)?"
        )
    from beadline.connectors.readers import reader_source  # imports PySpark, which takes a while

    found = reader_source(source)
    if found is not None:
        return found
    raise UnsupportedFeatureError(
        f"{call} can't read from {type(source).__name__}. Use a connector such as KafkaSource, FileSource or "
        "SocketSource, or a DataSourceStreamReader, SimpleDataSourceStreamReader or DataSource of PySpark. What is "
        "written in Java can't run here."
    )
