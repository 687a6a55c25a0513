"""Consumers in workers. They are kept between steps, and stand where the last step has ended.

Offsets of a partition have gaps: markers of transactions, records that compaction has removed. So a range has ended
when a record at or after its end comes, or when the broker says that the log ends there. What comes after the end of
the range was fetched already, and is kept for the next step.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Any

from beadline.connectors.kafka.cluster import make_consumer
from beadline.connectors.kafka.offsets import Partition, Range
from beadline.connectors.source import BATCH
from beadline.errors import InputError

_LOG = logging.getLogger("beadline.kafka")

# What a consumer does unless it is told otherwise.
_DEFAULTS = {
    "group.id": "beadline",
    "log_level": 0,  # what goes wrong is told by the task
    "isolation.level": "read_uncommitted",  # as Java's
    "queued.max.messages.kbytes": 32 << 10,
    "fetch.queue.backoff.ms": 10,  # a queue that was full is filled again soon
    # A partition that is new to a consumer waits for the answer to the fetch that is under way.
    "fetch.wait.max.ms": 100,
}
_FIXED = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
# How much of what comes too early is kept: of partitions that are not read now, and of those that wait for their turn.
_MOST_WAITING = 50_000, 64 << 20
_MOST_BUFFERED = 200_000, 128 << 20
_BLOCK_BYTES = 16 << 20
_AT_A_TIME = 10_000
_WAIT_SECONDS = 0.2
_TELL_EVERY_SECONDS = 10.0
_IDLE_SECONDS = 300.0
# So far ahead it is quicker to pass over records, which were probably fetched, than to begin anew.
_MOST_SKIPPED = 10_000
_MOST_PER_SOURCE = 8
# The client goes on trying by itself.
_TRANSIENT = frozenset(
    {
        "_ALL_BROKERS_DOWN",
        "_RESOLVE",
        "_TIMED_OUT",
        "_TRANSPORT",
        "BROKER_NOT_AVAILABLE",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
    }
)


@dataclass
class _Standing:
    """Where a consumer stands in a partition.

    :ivar next: the offset that the next range must begin with
    :ivar waiting: messages from there on, read already
    :ivar size: their bytes
    :ivar log_end: the broker has said that the log ends here
    """

    next: int
    waiting: list[Any] = field(default_factory=list)
    size: int = 0
    log_end: int = -1

    def add(self, messages: list[Any]) -> None:
        self.waiting += messages
        self.size += sum(map(len, messages))

    def taken(self) -> list[Any]:
        messages, self.waiting, self.size = self.waiting, [], 0
        return messages


@dataclass
class _Reading:
    """A range that is being read."""

    range: Range
    next: int
    messages: list[Any] = field(default_factory=list)
    size: int = 0
    done: bool = False

    def take(self, messages: list[Any]) -> list[Any]:
        """Take what belongs to the range, and give back what comes after it."""
        if messages and messages[0].offset() < self.range.start:
            messages = messages[bisect_left(messages, self.range.start, key=_offset_of) :]
        if not messages:
            return messages
        self.next = messages[-1].offset() + 1
        if self.next >= self.range.end:
            self.done = True
            cut = bisect_left(messages, self.range.end, key=_offset_of)
            messages, rest = messages[:cut], messages[cut:]
        else:
            rest = []
        self.messages += messages
        self.size += sum(map(len, messages))
        return rest

    def next_block(self) -> list[Any]:
        """Where a block ends follows from the messages alone, and not from when they came."""
        cut = BATCH
        if self.size > _BLOCK_BYTES:
            sizes = list(accumulate(map(len, self.messages[:BATCH])))
            cut = min(BATCH, bisect_left(sizes, _BLOCK_BYTES) + 1)
        block, self.messages = self.messages[:cut], self.messages[cut:]
        self.size -= sum(map(len, block))
        return block

    @property
    def ready(self) -> bool:
        return len(self.messages) >= BATCH or self.size >= _BLOCK_BYTES or self.done

    @property
    def over(self) -> bool:
        return self.done and not self.messages


class WorkerConsumer:
    """One consumer with all partitions that the ranges it is given belong to.

    :param patience: seconds without a record after which the broker counts as lost
    """

    def __init__(self, settings: Mapping[str, Any], patience: float) -> None:
        self._servers = settings.get("bootstrap.servers")
        self._patience = patience
        self._trouble: Any = None
        self._standings: dict[Partition, _Standing] = {}
        self._consumer = make_consumer({**_DEFAULTS, **settings, **_FIXED, "error_cb": self._in_trouble})
        self.used_at = time.monotonic()

    def __repr__(self) -> str:
        return f"<WorkerConsumer of {len(self._standings)} partitions>"

    def _in_trouble(self, error: Any) -> None:
        self._trouble = error

    def close(self) -> None:
        self._consumer.close()

    def fits(self, ranges: Sequence[Range]) -> tuple[int, int]:
        """How many of these ranges it can go on with from where it stands, and how many of their partitions it has."""
        standings = [(self._standings.get(given.partition), given.start) for given in ranges]
        known = [(standing.next, start) for standing, start in standings if standing is not None]
        return sum(_shortly_before(stands, start) for stands, start in known), len(known)

    # -- reading

    def read(self, ranges: Sequence[Range]) -> Iterator[tuple[Partition, list[Any]]]:
        """The messages of the ranges, in blocks. Partitions take turns, so that a second reading gives the same order,
        unless one of them is so slow that the others would fill the memory."""
        self._go_to(ranges)
        readings = {given.partition: _Reading(given, self._standings[given.partition].next) for given in sorted(ranges)}
        for partition, reading in readings.items():
            standing = self._standings[partition]
            standing.add(reading.take(standing.taken()))
            reading.done = reading.done or standing.log_end >= reading.range.end
        while True:
            yield from self._in_turn(readings)
            if not readings:
                break
            self._fetch(readings)
        for given in ranges:
            if given.partition in self._standings:
                self._standings[given.partition].next = given.end
        self.used_at = time.monotonic()

    def _go_to(self, ranges: Sequence[Range]) -> None:
        """Begin anew with partitions in which this consumer stands elsewhere, unless it is shortly before the range:
        steps of a subtask move from worker to worker."""
        from confluent_kafka import TopicPartition

        known = self._standings
        wrong = [r for r in ranges if r.partition not in known or not _shortly_before(known[r.partition].next, r.start)]
        self._leave([given.partition for given in wrong if given.partition in known])
        if wrong:
            # With the epoch the client asks whether the log is still the one that the range was planned for.
            places = [TopicPartition(*given.partition, given.start, leader_epoch=given.epoch) for given in wrong]
            self._consumer.incremental_assign(places)
        for given in wrong:
            known[given.partition] = _Standing(given.start)

    def _leave(self, partitions: Sequence[Partition]) -> None:
        from confluent_kafka import TopicPartition

        if partitions:
            self._consumer.incremental_unassign([TopicPartition(*partition) for partition in partitions])
        for partition in partitions:
            del self._standings[partition]

    def _in_turn(self, readings: dict[Partition, _Reading]) -> Iterator[tuple[Partition, list[Any]]]:
        """Blocks that can be given now; a partition that has given its last one is taken out."""
        while readings:
            partition, reading = next(iter(readings.items()))
            if not reading.ready:
                rest = readings.values()
                count, size = sum(len(each.messages) for each in rest), sum(each.size for each in rest)
                if count < _MOST_BUFFERED[0] and size < _MOST_BUFFERED[1]:
                    return
                partition, reading = max(readings.items(), key=lambda item: (item[1].size, len(item[1].messages)))
            block = reading.next_block()
            if block:
                yield partition, block
            del readings[partition]
            if not reading.over:
                readings[partition] = reading  # at the end of the row

    def _fetch(self, readings: dict[Partition, _Reading]) -> None:
        """Wait for messages, and deal them out."""
        missing = sum(each.range.end - each.next for each in readings.values() if not each.done)
        messages = self._consumer.consume(min(missing, _AT_A_TIME), 0)
        began = told = time.monotonic()
        while not messages:
            messages = self._consumer.consume(1, _WAIT_SECONDS)
            now = time.monotonic()
            if not messages and now - began > self._patience:
                raise self._lost(readings)
            if not messages and now - told > _TELL_EVERY_SECONDS:
                told = now
                _LOG.warning("Kafka at %s has sent nothing for %.0f s%s", self._servers, now - began, self._why())
        for partition, run in self._runs(messages):
            run = self._without_errors(run, partition)
            standing = self._standings.get(partition)
            if standing is None:
                continue  # left meanwhile
            reading = readings.get(partition)
            if reading is not None and not reading.done:
                run = reading.take(run)
                reading.done = reading.done or standing.log_end >= reading.range.end
            standing.add(run)
        self._limit_what_waits()

    def _limit_what_waits(self) -> None:
        """Leave partitions of which more has come than is to be read now: it is fetched again in its turn."""
        waiting = {at: standing for at, standing in self._standings.items() if standing.waiting}
        while waiting:
            count, size = sum(len(s.waiting) for s in waiting.values()), sum(s.size for s in waiting.values())
            if count <= _MOST_WAITING[0] and size <= _MOST_WAITING[1]:
                return
            most = max(waiting, key=lambda at: (waiting[at].size, len(waiting[at].waiting)))
            self._leave([most])
            del waiting[most]

    def _runs(self, messages: list[Any]) -> Iterator[tuple[Partition, list[Any]]]:
        """The messages by partition, in their order."""
        from confluent_kafka import Message

        first, last = _partition_of(messages[0]), _partition_of(messages[-1])
        if len(self._standings) == 1 and first == last and first in self._standings:
            yield first, messages
            return
        topics = {partition.topic for partition in self._standings}
        if topics == {first.topic}:
            number_of: Callable[[Any], Any] = Message.partition
            for number, run in groupby(messages, number_of):
                yield Partition(first.topic, number), list(run)
            return
        for partition, run in groupby(messages, _partition_of):
            yield partition, list(run)

    def _without_errors(self, run: list[Any], partition: Partition) -> list[Any]:
        from confluent_kafka import KafkaError, Message

        if not any(map(Message.error, run)):
            return run
        good = []
        for message in run:
            error = message.error()
            if error is None:
                good.append(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                self._failed(error, partition)
            elif partition in self._standings:
                self._standings[partition].log_end = message.offset()
        return good

    # -- errors

    def _failed(self, error: Any, partition: Partition) -> None:
        name = error.name()
        if name in _TRANSIENT:
            self._trouble = error
            return
        standing = self._standings.get(partition)
        where = f"{partition.name} from offset {standing.next} on" if standing is not None else str(self._servers)
        if name in ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"):
            raise InputError(
                f"can't read {where}: {error.str()}. The broker has deleted records that the job was to read "
                "(retention), a replica without them has become the leader, or the topic was made again"
            )
        if name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"):
            raise InputError(f"can't read {where}: it is gone from {self._servers} ({error.str()})")
        raise InputError(f"can't read {where}: {error.str()}")

    def _lost(self, readings: dict[Partition, _Reading]) -> InputError:
        missing = next(each.range for each in readings.values() if not each.done)
        return InputError(
            f"Kafka at {self._servers} has sent nothing for {self._patience:.0f} s (default.api.timeout.ms)"
            f"{self._why()}. What is missing is {missing}"
        )

    def _why(self) -> str:
        return f": {self._trouble.str()}" if self._trouble is not None else ""


def _shortly_before(stands: int, start: int) -> bool:
    return 0 <= start - stands <= _MOST_SKIPPED


def _offset_of(message: Any) -> Any:
    return message.offset()


def _partition_of(message: Any) -> Partition:
    return Partition(message.topic(), message.partition())


class Consumers:
    """The consumers of this process that nobody uses at the moment, by the source that they belong to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[str, list[WorkerConsumer]] = {}

    @contextmanager
    def lent(
        self, source: str, settings: Mapping[str, Any], patience: float, ranges: Sequence[Range]
    ) -> Iterator[WorkerConsumer]:
        """A consumer for these ranges, that nobody else has. After an error it is not used again: it may stand
        anywhere."""
        self._close_old()
        consumer = self._taken(source, ranges) or WorkerConsumer(settings, patience)
        try:
            yield consumer
        except BaseException:
            consumer.close()
            raise
        with self._lock:
            self._idle.setdefault(source, []).append(consumer)

    def _taken(self, source: str, ranges: Sequence[Range]) -> WorkerConsumer | None:
        """The one that fits best; None if none has any of the partitions, and there may be one more."""
        with self._lock:
            idle = self._idle.setdefault(source, [])
            best = max(idle, key=lambda each: each.fits(ranges), default=None)
            if best is None or (best.fits(ranges) == (0, 0) and len(idle) < _MOST_PER_SOURCE):
                return None
            idle.remove(best)
            return best

    def _close_old(self) -> None:
        oldest = time.monotonic() - _IDLE_SECONDS
        with self._lock:
            old = [(source, each) for source, idle in self._idle.items() for each in idle if each.used_at < oldest]
            for source, each in old:
                self._idle[source].remove(each)
        for _, each in old:
            each.close()

    def close(self, source: str | None = None) -> None:
        """Close those of a source, or all."""
        with self._lock:
            sources = list(self._idle) if source is None else [source]
            idle = [each for name in sources for each in self._idle.pop(name, [])]
        for each in idle:
            each.close()


consumers = Consumers()
atexit.register(consumers.close)
