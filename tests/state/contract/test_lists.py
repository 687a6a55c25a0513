"""List state."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.api.state_descriptors import ListStateDescriptor
from beadline.common.typeinfo import Types
from beadline.errors import TypeMismatchError
from tests.state.contract.subject import ANY, Make

LIST = ListStateDescriptor("l", ANY)


def test_items_come_in_the_order_they_were_added(make: Make) -> None:
    subject = make(LIST)
    for number in range(5):
        with subject.step() as step:
            step.at("k")["l"].add(number)
            step["l"].add_all([f"{number}a", f"{number}b"])
            assert list(step["l"].get())[-3:] == [number, f"{number}a", f"{number}b"]
    expected = [item for number in range(5) for item in (number, f"{number}a", f"{number}b")]
    with subject.step() as step:
        assert list(step.at("k")["l"].get()) == expected


def test_adding_while_going_through(make: Make) -> None:
    subject = make(LIST)
    with subject.step() as step:
        step.at("k")["l"].add_all([1, 2, 3])
    with subject.step() as step:
        for item in step.at("k")["l"].get():
            step["l"].add(item * 10)
        assert list(step["l"].get()) == [1, 2, 3, 10, 20, 30]


def test_emptying_while_going_through(make: Make) -> None:
    subject = make(LIST)
    with subject.step() as step:
        step.at("k")["l"].add_all([1, 2, 3])
    seen = []
    with subject.step() as step:
        for item in step.at("k")["l"].get():
            seen.append(item)
            step["l"].clear()
    assert seen == [1, 2, 3]
    assert subject.stored("l", "list") == {}


def test_none_is_no_item(make: Make) -> None:
    subject = make(LIST)
    with subject.step() as step, pytest.raises(TypeMismatchError, match="can't hold None"):
        step.at("k")["l"].add(None)


def test_an_item_of_the_wrong_type_is_refused(make: Make) -> None:
    subject = make(ListStateDescriptor("l", Types.LONG()))
    with subject.step() as step:
        step.at("k")["l"].add(1)
        with pytest.raises(TypeMismatchError, match="state 'l'"):
            step["l"].add("text")
    assert subject.stored("l", "list") == {"k": [1]}


def test_mutable_items_are_copies(make: Make) -> None:
    subject = make(LIST)
    mine: list[Any] = ["a"]
    with subject.step() as step:
        step.at("k")["l"].add(mine)
        step["l"].add((1, mine))
    mine.append("late")
    with subject.step() as step:
        found = list(step.at("k")["l"].get())
        assert found == [["a"], (1, ["a"])]
        found[0].append("later")
    with subject.step() as step:
        assert list(step.at("k")["l"].get()) == [["a"], (1, ["a"])]


def test_a_list_that_grows_for_long_over_many_steps(make: Make) -> None:
    subject = make(LIST)
    item = "x" * 1000
    for number in range(12):
        with subject.step() as step:
            step.at("k")["l"].add_all([(number, i, item) for i in range(60)])
            step.at("short")["l"].add(number)
    with subject.step() as step:
        assert [entry[:2] for entry in step.at("k")["l"].get()] == [(n, i) for n in range(12) for i in range(60)]
        assert list(step.at("short")["l"].get()) == list(range(12))
        step.at("k")["l"].update(["anew"])
    with subject.step() as step:
        step.at("k")["l"].add("more")
    assert subject.stored("l", "list") == {"k": ["anew", "more"], "short": list(range(12))}


def test_a_large_item(make: Make) -> None:
    subject = make(LIST)
    with subject.step() as step:
        step.at("k")["l"].add(b"\x00" * 2_000_000)
    with subject.step() as step:
        step.at("k")["l"].add("small")
    with subject.step() as step:
        assert [len(item) for item in step.at("k")["l"].get()] == [2_000_000, 5]


def test_lists_of_many_keys(make: Make) -> None:
    subject = make(LIST)
    for turn in range(3):
        with subject.step() as step:
            for number in range(1500):
                step.at((number, "k"))["l"].add(turn)
    with subject.step() as step:
        for number in range(0, 1500, 3):
            step.at((number, "k"))["l"].clear()
    expected = {(number, "k"): [0, 1, 2] for number in range(1500) if number % 3}
    assert subject.stored("l", "list") == expected
