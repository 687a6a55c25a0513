"""The shards of a stream, as the driver reads them.

Kinesis does not say how far a shard goes. So the driver reads, and hands the records to the tasks of the step: a step
that is run again gets the same. A shard gives 2 MB per second at most, whoever reads it.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from beadline.connectors.kinesis.client import code_of, named
from beadline.errors import InputError

_LOG = logging.getLogger("beadline.kinesis")

#: Where a shard goes on: after a record, from a time (milliseconds), from its beginning, or nowhere.
AFTER, TIME, HORIZON, CLOSED = "after", "time", "horizon", "closed"
Place = list[Any]
_BUSY = ("ProvisionedThroughputExceededException", "LimitExceededException", "ThrottlingException")


@dataclass(frozen=True)
class Shard:
    """A shard, and those that it came from when the stream was resharded."""

    stream: str
    id: str
    parents: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.stream}/{self.id}"


@dataclass(frozen=True)
class Fetched:
    """What one call gave.

    :ivar records: sequence number, time of arrival in milliseconds, data
    :ivar place: where the shard goes on
    :ivar caught_up: there is nothing after it for now
    """

    records: list[tuple[str, int, bytes]]
    place: Place
    caught_up: bool


@dataclass
class _Cursor:
    place: Place
    iterator: str
    asked_at: float = field(default=0.0)


class Streams:
    """Reads shards of some streams. Kinesis allows five calls per second and shard, by all its readers.

    :param interval: seconds between two calls for a shard
    """

    def __init__(self, client: Any, streams: tuple[str, ...], interval: float) -> None:
        self._client = client
        self._streams = streams
        self._interval = interval
        self._cursors: dict[str, _Cursor] = {}

    def __repr__(self) -> str:
        return f"<Streams {', '.join(self._streams)}: {len(self._cursors)} shards are being read>"

    def shards(self) -> list[Shard]:
        """All shards that still hold records, or may get some."""
        return [shard for stream in self._streams for shard in self._shards_of(stream)]

    def _shards_of(self, stream: str) -> list[Shard]:
        found = []
        more: dict[str, Any] = named(stream)
        while True:
            try:
                answer = self._client.list_shards(**more)
            except Exception as error:
                raise _told(error, f"the shards of {stream} can't be listed") from error
            for each in answer["Shards"]:
                parents = (each.get("ParentShardId"), each.get("AdjacentParentShardId"))
                found.append(Shard(stream, each["ShardId"], tuple(parent for parent in parents if parent)))
            if not answer.get("NextToken"):
                return found
            more = {"NextToken": answer["NextToken"]}

    def time_there(self) -> int:
        """The time in milliseconds by the clock that says when records arrive. That clock is told in whole seconds; the
        one of this machine is more exact, and counts if it says the same second."""
        here, stream = time.time(), self._streams[0]
        try:
            answer = self._client.list_shards(**named(stream), MaxResults=1)
        except Exception as error:
            raise _told(error, f"the shards of {stream} can't be listed") from error
        date = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
        there = parsedate_to_datetime(date).timestamp() if date else here
        return int(1000 * (here if here < there + 1 else there))

    def fetch(self, stream: str, shard: str, place: Place, most: int) -> Fetched | None:
        """Read on from a place; None if Kinesis is to be left alone for a moment."""
        name = f"{stream}/{shard}"
        cursor = self._cursors.get(name)
        if cursor is None or cursor.place != place:
            cursor = self._cursors[name] = _Cursor(place, self._iterator(stream, shard, place))
        now = time.monotonic()
        if now - cursor.asked_at < self._interval:
            return None
        cursor.asked_at = now
        try:
            answer = self._client.get_records(ShardIterator=cursor.iterator, Limit=most)
        except Exception as error:
            code = code_of(error)
            if code in _BUSY:
                _LOG.info("%s is read too often; trying again in a moment", name)
                return None
            if code == "ExpiredIteratorException":
                del self._cursors[name]
                return None
            raise _told(error, f"{name} can't be read") from error
        records = [
            (each["SequenceNumber"], int(each["ApproximateArrivalTimestamp"].timestamp() * 1000), each["Data"])
            for each in answer["Records"]
        ]
        after = [AFTER, records[-1][0]] if records else place
        following = answer.get("NextShardIterator")
        if following is None:
            self._cursors.pop(name, None)
            return Fetched(records, [CLOSED], True)
        self._cursors[name] = _Cursor(after, following, now)
        return Fetched(records, after, not records and not answer.get("MillisBehindLatest"))

    def _iterator(self, stream: str, shard: str, place: Place) -> str:
        kinds = {
            AFTER: ("AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber"),
            TIME: ("AT_TIMESTAMP", "Timestamp"),
            HORIZON: ("TRIM_HORIZON", None),
        }
        kind, argument = kinds[place[0]]
        where: dict[str, Any] = {} if argument is None else {argument: place[1]}
        if place[0] == TIME:
            where["Timestamp"] = place[1] / 1000
        try:
            answer = self._client.get_shard_iterator(**named(stream), ShardId=shard, ShardIteratorType=kind, **where)
        except Exception as error:
            raise _told(error, f"{stream}/{shard} can't be read {' '.join(map(str, place))}") from error
        iterator: str = answer["ShardIterator"]
        return iterator


def _told(error: Exception, what: str) -> Exception:
    """An error of Kinesis in words; anything that is no answer of AWS stays what it is."""
    code = code_of(error)
    if code == "ResourceNotFoundException":
        return InputError(f"{what}: there is no such stream or shard in this region. {error}")
    if code or type(error).__module__.startswith("botocore"):
        return InputError(f"{what}: {error}")
    return error
