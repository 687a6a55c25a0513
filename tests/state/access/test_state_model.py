"""Whatever is lost, rolled back, rebuilt or merged, state equals a plain dictionary."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beadline.state.access.backend import EVENT_TIMERS
from beadline.state.key_groups import encode_key, key_group_range
from beadline.state.store import open_store
from tests.state.subtask import MAX_PARALLELISM, Subtask, Worker

KEYS = ["a", 3, (1, "x")]
key = st.sampled_from(KEYS)
value = st.one_of(st.integers(0, 9), st.just("text"), st.lists(st.integers(0, 9), max_size=2), st.just((1, [2])))
map_key = st.sampled_from(["k", "l", 5, ("m", 1)])
time = st.integers(0, 6)

operation = st.one_of(
    st.tuples(st.just("update"), key, value),
    st.tuples(st.just("touch"), key),
    st.tuples(st.just("clear"), key),
    st.tuples(st.just("add"), key, value),
    st.tuples(st.just("update_list"), key, st.lists(value, max_size=3)),
    st.tuples(st.just("put"), key, map_key, value),
    st.tuples(st.just("remove"), key, map_key),
    st.tuples(st.just("clear_map"), key),
    st.tuples(st.just("register"), key, time),
    st.tuples(st.just("delete"), key, time),
    st.tuples(st.just("fire"), key, time),
    st.tuples(st.just("look"), key),
)
fates = st.sampled_from(["sealed", "sealed", "sealed", "lost", "failed"])
step = st.tuples(st.just("step"), st.integers(0, 1), fates, st.lists(operation, max_size=8))
event = st.one_of(
    step,
    step,
    step,
    st.tuples(st.just("merge"), st.integers(0, 9), st.integers(2, 5)),
    st.tuples(st.just("crash"), st.integers(0, 1)),
    st.tuples(st.just("roll back"), st.integers(0, 4)),
)


class Model:
    """The truth."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self.lists: dict[Any, list[Any]] = {}
        self.maps: dict[Any, dict[Any, Any]] = {}
        self.timers: set[tuple[int, Any]] = set()

    def due(self, until: int) -> list[tuple[int, Any]]:
        due = sorted((t for t in self.timers if t[0] <= until), key=lambda t: (t[0], encode_key(t[1])))
        self.timers.difference_update(due)
        return due


def perform(worker: Worker, model: Model, what: str, slot: Any, *given: Any) -> None:
    """Do one thing to both, and compare what they say."""
    scope, timers = worker.backend.scope, worker.backend.event_timers
    scope.slot = slot
    if what == "update":
        worker.value.update(copy.deepcopy(given[0]))
        model.values[slot] = copy.deepcopy(given[0])
    elif what == "touch":  # a change in place, without update()
        live = worker.value.value()
        if isinstance(live, list):
            live.append("touched")
            model.values[slot].append("touched")
    elif what == "clear":
        worker.value.clear()
        model.values.pop(slot, None)
    elif what == "add":
        worker.list.add(given[0])
        model.lists.setdefault(slot, []).append(given[0])
    elif what == "update_list":
        worker.list.update(given[0])
        model.lists[slot] = list(given[0])
    elif what == "put":
        worker.map.put(*given)
        model.maps.setdefault(slot, {})[given[0]] = given[1]
    elif what == "remove":
        worker.map.remove(given[0])
        model.maps.get(slot, {}).pop(given[0], None)
        assert not worker.map.contains(given[0])
    elif what == "clear_map":
        worker.map.clear()
        model.maps.pop(slot, None)
    elif what == "register":
        timers.register(given[0], slot)
        model.timers.add((given[0], slot))
    elif what == "delete":
        timers.delete(given[0], slot)
        model.timers.discard((given[0], slot))
    elif what == "fire":
        assert list(timers.due(given[0])) == model.due(given[0])
    compare(worker, model, slot)


def compare(worker: Worker, model: Model, slot: Any) -> None:
    worker.backend.scope.slot = slot
    assert worker.value.value() == model.values.get(slot)
    assert list(worker.list.get()) == model.lists.get(slot, [])
    entries = model.maps.get(slot, {})
    assert dict(worker.map.items()) == entries
    assert set(worker.map.keys()) == set(entries)
    assert len(list(worker.map.values())) == len(entries)
    assert worker.map.is_empty() == (not entries)
    for name, expected in entries.items():
        assert worker.map.contains(name)
        assert worker.map.get(name) == expected
    assert worker.backend.event_timers.first() == min((t for t, _ in model.timers), default=None)


def spoil_what_was_read(worker: Worker) -> None:
    """What an attempt that comes to nothing does to objects it was given."""
    for slot in KEYS:
        worker.backend.scope.slot = slot
        for item in (worker.value.value(), *worker.list.get(), *worker.map.values()):
            if isinstance(item, list):
                item.append("spoilt")
            elif isinstance(item, tuple):
                item[1].append("spoilt")


@settings(max_examples=100)
@given(st.lists(event, min_size=5, max_size=20))
def test_state_equals_the_model(events: list[Any]) -> None:
    live_through(events)


@pytest.mark.parametrize("seed", range(12))
def test_state_equals_the_model_over_a_long_life(seed: int) -> None:
    chance = random.Random(seed)
    live_through([random_event(chance) for _ in range(120)])


def random_event(chance: random.Random) -> tuple[Any, ...]:
    """What the strategies above draw, but evenly and for long."""
    what = chance.choices(["step", "merge", "crash", "roll back"], [20, 4, 1, 1])[0]
    if what == "merge":
        return what, chance.randrange(10), chance.randrange(2, 6)
    if what == "crash":
        return what, chance.randrange(2)
    if what == "roll back":
        return what, chance.randrange(5)
    fate = chance.choice(["sealed", "sealed", "sealed", "lost", "failed"])
    return what, chance.randrange(2), fate, [random_operation(chance) for _ in range(chance.randrange(9))]


def random_operation(chance: random.Random) -> tuple[Any, ...]:
    def any_value() -> Any:
        return chance.choice([chance.randrange(10), "text", [chance.randrange(10)], [], (1, [2])])

    name = chance.choice(["k", "l", 5, ("m", 1)])
    what, *more = chance.choice(
        [
            ("update", any_value()),
            ("touch",),
            ("touch",),
            ("clear",),
            ("add", any_value()),
            ("add", any_value()),
            ("update_list", [any_value() for _ in range(chance.randrange(3))]),
            ("put", name, any_value()),
            ("put", name, any_value()),
            ("remove", name),
            ("clear_map",),
            ("register", chance.randrange(7)),
            ("register", chance.randrange(7)),
            ("delete", chance.randrange(7)),
            ("fire", chance.randrange(7)),
            ("look",),
        ]
    )
    return what, chance.choice(KEYS), *more


def live_through(events: list[Any]) -> None:
    subtask, workers, model = Subtask(), [Worker(), Worker()], Model()
    past = [(subtask.handle, copy.deepcopy(model))]
    for what, *given_ in events:
        if what == "step":
            number, fate, operations = given_
            worker = workers[number]
            subtask.begin(worker)
            attempt = copy.deepcopy(model)
            for operation_ in operations:
                perform(worker, attempt, *operation_)
            if fate == "sealed":
                subtask.seal(subtask.finish(worker))
                model = attempt
                past.append((subtask.handle, copy.deepcopy(model)))
            else:
                spoil_what_was_read(worker)
                if fate == "lost":
                    subtask.finish(worker)  # its overlay stays behind in the worker
                else:
                    worker.forget_functions()  # user code raised: functions are thrown away in the middle of the step
        elif what == "merge":
            start, length = given_
            if len(subtask.handle.segments) > 1:
                start %= len(subtask.handle.segments) - 1
                subtask.merge(start, start + length)
        elif what == "crash":
            workers[given_[0]] = Worker()
        elif what == "roll back":
            subtask.handle, older = past[max(0, len(past) - 1 - given_[0])]
            model = copy.deepcopy(older)
    for worker in [*workers, Worker()]:
        subtask.begin(worker)
        for slot in KEYS:
            compare(worker, model, slot)
    check_split_by_key_group(subtask, model)


def check_split_by_key_group(subtask: Subtask, model: Model) -> None:
    """Two subtasks that share the key groups hold all of the state, each its own part."""
    found: dict[str, dict[Any, Any]] = {"value": {}, "list": {}, "map": {}}
    timers = 0
    for part in range(2):
        store = open_store(None, subtask.handle, key_group_range(part, 2, MAX_PARALLELISM), subtask.read)
        for name, into in found.items():
            base = store.table(name, name).base
            assert not into.keys() & base.keys()
            into.update(base)
        timers += sum(map(len, store.table(EVENT_TIMERS, "timer").base.values()))
    assert found["value"].keys() == model.values.keys()
    assert found["list"].keys() == {slot for slot, items in model.lists.items() if items}
    assert found["map"].keys() == {slot for slot, entries in model.maps.items() if entries}
    assert timers == len(model.timers)


@settings(max_examples=80)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["put", "remove", "clear_map"]), map_key), max_size=4),
        min_size=2,
        max_size=7,
    ),
    st.integers(0, 5),
    st.integers(2, 6),
)
def test_maps_keep_their_order_when_segments_are_merged(steps: list[Any], start: int, length: int) -> None:
    """A worker that rebuilds its store from merged segments goes through a map in the same order as one that kept it: a
    re-run then sends the same rows."""
    subtask, worker = Subtask(), Worker()
    for number, operations in enumerate(steps):
        subtask.begin(worker)
        worker.backend.scope.slot = "a"
        for what, name in operations:
            if what == "put":
                worker.map.put(name, number)
            elif what == "remove":
                worker.map.remove(name)
            else:
                worker.map.clear()
        subtask.seal(subtask.finish(worker))
    subtask.begin(worker)
    worker.backend.scope.slot = "a"
    kept = list(worker.map.items())
    if len(subtask.handle.segments) > 1:
        start %= len(subtask.handle.segments) - 1
        subtask.merge(start, start + length)
    rebuilt = Worker()
    subtask.begin(rebuilt)
    rebuilt.backend.scope.slot = "a"
    assert list(rebuilt.map.items()) == kept
