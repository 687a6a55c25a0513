"""Snapshots are taken, merged and restored while the subtask goes on writing; and parts become a whole again."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.state.key_groups import key_group_of, key_group_range
from beadline.state.segments.version import KeyedStateHandle, root_version
from tests.state.contract.subject import ANY, Make, Step, Subject

STATES = (ValueStateDescriptor("v", ANY), ListStateDescriptor("l", ANY), MapStateDescriptor("m", ANY, ANY))
KEYS = [f"k{number}" for number in range(12)]


def write(step: Step, turn: int, keys: list[str] = KEYS) -> None:
    for key in keys:
        here = step.at(key)
        here["v"].update({"turn": turn})
        here["l"].add(turn)
        here["m"].put(turn % 4, turn)
        step.timers.register(turn, key)


def expected(turns: int) -> dict[str, Any]:
    """What :func:`write` leaves after so many turns, in closed form."""
    entries = {turn % 4: turn for turn in range(turns)}
    return {
        "v": {key: {"turn": turns - 1} for key in KEYS},
        "l": {key: list(range(turns)) for key in KEYS},
        "m": dict.fromkeys(KEYS, entries),
        "t": {turn: set(KEYS) for turn in range(turns)},
    }


def held(subjects: list[Subject]) -> dict[str, Any]:
    found: dict[str, Any] = {"v": {}, "l": {}, "m": {}, "t": {}}
    for subject in subjects:
        for name, kind in (("v", "value"), ("l", "list"), ("m", "map")):
            part = subject.stored(name, kind)
            assert not part.keys() & found[name].keys()
            found[name] |= part
        for time, slots in subject.stored("_event-timers", "timer").items():
            found["t"].setdefault(time, set()).update(slots)
    return found


def lived(make: Make, turns: int, **options: Any) -> Subject:
    subject = make(*STATES, **options)
    for turn in range(turns):
        with subject.step() as step:
            write(step, turn)
    return subject


def restored(make: Make, subject: Subject, handle: KeyedStateHandle, name: str) -> Subject:
    return make(*STATES, handle=handle, name=name, max_parallelism=subject.max_parallelism)


def test_a_snapshot_taken_in_the_middle_of_a_step_is_the_step_before(make: Make) -> None:
    subject = lived(make, 3)
    with subject.step() as step:
        write(step, 3, KEYS[:6])
        snapshot = subject.handle
        other = restored(make, subject, snapshot, "restored")
        assert held([other]) == expected(3)
        write(step, 3, KEYS[6:])
    assert held([subject]) == expected(4)
    assert held([restored(make, subject, snapshot, "again")]) == expected(3)


def test_a_snapshot_stays_what_it_was_while_the_job_goes_on(make: Make) -> None:
    subject = lived(make, 1)
    snapshots = [subject.handle]
    for turn in range(1, 6):
        with subject.step() as step:
            write(step, turn)
        snapshots.append(subject.handle)
    subject.merge(0, 4)
    for turn, snapshot in enumerate(snapshots):
        assert held([restored(make, subject, snapshot, f"after-{turn}")]) == expected(turn + 1)


def test_segments_are_merged_while_steps_go_on(make: Make) -> None:
    """The merge works on the handle of its beginning; its result takes its place in the handle of its end."""
    subject = lived(make, 5)
    beside = restored(make, subject, subject.handle, "beside")
    for turn in (5, 6, 7):
        with subject.step() as step:
            write(step, turn)
    beside.merge(1, 4)
    (merged,) = (segment for segment in beside.handle.segments if segment not in subject.handle.segments)
    subject.handle = subject.handle.replacing(1, 4, merged)
    assert held([subject]) == expected(8)
    with subject.step() as step:
        write(step, 8)
    assert held([subject]) == expected(9)


def rescaled(make: Make, parts: list[Subject], parallelism: int, name: str) -> list[Subject]:
    """New subtasks, each over what it needs of the former ones' segments."""
    made = []
    for subtask in range(parallelism):
        groups = key_group_range(subtask, parallelism, parts[0].max_parallelism)
        segments = [
            segment.restricted(part.groups).restricted(groups)
            for part in parts
            if range(max(part.groups.start, groups.start), min(part.groups.stop, groups.stop))
            for segment in part.handle.segments
        ]
        handle = KeyedStateHandle(root_version(name, "op", groups), tuple(segments))
        options = {"subtask": subtask, "parallelism": parallelism, "max_parallelism": parts[0].max_parallelism}
        made.append(make(*STATES, handle=handle, name=name, **options))
    return made


@pytest.mark.parametrize("max_parallelism", [13, 128])
@pytest.mark.parametrize("route", [(2, 4, 3, 1), (4, 3, 2), (13, 5, 7)])
def test_up_and_down_and_unevenly(make: Make, max_parallelism: int, route: tuple[int, ...]) -> None:
    parts = [lived(make, 2, max_parallelism=max_parallelism)]
    for turn, parallelism in enumerate(route, 2):
        parts = rescaled(make, parts, parallelism, f"turn-{turn}")
        for part in parts:
            mine = [key for key in KEYS if key_group_of(key, max_parallelism) in part.groups]
            with part.step() as step:
                write(step, turn, mine)
    assert held(parts) == expected(2 + len(route))
