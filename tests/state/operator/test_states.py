"""Operator state: what it holds, how it is stored, and how it is dealt out to another number of subtasks."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beadline.api.state_descriptors import ListStateDescriptor, MapStateDescriptor
from beadline.api.state_ttl import StateTtlConfig
from beadline.common.time import Time
from beadline.common.typeinfo import Types
from beadline.errors import SerializationError, StateAccessError, StateMismatchError, TypeMismatchError, VersionError
from beadline.runtime.operators.broadcast import ReadOnlyView
from beadline.state.codec import freeze, register_state_class
from beadline.state.operator import handles
from beadline.state.operator.handles import (
    KEYED_RAW,
    LIST,
    RAW,
    UNION,
    OperatorStateHandle,
    StateContent,
    StateRef,
    decode,
    encode,
    redistribute,
    redistribute_handles,
    with_unions,
)
from beadline.state.operator.states import OperatorStateBackend
from beadline.state.segments.files import SegmentFiles, read_segment
from beadline.state.segments.version import SegmentRef

ANY = Types.PICKLED_BYTE_ARRAY()
NUMBERS = ListStateDescriptor("numbers", Types.LONG())
THINGS = ListStateDescriptor("things", ANY)
RULES = MapStateDescriptor("rules", Types.STRING(), ANY)
RULES_BY_NUMBER = MapStateDescriptor("by number", Types.DOUBLE(), ANY)


def inline(data: bytes, entries: int, mode: str) -> SegmentRef:
    return SegmentRef(handles.digest_of(data), entries, len(data), inline=data)


def refuse(data: bytes, entries: int, mode: str) -> SegmentRef:
    raise AssertionError("nothing has changed")


def restored(handle: OperatorStateHandle | None) -> OperatorStateBackend:
    backend = OperatorStateBackend("op")
    backend.load(handle)
    return backend


# -- one subtask


def test_a_list_comes_back() -> None:
    backend = restored(None)
    state = backend.list_state(NUMBERS)
    assert list(state.get()) == []
    state.add(1)
    state.add_all([2, 3])
    again = restored(backend.store(inline)).list_state(NUMBERS)
    assert list(again) == [1, 2, 3]
    again.update([7])
    assert list(again.get()) == [7]
    again.clear()
    assert list(again.get()) == []


def test_a_list_has_values_of_its_own() -> None:
    backend = restored(None)
    state = backend.list_state(THINGS)
    thing = {"a": [1]}
    state.add(thing)
    thing["a"].append(2)
    (seen,) = state.get()
    assert seen == {"a": [1]}
    seen["a"].append(3)
    assert list(restored(backend.store(inline)).list_state(THINGS)) == [{"a": [1]}]


def test_a_map_comes_back_in_its_order() -> None:
    backend = restored(None)
    state = backend.broadcast_state(RULES)
    state.put_all({"b": 1, "a": [2]})
    state["c"] = None
    del state["b"]
    state.put("b", 4)
    again = restored(backend.store(inline)).broadcast_state(RULES)
    assert list(again.items()) == [("a", [2]), ("c", None), ("b", 4)]
    assert (list(again.keys()), list(again.values())) == (["a", "c", "b"], [[2], None, 4])
    assert "c" in again
    assert again.get("c") is None
    assert not again.is_empty()
    again.clear()
    assert again.is_empty()


def test_nan_is_one_key_of_broadcast_state() -> None:
    backend = restored(None)
    state = backend.broadcast_state(RULES_BY_NUMBER)
    for number in range(3):
        state.put(float("nan"), number)
    assert [repr(item) for item in state.items()] == ["(nan, 2)"]
    again = restored(backend.store(inline)).broadcast_state(RULES_BY_NUMBER)
    view = ReadOnlyView(again, "op")
    assert (again.get(float("nan")), view.get(float("nan")), float("nan") in again) == (2, 2, True)
    again.remove(float("nan"))
    assert again.is_empty()
    assert view.get(float("nan")) is None


def test_a_map_has_keys_and_values_of_its_own() -> None:
    backend = restored(None)
    state = backend.broadcast_state(RULES)
    rule = [1]
    state.put("a", rule)
    rule.append(2)
    state.get("a").append(3)
    for value in state.values():
        value.append(4)
    state.look("a").append(5)
    assert state.look("a") == [1, 5], "looks share a copy until the step ends"
    assert state.changed_in_place() == ["a"]
    assert state.look("a") == [1]
    assert state.changed_in_place() == []
    assert restored(backend.store(inline)).broadcast_state(RULES).get("a") == [1]


def test_values_whose_pickles_vary_are_not_taken_for_changed() -> None:
    backend = restored(None)
    backend.broadcast_state(RULES).put("a", {f"name {i}" for i in range(50)})
    state = restored(backend.store(inline)).broadcast_state(RULES)
    assert len(state.look("a")) == 50
    assert state.changed_in_place() == []


def test_what_has_not_changed_is_not_stored_again() -> None:
    backend = restored(None)
    backend.list_state(NUMBERS).update([1, 2])
    backend.broadcast_state(RULES).put("a", [1])
    first = backend.store(inline)
    backend.list_state(NUMBERS).update([1, 2])
    backend.broadcast_state(RULES).look("a")
    backend.broadcast_state(RULES).remove("b")
    assert backend.store(refuse).version == first.version
    backend.list_state(NUMBERS).add(3)
    changed: list[str] = []

    def keep(data: bytes, entries: int, mode: str) -> SegmentRef:
        changed.append(mode)
        return inline(data, entries, mode)

    second = backend.store(keep)
    assert changed == [LIST]
    assert second.version != first.version
    assert second.states["rules"] == first.states["rules"]


def test_one_and_true_are_different_content() -> None:
    one, true = restored(None), restored(None)
    one.list_state(THINGS).update([1])
    true.list_state(THINGS).update([True])
    assert one.store(inline).version != true.store(inline).version


def test_a_backend_goes_back_to_a_version() -> None:
    backend = restored(None)
    state, rules = backend.list_state(NUMBERS), backend.broadcast_state(RULES)
    state.add(1)
    rules.put("a", [1])
    first = backend.store(inline)
    state.add(2)
    rules.put("b", [2])
    second = backend.store(inline)
    backend.load(first)
    backend.load(second)
    assert list(state.get()) == [1, 2]
    backend.load(first)
    assert list(state.get()) == [1]
    assert list(rules.items()) == [("a", [1])]
    backend.load(None)
    assert list(state.get()) == []
    assert rules.is_empty()
    assert backend.store(inline).version != first.version


def test_states_that_the_program_does_not_ask_for_are_kept() -> None:
    old = restored(None)
    old.list_state(NUMBERS).update([1])
    old.list_state(ListStateDescriptor("old", Types.LONG())).update([5])
    handle = old.store(inline)
    backend = restored(handle)
    backend.list_state(NUMBERS).update([2])
    new = backend.store(inline)
    assert new.states["old"] == handle.states["old"]
    assert list(restored(new).list_state(ListStateDescriptor("old", Types.LONG()))) == [5]


def test_elements_are_converted_and_checked() -> None:
    backend = restored(None)
    with pytest.raises(TypeMismatchError, match=r"state 'numbers'.*'x'"):
        backend.list_state(NUMBERS).add("x")
    with pytest.raises(TypeMismatchError, match="can't hold None"):
        backend.list_state(NUMBERS).update([None])
    with pytest.raises(StateAccessError, match="a key must be hashable, got list"):
        backend.broadcast_state(MapStateDescriptor("any", ANY, ANY)).put([1], 1)
    with pytest.raises(SerializationError, match="can't be pickled"):
        backend.list_state(THINGS).add(threading.Lock())


def test_two_states_need_two_names() -> None:
    backend = restored(None)
    backend.list_state(NUMBERS)
    assert backend.list_state(NUMBERS) is backend.list_state(NUMBERS)
    with pytest.raises(
        StateAccessError, match=r"'numbers' is already registered as a list state .* a union list state"
    ):
        backend.list_state(NUMBERS, UNION)
    with pytest.raises(StateAccessError, match="already registered with the type"):
        backend.list_state(ListStateDescriptor("numbers", Types.STRING()))
    with pytest.raises(StateAccessError, match="two functions of it have an operator state 'numbers'"):
        backend.list_state(NUMBERS, owner=object())
    with pytest.raises(
        StateAccessError, match="already registered as a list state and is now asked for as a broadcast"
    ):
        backend.broadcast_state(MapStateDescriptor("numbers", ANY, ANY))
    with pytest.raises(TypeMismatchError, match="a ListStateDescriptor is needed"):
        backend.list_state(RULES)  # type: ignore[arg-type]


def test_a_state_keeps_the_mode_it_was_stored_with() -> None:
    backend = restored(None)
    backend.list_state(NUMBERS).update([1])
    message = "is a union list state in the program and a list state in the snapshot"
    with pytest.raises(StateMismatchError, match=message):
        restored(backend.store(inline)).list_state(NUMBERS, UNION)


def test_operator_state_does_not_expire() -> None:
    descriptor = ListStateDescriptor("numbers", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    with pytest.raises(StateAccessError, match="can't have a time to live"):
        restored(None).list_state(descriptor)


# -- stored


class Stranger:
    def __reduce__(self) -> Any:
        return os.getenv, ("HOME",)


def test_damage_is_found() -> None:
    data = encode(StateContent(LIST, [1, (2, "x"), freeze(["y"])]))
    assert decode(data) == StateContent(LIST, [1, (2, "x"), freeze(["y"])])
    for position in range(8, len(data)):
        with pytest.raises(VersionError, match=r"checksum|cut short"):
            decode(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
    for length in range(len(data)):
        with pytest.raises(VersionError):
            decode(data[:length])


def test_a_strangers_state_runs_no_code() -> None:
    backend = restored(None)
    backend.list_state(THINGS).add(Stranger())
    handle = backend.store(inline)
    state = restored(handle).list_state(THINGS)
    with pytest.raises(SerializationError, match="getenv"):
        state.get()


def test_large_pieces_are_files_named_by_their_content(tmp_path: Path) -> None:
    files = SegmentFiles(str(tmp_path))
    data = encode(StateContent(LIST, list(range(1000))))
    assert handles.store(data, 1000, files, len(data)).inline == data
    ref = handles.store(data, 1000, files, len(data) - 1)
    assert handles.store(data, 1000, files, 0) == ref
    assert ref.inline is None
    assert [path.name for path in tmp_path.iterdir()] == [f"{handles.digest_of(data)}.state"]
    assert read_segment(ref) == data
    assert OperatorStateHandle({"x": StateRef(LIST, (ref,))}).paths == {ref.path}


# -- unions


def union_of(*lists: list[int]) -> list[OperatorStateHandle | None]:
    made: list[OperatorStateHandle | None] = []
    for numbers in lists:
        backend = restored(None)
        backend.list_state(NUMBERS, UNION).update(numbers)
        made.append(backend.store(inline))
    return made


def test_a_union_shows_everything_and_keeps_its_own() -> None:
    parts = union_of([1, 2], [3], [])
    for subtask, own in enumerate(([1, 2], [3], [])):
        sent = with_unions(parts, subtask)
        assert sent is not None
        assert sent.version == parts[subtask].version  # type: ignore[union-attr]
        backend = restored(sent)
        state = backend.list_state(NUMBERS, UNION)
        assert list(state.get()) == [1, 2, 3]
        assert backend.has_union
        assert backend.store(refuse).version == sent.version
        state.add(9)
        assert list(state.get()) == [1, 2, 3, 9]
        (part,) = backend.store(inline).states["numbers"].parts
        assert decode(read_segment(part)).items == [*own, 9]


def test_a_union_that_is_replaced_is_what_it_was_replaced_with() -> None:
    backend = restored(with_unions(union_of([1, 2], [3]), 0))
    state = backend.list_state(NUMBERS, UNION)
    state.update([*state.get(), 4])
    assert list(state.get()) == [1, 2, 3, 4]
    (part,) = backend.store(inline).states["numbers"].parts
    assert decode(read_segment(part)).items == [1, 2, 3, 4]


def test_a_union_that_nobody_asks_for_does_not_grow() -> None:
    parts = union_of([1, 2], [3])
    for _ in range(3):
        parts = [restored(with_unions(parts, i)).store(inline) for i in range(2)]
    assert list(restored(with_unions(parts, 0)).list_state(NUMBERS, UNION)) == [1, 2, 3]


# -- another parallelism

lists = st.lists(st.lists(st.integers(-99, 99), max_size=8), min_size=1, max_size=6)
parallelism = st.integers(1, 7)


def of(mode: str, *items: list[Any]) -> list[dict[str, StateContent]]:
    return [{"s": StateContent(mode, part)} for part in items]


def flat(parts: list[list[Any]]) -> list[Any]:
    return [item for part in parts for item in part]


@given(lists, parallelism)
def test_lists_are_split_evenly_and_in_order(items: list[list[int]], new: int) -> None:
    dealt = [states["s"].items for states in redistribute(of(LIST, *items), new)]
    assert flat(dealt) == flat(items)
    sizes = [len(part) for part in dealt]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True), "the longer ones first"


@given(st.lists(st.lists(st.integers(), max_size=8), min_size=3, max_size=5), parallelism)
def test_the_longer_parts_of_many_states_are_spread(items: list[list[int]], new: int) -> None:
    """Three states of four subtasks: nobody gets the additional element of all three."""
    states = [{name: StateContent(LIST, part) for name in "abc"} for part in items]
    dealt = redistribute(states, new)
    for name in "abc":
        assert Counter(flat([part[name].items for part in dealt])) == Counter(flat(items))
    totals = [sum(len(part[name].items) for name in "abc") for part in dealt]
    assert max(totals) - min(totals) <= 1


@given(st.lists(st.sampled_from([[b"one"], [b"two"], []]), min_size=1, max_size=6), parallelism)
def test_raw_bytes_of_a_subtask_stay_together(items: list[list[bytes]], new: int) -> None:
    dealt = [states["s"].items for states in redistribute(of(RAW, *items), new)]
    assert flat(dealt) == flat(items)


@given(st.integers(1, 5), parallelism)
def test_raw_bytes_by_key_group_follow_the_groups(old: int, new: int) -> None:
    items = [[(group, b"%d" % group) for group in range(16) if group * old // 16 == i] for i in range(old)]
    dealt = redistribute(of(KEYED_RAW, *items), new, max_parallelism=16)
    for subtask, states in enumerate(dealt):
        assert states["s"].items == [(g, b"%d" % g) for g in range(16) if g * new // 16 == subtask]


def test_a_state_has_one_mode_in_all_subtasks() -> None:
    with pytest.raises(VersionError, match="'s' is a list state in one subtask and a union state in another"):
        redistribute([*of(LIST, [1]), *of(UNION, [1])], 3)


@settings(max_examples=40)
@given(lists, st.lists(parallelism, min_size=1, max_size=4), st.sampled_from([0, 10_000]))
def test_handles_are_dealt_out_again_and_again(
    tmp_path_factory: pytest.TempPathFactory, items: list[list[int]], news: list[int], inline_limit: int
) -> None:
    """Whatever the way, nothing is lost or doubled, unions stay whole and no class of the user's is loaded."""
    files = SegmentFiles(str(tmp_path_factory.mktemp("state")))

    def keep(data: bytes, entries: int, mode: str) -> SegmentRef:
        return handles.store(data, entries, files, inline_limit)

    made: list[OperatorStateHandle] = []
    for numbers in items:
        backend = OperatorStateBackend("op")
        backend.load(None)
        backend.list_state(THINGS).update([Unloadable(n) for n in numbers])
        backend.list_state(NUMBERS, UNION).update(numbers)
        backend.broadcast_state(RULES).put_all({"a": [1], "b": 2})
        made.append(backend.store(keep))
    Unloadable.loadable = False
    try:
        for new in news:
            made = redistribute_handles(made, new, 128, files, inline_limit)
            assert len(made) == new
    finally:
        Unloadable.loadable = True
    things: list[Any] = []
    for subtask in range(len(made)):
        backend = OperatorStateBackend("op")
        backend.load(with_unions(made, subtask))
        things += [thing.number for thing in backend.list_state(THINGS)]
        assert sorted(backend.list_state(NUMBERS, UNION).get()) == sorted(flat(items))
        assert list(backend.broadcast_state(RULES).items()) == [("a", [1]), ("b", 2)]
    assert things == flat(items)


class Unloadable:
    """Something that only workers can unpickle."""

    loadable = True

    def __init__(self, number: int) -> None:
        self.number = number

    def __setstate__(self, state: dict[str, int]) -> None:
        assert self.loadable
        self.number = state["number"]


register_state_class(Unloadable)
