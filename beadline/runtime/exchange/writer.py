"""The sending end of an exchange: one writer per edge and upstream subtask.

Records gather in one buffer per destination and leave as chunks, cut by count and by bytes. Watermarks lie between the
records of a chunk, so that results do not depend on where chunks or steps were cut. The writer ends
each channel with a barrier that carries the count and a digest of all that was sent.

A payload is a pickled list of elements: ``(records, timestamps, keys)``, a watermark (an int), or :data:`IDLE`.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import xxhash

from beadline.common.typeinfo import Types
from beadline.errors import BeadlineError
from beadline.graph.plan import PlanEdge, PlanNode
from beadline.graph.specs import Broadcast, Custom, Forward, Hash, Partitioning, Rebalance, Rescale, Shuffle
from beadline.runtime.exchange.rows import BROADCAST_SEQ, DATA, WireRow
from beadline.runtime.failure import UserCodeError
from beadline.state.codec import dumps
from beadline.state.key_groups import IMMUTABLE_KEYS, KeyRouter

IDLE = "idle"
_CHUNK_RECORDS = 4096
_CHUNK_BYTES = 1 << 20

# Keys of these classes travel as they are.
_SIMPLE_KEYS = frozenset({str, int})

Timestamps = list[int] | None
#: Per destination: next seq, record count, and the digest of the channel.
Ends = list[tuple[int, int, int, str]]


class _Outbox:
    """What waits for one destination."""

    __slots__ = ("chunks", "closed", "count", "digest", "elements", "keys", "limit", "records", "timestamps")

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.records: list[Any] = []
        self.timestamps: list[int] = []
        self.keys: list[Any] = []
        self.closed = 0  # records in closed elements
        self.count = 0
        self.chunks = 0
        self.limit = _CHUNK_RECORDS
        self.digest = xxhash.xxh3_128()

    def close_element(self) -> None:
        if self.records:
            self.closed += len(self.records)
            self.elements.append((self.records, self.timestamps or None, self.keys or None))
            self.records, self.timestamps, self.keys = [], [], []


class ChannelWriter:
    """Sends the records of one edge. Subclasses choose the destinations."""

    def __init__(self, edge: PlanEdge, source: PlanNode, target: PlanNode, subtask: int) -> None:
        self.edge = edge
        self.source = source
        self.target = target
        self._channel = edge.channel(subtask)
        self._subtask = subtask
        self._first_seq = BROADCAST_SEQ if isinstance(edge.partitioning, Broadcast) else 0
        self._outboxes: list[_Outbox] = []
        self._timed = False
        self._send: Callable[[WireRow], None]

    def begin(self, step: int, send: Callable[[WireRow], None]) -> None:
        self._send = send
        self.sent_bytes = 0
        self._outboxes = [_Outbox() for _ in range(self.target.parallelism)]
        self._timed = False
        # Free choices are made from this, so that a re-run repeats them.
        self._random = random.Random(f"{step}|{self._channel}")

    def records(self, records: list[Any], timestamps: Timestamps) -> None:
        if self._timed != (timestamps is not None):
            # An element has timestamps for all of its records or for none.
            self._timed = timestamps is not None
            for outbox in self._outboxes:
                outbox.close_element()
        self._distribute(records, timestamps)
        for destination, outbox in enumerate(self._outboxes):
            if outbox.closed + len(outbox.records) >= outbox.limit:
                self._flush(destination, outbox)

    def _distribute(self, records: list[Any], timestamps: Timestamps) -> None:
        raise NotImplementedError

    def control(self, element: Any) -> None:
        """A watermark or idleness goes to every destination, after the records sent so far."""
        for outbox in self._outboxes:
            outbox.close_element()
            outbox.elements.append(element)

    def _flush(self, destination: int, outbox: _Outbox) -> None:
        outbox.close_element()
        elements, waiting = outbox.elements, outbox.closed
        outbox.elements, outbox.closed = [], 0
        if not elements:
            return
        payload = self._encode(elements)
        if waiting:
            # What comes next is cut so that chunks come out near the size limit.
            outbox.limit = max(1, min(_CHUNK_RECORDS, _CHUNK_BYTES * waiting // max(len(payload), 1)))
        outbox.count += waiting
        if waiting <= 2 * outbox.limit:
            self._send_chunk(destination, outbox, payload)
        else:
            for part in _cut(elements, outbox.limit):
                self._send_chunk(destination, outbox, self._encode(part))

    def _send_chunk(self, destination: int, outbox: _Outbox, payload: bytes) -> None:
        self.sent_bytes += len(payload)
        outbox.digest.update(payload)
        seq = self._first_seq + outbox.chunks
        outbox.chunks += 1
        self._send(WireRow(destination, self.target.level, self._channel, seq, DATA, payload))

    def _encode(self, elements: list[Any]) -> bytes:
        try:
            return dumps(elements)
        except BeadlineError:
            for element in elements:
                for record in element[0] if element.__class__ is tuple else ():
                    try:
                        dumps(record)
                    except BeadlineError as error:
                        raise UserCodeError(self.source.name, record, error, made_at=self.source.made_at) from error
            raise

    def finish(self) -> Ends:
        """Send what waits."""
        ends = []
        for destination, outbox in enumerate(self._outboxes):
            self._flush(destination, outbox)
            ends.append((destination, self._first_seq + outbox.chunks, outbox.count, outbox.digest.hexdigest()))
        return ends


def _cut(elements: list[Any], limit: int) -> Iterator[list[Any]]:
    """The same elements in lists of at most ``limit`` records."""
    part: list[Any] = []
    room = limit
    for element in elements:
        if element.__class__ is not tuple:
            part.append(element)
            continue
        start, length = 0, len(element[0])
        while start < length:
            if room == 0:
                yield part
                part, room = [], limit
            end = min(length, start + room)
            part.append(tuple(column and column[start:end] for column in element))
            room -= end - start
            start = end
    yield part


class HashWriter(ChannelWriter):
    """By key group; keys travel with the records, so that user code selects a key once."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        partitioning = self.edge.partitioning
        assert isinstance(partitioning, Hash)
        self._select = partitioning.select()
        key_type = partitioning.key_type or Types.PICKLED_BYTE_ARRAY()
        self._all_plain, self._convert = key_type.all_plain, key_type.converter()
        self._router = KeyRouter(self.target.parallelism, self.target.max_parallelism)

    def _distribute(self, records: list[Any], timestamps: Timestamps) -> None:
        keys = self._mapped(self._select, records, records)
        if self._convert is not None and not self._all_plain(keys):
            keys = self._converted(self._convert, keys, records)
        if _SIMPLE_KEYS.issuperset(map(type, keys)):
            known = list(map(self._router.lookup, keys))
            route = self._router.route
            subtasks: list[int] = (
                [route(key)[1] if subtask is None else subtask for key, subtask in zip(keys, known, strict=True)]
                if None in known
                else known  # type: ignore[assignment]
            )
        else:
            found = self._mapped(self._find, keys, records)
            keys, subtasks = [key for key, _ in found], [subtask for _, subtask in found]
        outboxes = self._outboxes
        add_record = [outbox.records.append for outbox in outboxes]
        add_key = [outbox.keys.append for outbox in outboxes]
        for record, key, subtask in zip(records, keys, subtasks, strict=True):
            add_record[subtask](record)
            add_key[subtask](key)
        if timestamps is not None:
            add_timestamp = [outbox.timestamps.append for outbox in outboxes]
            for timestamp, subtask in zip(timestamps, subtasks, strict=True):
                add_timestamp[subtask](timestamp)

    def _converted(self, convert: Callable[[Any], Any], keys: list[Any], records: list[Any]) -> list[Any]:
        """The keys as values of their declared type. None is a key of every type, as in Flink."""
        if type(None) in set(map(type, keys)):
            return self._mapped(lambda key: None if key is None else convert(key), keys, records)
        return self._mapped(convert, keys, records)

    def _mapped(self, function: Callable[[Any], Any], values: list[Any], records: list[Any]) -> list[Any]:
        """The function's results. If it raises, there is one result for each good record before."""
        results: list[Any] = []
        try:
            results.extend(map(function, values))
        except Exception as error:
            raise UserCodeError(
                f"key_by before {self.target.name}", records[len(results)], error, made_at=self.target.made_at
            ) from error
        return results

    def _find(self, key: Any) -> tuple[Any, int]:
        """The key as it travels, and its subtask, for keys that may have to be copied or boxed."""
        try:
            subtask = self._router.lookup(key)
        except TypeError:
            return self._router.route(key)
        if subtask is None:
            return self._router.route(key)
        # The key must stay as it is when user code changes the record it is part of.
        return key if key.__class__ in IMMUTABLE_KEYS else copy.copy(key), subtask


class _IndexedWriter(ChannelWriter):
    def _distribute(self, records: list[Any], timestamps: Timestamps) -> None:
        outboxes = self._outboxes
        for position, record in enumerate(records):
            outbox = outboxes[self._choose(record)]
            outbox.records.append(record)
            if timestamps is not None:
                outbox.timestamps.append(timestamps[position])

    def _choose(self, record: Any) -> int:
        raise NotImplementedError


class CustomWriter(_IndexedWriter):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        partitioning = self.edge.partitioning
        assert isinstance(partitioning, Custom)
        self._partition = getattr(partitioning.partitioner, "partition", partitioning.partitioner)
        self._select = getattr(partitioning.selector, "get_key", partitioning.selector)

    def _choose(self, record: Any) -> int:
        try:
            chosen = self._partition(self._select(record), len(self._outboxes))
            if not isinstance(chosen, int) or not 0 <= chosen < len(self._outboxes):
                raise ValueError(
                    f"the partitioner chose {chosen!r} of {len(self._outboxes)} partitions; "
                    f"it must give a number from 0 to {len(self._outboxes) - 1}"
                )
            return chosen
        except Exception as error:
            raise UserCodeError(
                f"partition_custom before {self.target.name}", record, error, made_at=self.target.made_at
            ) from error


class ShuffleWriter(_IndexedWriter):
    def _choose(self, record: Any) -> int:
        return self._random.randrange(len(self._outboxes))


class RoundRobinWriter(_IndexedWriter):
    """Rebalance over all destinations, rescale over the upstream subtask's own share."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        upstream, downstream = self.source.parallelism, self.target.parallelism
        if isinstance(self.edge.partitioning, Rescale):
            if downstream >= upstream:
                start = -(-self._subtask * downstream // upstream)
                end = -(-(self._subtask + 1) * downstream // upstream)
                self._choices = list(range(start, end))
            else:
                self._choices = [self._subtask * downstream // upstream]
        else:
            self._choices = list(range(downstream))
        self._turn = 0

    def begin(self, step: int, send: Callable[[WireRow], None]) -> None:
        super().begin(step, send)
        self._turn = self._random.randrange(len(self._choices))

    def _choose(self, record: Any) -> int:
        self._turn = (self._turn + 1) % len(self._choices)
        return self._choices[self._turn]


class ForwardWriter(ChannelWriter):
    """Subtask i to subtask i, where an edge that could have been a call crosses levels."""

    def _distribute(self, records: list[Any], timestamps: Timestamps) -> None:
        outbox = self._outboxes[self._subtask]
        outbox.records.extend(records)
        if timestamps is not None:
            outbox.timestamps.extend(timestamps)


class BroadcastWriter(ChannelWriter):
    def _distribute(self, records: list[Any], timestamps: Timestamps) -> None:
        for outbox in self._outboxes:
            outbox.records.extend(records)
            if timestamps is not None:
                outbox.timestamps.extend(timestamps)


_WRITERS: dict[type[Partitioning], type[ChannelWriter]] = {
    Hash: HashWriter,
    Custom: CustomWriter,
    Shuffle: ShuffleWriter,
    Rebalance: RoundRobinWriter,
    Rescale: RoundRobinWriter,
    Forward: ForwardWriter,
    Broadcast: BroadcastWriter,
}


def make_writer(edge: PlanEdge, source: PlanNode, target: PlanNode, subtask: int) -> ChannelWriter:
    return _WRITERS[type(edge.partitioning)](edge, source, target, subtask)
