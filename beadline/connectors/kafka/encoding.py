"""Records as rows for Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Any

from beadline.common.serialization import SerializationSchema
from beadline.errors import SerializationError, TypeMismatchError

#: What a header provider may give: names and values, or nothing.
Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] | None


class RecordEncoder:
    """Makes rows of records, a batch at a time: ``(topic, value, key, partition, timestamp, headers)``.

    :param topic: all records go there; None if ``topic_of`` says where each goes
    :param headers_of: the headers of a record
    :param partition_of: the partition of a record; None where the client is to choose
    :param timestamps: whether the records' timestamps are written
    """

    def __init__(
        self,
        topic: str | None,
        topic_of: Callable[[Any], str] | None,
        value: SerializationSchema,
        key: SerializationSchema | None = None,
        headers_of: Callable[[Any], Headers] | None = None,
        partition_of: Callable[[Any], int | None] | None = None,
        timestamps: bool = True,
    ) -> None:
        self.topic = topic
        self._topic_of = topic_of
        self._value = value
        self._key = key
        self._headers_of = headers_of
        self._partition_of = partition_of
        self._timestamps = timestamps
        self._serialize: tuple[Callable[[Any], Any], Callable[[Any], Any] | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_serialize": None}

    def __call__(self, records: list[Any], timestamps: list[int] | None) -> list[Any]:
        if self._serialize is None:
            self._serialize = self._value.serializer(), self._key.serializer() if self._key is not None else None
        value_of, key_of = self._serialize
        values = _bytes(list(map(value_of, records)), self._value, "value")
        keys: Iterable[Any] = repeat(None)
        if key_of is not None:
            keys = _bytes(list(map(key_of, records)), self._key, "key")
        topics = repeat(self.topic) if self._topic_of is None else [self._topic(record) for record in records]
        headers = repeat(None) if self._headers_of is None else [self._headers(record) for record in records]
        partitions = repeat(-1) if self._partition_of is None else [self._partition(record) for record in records]
        times: Iterable[int] = repeat(0)
        if self._timestamps and timestamps is not None:
            times = [max(time, 0) if time is not None else 0 for time in timestamps]
        return list(zip(topics, values, keys, partitions, times, headers, strict=False))

    def _topic(self, record: Any) -> str:
        topic = self._topic_of(record)  # type: ignore[misc]
        if not isinstance(topic, str) or not topic:
            raise TypeMismatchError(f"The topic selector must give the name of a topic, got {topic!r} for {record!r}.")
        return topic

    def _headers(self, record: Any) -> list[tuple[str, bytes | None]] | None:
        headers = self._headers_of(record)  # type: ignore[misc]
        if headers is None:
            return None
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        for pair in pairs:
            name, value = pair if isinstance(pair, tuple) and len(pair) == 2 else (None, None)
            if not isinstance(name, str) or not isinstance(value, (bytes, type(None))):
                raise TypeMismatchError(f"A header is a name and bytes or None, got {pair!r} for {record!r}.")
        return pairs

    def _partition(self, record: Any) -> int:
        partition = self._partition_of(record)  # type: ignore[misc]
        if partition is None:
            return -1
        if not isinstance(partition, int) or partition < 0:
            raise TypeMismatchError(
                f"The partitioner must give the number of a partition or None, got {partition!r} for {record!r}."
            )
        return partition


def _bytes(data: list[Any], schema: object, part: str) -> list[Any]:
    """Bytes, or None: a record without key, or a value that removes its key from a compacted topic."""
    kinds = set(map(type, data)) - {bytes, type(None)}
    if not kinds:
        return data
    converted = []
    for each in data:
        if not isinstance(each, (bytes, bytearray, memoryview, type(None))):
            raise SerializationError(
                f"{type(schema).__name__} must give bytes for the {part} of a record in Kafka, got {each!r} of type "
                f"{type(each).__name__}."
            )
        converted.append(None if each is None else bytes(each))
    return converted
