"""State with a time to live, of every kind. Times are the steps' processing times."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.api.function import AggregateFunction
from beadline.api.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from beadline.api.state_ttl import StateTtlConfig
from beadline.common.time import Time
from beadline.common.typeinfo import Types
from beadline.state.access import ttl
from tests.state.contract.subject import ANY, Make, Subject

TTL = 10


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


def living(descriptor: StateDescriptor, **options: bool) -> StateDescriptor:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
    if options.get("on_read"):
        builder = builder.update_ttl_on_read_and_write()
    if options.get("show_expired"):
        builder = builder.return_expired_if_not_cleaned_up()
    if options.get("no_sweep"):
        builder = builder.disable_cleanup_in_background()
    if options.get("sweep_20"):
        builder = builder.cleanup_incrementally(20, False)
    descriptor.enable_time_to_live(builder.build())
    return descriptor


def a_value(**options: bool) -> StateDescriptor:
    return living(ValueStateDescriptor("s", ANY), **options)


def a_list(**options: bool) -> StateDescriptor:
    return living(ListStateDescriptor("s", ANY), **options)


def a_map(**options: bool) -> StateDescriptor:
    return living(MapStateDescriptor("s", ANY, ANY), **options)


def a_sum(**options: bool) -> StateDescriptor:
    return living(ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG()), **options)


def a_total(**options: bool) -> StateDescriptor:
    return living(AggregatingStateDescriptor("s", Total(), ANY), **options)


# How each kind is written and read, so that one story fits all.
WRITE: dict[str, Any] = {
    "value": lambda state, n: state.update(n),
    "list": lambda state, n: state.update([n]),
    "map": lambda state, n: state.put("x", n),
    "sum": lambda state, n: (state.clear(), state.add(n)),
    "total": lambda state, n: (state.clear(), state.add(n)),
}
READ: dict[str, Any] = {
    "value": lambda state: state.value(),
    "list": lambda state: next(iter(state.get()), None),
    "map": lambda state: state.get("x"),
    "sum": lambda state: state.get(),
    "total": lambda state: state.get(),
}
MAKE = {"value": a_value, "list": a_list, "map": a_map, "sum": a_sum, "total": a_total}
TABLE = {"value": "value", "list": "list", "map": "map", "sum": "value", "total": "value"}
every_kind = pytest.mark.parametrize("kind", sorted(MAKE))


@every_kind
def test_it_lives_until_its_time_is_over(make: Make, kind: str) -> None:
    subject = make(MAKE[kind]())
    with subject.step(now=100) as step:
        WRITE[kind](step.at("k")["s"], 7)
    with subject.step(now=109) as step:
        assert READ[kind](step.at("k")["s"]) == 7
    with subject.step(now=110) as step:
        assert READ[kind](step.at("k")["s"]) is None
    assert subject.stored("s", TABLE[kind]) == {}


@every_kind
def test_writing_begins_a_new_life_and_reading_does_not(make: Make, kind: str) -> None:
    subject = make(MAKE[kind]())
    for now, write in ((100, True), (108, True), (115, False)):
        with subject.step(now=now) as step:
            if write:
                WRITE[kind](step.at("k")["s"], now)
            else:
                assert READ[kind](step.at("k")["s"]) == 108
    with subject.step(now=118) as step:
        assert READ[kind](step.at("k")["s"]) is None


@every_kind
def test_reading_begins_a_new_life_if_asked_to(make: Make, kind: str) -> None:
    subject = make(MAKE[kind](on_read=True))
    with subject.step(now=100) as step:
        WRITE[kind](step.at("k")["s"], 7)
    for now in (109, 118, 127):
        with subject.step(now=now) as step:
            assert READ[kind](step.at("k")["s"]) == 7
    with subject.step(now=137) as step:
        assert READ[kind](step.at("k")["s"]) is None


@every_kind
def test_what_nobody_touches_is_swept_out(make: Make, kind: str) -> None:
    subject = make(MAKE[kind]())
    with subject.step(now=100) as step:
        for number in range(20):
            WRITE[kind](step.at(number)["s"], number)
    for _ in range(12):
        with subject.step(now=200) as step:
            for _ in range(5):
                READ[kind](step.at("other")["s"])
    assert subject.stored("s", TABLE[kind]) == {}


@every_kind
def test_merging_segments_drops_what_is_over(make: Make, kind: str) -> None:
    subject = make(MAKE[kind]())
    for now in (100, 105):
        with subject.step(now=now) as step:
            for number in range(10):
                WRITE[kind](step.at((now, number))["s"], number)
    subject.merge(now=112)
    assert subject.handle.segments[0].entries == 10
    assert {slot[0] for slot in subject.stored("s", TABLE[kind])} >= {105}
    subject.lose()
    assert {slot[0] for slot in subject.stored("s", TABLE[kind])} == {105}


@every_kind
def test_merging_leaves_what_may_still_be_read(make: Make, kind: str) -> None:
    subject = make(MAKE[kind](no_sweep=True, show_expired=True))
    with subject.step(now=100) as step:
        WRITE[kind](step.at("k")["s"], 7)
    with subject.step(now=101) as step:
        WRITE[kind](step.at("l")["s"], 8)
    subject.merge(now=500)
    assert subject.handle.segments[0].entries == 2


def test_items_of_a_list_expire_one_by_one(make: Make) -> None:
    subject = make(a_list())
    for now in (100, 104, 108):
        with subject.step(now=now) as step:
            step.at("k")["s"].add(now)
    with subject.step(now=112) as step:
        assert list(step.at("k")["s"].get()) == [104, 108]
    with subject.step(now=115) as step:
        assert list(step.at("k")["s"].get()) == [108]
    assert subject.stored("s", "list") == {"k": [(108, 108)]}


def test_entries_of_a_map_expire_one_by_one(make: Make) -> None:
    subject = make(a_map())
    for now in (100, 104, 108):
        with subject.step(now=now) as step:
            step.at("k")["s"].put(now, [now])
    with subject.step(now=112) as step:
        state = step.at("k")["s"]
        assert not state.contains(100)
        assert dict(state.items()) == {104: [104], 108: [108]}
    with subject.step(now=117) as step:
        assert list(step.at("k")["s"].keys()) == [108]
    with subject.step(now=118) as step:
        assert step.at("k")["s"].is_empty()


@every_kind
def test_what_is_over_is_shown_once_if_asked_to(make: Make, kind: str) -> None:
    subject = make(MAKE[kind](show_expired=True, no_sweep=True))
    with subject.step(now=100) as step:
        WRITE[kind](step.at("k")["s"], 7)
    with subject.step(now=150) as step:
        assert READ[kind](step.at("k")["s"]) == 7
        assert READ[kind](step["s"]) is None
    assert subject.stored("s", TABLE[kind]) == {}


def test_none_removes_and_a_change_in_place_is_no_write(make: Make) -> None:
    subject = make(a_value())
    with subject.step(now=100) as step:
        step.at("gone")["s"].update(1)
        step.at("k")["s"].update([1])
    with subject.step(now=101) as step:
        step.at("gone")["s"].update(None)
        step.at("k")["s"].value().append(2)
    assert subject.stored("s", "value") == {"k": (100, [1, 2])}


@pytest.mark.parametrize("kind", ["sum", "total"])
def test_folds_begin_anew_when_they_are_over(make: Make, kind: str) -> None:
    subject = make(MAKE[kind]())
    for now, added, expected in ((100, 1, 1), (105, 2, 3), (114, 4, 7), (124, 5, 5)):
        with subject.step(now=now) as step:
            step.at("k")["s"].add(added)
            assert step["s"].get() == expected


def test_a_sweep_is_bounded_by_accesses_and_altogether(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttl, "_SWEEP_AT_MOST", 30)
    subject = make(a_value())
    with subject.step(now=100) as step:
        for number in range(100):
            step.at(number)["s"].update(number)
    for accesses, left in ((0, 100), (2, 90), (50, 60)):
        with subject.step(now=1000) as step:
            for _ in range(accesses):
                step.at("other")["s"].value()
        assert len(subject.stored("s", "value")) == left


@pytest.mark.parametrize("no_sweep", [False, True])
def test_a_sweep_is_as_long_as_it_was_asked_to_be(make: Make, no_sweep: bool) -> None:
    subject = make(a_value(sweep_20=True, no_sweep=no_sweep))
    with subject.step(now=100) as step:
        for number in range(50):
            step.at(number)["s"].update(number)
    with subject.step(now=1000) as step:
        step.at("other")["s"].value()
    assert len(subject.stored("s", "value")) == 30


def test_nothing_is_swept_if_told_not_to(make: Make) -> None:
    subject = make(a_value(no_sweep=True))
    for now in (100, 1000):
        with subject.step(now=now) as step:
            step.at(now)["s"].update(1)
    assert len(subject.stored("s", "value")) == 2


def test_a_sweep_goes_through_all_of_a_large_state(make: Make) -> None:
    subject = make(a_value())
    with subject.step(now=100) as step:
        for number in range(3000):
            step.at(number)["s"].update(number)
    with subject.step(now=105) as step:
        for number in range(0, 3000, 3):
            step.at(number)["s"].update(-number)
    swept = _sweep_all(subject, now=112)
    assert swept == {number: (105, -number) for number in range(0, 3000, 3)}


def _sweep_all(subject: Subject, now: int) -> dict[Any, Any]:
    for _ in range(3):
        with subject.step(now=now) as step:
            for _ in range(700):
                step.at("other")["s"].value()
    return subject.stored("s", "value")
