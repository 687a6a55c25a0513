"""Whatever happens to steps, workers and segments: heap, RocksDB and plain dictionaries say the same."""

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
from beadline.state.rocks import store as rocks_store
from tests.state.access.test_state_model import KEYS, Model, compare, event, perform, random_event
from tests.state.contract.subject import ANY, HEAP, ROCKSDB, Step, Subject, let_go

pytest.importorskip("rocksdict")

STATES = (ValueStateDescriptor("value", ANY), ListStateDescriptor("list", ANY), MapStateDescriptor("map", ANY, ANY))


class Side:
    """A step in the shape that the model's operations want."""

    def __init__(self, step: Step) -> None:
        self.backend = step.backend
        self.value, self.list, self.map = step["value"], step["list"], step["map"]


class Trio:
    """A heap, a RocksDB and a model of one subtask."""

    def __init__(self, folder: Path, rocks: RocksSettings | None = None) -> None:
        self.heap = Subject(HEAP, "kept", folder, STATES, name="heap")
        self.rocks = Subject(ROCKSDB, "kept", folder, STATES, name="rocks", rocks=rocks)
        self.model = Model()
        self.past = [(self.heap.handle, copy.deepcopy(self.model))]

    def step(self, fate: str, operations: list[Any]) -> None:
        attempt = copy.deepcopy(self.model)
        for subject in (self.heap, self.rocks):
            attempt = copy.deepcopy(self.model)
            with subject.step(fate=fate) as step:
                for what, slot, *more in operations:
                    perform(Side(step), attempt, what, slot, *more)  # type: ignore[arg-type]
        assert self.heap.handle.version == self.rocks.handle.version
        if fate == "sealed":
            self.model = attempt
            self.past.append((self.heap.handle, copy.deepcopy(self.model)))

    def merge(self, start: int, length: int) -> None:
        if len(self.heap.handle.segments) > 1:
            start %= len(self.heap.handle.segments) - 1
            self.heap.merge(start, start + length)
            self.rocks.handle = self.heap.handle

    def lose(self, number: int) -> None:
        self.heap.lose()
        self.rocks.lose(files=bool(number))

    def roll_back(self, number: int) -> None:
        handle, model = self.past[max(0, len(self.past) - 1 - number)]
        self.heap.handle = self.rocks.handle = handle
        self.model = copy.deepcopy(model)

    def check(self) -> None:
        for subject in (self.heap, self.rocks):
            with subject.step(fate="lost") as step:
                for slot in KEYS:
                    compare(Side(step), self.model, slot)  # type: ignore[arg-type]

    def live_through(self, events: list[Any]) -> None:
        for what, *more in events:
            if what == "step":
                self.step(more[1], more[2])
            elif what == "merge":
                self.merge(*more)
            elif what == "crash":
                self.lose(more[0])
            else:
                self.roll_back(more[0])
        self.check()
        self.lose(1)
        self.check()
        self.lose(1)


def in_memory() -> Path:
    return Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


@settings(max_examples=25)
@given(st.lists(event, min_size=4, max_size=12))
def test_all_three_agree(events: list[Any]) -> None:
    folder = in_memory()
    try:
        Trio(folder).live_through(events)
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
    trio.live_through([random_event(chance) for _ in range(80)])
