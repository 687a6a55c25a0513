"""A handle whose segments are Parquet files: every backend goes on from it, at any parallelism."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from beadline.api.state_ttl import StateTtlConfig
from beadline.common.time import Time
from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import Types
from beadline.state.description import StateDescription
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.merging import merged
from beadline.state.segments.segment import SegmentContent
from beadline.state.segments.version import KeyedStateHandle, SegmentRef, next_version
from tests.state.contract.subject import ANY, Make, Subject
from tests.state.parquet_files import encode_parquet

LONG, STRING = Types.LONG(), Types.STRING()
ROW = Types.ROW_NAMED(["n", "t"], [LONG, STRING])
TYPES = {
    "value": type_to_text(ROW),
    "list": '"LONG"',
    "map": '"STRING"',
    "window": '"LONG"',
    "any": "",
    "short": '"LONG"',
    "by_number": '"LONG"',
}
KEYS = [*range(20), "text", ("t", 1)]


def short_lived() -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor("short", LONG)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
    return descriptor


def full(make: Make) -> Subject:
    """A subtask with something in every kind of state, written in three steps."""
    subject = make(
        ValueStateDescriptor("value", ROW),
        ListStateDescriptor("list", LONG),
        MapStateDescriptor("map", LONG, STRING),
        ValueStateDescriptor("any", ANY),
        short_lived(),
        windowed=[ValueStateDescriptor("window", LONG)],
    )
    for round_number in range(3):
        with subject.step(now=round_number) as step:
            for number, key in enumerate(KEYS):
                at = step.at(key, (number, number + 10))
                at["value"].update((number, str(round_number)))
                at["list"].add(number * round_number)
                at["map"].put(round_number, str(key))
                at["window"].update(number)
                at["any"].update([key, {round_number}])
                at["short"].update(number)
                step.timers.register(round_number * 100 + number, (key, (number, number + 10)))
            step.at(KEYS[round_number])["value"].clear()
    return subject


def as_parquet(subject: Subject, files: SegmentFiles | None = None, map_key_type: str = '"LONG"') -> Subject:
    """The same subtask, of which a savepoint has written everything as one file a state.

    :param files: where to keep the files; with the handle if it is not said
    """
    content: SegmentContent = {}
    handle = subject.handle
    for _, part in merged(handle.segments, subject.groups, 1 << 30):
        content.update(part)
    written = KeyedStateHandle(handle.root)
    for name, table in content.items():
        description = StateDescription(
            name, table.kind, TYPES.get(name, ""), map_key_type, namespaced=table.namespaced, ttl_ms=table.ttl_ms
        )
        data = encode_parquet(table, description, LONG, subject.max_parallelism)
        version, entries = next_version(written.version, data), len(table.changes)
        if files is None:
            written = written.plus(SegmentRef(version, entries, len(data), inline=data))
        else:
            written = written.plus(files.store(f"{version}.parquet", data, version, entries))
    other = subject.switched(subject.settings.kind)
    other.name, other.handle = f"{subject.name}-parquet", written
    return other


def everything(subject: Subject) -> dict[str, Any]:
    tables = [("value", "value"), ("list", "list"), ("map", "map"), ("any", "value"), ("short", "value")]
    found: dict[str, Any] = {name: subject.stored(name, kind) for name, kind in tables}
    found["window"] = subject.stored("window", "value", True)
    timers = subject.stored("_event-timers", "timer", True)
    found["timers"] = {timestamp: set(slots) for timestamp, slots in timers.items()}
    return found


def test_everything_is_there(make: Make) -> None:
    subject = full(make)
    restored = as_parquet(subject)
    assert everything(restored) == everything(subject)
    assert len(restored.stored("value", "value")) == len(KEYS) - 1, "one was cleared in the last step"
    restored.close()


@pytest.mark.parametrize("lifetime", [None, 1000])
def test_nan_is_one_map_key_in_a_savepoint_too(make: Make, lifetime: int | None) -> None:
    descriptor = MapStateDescriptor("by_number", Types.DOUBLE(), LONG)
    if lifetime is not None:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(lifetime)).build())
    subject = make(descriptor)
    for number in range(3):
        with subject.step() as step:
            step.at(1)["by_number"].put_all({float("nan"): number, 0.5: number})
    restored = as_parquet(subject, map_key_type='"DOUBLE"')
    with restored.step() as step:
        state = step.at(1)["by_number"]
        assert sorted(state.values()) == [2, 2]
        state.put(float("nan"), 5)
        assert sorted(state.values()) == [2, 5]
    restored.close()


def test_large_files_are_loaded_a_row_group_at_a_time(
    make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for backend in ("heap", "rocks"):
        monkeypatch.setattr(f"beadline.state.{backend}.store._BLOCKWISE_BYTES", 1)
    monkeypatch.setattr("beadline.state.parquet.segment._GROUP_ROWS", 4)
    subject = full(make)
    restored = as_parquet(subject, SegmentFiles(str(folder)))
    assert everything(restored) == everything(subject)
    assert restored.reads == 0, "no file was read as a whole"
    restored.close()


def test_it_goes_on_and_is_merged(make: Make) -> None:
    subject = full(make)
    restored = as_parquet(subject)
    for one in (subject, restored):
        with one.step(now=5) as step:
            step.at(3)["value"].clear()
            step.at(4)["list"].add(99)
            step.at(5)["map"].remove(1)
            step.at(5)["map"].put(7, "new")
    assert everything(restored) == everything(subject)
    restored.merge(now=5)
    subject.merge(now=5)
    restored.lose()
    assert everything(restored) == everything(subject)
    restored.close()


def test_it_is_restored_at_another_parallelism(make: Make) -> None:
    subject = full(make)
    expected = everything(subject)
    for parallelism in (2, 3):
        gathered: dict[str, Any] = {name: {} for name in expected}
        for part in as_parquet(subject).rescaled(parallelism, name=f"wide-{parallelism}"):
            for name, found in everything(part).items():
                for slot, value in found.items():
                    if name == "timers":
                        gathered[name].setdefault(slot, set()).update(value)
                    else:
                        assert slot not in gathered[name]
                        gathered[name][slot] = value
            part.close()
        assert gathered == expected


def test_only_its_own_key_groups_of_a_file_count(make: Make) -> None:
    restored = as_parquet(full(make))
    segments = tuple(replace(segment, groups=(0, 8)) for segment in restored.handle.segments)
    restored.handle = KeyedStateHandle(restored.handle.root, segments)
    half = everything(restored)
    assert 0 < len(half["value"]) < len(KEYS) - 1
    restored.close()
