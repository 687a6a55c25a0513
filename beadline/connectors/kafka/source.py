"""The source that reads Kafka.

The driver asks brokers how far partitions go, and names the range of offsets that each step reads. Tasks read exactly
that. A position names every partition and the offset to go on from, so a step that is run again, in whatever process,
reads the same records.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from beadline.connectors.kafka.cluster import BrokerAway, Cluster, Patience
from beadline.connectors.kafka.consumers import consumers
from beadline.connectors.kafka.offsets import Offsets, Partition, Range, Reset, Subscription
from beadline.connectors.kafka.records import records_decoded, values_decoded
from beadline.connectors.source import Backlog, Part, PartSplit, Position, StepSource
from beadline.errors import ConfigurationError, InputError

_LOG = logging.getLogger("beadline.kafka")

# A question costs a round trip, and the answer is good for a moment.
_FRESH_SECONDS = 0.02


@dataclass(frozen=True)
class KafkaReading:
    """What is read, and how.

    :ivar settings: of librdkafka
    :ivar stop: where partitions end; None if they don't
    :ivar reset: where to go on if the offset to read is not there any more
    :ivar schema: turns values into records, or messages if ``whole_records``
    :ivar discovery_seconds: how often to look for new partitions; None for never
    :ivar commits: whether the group hears of completed checkpoints
    :ivar auto_commit_seconds: how often the group hears of sealed steps; None for never
    :ivar patience: so long a broker may be away
    :ivar drops_partitions: whether partitions of a checkpoint that the program no longer asks for are left out
    """

    settings: Mapping[str, str] = field(repr=False)  # there may be passwords among them
    subscription: Subscription
    start: Offsets
    stop: Offsets | None
    bounded: bool
    reset: Reset
    schema: Any
    whole_records: bool = False
    discovery_seconds: float | None = 300.0
    commits: bool = True
    auto_commit_seconds: float | None = None
    patience: float = 60.0
    drops_partitions: bool = False


class KafkaStepSource(StepSource):
    """Reads partitions of topics. A position is empty before the brokers were asked for the first time."""

    timed = True
    parted = True
    holds_parts = True

    def __init__(self, reading: KafkaReading) -> None:
        self._reading = reading
        self._token = uuid.uuid4().hex
        self.bounded = reading.bounded
        self._forget()

    def __repr__(self) -> str:
        return f"<KafkaStepSource of {self._reading.subscription} at {self._reading.settings.get('bootstrap.servers')}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"_reading": self._reading, "_token": self._token, "bounded": self.bounded}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        """What only the driver knows."""
        self._cluster: Cluster | None = None
        self._patience = Patience(self._reading.patience)
        self._beginning: Position | None = None
        self._known: deque[Position] = deque(maxlen=4)
        self._read_from: Position | None = None
        self._held: frozenset[str] = frozenset()
        self._ends: dict[Partition, int] = {}
        self._asked_at = 0.0
        self._discovered_at = 0.0
        self._auto_committed_at = time.monotonic()
        self._auto_commits = self._reading.auto_commit_seconds is not None
        self._sealed: Position = {}

    # -- on the driver

    def prepare(self, batch: bool) -> None:
        if batch and not self.bounded:
            self._reading = replace(self._reading, stop=Offsets("latest", "none"), bounded=True)
            self.bounded = True
        self.stop()

    def initial(self) -> Position:
        # Brokers are asked in the first plan: if they are away then, the restart strategy decides.
        return {}

    def finished(self, position: Position) -> bool:
        if not position or self._reading.stop is None:
            return False
        return all(_ended(position, name) for name in position["partitions"])

    def parts(self, position: Position) -> list[str]:
        return [name for name in position.get("partitions", ()) if not _ended(position, name)]

    def hold(self, parts: frozenset[str]) -> None:
        self._held = parts

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        try:
            planned = self._plan(start, rows)
        except BrokerAway as error:
            self._patience.away(error)
            return start, []
        self._patience.there()
        self._known.append(planned[0])
        if planned[1] and rows > 1:  # with one row it was only asked whether there is more
            self._read_from = start
        return planned

    def _plan(self, start: Position, rows: int) -> tuple[Position, list[PartSplit]]:
        position = start or self._begun()
        # A position that comes from elsewhere, or that was planned from before: its step has failed.
        if start and (start not in self._known or start == self._read_from):
            position = self._still_there(position)
        position = self._with_new_partitions(position)
        offsets = {Partition.named(name): offset for name, offset in position["partitions"].items()}
        ends = self._known_ends(position, offsets, rows)
        self._auto_commit(start)
        ranges = _shared_out(offsets, ends, rows)
        moved = {given.partition.name: given.end for given in ranges}
        # A new partition gets a split even if it is empty: a step then makes its offset part of the job's position.
        new = [name for name in position["partitions"] if name not in start.get("partitions", {})]
        ranges += [Range(at := Partition.named(name), offsets[at], offsets[at]) for name in new if name not in moved]
        splits = [PartSplit(given.partition.name, given) for given in sorted(ranges)]
        return {**position, "partitions": {**position["partitions"], **moved}}, splits

    def _known_ends(self, position: Position, offsets: dict[Partition, int], rows: int) -> dict[Partition, int]:
        """Up to where partitions may be read now. Brokers are asked if what is known is not enough for a step."""
        wanted = [at for at in offsets if at.name not in self._held and not _ended(position, at.name)]
        known = all(at in self._ends for at in wanted)
        enough = known and sum(max(0, self._ends[at] - offsets[at]) for at in wanted) >= rows
        if not enough and not (known and time.monotonic() - self._asked_at < _FRESH_SECONDS):
            self._ends.update(self._brokers.ends(wanted))
            self._asked_at = time.monotonic()
        stops = position["stops"]
        return {at: min(self._ends[at], stops.get(at.name, self._ends[at])) for at in wanted}

    # -- where it begins and ends

    @property
    def _brokers(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._reading.settings, self._reading.patience)
        return self._cluster

    def _begun(self) -> Position:
        """Where a new job begins. It is found out once: a restart without a checkpoint begins there too."""
        if self._beginning is None:
            reading = self._reading
            partitions = self._found()
            if not partitions and reading.subscription.pattern is not None:
                _LOG.warning("no topic matches %r yet", reading.subscription.pattern)
            self._discovered_at = time.monotonic()
            starts = self._resolved(reading.start, partitions)
            stops = self._resolved(reading.stop, partitions) if reading.stop is not None else {}
            self._beginning = self._in_range(_position(starts, stops))
        return self._beginning

    def _found(self) -> list[Partition]:
        subscription = self._reading.subscription
        try:
            there = self._brokers.topics(subscription.names())
        except InputError as error:
            if not self._known:
                raise ConfigurationError(str(error)) from None  # it was never there
            raise
        found = subscription.chosen(there)
        for missing in sorted(set(subscription.partitions) - set(found)):
            raise ConfigurationError(
                f"topic '{missing.topic}' has no partition {missing.number}, but {len(there[missing.topic])} partitions"
            )
        return found

    def _resolved(self, offsets: Offsets, partitions: Iterable[Partition]) -> dict[Partition, int]:
        partitions = list(partitions)
        if offsets.kind == "earliest":
            return self._brokers.begins(partitions)
        if offsets.kind == "latest":
            return self._brokers.ends(partitions)
        if offsets.kind == "timestamp":
            return self._brokers.at_time(partitions, offsets.timestamp)
        made = {at: offset for at, offset in offsets.given.items() if at in partitions}
        rest = [at for at in partitions if at not in made]
        if rest and self._brokers.group is not None:
            committed = self._brokers.committed(rest)
            made.update({at: offset for at, offset in committed.items() if offset is not None})
            rest = [at for at in rest if at not in made]
        return {**made, **self._by_reset(offsets.reset, rest)} if rest else made

    def _by_reset(self, reset: Reset, partitions: list[Partition]) -> dict[Partition, int]:
        if reset == "earliest":
            return self._brokers.begins(partitions)
        if reset == "latest":
            return self._brokers.ends(partitions)
        raise ConfigurationError(
            f"group '{self._brokers.group}' has no committed offset for {partitions[0].name}, and there is no strategy "
            "for that: commit one, or use KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)"
        )

    def _still_there(self, position: Position) -> Position:
        """A position that some earlier job, or this job before a failure, has got to."""
        subscription, names = self._reading.subscription, position["partitions"]
        unwanted = [name for name in names if not subscription.has(Partition.named(name))]
        if unwanted and self._reading.drops_partitions:
            _LOG.warning("no longer read, as the program does not ask for them: %s", ", ".join(unwanted))
            position = {**position, "partitions": {name: names[name] for name in names if name not in unwanted}}
        elif unwanted:
            _LOG.warning("still read, as the checkpoint has them: %s", ", ".join(unwanted))
        return self._in_range(self._with_stops(position))

    def _with_stops(self, position: Position) -> Position:
        """The program may have begun to ask for an end since, or no longer do so."""
        if self._reading.stop is None:
            return {**position, "stops": {}}
        missing = [name for name in position["partitions"] if name not in position["stops"]]
        stops = self._resolved(self._reading.stop, map(Partition.named, missing)) if missing else {}
        return {**position, "stops": {**position["stops"], **{at.name: stop for at, stop in stops.items()}}}

    def _in_range(self, position: Position) -> Position:
        """The position, with other offsets where the broker does not have those that are wanted any more."""
        offsets = {Partition.named(name): offset for name, offset in position["partitions"].items()}
        begins, ends = self._brokers.begins(offsets), self._brokers.ends(offsets, read_uncommitted=True)
        gone = {at: offset for at, offset in offsets.items() if not begins[at] <= offset <= ends[at]}
        if not gone:
            return position
        reset = self._reading.reset
        for at, offset in gone.items():
            told = f"offset {offset} of {at.name} is out of range: there are {begins[at]} to {ends[at]}"
            if reset == "none":
                raise InputError(
                    f"{told}. Records are lost, or the topic was made again. To go on, set auto.offset.reset to "
                    "earliest or latest"
                )
            _LOG.warning("%s. Going on from the %s, as auto.offset.reset says: RECORDS MAY BE MISSING", told, reset)
        moved = {at.name: (begins if reset == "earliest" else ends)[at] for at in gone}
        return {**position, "partitions": {**position["partitions"], **moved}}

    def _with_new_partitions(self, position: Position) -> Position:
        every = self._reading.discovery_seconds
        if every is None or self._reading.bounded or time.monotonic() - self._discovered_at < every:
            return position
        found = self._found()
        self._discovered_at = time.monotonic()
        new = [at for at in found if at.name not in position["partitions"]]
        if not new:
            return position
        _LOG.info("new partitions, read from their beginning: %s", ", ".join(at.name for at in new))
        stops = self._resolved(self._reading.stop, new) if self._reading.stop is not None else {}
        added = _position(self._brokers.begins(new), stops)
        return {
            "partitions": {**position["partitions"], **added["partitions"]},
            "stops": {**position["stops"], **added["stops"]},
        }

    def backlog(self, position: Position) -> Backlog:
        """How far the partitions are from their ends, as brokers told them last: they are asked when what is known does
        not fill a step, so of a long way it is the part that was there then."""
        ends, stops = dict(self._ends), position.get("stops", {})
        left = 0
        for name, offset in position.get("partitions", {}).items():
            end = ends.get(Partition.named(name))
            if end is None:
                return Backlog()
            left += max(0, min(end, stops.get(name, end)) - offset)
        return Backlog(left) if position else Backlog()

    def poll_interval(self) -> float:
        return 0.05

    # -- the group's offsets

    def commit(self, position: Position) -> None:
        self._auto_commits = False  # checkpoints do it
        if position and self._reading.commits:
            self._tell_group(position)

    def _auto_commit(self, sealed: Position) -> None:
        self._brokers.serve()
        every = self._reading.auto_commit_seconds
        self._sealed = sealed
        if not self._auto_commits or every is None or not sealed:
            return
        if time.monotonic() - self._auto_committed_at >= every:
            self._auto_committed_at = time.monotonic()
            self._tell_group(sealed)

    def _tell_group(self, position: Position) -> None:
        if self._brokers.group is not None and position["partitions"]:
            offsets = {Partition.named(name): offset for name, offset in position["partitions"].items()}
            self._brokers.commit(offsets)

    def stop(self) -> None:
        """The job has ended. In this process its tasks may have run, too."""
        if self._cluster is not None:
            if self._auto_commits and self._sealed:
                self._tell_group(self._sealed)
            self._cluster.close()
        consumers.close(self._token)
        self._forget()

    # -- in tasks

    def read_batches(self, split: Any) -> Iterator[Any]:
        for item in self.read_parts([PartSplit(split.partition.name, split)]):
            if not isinstance(item, Part):
                yield item

    def read_parts(self, splits: Sequence[PartSplit]) -> Iterator[Any]:
        ranges = [given.split for given in splits if given.split.end > given.split.start]
        if not ranges:
            return
        reading = self._reading
        deserialize = reading.schema.deserializer()
        decode = records_decoded if reading.whole_records else values_decoded
        with consumers.lent(self._token, reading.settings, reading.patience, ranges) as consumer:
            last: Partition | None = None
            for partition, messages in consumer.read(ranges):
                if partition != last:
                    yield Part(partition.name)
                    last = partition
                yield from decode(deserialize, messages)


def _position(starts: Mapping[Partition, int], stops: Mapping[Partition, int]) -> Position:
    return {
        "partitions": {at.name: offset for at, offset in sorted(starts.items())},
        "stops": {at.name: offset for at, offset in sorted(stops.items())},
    }


def _ended(position: Position, name: str) -> bool:
    stop = position["stops"].get(name)
    return stop is not None and position["partitions"][name] >= stop


def _shared_out(offsets: Mapping[Partition, int], ends: Mapping[Partition, int], rows: int) -> list[Range]:
    """About so many records of all partitions: of each in proportion to how far it is behind, so that they come to
    their ends together."""
    behind = {at: end - offsets[at] for at, end in ends.items() if end > offsets[at]}
    total = sum(behind.values())
    share = min(1.0, rows / total) if total else 0.0
    return [Range(at, offsets[at], offsets[at] + max(1, int(lag * share))) for at, lag in behind.items()]
