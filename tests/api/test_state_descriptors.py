"""Descriptors check what they are given, and carry it to the workers."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import pytest

from beadline.common.time import Time
from beadline.common.typeinfo import Types
from beadline.datastream.functions import AggregateFunction, ReduceFunction
from beadline.datastream.output_tag import OutputTag
from beadline.datastream.state import (
    AggregatingStateDescriptor,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from beadline.errors import ConfigurationError, TypeMismatchError


class Longest(ReduceFunction):
    def reduce(self, value1: str, value2: str) -> str:
        return max(value1, value2, key=len)


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


MAKERS = {
    "value": lambda name, type_info: ValueStateDescriptor(name, type_info),
    "list": lambda name, type_info: ListStateDescriptor(name, type_info),
    "map key": lambda name, type_info: MapStateDescriptor(name, type_info, Types.LONG()),
    "map value": lambda name, type_info: MapStateDescriptor(name, Types.LONG(), type_info),
    "reducing": lambda name, type_info: ReducingStateDescriptor(name, max, type_info),
    "aggregating": lambda name, type_info: AggregatingStateDescriptor(name, Count(), type_info),
}
each_kind = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@each_kind
def test_a_descriptor_has_a_name(make: Any) -> None:
    assert make("seen", Types.STRING()).get_name() == "seen"
    with pytest.raises(ConfigurationError, match="needs a name"):
        make("", Types.STRING())
    with pytest.raises(TypeMismatchError, match="must be a str, not int: 7"):
        make(7, Types.STRING())


@each_kind
@pytest.mark.parametrize("wrong", [None, str, "STRING", [Types.STRING()]])
def test_a_type_must_be_a_type_information(make: Any, wrong: Any) -> None:
    with pytest.raises(TypeMismatchError, match=r"'seen'.*must be a TypeInformation"):
        make("seen", wrong)


@each_kind
def test_forgotten_parentheses_are_named(make: Any) -> None:
    with pytest.raises(TypeMismatchError, match=r"Types\.STRING is missing its parentheses"):
        make("seen", Types.STRING)


def test_collections_know_the_type_of_the_whole_and_of_the_parts() -> None:
    names = ListStateDescriptor("names", Types.STRING())
    assert names.type_info == Types.LIST(Types.STRING())
    assert names.elem_type_info == Types.STRING()
    ages = MapStateDescriptor("ages", Types.STRING(), Types.INT())
    assert ages.type_info == Types.MAP(Types.STRING(), Types.INT())
    assert (ages.key_type_info, ages.value_type_info) == (Types.STRING(), Types.INT())


def test_reducing_state_takes_a_function_object_or_a_callable() -> None:
    longest = Longest()
    assert ReducingStateDescriptor("word", longest, Types.STRING()).get_reduce_function() is longest
    added = ReducingStateDescriptor("sum", operator.add, Types.LONG()).get_reduce_function()
    assert isinstance(added, ReduceFunction)
    assert added.reduce(2, 3) == 5


@pytest.mark.parametrize(("wrong", "message"), [(Longest, r"write Longest\(\)"), (5, "not int: 5"), (None, "NoneType")])
def test_reducing_state_refuses_what_it_cannot_call(wrong: Any, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        ReducingStateDescriptor("word", wrong, Types.STRING())


@pytest.mark.parametrize(("wrong", "message"), [(Count, r"write Count\(\)"), (max, "builtin_function")])
def test_aggregating_state_needs_an_aggregate_function(wrong: Any, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        AggregatingStateDescriptor("count", wrong, Types.LONG())


def test_time_to_live_is_off_until_it_is_enabled() -> None:
    descriptor = ValueStateDescriptor("seen", Types.LONG())
    assert descriptor.ttl_config is None
    hour = StateTtlConfig.new_builder(Time.hours(1)).build()
    descriptor.enable_time_to_live(hour)
    assert descriptor.ttl_config is hour
    assert "3600000 ms" in repr(descriptor)
    never = StateTtlConfig.new_builder(Time.hours(1)).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    descriptor.enable_time_to_live(never)
    assert descriptor.ttl_config is None
    with pytest.raises(TypeMismatchError, match=r"'seen'.*StateTtlConfig, not Time"):
        descriptor.enable_time_to_live(Time.hours(1))  # type: ignore[arg-type]


def test_descriptors_travel_to_the_workers() -> None:
    descriptor = ReducingStateDescriptor("sum", operator.add, Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(5)).build())
    arrived = pickle.loads(pickle.dumps(descriptor))
    assert (arrived.name, arrived.type_info, arrived.ttl_config) == ("sum", Types.LONG(), descriptor.ttl_config)
    assert arrived.get_reduce_function().reduce(1, 2) == 3


class DictState(MapState[str, int], BroadcastState[str, int]):  # type: ignore[misc]
    """Both kinds of map state over one dict."""

    def __init__(self) -> None:
        self.entries: dict[str, int] = {}

    def get(self, key: str) -> int | None:
        return self.entries.get(key)

    def put(self, key: str, value: int) -> None:
        self.entries[key] = value

    def put_all(self, dict_value: dict[str, int]) -> None:
        self.entries.update(dict_value)

    def remove(self, key: str) -> None:
        self.entries.pop(key, None)

    def contains(self, key: str) -> bool:
        return key in self.entries

    def items(self) -> Any:
        return self.entries.items()

    def keys(self) -> Any:
        return self.entries.keys()

    def values(self) -> Any:
        return self.entries.values()

    def is_empty(self) -> bool:
        return not self.entries

    def clear(self) -> None:
        self.entries.clear()


@pytest.mark.parametrize("kind", [MapState, BroadcastState])
def test_map_state_reads_like_a_dict(kind: Any) -> None:
    names = ("__init__", *(name for name in vars(DictState) if not name.startswith("_")))
    state = type("State", (kind,), {name: vars(DictState)[name] for name in names})()
    state["a"] = 1
    state["b"] = 2
    assert state["a"] == 1
    assert state["missing"] is None
    assert "b" in state
    assert "c" not in state
    del state["b"]
    assert list(state) == ["a"]


def test_a_read_only_view_has_no_way_to_write() -> None:
    for name in ("put", "put_all", "remove", "__setitem__", "__delitem__"):
        assert hasattr(BroadcastState, name)
        assert not hasattr(ReadOnlyBroadcastState, name)


def test_list_state_is_iterated_over_directly() -> None:
    class Fixed(ListState[int]):
        def get(self) -> list[int]:
            return [3, 1, 2]

        def add(self, value: int) -> None: ...
        def add_all(self, values: list[int]) -> None: ...
        def update(self, values: list[int]) -> None: ...
        def clear(self) -> None: ...

    assert sorted(Fixed()) == [1, 2, 3]


class TestOutputTag:
    def test_types(self) -> None:
        assert OutputTag("any").type_info == Types.PICKLED_BYTE_ARRAY()
        assert OutputTag("row", [Types.STRING(), Types.LONG()]).type_info == Types.ROW([Types.STRING(), Types.LONG()])
        assert OutputTag("late", Types.LONG()).type_info == Types.LONG()

    def test_a_copy_is_the_same_tag(self) -> None:
        tag = OutputTag("late", Types.LONG())
        copy = pickle.loads(pickle.dumps(tag))
        assert copy == tag
        assert {tag: 1}[copy] == 1
        assert copy.type_info == Types.LONG()
        assert tag != OutputTag("early", Types.LONG())
        assert tag != "late"

    @pytest.mark.parametrize("empty", ["", None])
    def test_the_id_must_not_be_empty(self, empty: Any) -> None:
        with pytest.raises(ConfigurationError, match="id that is not empty"):
            OutputTag(empty)

    def test_the_type_must_be_one(self) -> None:
        with pytest.raises(TypeMismatchError, match=r"'late'.*not str: 'LONG'"):
            OutputTag("late", "LONG")  # type: ignore[arg-type]
        with pytest.raises(TypeMismatchError, match="must be a str, not int: 5"):
            OutputTag(5)  # type: ignore[arg-type]
