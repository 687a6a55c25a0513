"""From messages to records, with a schema that may refuse some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beadline.connectors.decoding import decoded
from beadline.connectors.source import Unreadable
from beadline.errors import EnvironmentSetupError, InputError, SerializationError


def number(message: bytes) -> int | None:
    return int(message) if message else None


def place(index: int) -> str:
    return f"message {index}"


def test_all_at_once() -> None:
    assert list(decoded(number, [b"1", b"2"], place)) == [[1, 2]]
    assert list(decoded(number, [b"1", b"", b"2"], place)) == [[1, 2]], "without those that have no record"
    assert list(decoded(number, [], place)) == []
    assert list(decoded(number, [b""], place)) == []


def test_with_their_timestamps() -> None:
    assert list(decoded(number, [b"1", b"", b"2"], place, [10, 20, 30])) == [([1, 2], [10, 30])]
    first, bad, last = decoded(number, [b"1", b"x", b"", b"2"], place, [10, 20, 30, 40])
    assert (first, last) == (([1], [10]), ([2], [40]))
    assert isinstance(bad, Unreadable)


def test_a_bad_message_is_marked_in_its_place() -> None:
    found = list(decoded(number, [b"1", b"x", b"y", b"2"], place))
    assert [batch for batch in found if isinstance(batch, list)] == [[1], [2]]
    first, second = [bad for bad in found if isinstance(bad, Unreadable)]
    assert (first.place, first.data, second.place) == ("message 1", b"x", "message 2")
    assert isinstance(first.problem, InputError)
    assert "can't deserialize message 1: ValueError" in str(first.problem)


def raising(error: Exception) -> Callable[[bytes], Any]:
    def deserialize(message: bytes) -> Any:
        raise error

    return deserialize


def test_a_schema_says_itself_what_is_wrong() -> None:
    error = SerializationError("no JSON")
    (bad,) = decoded(raising(error), [b"x"], place)
    assert isinstance(bad, Unreadable)
    assert bad.problem is error


@pytest.mark.parametrize("error", [OSError("away"), EnvironmentSetupError("no fastavro"), MemoryError()], ids=repr)
def test_what_is_not_the_messages_fault_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        list(decoded(raising(error), [b"x"], place))
