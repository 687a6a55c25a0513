"""State that belongs to a window: by key and window."""

from __future__ import annotations

from typing import Any

from beadline.api.state_descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from beadline.common.typeinfo import Types
from beadline.datastream.window import GlobalWindow
from beadline.state.codec import register_state_class
from tests.state.contract.subject import ANY, Make

VALUE = ValueStateDescriptor("v", ANY)
LIST = ListStateDescriptor("l", ANY)
MAP = MapStateDescriptor("m", ANY, ANY)
SUM = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
WINDOWS: list[Any] = [(0, 10), (10, 20), (-10, 0), (0, 256), None, GlobalWindow()]
KEYS = ["a", "ab", "a\x00\x01", ("a", 1), None]


class Window:
    """A window of the user's own, without a canonical encoding of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def test_every_key_and_window_has_state_of_its_own(make: Make) -> None:
    subject = make(windowed=[VALUE, LIST, MAP])
    for turn in range(2):
        with subject.step() as step:
            for key in KEYS:
                for window in WINDOWS:
                    here = step.at(key, window)
                    here["v"].update((key, str(window), turn))
                    here["l"].add(turn)
                    here["m"].put(turn, key)
    with subject.step() as step:
        for key in KEYS:
            for window in WINDOWS:
                here = step.at(key, window)
                assert here["v"].value() == (key, str(window), 1)
                assert list(here["l"].get()) == [0, 1]
                assert dict(here["m"].items()) == {0: key, 1: key}
    slots = {(key, window) for key in KEYS for window in WINDOWS}
    assert subject.stored("v", "value", True).keys() == slots
    assert subject.stored("l", "list", True).keys() == slots
    assert subject.stored("m", "map", True).keys() == slots


def test_a_window_that_is_over_leaves_nothing(make: Make) -> None:
    subject = make(windowed=[VALUE, LIST, MAP])
    with subject.step() as step:
        for window in WINDOWS[:2]:
            here = step.at("k", window)
            here["v"].update(1)
            here["l"].add(1)
            here["m"].put("x", 1)
    with subject.step() as step:
        here = step.at("k", WINDOWS[0])
        for name in ("v", "l", "m"):
            here[name].clear()
    for name, kind in (("v", "value"), ("l", "list"), ("m", "map")):
        assert list(subject.stored(name, kind, True)) == [("k", WINDOWS[1])]


def test_windows_that_merge_take_their_lists_along(make: Make) -> None:
    subject = make(windowed=[LIST])
    with subject.step() as step:
        for start in (0, 5, 9):
            step.at("k", (start, start + 6))["l"].add_all([start, start + 1])
    with subject.step() as step:
        step["l"].merge_slots([("k", (5, 11)), ("k", (9, 15))], ("k", (0, 6)))
    assert subject.stored("l", "list", True) == {("k", (0, 6)): [0, 1, 5, 6, 9, 10]}


def test_windows_that_merge_fold_their_totals(make: Make) -> None:
    subject = make(windowed=[SUM])
    with subject.step() as step:
        for start in (0, 5, 9):
            step.at("k", (start, start + 6))["sum"].add(start + 1)
    with subject.step() as step:
        step["sum"].merge_slots([("k", (5, 11)), ("k", (9, 15)), ("k", (77, 78))], ("k", (0, 6)))
    assert subject.stored("sum", "value", True) == {("k", (0, 6)): 17}


def test_windows_of_a_class_of_the_users_own(make: Make) -> None:
    register_state_class(Window)
    subject = make(windowed=[VALUE, MAP])
    with subject.step() as step:
        step.at("k", Window("one"))["v"].update(1)
        step.at("k", Window("two"))["v"].update(2)
        step["m"].put("x", 2)
    with subject.step() as step:
        assert step.at("k", Window("one"))["v"].value() == 1
        assert step.at("k", Window("two"))["v"].value() == 2
        assert dict(step["m"].items()) == {"x": 2}
        step.at("k", Window("one"))["v"].clear()
    assert subject.stored("v", "value", True) == {("k", Window("two")): 2}


def test_state_by_key_and_state_by_window_live_side_by_side(make: Make) -> None:
    by_key = ValueStateDescriptor("all", ANY)
    subject = make(by_key, windowed=[VALUE])
    with subject.step() as step:
        step.at("k", (0, 10))["v"].update("window")
        step["all"].update("key")
    with subject.step() as step:
        step.at("k", (0, 10))["v"].clear()
        assert step["all"].value() == "key"
    with subject.step() as step:
        assert step.at("k", (0, 10))["v"].value() is None
        assert step["all"].value() == "key"
