"""Who owns a key: the canonical encoding, key groups and their ranges."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
import math
import pickle
import uuid
from collections import namedtuple
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import Row
from beadline.common.types import RowKind
from beadline.errors import ConfigurationError, KeyEncodingError
from beadline.state.key_groups import (
    UPPER_BOUND_MAX_PARALLELISM,
    BoxedKey,
    KeyRouter,
    check_parallelism,
    default_max_parallelism,
    encode_key,
    key_group_of,
    key_group_range,
    subtask_of_key_group,
)

Pair = namedtuple("Pair", "x y")
UTC = dt.timezone.utc
PLUS_TWO = dt.timezone(dt.timedelta(hours=2))


class Colour(enum.Enum):
    RED = 1
    CRIMSON = 1  # noqa: PIE796 - the alias is meant
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


class Text(str):
    pass


class Day(dt.date):
    pass


@dataclasses.dataclass
class Point:
    x: int
    y: Any


@dataclasses.dataclass(frozen=True)
class FrozenPoint:
    x: int
    y: Any


@dataclasses.dataclass(eq=False)
class ByIdentity:
    x: int


EQUAL = [
    (1, 1.0, True, Decimal(1), Decimal("1.00"), Level.LOW),
    (0, 0.0, -0.0, False, Decimal("0"), Decimal("-0.0")),
    (0.5, Decimal("0.5"), Decimal("0.50")),
    (10**20, 1e20, Decimal("1E+20")),
    (math.inf, Decimal("Infinity")),
    (-math.inf, Decimal("-Infinity")),
    (Decimal("0.1"), Decimal("0.100")),
    ("a", Text("a")),
    (b"a", bytes(bytearray(b"a"))),
    ((1, 2), Pair(1, 2), (1.0, True + 1)),
    (Row(a=1, b=2), Row(b=2, a=1), Row(a=1.0, b=Decimal(2))),
    (Row(1, 2), Row(1.0, 2)),
    (Colour.RED, Colour.CRIMSON),
    (dt.date(2024, 5, 6), Day(2024, 5, 6)),
    (dt.datetime(2024, 5, 6, 12, tzinfo=UTC), dt.datetime(2024, 5, 6, 14, tzinfo=PLUS_TWO)),
    (dt.datetime(2024, 5, 6, 12), dt.datetime(2024, 5, 6, 12, fold=1)),
    (dt.time(12, tzinfo=UTC), dt.time(14, tzinfo=PLUS_TWO)),
    (dt.timedelta(days=1), dt.timedelta(hours=24)),
    (uuid.UUID(int=7), uuid.UUID("00000000-0000-0000-0000-000000000007")),
    (Point(1, "a"), Point(1.0, "a")),  # type: ignore[arg-type]
    (FrozenPoint(1, (2,)), FrozenPoint(1, (2.0,))),
    ([1, "a"], [1.0, "a"]),
    ({"a": 1, 2: [3]}, {2: [3.0], "a": True}),
    ({1, "a", (2,)}, {(2,), "a", 1.0}),
    (frozenset({1, 2}), frozenset({2, 1})),
    (bytearray(b"a"), bytearray([97])),
    ((1, [2], {"b": {3}}), (1.0, [2], {"b": {3.0}})),
]


# Not by repr: that of a set of strings differs from process to process, and all must find the same tests.
@pytest.mark.parametrize("group", EQUAL, ids=[f"{type(group[0]).__name__}-{n}" for n, group in enumerate(EQUAL)])
def test_equal_keys_encode_equally(group: tuple[Any, ...]) -> None:
    for other in group[1:]:
        assert other == group[0], "the example itself is wrong"
        assert encode_key(other) == encode_key(group[0])


DIFFERENT = [
    None, 0, 1, -1, 12, 1.5, "1", "", "a", b"a", b"", (), (1,), ((1,),), (1, 2), (12,), ("a", "b"), ("ab",), ("a",
    ("b",)), (None,), Row(1), Row(1, 2), Row(a=1), Row(b=1), Row.of_kind(RowKind.DELETE, 1), Colour.RED, Colour.BLUE,
    dt.date(2024, 5, 6), dt.datetime(2024, 5, 6), dt.datetime(2024, 5, 6, tzinfo=UTC), dt.time(5, 6),
    dt.time(5, 6, tzinfo=UTC), dt.timedelta(1), uuid.UUID(int=1), Point(1, 2), Point(2, 1), FrozenPoint(1, 2),
    math.inf, Decimal("0.1"), 0.1, Decimal("0.12345678901234567890123456789012345"),
    Decimal("0.12345678901234567890123456789012346"), "\ud800", "é", Decimal("1E-500"),
    [], [1], [[1]], [1, 2], [12], (1, [2]), Row(1, [2]), Point(1, {2}), {}, {1: 2}, {2: 1}, {(1, 2): 3}, {1: (2, 3)},
    set(), {1}, {1, 2}, {(1, 2)}, frozenset(), frozenset({1}), bytearray(b""), bytearray(b"a"), [None], {None},
]  # fmt: skip


def test_different_keys_encode_differently() -> None:
    encodings: dict[bytes, Any] = {}
    for key in DIFFERENT:
        encoded = encode_key(key)
        assert encoded not in encodings, f"{key!r} encodes as {encodings.get(encoded)!r}"
        encodings[encoded] = key


@pytest.mark.parametrize("key", [object(), [object()], {"a": object()}, {object()}, (1, [len]), memoryview(b"a")])
def test_keys_without_an_encoding_are_refused(key: Any) -> None:
    with pytest.raises(KeyEncodingError, match="no canonical encoding"):
        encode_key(key)


@pytest.mark.parametrize("key", [[1, [2]], {"a": [1]}, {1}, bytearray(b"a"), (1, [2]), Point(1, [2])], ids=repr)
def test_a_key_that_can_change_is_routed_by_what_it_held(key: Any) -> None:
    router = KeyRouter(4, 128)
    original = copy.deepcopy(key)
    boxed, subtask = router.route(key)
    assert isinstance(boxed, BoxedKey)
    _change(key)
    assert boxed.key == original, "user code changes the record that the key is part of"
    _change(boxed.copied())
    assert boxed.key == original, "user code changes the key that it was given"
    again, also = router.route(original)
    assert (again, also) == (boxed, subtask)
    assert {boxed: "state"}[pickle.loads(pickle.dumps(again))] == "state"


def _change(key: Any) -> None:
    if isinstance(key, tuple):
        key[1].append(9)
    elif isinstance(key, Point):
        key.y.append(9)
    elif isinstance(key, dict):
        key["a"].append(9)
    elif isinstance(key, set):
        key.add(9)
    else:
        key.append(9)


def test_a_dataclass_that_equals_only_itself_is_refused() -> None:
    with pytest.raises(KeyEncodingError, match="eq=True"):
        encode_key((1, ByIdentity(1)))


atoms = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=4), st.binary(max_size=4),
    st.decimals(allow_nan=False), st.dates(), st.datetimes(), st.datetimes(timezones=st.just(PLUS_TWO)), st.times(),
    st.timedeltas(), st.uuids(), st.sampled_from(Colour),
)  # fmt: skip
keys = st.recursive(atoms, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
small = st.one_of(
    st.integers(-2, 2), st.booleans(), st.integers(-4, 4).map(lambda i: i / 2),
    st.integers(-4, 4).map(lambda i: Decimal(i) / 2), st.sampled_from(["", "1", "0.5"]),
)  # fmt: skip
small_keys = st.one_of(small, st.tuples(small), st.tuples(small, small), st.tuples(small, st.tuples(small)))


@given(small_keys, small_keys)
def test_encodings_are_equal_exactly_if_keys_are(left: Any, right: Any) -> None:
    assert (encode_key(left) == encode_key(right)) == (left == right)


@given(keys)
def test_a_key_keeps_its_encoding_when_it_travels(key: Any) -> None:
    assert encode_key(pickle.loads(pickle.dumps(key))) == encode_key(key)


@given(st.integers(1, 400), st.integers(0, 3000))
def test_ranges_partition_the_key_groups(parallelism: int, more: int) -> None:
    highest = parallelism + more
    ranges = [key_group_range(subtask, parallelism, highest) for subtask in range(parallelism)]
    assert [group for owned in ranges for group in owned] == list(range(highest))
    assert all(ranges), "every subtask owns something"
    for subtask, owned in enumerate(ranges):
        for group in {owned[0], owned[-1]}:
            assert subtask_of_key_group(group, parallelism, highest) == subtask


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (128, 256), (170, 256), (171, 256), (172, 512), (20000, 32768), (32768, 32768)],
)
def test_default_max_parallelism_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


@pytest.mark.parametrize("highest", [0, -1, UPPER_BOUND_MAX_PARALLELISM + 1])
def test_max_parallelism_has_bounds(highest: int) -> None:
    with pytest.raises(ConfigurationError, match="between 1 and 32768"):
        check_parallelism(1, highest, "op")


def test_parallelism_must_not_exceed_max_parallelism() -> None:
    check_parallelism(8, 8, "op")
    with pytest.raises(ConfigurationError, match="parallelism 9 is higher than its max parallelism 8"):
        check_parallelism(9, 8, "op")


@given(st.lists(keys, max_size=20), st.integers(1, 7))
def test_the_router_agrees_with_the_ranges(some: list[Any], parallelism: int) -> None:
    router = KeyRouter(parallelism, 128)
    for key in some + some:
        known = router.lookup(key)
        slot, subtask = router.route(key)
        assert slot == key
        assert known in (None, subtask)
        assert router.lookup(key) == subtask
        assert key_group_of(key, 128) in key_group_range(subtask, parallelism, 128)


def test_the_router_boxes_keys_that_cannot_be_hashed() -> None:
    router = KeyRouter(4, 128)
    first, subtask = router.route(Point(1, "a"))
    again, same = router.route(Point(1, "a"))
    other, _ = router.route(Point(2, "a"))
    assert isinstance(first, BoxedKey)
    assert (first, subtask, hash(first)) == (again, same, hash(again))
    assert first != other
    travelled = pickle.loads(pickle.dumps(first))
    assert travelled == first
    assert travelled.key == Point(1, "a")
    assert isinstance(router.route((1, Point(1, 1)))[0], BoxedKey)


def test_the_router_forgets_when_it_has_seen_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyRouter, "_REMEMBER", 10)
    router = KeyRouter(3, 128)
    expected = {key: KeyRouter(3, 128).route(key)[1] for key in range(100)}
    assert {key: router.route(key)[1] for key in range(100)} == expected
    assert sum(router.lookup(key) is not None for key in range(100)) <= 10


def test_keys_spread_over_the_groups() -> None:
    counts = [0] * 128
    for number in range(12_800):
        counts[key_group_of(f"user-{number}", 128)] += 1
    assert min(counts) > 50
    assert max(counts) < 160


# -- keys that a dictionary would lose


def test_a_nan_is_one_key() -> None:
    router = KeyRouter(4, 128)
    first, subtask = router.route(float("nan"))
    again, same = router.route(pickle.loads(pickle.dumps(float("nan"))))
    assert {first: "found"}[again] == "found"
    assert subtask == same
    nested, _ = router.route(("k", float("nan")))
    assert {nested: 1}[pickle.loads(pickle.dumps(nested))] == 1


def test_a_nan_of_any_sign_is_the_same_key() -> None:
    nan, infinity = float("nan"), float("inf")
    assert {encode_key(value) for value in (nan, -nan, infinity - infinity, infinity * 0)} == {encode_key(nan)}
    assert encode_key(("k", -nan)) == encode_key(("k", nan))


def test_numbers_of_any_length() -> None:
    assert encode_key(10**5000) != encode_key(10**5000 + 1)
    assert encode_key(10**20) == encode_key(1e20)


def test_a_key_does_not_change_with_the_record_it_was() -> None:
    record = Row("a", 1)
    key, _ = KeyRouter(1, 128).route(record)
    record[1] = 2
    assert key == Row("a", 1)
