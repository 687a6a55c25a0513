"""Whatever is lost, rolled back, rebuilt, merged or split: heap, RocksDB and plain dictionaries say the same."""

from __future__ import annotations

import copy
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.state.backend_settings import RocksSettings
from beadline.state.key_groups import encode_key
from beadline.state.rocks import store as rocks_store
from tests.nightly import NIGHTLY
from tests.state.contract.subject import ANY, HEAP, ROCKSDB, Step, Subject, let_go

pytest.importorskip("rocksdict")

STATES = (ValueStateDescriptor("value", ANY), ListStateDescriptor("list", ANY), MapStateDescriptor("map", ANY, ANY))
KEYS = ["a", 3, (1, "x")]


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


def perform(step: Step, model: Model, what: str, key: Any, *given: Any) -> None:
    """Do one thing to both, and compare what they say."""
    step.at(key)
    match what:
        case "update":
            step["value"].update(copy.deepcopy(given[0]))
            model.values[key] = copy.deepcopy(given[0])
        case "touch":  # a change in place, without update()
            live = step["value"].value()
            if isinstance(live, list):
                live.append("touched")
                model.values[key].append("touched")
        case "clear":
            step["value"].clear()
            model.values.pop(key, None)
        case "add":
            step["list"].add(given[0])
            model.lists.setdefault(key, []).append(given[0])
        case "update_list":
            step["list"].update(given[0])
            model.lists[key] = list(given[0])
        case "clear_list":
            step["list"].clear()
            model.lists.pop(key, None)
        case "put":
            step["map"].put(*given)
            model.maps.setdefault(key, {})[given[0]] = given[1]
        case "put_all":
            step["map"].put_all(given[0])
            model.maps.setdefault(key, {}).update(given[0])
        case "remove":
            step["map"].remove(given[0])
            model.maps.get(key, {}).pop(given[0], None)
        case "clear_map":
            step["map"].clear()
            model.maps.pop(key, None)
        case "register":
            step.timers.register(given[0], key)
            model.timers.add((given[0], key))
        case "delete":
            step.timers.delete(given[0], key)
            model.timers.discard((given[0], key))
        case "fire":
            assert list(step.timers.due(given[0])) == model.due(given[0])
    compare(step, model, key)


def compare(step: Step, model: Model, key: Any) -> None:
    step.at(key)
    assert step["value"].value() == model.values.get(key)
    assert list(step["list"].get()) == model.lists.get(key, [])
    entries = model.maps.get(key, {})
    assert dict(step["map"].items()) == entries
    assert set(step["map"].keys()) == set(entries)
    assert len(list(step["map"].values())) == len(entries)
    assert step["map"].is_empty() == (not entries)
    for name in ("k", "l", 5, ("m", 1), "never put"):
        assert step["map"].contains(name) == (name in entries)
        assert step["map"].get(name) == entries.get(name)
    assert step.timers.first() == min((t for t, _ in model.timers), default=None)


def spoil_what_was_read(step: Step) -> None:
    """What an attempt that comes to nothing does to objects it was given."""
    for key in KEYS:
        here = step.at(key)
        for item in (here["value"].value(), *here["list"].get(), *here["map"].values()):
            if isinstance(item, list):
                item.append("spoilt")
            elif isinstance(item, tuple):
                item[1].append("spoilt")


def random_event(chance: random.Random) -> tuple[Any, ...]:
    what = chance.choices(["step", "merge", "lose", "roll_back"], [20, 4, 1, 1])[0]
    if what == "merge":
        return what, chance.randrange(10), chance.randrange(2, 6)
    if what == "lose":
        return what, chance.randrange(2)
    if what == "roll_back":
        return what, chance.randrange(5)
    fate = chance.choice(["sealed", "sealed", "sealed", "lost", "failed"])
    return what, chance.randrange(2), fate, [random_operation(chance) for _ in range(chance.randrange(9))]


def random_operation(chance: random.Random) -> tuple[Any, ...]:
    def any_value() -> Any:
        return chance.choice([chance.randrange(10), "text", [chance.randrange(10)], [], (1, [2])])

    name = chance.choice(["k", "l", 5, ("m", 1)])
    what, *more = chance.choice(
        [
            *[("update", any_value()), ("touch",), ("touch",), ("clear",)],
            *[("add", any_value()), ("add", any_value()), ("clear_list",)],
            ("update_list", [any_value() for _ in range(chance.randrange(3))]),
            *[("put", name, any_value()), ("put", name, any_value()), ("remove", name), ("clear_map",)],
            ("put_all", {name: any_value(), "k": any_value()}),
            *[("register", chance.randrange(7)), ("register", chance.randrange(7)), ("delete", chance.randrange(7))],
            *[("fire", chance.randrange(7)), ("look",)],
        ]
    )
    return what, chance.choice(KEYS), *more


class Trio:
    """Two workers with a heap, two with RocksDB, and a model of one subtask."""

    def __init__(self, folder: Path, rocks: RocksSettings | None = None) -> None:
        self.workers = [
            [Subject(kind, "kept", folder, STATES, name=f"{kind}-{number}", rocks=rocks) for number in range(2)]
            for kind in (HEAP, ROCKSDB)
        ]
        self.model = Model()
        self.handle = self.workers[0][0].handle
        self.past = [(self.handle, copy.deepcopy(self.model))]

    def step(self, number: int, fate: str, operations: list[Any]) -> None:
        handles = []
        for pair in self.workers:
            attempt, subject = copy.deepcopy(self.model), pair[number]
            subject.handle = self.handle
            with subject.step(fate=fate) as step:
                for what, key, *more in operations:
                    perform(step, attempt, what, key, *more)
                if fate != "sealed":
                    spoil_what_was_read(step)
            handles.append(subject.handle)
        assert handles[0].version == handles[1].version
        if fate == "sealed":
            self.model, self.handle = attempt, handles[0]
            self.past.append((self.handle, copy.deepcopy(self.model)))

    def merge(self, start: int, length: int) -> None:
        subject, segments = self.workers[0][0], len(self.handle.segments)
        if segments > 1:
            subject.handle = self.handle
            subject.merge(start % (segments - 1), start % (segments - 1) + length)
            self.handle = subject.handle

    def lose(self, number: int) -> None:
        for pair in self.workers:
            pair[number].lose(files=bool(number))

    def roll_back(self, number: int) -> None:
        self.handle, model = self.past[max(0, len(self.past) - 1 - number)]
        self.model = copy.deepcopy(model)

    def check(self) -> None:
        for pair in self.workers:
            for subject in pair:
                subject.handle = self.handle
                with subject.step(fate="lost") as step:
                    for key in KEYS:
                        compare(step, self.model, key)

    def check_split_by_key_group(self, subject: Subject) -> None:
        """Two subtasks that share the key groups hold all of the state, each its own part."""
        found: dict[str, list[Any]] = {"value": [], "list": [], "map": []}
        timers = 0
        for part in subject.rescaled(2, name=f"{subject.name}-split"):
            for name, into in found.items():
                into += part.stored(name, name)
            timers += sum(map(len, part.stored("_event-timers", "timer").values()))
            part.close()
        expected = {
            "value": list(self.model.values),
            "list": [key for key, items in self.model.lists.items() if items],
            "map": [key for key, entries in self.model.maps.items() if entries],
        }
        for name, keys in found.items():
            assert sorted(keys, key=encode_key) == sorted(expected[name], key=encode_key)
        assert timers == len(self.model.timers)

    def live_through(self, events: list[Any]) -> None:
        for what, *more in events:
            getattr(self, what)(*more)
        self.check()
        for pair in self.workers:
            self.check_split_by_key_group(pair[0])
        for number in (0, 1):
            self.lose(number)
        self.check()
        self.lose(1)


@settings(max_examples=60 if NIGHTLY else 5)
@given(st.randoms(use_true_random=False), st.integers(4, 12))
def test_all_three_agree(chance: random.Random, events: int) -> None:
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        Trio(folder).live_through([random_event(chance) for _ in range(events)])
    finally:
        let_go(folder)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", ["own", "own, little memory", "own, then common", "common"])
def test_all_three_agree_over_a_long_life(folder: Path, seed: int, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "little" in shape:  # a few values, so that they are written and forgotten all the time
        monkeypatch.setattr(rocks_store, "_LEAST_REMEMBERED", 1000)
        monkeypatch.setattr(rocks_store, "_REMEMBERED_PART", 1 << 30)
    own_bytes = {"own, then common": 3000, "common": 0}.get(shape, 1 << 20)
    chance = random.Random(seed)
    trio = Trio(folder, RocksSettings(own_bytes=own_bytes))
    trio.live_through([random_event(chance) for _ in range(120)])
