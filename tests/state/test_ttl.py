"""State that expires."""

from __future__ import annotations

import itertools
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
from beadline.state import ttl
from tests.state.subtask import ANY, Subtask, Worker


class Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Life:
    """One expiring state, ten milliseconds to live, moved from step to step."""

    def __init__(
        self, descriptor: StateDescriptor, *, on_read: bool = False, show: bool = False, sweeps: bool = True
    ) -> None:
        builder = StateTtlConfig.new_builder(Time.milliseconds(10))
        if on_read:
            builder.update_ttl_on_read_and_write()
        if show:
            builder.return_expired_if_not_cleaned_up()
        if not sweeps:
            builder.disable_cleanup_in_background()
        descriptor.enable_time_to_live(builder.build())
        self.subtask, self.worker = Subtask(), Worker()
        self.state = self.worker.backend.state(descriptor)
        self.name = descriptor.name
        self.running = False

    def at(self, now: int, key: Any = "k") -> Any:
        """Begin the step at a time, sealing the one before."""
        self.end()
        self.subtask.begin(self.worker, now)
        self.running = True
        return self.on(key)

    def on(self, key: Any) -> Any:
        self.worker.backend.scope.slot = key
        return self.state

    def end(self) -> None:
        if self.running:
            self.subtask.seal(self.subtask.finish(self.worker))
            self.running = False

    def stored(self) -> dict[Any, Any]:
        self.end()
        self.subtask.begin(self.worker)
        assert self.worker.store is not None
        base = dict(self.worker.store.table(self.name, self.state.kind).base)
        self.worker.backend.finish()
        return base


def value(**options: Any) -> Life:
    return Life(ValueStateDescriptor("s", ANY), **options)


def test_a_value_lives_until_its_time_is_over() -> None:
    life = value()
    life.at(100).update("v")
    assert life.at(109).value() == "v"
    assert life.at(110).value() is None
    assert life.stored() == {}


def test_writing_begins_a_new_life_and_reading_does_not() -> None:
    life = value()
    life.at(100).update("v")
    assert life.at(105).value() == "v"
    life.at(108).update("w")
    assert life.at(117).value() == "w"
    assert life.at(118).value() is None


def test_reading_begins_a_new_life_if_asked_to() -> None:
    life = value(on_read=True)
    life.at(100).update("v")
    for now in (109, 118, 127):
        assert life.at(now).value() == "v"
    assert life.at(137).value() is None


def test_what_expired_is_shown_once_if_asked_to() -> None:
    life = value(show=True)
    life.at(100).update("v")
    state = life.at(200)
    assert state.value() == "v"
    assert state.value() is None


def test_clear_and_none_remove() -> None:
    life = value()
    life.at(100).update("v")
    life.at(101).clear()
    assert life.stored() == {}
    life.at(102).update("v")
    life.at(103).update(None)
    assert life.stored() == {}


def test_a_change_in_place_is_kept() -> None:
    life = value()
    life.at(100).update([1])
    life.at(101).value().append(2)
    assert life.at(102).value() == [1, 2]
    assert life.at(110).value() is None, "it does not count as a write"


@pytest.mark.parametrize(
    "descriptor",
    [
        ReducingStateDescriptor("s", lambda a, b: a + b, ANY),
        AggregatingStateDescriptor("s", Sum(), ANY),
    ],
    ids=["reducing", "aggregating"],
)
def test_folds_begin_anew_when_they_expired(descriptor: StateDescriptor) -> None:
    life = Life(descriptor)
    life.at(100).add(1)
    life.at(105).add(2)
    assert life.at(114).get() == 3
    state = life.at(115)
    assert state.get() is None
    state.add(5)
    assert life.at(116).get() == 5
    life.state.clear()
    assert life.state.get() is None


def test_list_elements_expire_one_by_one() -> None:
    life = Life(ListStateDescriptor("s", ANY))
    life.at(100).add("a")
    life.at(105).add_all(["b", "c"])
    assert list(life.at(109).get()) == ["a", "b", "c"]
    assert list(life.at(112).get()) == ["b", "c"]
    assert len(life.stored()["k"]) == 2
    assert list(life.at(115).get()) == []
    assert life.stored() == {}
    life.at(120).update(["x"])
    life.at(121).update(["y"])
    assert list(life.at(130).get()) == ["y"]


def test_list_elements_live_on_when_read() -> None:
    life = Life(ListStateDescriptor("s", ANY), on_read=True)
    life.at(100).add("a")
    life.at(105).add("b")
    assert list(life.at(109).get()) == ["a", "b"]
    assert list(life.at(118).get()) == ["a", "b"]
    assert list(life.at(128).get()) == []


def test_expired_list_elements_are_shown_once_if_asked_to() -> None:
    life = Life(ListStateDescriptor("s", ANY), show=True)
    life.at(100).add("a")
    life.at(105).add("b")
    state = life.at(111)
    assert list(state.get()) == ["a", "b"]
    assert list(state.get()) == ["b"]


def test_map_entries_expire_one_by_one() -> None:
    life = Life(MapStateDescriptor("s", ANY, ANY))
    life.at(100).put("a", 1)
    life.at(105).put_all({"b": 2, "c": None})
    state = life.at(109)
    assert dict(state.items()) == {"a": 1, "b": 2, "c": None}
    state = life.at(112)
    assert not state.contains("a")
    assert state.get("a") is None
    assert list(state.keys()) == ["b", "c"]
    assert list(state.values()) == [2, None]
    assert set(life.stored()["k"]) == {"b", "c"}
    assert life.at(115).is_empty()
    assert life.stored() == {}


def test_map_entries_live_on_when_read() -> None:
    life = Life(MapStateDescriptor("s", ANY, ANY), on_read=True)
    state = life.at(100)
    state.put("read", 1)
    state.put("unread", 1)
    assert life.at(109).get("read") == 1
    assert dict(life.at(112).items()) == {"read": 1}
    state.remove("read")
    assert state.is_empty()


def expired(kind: str, count: int) -> Life:
    """Many keys that expired and that nobody will ask for."""
    made = {
        "value": ValueStateDescriptor("s", ANY),
        "list": ListStateDescriptor("s", ANY),
        "map": MapStateDescriptor("s", ANY, ANY),
    }[kind]
    life = Life(made)
    life.at(100)
    for number in range(count):
        touch(life, number)
    life.end()
    return life


def touch(life: Life, key: Any) -> None:
    state = life.on(key)
    if life.state.kind == "value":
        state.update(1)
    elif life.state.kind == "list":
        state.add(1)
    else:
        state.put("m", 1)


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_what_nobody_touches_is_swept_a_little_with_every_access(kind: str) -> None:
    life = expired(kind, 100)
    sizes = [len(life.stored())]
    for now in range(1000, 1000 + 40):
        life.at(now)
        touch(life, "alive")
        sizes.append(len(life.stored()))
    assert sizes[0] == 100
    assert all(before - after <= 5 for before, after in itertools.pairwise(sizes))
    assert sizes[-1] == 1, "only what is alive remains"


def test_a_sweep_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttl, "_SWEEP_AT_MOST", 30)
    life = expired("value", 100)
    life.at(1000)
    for _ in range(90):
        touch(life, "alive")
    assert len(life.stored()) == 71


def test_nothing_is_swept_without_access_or_if_told_not_to() -> None:
    life = expired("value", 20)
    life.at(1000)
    assert len(life.stored()) == 20
    quiet = value(sweeps=False)
    quiet.at(100).update(1)
    quiet.at(1000, "other").update(1)
    assert len(quiet.stored()) == 2
