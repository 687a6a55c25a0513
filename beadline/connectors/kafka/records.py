"""From Kafka's messages to the records of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from beadline.connectors.decoding import Batch, decoded
from beadline.connectors.source import Unreadable


class KafkaRecord(NamedTuple):
    """All that Kafka knows of a record.

    :ivar timestamp: in milliseconds; -1 if it has none
    :ivar value: None if the record says that its key was deleted
    :ivar headers: in the order in which they were written; a name may come more than once
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def record_of(message: Any) -> KafkaRecord:
    """What a message of confluent-kafka holds."""
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def values_decoded(deserialize: Callable[[Any], Any], messages: Sequence[Any]) -> Iterator[Batch | Unreadable]:
    """The values of messages, with the messages' timestamps."""

    def place_of(index: int) -> str:
        return _place(messages[index])

    values = [message.value() for message in messages]
    timestamps = [message.timestamp()[1] for message in messages]
    return decoded(deserialize, values, place_of, timestamps)


def records_decoded(deserialize: Callable[[Any], Any], messages: Sequence[Any]) -> Iterator[Batch | Unreadable]:
    """What a schema for whole records makes of messages, with the messages' timestamps."""

    def place_of(index: int) -> str:
        return _place(messages[index])

    records: list[Any] = [record_of(message) for message in messages]
    timestamps = [record.timestamp for record in records]
    for batch in decoded(deserialize, records, place_of, timestamps):
        if isinstance(batch, Unreadable):
            record: Any = batch.data
            yield replace(batch, data=record.value or b"")
        else:
            yield batch


def _place(message: Any) -> str:
    return f"offset {message.offset()} of {message.topic()}-{message.partition()}"
