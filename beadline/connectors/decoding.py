"""From messages to records with a deserialization schema, for any source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from beadline.connectors.source import Unreadable
from beadline.errors import BeadlineError, InputError, SerializationError, TypeMismatchError

Deserialize = Callable[[bytes], Any]
Batch = list[Any] | tuple[list[Any], list[int]]


def decoded(
    deserialize: Deserialize,
    messages: Sequence[bytes],
    place_of: Callable[[int], str],
    timestamps: Sequence[int] | None = None,
) -> Iterator[Batch | Unreadable]:
    """The records of some messages, as :meth:`StepSource.read_batches` gives them: a list, or a list and its
    timestamps. A message that can't be read comes as :class:`Unreadable` in its place; one without a record (None) is
    left out.

    :param place_of: says where a message is, for people; asked only for those that can't be read
    """
    try:
        records = list(map(deserialize, messages))
    except Exception:  # whose fault it was is found out one by one
        yield from _one_by_one(deserialize, messages, place_of, timestamps)
        return
    yield from _batch(records, timestamps)


def unreadable(place: str, data: bytes | None, error: Exception) -> Unreadable:
    """Stands for a message that raised this error.

    :raises Exception: the error itself, if it is not the message's fault: a registry is away, a library is missing
    """
    if isinstance(error, (SerializationError, TypeMismatchError, InputError)):
        return Unreadable(place, data or b"", error)
    if isinstance(error, (BeadlineError, OSError, MemoryError)):
        raise error
    problem = InputError(f"can't deserialize {place}: {type(error).__name__}: {error}")
    problem.__cause__ = error
    return Unreadable(place, data or b"", problem)


def _one_by_one(
    deserialize: Deserialize,
    messages: Sequence[bytes],
    place_of: Callable[[int], str],
    timestamps: Sequence[int] | None,
) -> Iterator[Batch | Unreadable]:
    good: list[Any] = []
    start = 0
    for index, message in enumerate(messages):
        try:
            good.append(deserialize(message))
        except Exception as error:
            bad = unreadable(place_of(index), message, error)
            yield from _batch(good, None if timestamps is None else timestamps[start:index])
            yield bad
            good, start = [], index + 1
    yield from _batch(good, None if timestamps is None else timestamps[start:])


def _batch(records: list[Any], timestamps: Sequence[int] | None) -> Iterator[Batch]:
    if timestamps is None:
        kept = [record for record in records if record is not None]
        if kept:
            yield kept
        return
    times = list(timestamps)
    if any(record is None for record in records):
        pairs = [(record, time) for record, time in zip(records, times, strict=True) if record is not None]
        records, times = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if records:
        yield records, times
