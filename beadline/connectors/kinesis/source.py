"""The source that reads Kinesis.

A position names every shard and where it goes on. Shards that a resharding made begin when all their parents have come
to their end, so that the records of a partition key stay in order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from beadline.connectors.decoding import decoded
from beadline.connectors.kinesis.aggregation import unpacked
from beadline.connectors.kinesis.client import make_client
from beadline.connectors.kinesis.shards import CLOSED, HORIZON, TIME, Place, Shard, Streams
from beadline.connectors.source import PartSplit, Position, StepSource

# What travels to tasks in a step.
_MOST_BYTES = 32 << 20
# A call gives no more.
_MOST_RECORDS = 10_000


@dataclass(frozen=True)
class KinesisReading:
    """What is read, and how.

    :ivar streams: names or ARNs
    :ivar properties: of the client
    :ivar start: ``latest``, ``horizon`` or a time in milliseconds
    :ivar get_interval: seconds between two calls for one shard
    :ivar discovery_interval: seconds between two looks for new shards
    """

    streams: tuple[str, ...]
    properties: Mapping[str, str] = field(repr=False)  # there may be keys among them
    schema: Any
    start: str | int = "latest"
    most_records: int = _MOST_RECORDS
    get_interval: float = 0.2
    discovery_interval: float = 10.0


class KinesisStepSource(StepSource):
    """Reads the shards of streams. A position is empty before Kinesis was asked for the first time."""

    timed = True
    parted = True
    holds_parts = True

    def __init__(self, reading: KinesisReading) -> None:
        self._reading = reading
        self._until_caught_up = False
        self._forget()

    def __repr__(self) -> str:
        return f"<KinesisStepSource of {', '.join(self._reading.streams)}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"_reading": self._reading, "_until_caught_up": self._until_caught_up}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        """What only the driver knows."""
        self._streams: Streams | None = None
        self._beginning: int | None = None
        self._discovered_at = 0.0
        self._held: frozenset[str] = frozenset()

    # -- on the driver

    def prepare(self, batch: bool) -> None:
        self._until_caught_up = self.bounded = batch

    def initial(self) -> Position:
        return {}

    def begin(self, position: Position) -> bool:
        self._since(position)
        return True

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        """Read what the next step gets.

        1. look for new shards, if it is time to
        2. read each that is open, within its share of the records
        """
        streams = self._reader()
        places: dict[str, Place] = dict(start.get("shards", {}))
        since = self._since(start)
        self._discover(streams, places, since)
        names = [name for name, place in places.items() if place[0] != CLOSED and name not in self._held]
        share = max(1, min(self._reading.most_records, rows // max(1, len(names))))
        splits, size = [], 0
        for name in names:
            if size >= _MOST_BYTES:
                break
            stream, _, shard = name.rpartition("/")
            fetched = streams.fetch(stream, shard, places[name], share)
            if fetched is None:
                continue
            ends = self._until_caught_up and fetched.caught_up
            places[name] = [CLOSED] if ends else fetched.place
            if fetched.records:
                size += sum(len(data) for _, _, data in fetched.records)
                splits.append(PartSplit(name, (name, fetched.records)))
            if fetched.place[0] == CLOSED:
                self._discovered_at = 0.0  # its children may begin
        return {"since": since, "shards": places}, splits

    def _reader(self) -> Streams:
        if self._streams is None:
            client = make_client("kinesis", self._reading.properties)
            self._streams = Streams(client, self._reading.streams, self._reading.get_interval)
        return self._streams

    def _discover(self, streams: Streams, places: dict[str, Place], since: int | None) -> None:
        """Take new shards in whose parents have come to their end, and forget closed ones that are gone."""
        now = time.monotonic()
        if self._discovered_at and now - self._discovered_at < self._reading.discovery_interval:
            return
        found = streams.shards()
        self._discovered_at = now
        there = {shard.name for shard in found}
        for name in [name for name, place in places.items() if place[0] == CLOSED and name not in there]:
            del places[name]
        for shard in found:
            if shard.name not in places and not self._waits(shard, places, there):
                places[shard.name] = [HORIZON] if since is None else [TIME, since]

    def _since(self, start: Position) -> int | None:
        """From when on the job reads, None for all there is. "The latest" is a time too: a job that goes back to its
        first checkpoint must not skip what came meanwhile."""
        if "since" in start:
            since: int | None = start["since"]
            return since
        chosen = self._reading.start
        if isinstance(chosen, int):
            return chosen
        if chosen == "horizon":
            return None
        if self._beginning is None:
            self._beginning = self._reader().time_there()
        return self._beginning

    def _waits(self, shard: Shard, places: Mapping[str, Place], there: set[str]) -> bool:
        """Whether a parent has records that come first."""
        parents = [f"{shard.stream}/{parent}" for parent in shard.parents]
        return any(places[each][0] != CLOSED if each in places else each in there for each in parents)

    def finished(self, position: Position) -> bool:
        places: dict[str, Place] = position.get("shards", {})
        return self._until_caught_up and bool(places) and all(place[0] == CLOSED for place in places.values())

    def parts(self, position: Position) -> list[str]:
        return [name for name, place in position.get("shards", {}).items() if place[0] != CLOSED]

    def hold(self, parts: frozenset[str]) -> None:
        self._held = parts

    def poll_interval(self) -> float:
        return self._reading.get_interval

    def stop(self) -> None:
        self._forget()

    # -- in tasks

    def read_batches(self, split: Any) -> Iterator[Any]:
        name, fetched = split
        data: list[bytes] = []
        timestamps: list[int] = []
        numbers: list[str] = []
        for number, timestamp, packed in fetched:
            for each in unpacked(packed):
                data.append(each)
                timestamps.append(timestamp)
                numbers.append(number)

        def place_of(index: int) -> str:
            return f"record {numbers[index]} of {name}"

        yield from decoded(self._reading.schema.deserializer(), data, place_of, timestamps)
