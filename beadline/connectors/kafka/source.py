"""The source that reads Kafka.

The driver asks brokers how far partitions go, and names the range of offsets that each step reads. Tasks read exactly
that. A position names every partition and the offset to go on from, so a step that is run again, in whatever process,
reads the same records.

An offset means something in one log only, so a position also names each topic's id and each partition's leader epoch
(:mod:`beadline.connectors.kafka.identity`). Both are compared when a job goes on from a position, and while it runs
when something hints at another log: an end before the position, another leader epoch; ids are asked for every second.
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
# How often to look whether topics are the same. What is read within that time of a topic that was made again, and has
# grown past the position by then, is noticed only afterwards.
_IDS_SECONDS = 1.0
# A new leader may not know the end of its log for a moment.
_SHORT_SECONDS = 1.0


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
    :ivar any_topic: whether offsets count for whatever topic has the name, as for a copy that has the same offsets
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
    any_topic: bool = False


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
        self._unproven = False  # whether logs must be looked at before the next range
        self._read_from: Position | None = None
        self._held: frozenset[str] = frozenset()
        self._ends: dict[Partition, int] = {}
        self._epochs: dict[Partition, int] = {}  # that came with these ends
        self._proven: dict[Partition, int] = {}  # epochs whose log is known to go on from the position
        self._shortened: dict[Partition, float] = {}  # since when ends are before the position
        self._ids_asked_at = 0.0
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
            self._unproven = True  # a topic that is being made again is away, too
            self._patience.away(error)
            return start, []
        self._patience.there()
        self._known.append(planned[0])
        if planned[1] and rows > 1:  # with one row it was only asked whether there is more
            self._read_from = start
        return planned

    def begin(self, position: Position) -> bool:
        if position or self._beginning is not None:
            self._unproven = True  # the job goes on after a failure, which a log may be to blame for
            return True
        try:
            self._begun()
        except BrokerAway as error:
            self._patience.away(error)
            return False
        self._patience.there()
        return True

    def _plan(self, start: Position, rows: int) -> tuple[Position, list[PartSplit]]:
        position = start or self._begun()
        # A position that comes from elsewhere, or that was planned from before: its step has failed.
        if self._unproven or (start and (start not in self._known or start == self._read_from)):
            position = self._still_there(position)
            self._unproven = False
        position = self._with_new_partitions(position)
        ends = self._known_ends(position, rows)
        if self._is_doubtful(position, ends):
            position = self._in_range(position)
            ends = self._known_ends(position, rows)
        self._auto_commit(start)
        offsets = _offsets_of(position)
        readable = {at: end for at, end in ends.items() if at not in self._shortened}
        ranges = _shared_out(offsets, readable, rows, position.get("epochs", {}))
        moved = {given.partition.name: given.end for given in ranges}
        # A partition that is new, or goes on elsewhere, gets a split even if it is empty: a step then makes its offset
        # part of the job's position.
        changed = [Partition.named(name) for name in _changed(start, position) if name not in moved]
        ranges += [Range(at, offsets[at], offsets[at]) for at in changed]
        splits = [PartSplit(given.partition.name, given) for given in sorted(ranges)]
        if not splits:
            return position, []
        epochs = {name: self._epochs[at] for name in moved if (at := Partition.named(name)) in self._epochs}
        partitions = {**position["partitions"], **moved}
        return {**position, "partitions": partitions, "epochs": {**position.get("epochs", {}), **epochs}}, splits

    def _known_ends(self, position: Position, rows: int) -> dict[Partition, int]:
        """Up to where partitions may be read now. Brokers are asked if what is known is not enough for a step."""
        offsets = _offsets_of(position)
        wanted = [at for at in offsets if at.name not in self._held and not _ended(position, at.name)]
        known = all(at in self._ends for at in wanted)
        enough = known and sum(max(0, self._ends[at] - offsets[at]) for at in wanted) >= rows
        if not enough and not (known and time.monotonic() - self._asked_at < _FRESH_SECONDS):
            self._ends.update(self._brokers.ends(wanted))
            if not self._reading.any_topic:
                self._epochs.update({at: epoch for at, epoch in self._brokers.epochs.items() if at in self._ends})
            self._asked_at = time.monotonic()
        stops = position["stops"]
        return {at: min(self._ends[at], stops.get(at.name, self._ends[at])) for at in wanted}

    # -- whether it is the same log

    def _is_doubtful(self, position: Position, ends: Mapping[Partition, int]) -> bool:
        """Whether ends, epochs or ids hint at another log. Partitions whose log seems to be too short are not read,
        and are looked at a moment later: then the log may have its end, or be another one."""
        offsets, epochs, now = _offsets_of(position), position.get("epochs", {}), time.monotonic()
        for at in ends:
            if self._ends[at] < offsets[at]:
                self._shortened.setdefault(at, now)
        if any(now - since >= _SHORT_SECONDS for since in self._shortened.values()):
            return True
        known = {at: epoch for at in ends if (epoch := epochs.get(at.name)) is not None and at in self._epochs}
        if any(self._epochs[at] not in (epoch, self._proven.get(at)) for at, epoch in known.items()):
            return True
        topics = position.get("topics", {})
        if not topics or now - self._ids_asked_at < _IDS_SECONDS:
            return False
        told = self._ids_of(offsets)
        return any(told.get(name, id) != id for name, id in topics.items())

    def _in_range(self, position: Position) -> Position:
        """The position, with other offsets where the broker does not have those that are wanted any more, or has other
        records there."""
        offsets, topics, epochs = _offsets_of(position), position.get("topics", {}), position.get("epochs", {})
        if self._reading.any_topic:
            topics, epochs = {}, {}
        begins, ends = self._brokers.begins(offsets), self._brokers.ends(offsets, read_uncommitted=True)
        now_epochs, ids = self._brokers.epochs.copy(), self._ids_of(offsets)
        self._ends.clear()
        self._shortened.clear()
        gone: dict[Partition, str] = {}
        doubtful: dict[Partition, tuple[int, int]] = {}
        for at, offset in offsets.items():
            id, epoch, now = topics.get(at.topic), epochs.get(at.name), now_epochs.get(at)
            if id is not None and ids.get(at.topic, id) != id:
                gone[at] = (
                    f"topic '{at.topic}' was deleted and made again since offset {offset} of {at.name} was reached: "
                    f"its id was {id} and is {ids[at.topic]}"
                )
            elif not begins[at] <= offset <= ends[at]:
                gone[at] = f"offset {offset} of {at.name} is out of range: there are {begins[at]} to {ends[at]}"
            elif epoch is not None and now is not None and now != epoch:
                if now < epoch and at.topic in ids:
                    raise BrokerAway(
                        f"Kafka at {self._brokers.servers} answers for {at.name} as the leader of epoch {now}, and "
                        f"epoch {epoch} has begun"
                    )
                doubtful[at] = offset, epoch
        for at in self._brokers.cut_off(doubtful):
            gone[at] = (
                f"the log of {at.name} was cut off before offset {offsets[at]} and written again from there: a replica "
                f"that had not got all records has become its leader (epoch {epochs[at.name]} was reached, and it is "
                f"{now_epochs[at]})"
            )
        self._proven = {at: now_epochs[at] for at in doubtful if at not in gone}
        moved = self._reset(gone, begins, ends)
        fresh = {at.name: epoch for at, epoch in now_epochs.items() if at in offsets and not self._reading.any_topic}
        return {
            **position,
            "partitions": {**position["partitions"], **{at.name: offset for at, offset in moved.items()}},
            "topics": {**topics, **ids},
            "epochs": {**epochs, **fresh},
        }

    def _reset(
        self, gone: Mapping[Partition, str], begins: Mapping[Partition, int], ends: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        """Where to go on instead, as auto.offset.reset says."""
        reset = self._reading.reset
        for told in gone.values():
            if reset == "none":
                raise InputError(
                    f"{told}. Records are lost, or the topic was made again. To go on, set auto.offset.reset to "
                    "earliest or latest; if it is a copy of the topic with the same offsets, set "
                    "beadline.accept.any.topic to true"
                )
            _LOG.warning("%s. Going on from the %s, as auto.offset.reset says: RECORDS MAY BE MISSING", told, reset)
        return {at: (begins if reset == "earliest" else ends)[at] for at in gone}

    def _ids_of(self, partitions: Iterable[Partition]) -> dict[str, str]:
        """The ids of topics, as far as they count."""
        if self._reading.any_topic:
            return {}
        self._ids_asked_at = time.monotonic()
        return self._brokers.topic_ids({at.topic for at in partitions})

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
            ids = self._ids_of(partitions)  # before the offsets: if the topic is made again meanwhile, that shows later
            starts = self._resolved(reading.start, partitions)
            stops = self._resolved(reading.stop, partitions) if reading.stop is not None else {}
            self._beginning = self._in_range({**_position(starts, stops), "topics": ids})
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
        ids = self._ids_of(at for at in new if at.topic not in position.get("topics", {}))
        added = _position(self._brokers.begins(new), stops)
        return {
            **position,
            "topics": {**ids, **position.get("topics", {})},
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


def _offsets_of(position: Position) -> dict[Partition, int]:
    return {Partition.named(name): offset for name, offset in position["partitions"].items()}


def _changed(start: Position, position: Position) -> list[str]:
    """The partitions that are new, go on elsewhere, or belong to another topic of the same name."""
    before, ids = start.get("partitions", {}), start.get("topics", {})
    other = {topic for topic, id in position.get("topics", {}).items() if ids.get(topic) != id}
    now = position["partitions"]
    return [name for name in now if before.get(name) != now[name] or Partition.named(name).topic in other]


def _ended(position: Position, name: str) -> bool:
    stop = position["stops"].get(name)
    return stop is not None and position["partitions"][name] >= stop


def _shared_out(
    offsets: Mapping[Partition, int], ends: Mapping[Partition, int], rows: int, epochs: Mapping[str, int]
) -> list[Range]:
    """About so many records of all partitions: of each in proportion to how far it is behind, so that they come to
    their ends together."""
    behind = {at: end - offsets[at] for at, end in ends.items() if end > offsets[at]}
    total = sum(behind.values())
    share = min(1.0, rows / total) if total else 0.0
    return [
        Range(at, offsets[at], offsets[at] + max(1, int(lag * share)), epochs.get(at.name, -1))
        for at, lag in behind.items()
    ]
