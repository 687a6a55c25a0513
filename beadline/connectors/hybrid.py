"""One source after another: history from files, say, then what goes on arriving."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from beadline.connectors.source import Backlog, Part, PartSplit, Position, StepSource
from beadline.errors import ConfigurationError

_STRENGTH = ("none", "at-most-once", "at-least-once", "exactly-once")


class ChainedSource(StepSource):
    """Reads the first source to its end, then the next; only the last may go on for ever.

    The position names the source and where it is. A source is asked where it begins when the one before it has ended,
    so "the latest" of the second means that moment.
    """

    def __init__(self, sources: Sequence[StepSource]) -> None:
        self._sources = list(sources)
        self._began: dict[int, Position] = {}
        self.timed = self._sources[0].timed
        if any(source.timed != self.timed for source in self._sources):
            raise ConfigurationError(
                "HybridSource: some of its sources give records with timestamps and some without; they must all be of "
                "one kind"
            )
        self._take_over()

    def _take_over(self) -> None:
        self.bounded = self._sources[-1].bounded
        self.parted = any(source.parted for source in self._sources)

    def prepare(self, batch: bool) -> None:
        for number, source in enumerate(self._sources):
            source.prepare(batch)
            if not source.bounded and source is not self._sources[-1]:
                raise ConfigurationError(
                    f"HybridSource: source {number + 1} of {len(self._sources)} never ends, so the next would never be "
                    "read; only the last may be unbounded"
                )
        self._take_over()

    # -- on the driver

    def initial(self) -> Position:
        return {"source": 0, "at": self._begin(0), "width": 1}

    def _begin(self, number: int) -> Position:
        if number not in self._began:
            self._began[number] = self._sources[number].initial()
        return self._began[number]

    def begin(self, position: Position) -> bool:
        number, at = self._current(position)
        return self._sources[number].begin(at)

    def _current(self, position: Position) -> tuple[int, Position]:
        """The source to read from next, and where."""
        number, at = position["source"], position["at"]
        while number + 1 < len(self._sources) and self._sources[number].finished(at):
            number += 1
            at = self._begin(number)
        return number, at

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        number, at = self._current(start)
        end, splits = self._sources[number].plan(at, rows, parallelism)
        behind = {"source": number, "at": end, "width": parallelism}
        if not splits:
            # What is left of a source may be nothing but empty files.
            if end == at or not self._sources[number].finished(end):
                return start, []
            is_last = number == len(self._sources) - 1
            return (behind, []) if is_last else self.plan(behind, rows, parallelism)
        wrapped: list[Any] = [(number, split) for split in splits]
        if self.parted and self._sources[number].parted:
            wrapped = [PartSplit(_name(number, split.part), (number, split)) for split in splits]
        elif self.parted:
            wrapped = [PartSplit(_name(number, i % parallelism), (number, split)) for i, split in enumerate(splits)]
        return behind, wrapped

    def finished(self, position: Position) -> bool:
        number, at = self._current(position)
        return number == len(self._sources) - 1 and self._sources[number].finished(at)

    def parts(self, position: Position) -> list[str]:
        number, at = self._current(position)
        source = self._sources[number]
        names = source.parts(at) if source.parted else range(position["width"])
        return [_name(number, name) for name in names]

    def backlog(self, position: Position) -> Backlog:
        """Of the source that is read now: the others have not been asked yet."""
        return self._sources[position["source"]].backlog(position["at"])

    def guarantee(self) -> str:
        return min((source.guarantee() for source in self._sources), key=_STRENGTH.index)

    def poll_interval(self) -> float:
        return min(source.poll_interval() for source in self._sources)

    def commit(self, position: Position) -> None:
        self._sources[position["source"]].commit(position["at"])

    def stop(self) -> None:
        for source in self._sources:
            source.stop()

    # -- in tasks

    def read_batches(self, split: Any) -> Iterator[Any]:
        number, inner = split
        yield from self._sources[number].read_batches(inner)

    def read_parts(self, splits: Sequence[PartSplit]) -> Iterator[Any]:
        number = splits[0].split[0]  # a step reads from one source
        if not self._sources[number].parted:
            yield from super().read_parts(splits)
            return
        for given in self._sources[number].read_parts([split.split[1] for split in splits]):
            yield Part(_name(number, given.name)) if given.__class__ is Part else given


def _name(number: int, part: object) -> str:
    return f"{number}/{part}"
