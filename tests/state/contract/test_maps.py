"""Map state."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from beadline.api.state_descriptors import MapStateDescriptor
from beadline.common.typeinfo import Types
from beadline.errors import StateAccessError, TypeMismatchError
from beadline.state.codec import register_state_class
from beadline.state.key_groups import BoxedKey
from tests.state.contract.subject import ANY, HEAP, ROCKSDB, Make

MAP = MapStateDescriptor("m", ANY, ANY)


def test_none_is_a_value_of_an_entry(make: Make) -> None:
    subject = make(MAP)
    with subject.step() as step:
        step.at("k")["m"].put("a", None)
    with subject.step() as step:
        assert step.at("k")["m"].contains("a")
        assert step["m"].get("a") is None
        assert list(step["m"].items()) == [("a", None)]
        assert not step["m"].contains("b")


def test_putting_while_going_through(make: Make) -> None:
    subject = make(MAP)
    with subject.step() as step:
        step.at("k")["m"].put_all({"a": 1, "b": 2, "c": 3})
    with subject.step() as step:
        for name, value in step.at("k")["m"].items():
            step["m"].put(name, value * 10)
            step["m"].put(name + "'", 0)
    expected = {"a": 10, "b": 20, "c": 30, "a'": 0, "b'": 0, "c'": 0}
    assert subject.stored("m", "map") == {"k": expected}


def test_removing_while_going_through(make: Make) -> None:
    subject = make(MAP)
    with subject.step() as step:
        step.at("k")["m"].put_all({number: number for number in range(10)})
    seen = []
    with subject.step() as step:
        for number, _ in step.at("k")["m"].items():
            seen.append(number)
            if number % 2:
                step["m"].remove(number)
    assert sorted(seen) == list(range(10))
    assert subject.stored("m", "map") == {"k": {number: number for number in range(0, 10, 2)}}


def test_clearing_while_going_through(make: Make) -> None:
    subject = make(MAP)
    with subject.step() as step:
        step.at("k")["m"].put_all({"a": 1, "b": 2})
    with subject.step() as step:
        seen = []
        for name, _ in step.at("k")["m"].items():
            seen.append(name)
            step["m"].clear()
        assert sorted(seen) == ["a", "b"]
    assert subject.stored("m", "map") == {}


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@dataclass(eq=True, unsafe_hash=True)
class Opaque:
    """Hashable, and without a canonical encoding: one of its fields has none."""

    part: complex


MAP_KEYS: list[Any] = [
    "",
    "a\x00b",
    b"\xff",
    0,
    -5,
    2**65,
    1.5,
    None,
    (),
    (1, ("a", None)),
    Decimal("1.5000001"),
    Point(1, 2),
    frozenset({1}),
    Opaque(1j),
    Opaque(2j),
]


def test_map_keys_of_many_types(make: Make) -> None:
    register_state_class(Point)
    register_state_class(Opaque)
    subject = make(MAP)
    with subject.step() as step:
        for number, name in enumerate(MAP_KEYS):
            step.at(("key", 1))["m"].put(name, number)
    with subject.step() as step:
        state = step.at(("key", 1))["m"]
        assert [state.get(name) for name in MAP_KEYS] == list(range(len(MAP_KEYS)))
        found = dict(state.items())
        assert found == {name: number for number, name in enumerate(MAP_KEYS)}
        assert {type(name) for name in found} == {type(name) for name in MAP_KEYS}
        for name in MAP_KEYS[::2]:
            state.remove(name)
        state.put(Opaque(2j), "again")
        assert state.get(Opaque(2j)) == "again"
    rest = {name: MAP_KEYS.index(name) for name in MAP_KEYS[1::2]} | {Opaque(2j): "again"}
    with subject.step() as step:
        assert dict(step.at(("key", 1))["m"].items()) == rest
        step["m"].clear()
    assert subject.stored("m", "map") == {}


def nan() -> float:
    """Another object each time, and another sign every second time."""
    return next(_NANS)


_NANS = itertools.cycle(map(float, ("nan", "-nan")))


@pytest.mark.parametrize("wrap", [lambda key: key, lambda key: ("k", (key, 1)), lambda key: Decimal(key).copy_abs()])
def test_nan_is_one_map_key(make: Make, wrap: Callable[[float], Any]) -> None:
    subject = make(MAP)

    def entries(step: Any) -> list[Any]:
        found = step.at("k")["m"].items()
        return sorted((value, "nan" in repr(name).lower()) for name, value in found)

    for number in range(3):
        with subject.step() as step:
            state = step.at("k")["m"]
            state.put(wrap(nan()), number)
            state.put_all({wrap(nan()): number + 10, "other": 1})
            assert state.get(wrap(nan())) == number + 10
            assert wrap(nan()) in state
            assert entries(step) == [(1, False), (number + 10, True)]
    subject.merge(1)
    with subject.step() as step:
        assert entries(step) == [(1, False), (12, True)]
        step["m"].remove(wrap(nan()))
        assert not step["m"].contains(wrap(nan()))
        assert entries(step) == [(1, False)]
    subject.merge()
    with subject.step() as step:
        assert entries(step) == [(1, False)]
        step["m"].put(wrap(nan()), 5)
    for other in (HEAP, ROCKSDB):
        with subject.switched(other).step() as step:
            assert step.at("k")["m"].get(wrap(nan())) == 5
            assert all(type(name) is not BoxedKey for name, _ in step["m"].items())


def test_zeros_of_both_signs_are_one_map_key(make: Make) -> None:
    subject = make(MAP)
    for zero in (0.0, -0.0, 0):
        with subject.step() as step:
            step.at("k")["m"].put(zero, repr(zero))
    with subject.step() as step:
        assert list(step.at("k")["m"].values()) == ["0"]
        assert [step["m"].get(zero) for zero in (0.0, -0.0, 0)] == ["0"] * 3


def test_keys_that_begin_alike_have_maps_of_their_own(make: Make) -> None:
    subject = make(MAP)
    keys = ["a", "ab", "a\x00", "a\x00\x01", "a\x00\x01i", b"a", ("a",), ("a", "b")]
    with subject.step() as step:
        for key in keys:
            step.at(key)["m"].put_all({"i": key, 1: key})
    with subject.step() as step:
        for key in keys:
            assert dict(step.at(key)["m"].items()) == {"i": key, 1: key}
        step.at("a")["m"].clear()
    assert subject.stored("m", "map") == {key: {"i": key, 1: key} for key in keys[1:]}


def test_the_order_of_going_through_does_not_depend_on_where_steps_were_cut(make: Make) -> None:
    names = ["m", 3, "b", -7, 300, "z", 2, "aa", 10]
    whole, cut = make(MAP), make(MAP)
    with whole.step() as step:
        for name in names:
            step.at("k")["m"].put(name, 0)
        in_one_step = list(step["m"].keys())
    for name in names:
        with cut.step() as step:
            step.at("k")["m"].put(name, 0)
            step["m"].put("b", 1) if name == "z" else None
    with cut.step() as step:
        assert list(step.at("k")["m"].keys()) == in_one_step
    assert sorted(map(str, in_one_step)) == sorted(map(str, names))


def test_a_map_key_must_be_hashable(make: Make) -> None:
    subject = make(MAP)
    with subject.step() as step, pytest.raises(StateAccessError, match="must be hashable"):
        step.at("k")["m"].put(["list"], 1)


def test_an_entry_of_the_wrong_type_is_refused(make: Make) -> None:
    subject = make(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with subject.step() as step:
        step.at("k")["m"].put("a", 1)
        with pytest.raises(TypeMismatchError, match="state 'm'"):
            step["m"].put("a", "text")
        with pytest.raises(TypeMismatchError, match="state 'm'"):
            step["m"].put(1, 1)
    assert subject.stored("m", "map") == {"k": {"a": 1}}


def test_mutable_entries_are_copies(make: Make) -> None:
    subject = make(MAP)
    mine = ["a"]
    with subject.step() as step:
        step.at("k")["m"].put("x", mine)
    mine.append("late")
    with subject.step() as step:
        step.at("k")["m"].get("x").append("not put back")
        assert step["m"].get("x") == ["a"]
    assert subject.stored("m", "map") == {"k": {"x": ["a"]}}


def test_a_map_with_many_entries_and_few_changes(make: Make) -> None:
    subject = make(MAP)
    with subject.step() as step:
        step.at("k")["m"].put_all({number: (number, "x") for number in range(4000)})
        step.at("other")["m"].put("stays", 1)
    with subject.step() as step:
        step.at("k")["m"].put(17, "changed")
        step["m"].remove(18)
    assert subject.handle.segments[-1].entries == 1
    assert subject.handle.segments[-1].size < 1000
    with subject.step() as step:
        state = step.at("k")["m"]
        assert (state.get(17), state.get(18), state.get(3999)) == ("changed", None, (3999, "x"))
        assert len(list(state.keys())) == 3999
        state.clear()
    assert subject.stored("m", "map") == {"other": {"stays": 1}}


def test_maps_keep_their_order_when_segments_are_merged(make: Make) -> None:
    """A worker that rebuilds its store from merged segments goes through a map in the same order as one that kept it: a
    re-run then sends the same rows."""
    for seed in range(12):
        chance, subject = random.Random(seed), make(MAP)
        for number in range(chance.randint(2, 7)):
            with subject.step() as step:
                state = step.at("a")["m"]
                for _ in range(chance.randrange(5)):
                    name = chance.choice(["k", "l", 5, ("m", 1)])
                    chance.choice([lambda: state.put(name, number), lambda: state.remove(name), state.clear])()  # noqa: B023
        with subject.step(fate="lost") as step:
            kept = list(step.at("a")["m"].items())
        if len(subject.handle.segments) > 1:
            start = chance.randrange(len(subject.handle.segments) - 1)
            subject.merge(start, start + chance.randint(2, 6))
        subject.lose()
        with subject.step(fate="lost") as step:
            assert list(step.at("a")["m"].items()) == kept
