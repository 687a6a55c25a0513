"""The contract of a source.

A source lives on both sides: the driver asks it for the range of the next step, tasks read the splits of that range.
Reading a split twice must give the same records in the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
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


class StepSource(ABC):
    """What the engine asks of a source.

    :ivar bounded: whether the source ends
    :ivar timed: whether records have timestamps; :meth:`read_batches` then gives pairs of records and timestamps
    """

    bounded: bool = False
    timed: bool = False

    def prepare(self, batch: bool) -> None:
        """Called once on the driver before the first step. ``batch``: read what is there now, then end."""

    @abstractmethod
    def initial(self) -> Position:
        """Where a new job starts reading."""

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


def as_source(source: Any) -> StepSource:
    """A source from whatever the user handed to ``from_source``."""
    make = getattr(source, "_make_source", None)
    if make is not None:
        source = make()
    if isinstance(source, StepSource):
        return source
    if isinstance(source, type):
        raise ConfigurationError(
            f"from_source needs an object, got the class {source.__name__}: did you mean {source.__name__}(…)?"
        )
    from beadline.connectors.readers import reader_source  # imports PySpark, which takes a while

    found = reader_source(source)
    if found is not None:
        return found
    raise UnsupportedFeatureError(
        f"from_source can't read from {type(source).__name__}. Use FileSource, NumberSequenceSource, or a "
        "DataSourceStreamReader, SimpleDataSourceStreamReader or DataSource of PySpark."
    )
