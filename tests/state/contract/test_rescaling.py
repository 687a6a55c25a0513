"""Other parallelisms and other backends over the same segments."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.state.key_groups import key_group_of
from tests.state.contract.subject import ANY, HEAP, ROCKSDB, Make, Subject

VALUE = ValueStateDescriptor("v", ANY)
LIST = ListStateDescriptor("l", ANY)
MAP = MapStateDescriptor("m", ANY, ANY)
KEYS: list[Any] = [f"key-{number}" for number in range(40)] + [1, ("t", 2)]


def filled(make: Make, max_parallelism: int, **options: Any) -> Subject:
    subject = make(VALUE, LIST, MAP, max_parallelism=max_parallelism, **options)
    for turn in range(3):
        with subject.step() as step:
            for number, key in enumerate(KEYS):
                here = step.at(key)
                here["v"].update((turn, number))
                here["l"].add(turn)
                here["m"].put(turn, number)
                step.timers.register(10 * turn + number, key)
    return subject


def everything(subjects: list[Subject]) -> dict[Any, Any]:
    """All state of some subtasks by key; a key that two of them have is an error."""
    found: dict[Any, Any] = {}
    timers: dict[Any, list[int]] = {}
    for subject in subjects:
        for timestamp, slots in subject.stored("_event-timers", "timer").items():
            for slot in slots:
                timers.setdefault(slot, []).append(timestamp)
        lists, maps = subject.stored("l", "list"), subject.stored("m", "map")
        for key, value in subject.stored("v", "value").items():
            assert key not in found
            assert key_group_of(key, subject.max_parallelism) in subject.groups
            found[key] = (value, lists.pop(key), maps.pop(key), sorted(timers.pop(key)))
        assert not lists
        assert not maps
        assert not timers
    return found


EXPECTED = {
    key: ((2, number), [0, 1, 2], dict.fromkeys(range(3), number), [10 * turn + number for turn in range(3)])
    for number, key in enumerate(KEYS)
}


@pytest.mark.parametrize("max_parallelism", [13, 128])
@pytest.mark.parametrize("parallelism", [1, 2, 3, 4, 13])
def test_subtasks_share_the_key_groups(make: Make, max_parallelism: int, parallelism: int) -> None:
    subject = filled(make, max_parallelism)
    parts = subject.rescaled(parallelism)
    assert everything(parts) == EXPECTED
    for part in parts:
        part.close()


@pytest.mark.parametrize("merged", [False, True])
def test_a_part_goes_on_by_itself(make: Make, merged: bool) -> None:
    subject = filled(make, 13)
    if merged:
        subject.merge()
    parts = subject.rescaled(3)
    for part in parts:
        with part.step() as step:
            for number, key in enumerate(KEYS):
                if key_group_of(key, 13) in part.groups:
                    assert step.at(key)["v"].value() == (2, number)
                    step["v"].update((3, number))
                    step["l"].update([3])
                    step["m"].remove(0)
                    step.timers.delete(number, key)
    expected = {
        key: ((3, number), [3], {1: number, 2: number}, [10 + number, 20 + number]) for number, key in enumerate(KEYS)
    }
    assert everything(parts) == expected
    for part in parts:
        part.close()


@pytest.mark.parametrize("route", [(HEAP, ROCKSDB, HEAP), (ROCKSDB, HEAP, ROCKSDB)])
def test_from_backend_to_backend(make: Make, route: tuple[str, ...]) -> None:
    pytest.importorskip("rocksdict")
    subject = make(VALUE, LIST, MAP)
    for turn in range(9):
        if turn % 3 == 0:
            subject.close()
            subject = subject.switched(route[turn // 3])
        with subject.step() as step:
            for key in KEYS[:10]:
                here = step.at(key)
                assert here["v"].value() == (turn - 1 if turn else None)
                here["v"].update(turn)
                here["l"].add([turn])
                here["m"].put(turn, (turn, [turn]))
                here["m"].remove(turn - 3)
                step.timers.register(turn, key)
            assert [time for time, _ in step.timers.due(turn - 2)] == ([turn - 2] * 10 if turn > 1 else [])
        if turn == 4:
            subject.merge()
    expected = (8, [[turn] for turn in range(9)], {turn: (turn, [turn]) for turn in (6, 7, 8)}, [7, 8])
    assert everything([subject]) == dict.fromkeys(KEYS[:10], expected)
    subject.close()


def test_both_backends_write_the_same_segments(make: Make) -> None:
    """Not only the same state: byte for byte the same versions."""
    subject = filled(make, 13)

    def on_the_heap(*descriptors: Any, **options: Any) -> Subject:
        return Subject(HEAP, "kept", subject.folder, descriptors, **options)

    plain = filled(on_the_heap, 13)
    assert [segment.version for segment in subject.handle.segments] == [
        segment.version for segment in plain.handle.segments
    ]
