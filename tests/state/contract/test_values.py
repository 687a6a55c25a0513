"""Value, reducing and aggregating state."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest

from beadline.api.function import AggregateFunction
from beadline.api.state_descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from beadline.common.typeinfo import Types
from beadline.errors import TypeMismatchError
from tests.state.contract.subject import ANY, Make

VALUE = ValueStateDescriptor("v", ANY)
SUM = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


MEAN = AggregatingStateDescriptor("mean", Mean(), ANY)


def test_a_key_that_was_never_written_has_no_value(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        assert step.at("k")["v"].value() is None
    assert subject.handle.segments == ()


def test_updating_with_none_is_clearing(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        step.at("k")["v"].update(1)
        step.at("l")["v"].update(2)
    with subject.step() as step:
        step.at("k")["v"].update(None)
        assert step["v"].value() is None
    with subject.step() as step:
        assert step.at("k")["v"].value() is None
        assert step.at("l")["v"].value() == 2
    assert subject.stored("v", "value") == {"l": 2}


SEVERAL: list[Any] = [
    0,
    -(2**80),
    1.5,
    float("inf"),
    "",
    "text with \x00 and ü and \ud800",
    b"",
    b"\x00\x01\xff",
    True,
    False,
    1 + 2j,
    (),
    (None, None),
    (1, ("a", (b"b", None))),
    [],
    [None, [1]],
    {"a": [1]},
    {1, 2},
    frozenset({3}),
    dt.datetime(2020, 1, 2, 3, 4, 5, 6, dt.timezone.utc),
    dt.timedelta(days=-1),
    Decimal("1.10"),
    uuid.UUID(int=5),
    OrderedDict(b=1, a=2),
    (1, [2]),
]


@pytest.mark.parametrize("value", SEVERAL, ids=repr)
def test_values_come_back_with_their_types(make: Make, value: Any) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        step.at("k")["v"].update(value)
    with subject.step() as step:
        found = step.at("k")["v"].value()
        assert found == value
        assert type(found) is type(value)


def test_large_values(make: Make) -> None:
    subject = make(VALUE)
    text, blob, nested = "x" * 3_000_000, bytes(range(256)) * 10_000, [list(range(1000))] * 100
    with subject.step() as step:
        step.at("text")["v"].update(text)
        step.at("blob")["v"].update(blob)
        step.at("nested")["v"].update(nested)
    with subject.step() as step:
        assert step.at("text")["v"].value() == text
        assert step.at("blob")["v"].value() == blob
        assert step.at("nested")["v"].value() == nested


def test_what_user_code_keeps_does_not_reach_the_store(make: Make) -> None:
    subject = make(VALUE)
    mine = [1]
    with subject.step() as step:
        step.at("k")["v"].update(mine)
    mine.append("late")
    with subject.step() as step:
        read = step.at("k")["v"].value()
    read.append("later")
    with subject.step() as step:
        assert step.at("k")["v"].value() == [1]


KEYS: list[Any] = [
    "",
    "a",
    "a\x00b",
    "a\x00\x01",
    b"",
    b"\x00\xff",
    0,
    1,
    -1,
    255,
    2**70,
    -(2**70),
    1.5,
    None,
    (),
    ("a", 1),
    ("a", (1, None)),
    ("a\x00", "b"),
    Decimal("2.5"),
    dt.date(2020, 1, 1),
    uuid.UUID(int=1),
]


def test_keys_of_many_types_are_kept_apart(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        for number, key in enumerate(KEYS):
            step.at(key)["v"].update(number)
    with subject.step() as step:
        assert [step.at(key)["v"].value() for key in KEYS] == list(range(len(KEYS)))
    found = subject.stored("v", "value")
    assert found == {key: number for number, key in enumerate(KEYS)}
    assert {(type(key), key) for key in found} == {(type(key), key) for key in KEYS}


def test_equal_keys_of_other_types_are_one_key(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        step.at(1)["v"].update("one")
    with subject.step() as step:
        assert step.at(1.0)["v"].value() == "one"
        assert step.at(True)["v"].value() == "one"
        assert step.at(Decimal(1))["v"].value() == "one"


def test_many_keys(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        for number in range(5000):
            step.at(f"key-{number}")["v"].update((number, "payload"))
    with subject.step() as step:
        for number in range(0, 5000, 7):
            assert step.at(f"key-{number}")["v"].value() == (number, "payload")
            step["v"].clear()
    assert len(subject.stored("v", "value")) == 5000 - len(range(0, 5000, 7))


def test_states_of_one_operator_are_kept_apart(make: Make) -> None:
    other = ValueStateDescriptor("w", ANY)
    subject = make(VALUE, other)
    with subject.step() as step:
        step.at("k")["v"].update("v")
        step["w"].update("w")
    with subject.step() as step:
        step.at("k")["v"].clear()
    with subject.step() as step:
        assert step.at("k")["v"].value() is None
        assert step["w"].value() == "w"


def test_a_value_of_the_wrong_type_is_refused_and_leaves_nothing(make: Make) -> None:
    subject = make(ValueStateDescriptor("v", Types.LONG()))
    with subject.step() as step:
        step.at("k")["v"].update(1)
    with subject.step() as step:
        with pytest.raises(TypeMismatchError, match="state 'v'"):
            step.at("k")["v"].update("text")
        assert step["v"].value() == 1
    assert subject.stored("v", "value") == {"k": 1}


def test_reducing_state_folds(make: Make) -> None:
    subject = make(SUM)
    with subject.step() as step:
        assert step.at("k")["sum"].get() is None
        step["sum"].add(1)
        step["sum"].add(2)
    with subject.step() as step:
        step.at("k")["sum"].add(3)
        assert step["sum"].get() == 6
    with subject.step() as step:
        assert step.at("k")["sum"].get() == 6
        step["sum"].clear()
        step["sum"].add(9)
    assert subject.stored("sum", "value") == {"k": 9}


def test_aggregating_state_folds(make: Make) -> None:
    subject = make(MEAN)
    with subject.step() as step:
        assert step.at("k")["mean"].get() is None
        for number in (1, 2, 3):
            step["mean"].add(number)
    with subject.step() as step:
        step.at("k")["mean"].add(6)
        assert step["mean"].get() == 3.0
    assert subject.stored("mean", "value") == {"k": (12, 4)}
    with subject.step() as step:
        step.at("k")["mean"].clear()
        assert step["mean"].get() is None
    assert subject.stored("mean", "value") == {}


def test_every_key_is_found_when_all_are_asked_for(make: Make) -> None:
    subject = make(VALUE)
    with subject.step() as step:
        for key in ("c", "a", ("t", 1), 5):
            step.at(key)["v"].update(str(key))
    with subject.step() as step:
        step.at("new")["v"].update("new")
        step.at("a")["v"].clear()
        found = [(slot, handle.value()) for slot, handle in step.backend.entries(VALUE)]
    assert found == [(5, "5"), ("c", "c"), ("new", "new"), (("t", 1), "('t', 1)")]
