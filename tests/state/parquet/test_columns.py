"""State as typed columns: what goes in comes out, to the last bit, whatever the types say."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections import namedtuple
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beadline.api.windows.window import CountWindow, GlobalWindow
from beadline.common.time import Instant
from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import LocalTimeTypeInfo, TypeInformation, Types
from beadline.common.types import Row, RowKind
from beadline.state import codec
from beadline.state.codec import freeze, thaw
from beadline.state.description import StateDescription
from beadline.state.key_groups import BoxedKey, encode_key, indexed, key_group_of
from beadline.state.parquet.columns import KeyedColumns
from beadline.state.parquet.types import column_of
from beadline.state.segments.segment import TableChanges, sorted_rows

GROUPS = 16
few = settings(max_examples=20)  # of each of many types
ANY = Types.PICKLED_BYTE_ARRAY()
STRING, LONG = Types.STRING(), Types.LONG()


class Color(IntEnum):
    RED = 1


class Name(str):
    pass


Pair = namedtuple("Pair", "f0 f1")


class Point(NamedTuple):
    x: int
    label: str | None = None


@dataclass
class Account:
    owner: str
    balance: float
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    name: str
    at: Point


@dataclass
class Odd(list):  # type: ignore[type-arg]
    n: int


@pytest.fixture(autouse=True)
def trusted() -> Any:
    before = set(codec._job_modules)
    codec.trust({*before, __name__}, ())
    yield
    codec.trust(before, ())


def exact(value: Any) -> Any:
    """Something that is equal only for values that nobody can tell apart."""
    value = thaw(value)
    if isinstance(value, float):
        return type(value), struct.pack(">d", value)
    if isinstance(value, Decimal):
        return type(value), value.as_tuple()
    if isinstance(value, Row):
        return Row, value._fields, value._row_kind, exact(value._values)
    if isinstance(value, dict):
        return type(value), [(exact(k), exact(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [exact(item) for item in value], exact(getattr(value, "__dict__", None) or None)
    if isinstance(value, BoxedKey):
        return BoxedKey, exact(value.key), value.encoded
    if isinstance(value, (dt.datetime, dt.time)):
        return type(value), value, value.tzinfo, value.fold
    if isinstance(value, (Account, Place, Point)):
        return type(value), exact(vars(value))
    return type(value), value


def described(kind: str, info: TypeInformation = ANY, map_key: TypeInformation = ANY, **more: Any) -> StateDescription:
    return StateDescription("state", kind, type_to_text(info), type_to_text(map_key), **more)


def columns_of(description: StateDescription, key_type: TypeInformation) -> KeyedColumns:
    return KeyedColumns(description, type_to_text(key_type))


def to_batch(
    table: TableChanges, description: StateDescription, key_type: TypeInformation, max_parallelism: int
) -> pa.RecordBatch:
    rows = sorted_rows(table.changes, table.namespaced, max_parallelism)
    return columns_of(description, key_type).batch(*rows)


def round_trip(
    changes: dict[Any, Any], description: StateDescription, key_type: TypeInformation = ANY
) -> pa.RecordBatch:
    """The rows of a table, after having seen that they give the same table, whole and by key groups."""
    table = TableChanges(description.kind, description.namespaced, changes, description.ttl_ms)
    batch = to_batch(table, description, key_type, GROUPS)
    assert batch.schema == columns_of(description, key_type).schema
    batch.validate(full=True)
    groups = batch.column("key_group").to_pylist()
    assert groups == sorted(groups)
    back = columns_of(description, key_type).table(batch)
    assert (back.kind, back.namespaced, back.ttl_ms) == (table.kind, table.namespaced, table.ttl_ms)
    expected = {exact_slot(slot): exact(change) for slot, change in changes.items()}
    assert {exact_slot(slot): exact(change) for slot, change in back.changes.items()} == expected
    assert {type(change) for change in back.changes.values()} == {type(change) for change in changes.values()}
    parts = [columns_of(description, key_type).table(batch, range(low, low + 4)).changes for low in range(0, GROUPS, 4)]
    for low, part in zip(range(0, GROUPS, 4), parts, strict=True):
        keys = [slot[0] if description.namespaced else slot for slot in part]
        assert all(
            key_group_of(key.key if isinstance(key, BoxedKey) else key, GROUPS) in range(low, low + 4) for key in keys
        )
    assert {exact_slot(s): exact(c) for part in parts for s, c in part.items()} == expected
    return batch


def exact_slot(slot: Any) -> str:
    return repr(exact(slot))


naive = st.datetimes().map(lambda time: time.replace(fold=0))
instants = st.builds(Instant, st.integers(-(10**10), 10**10), st.sampled_from([0, 5000, 999_999_000]))
rows = st.builds(
    lambda a, b: Types.ROW_NAMED(["a", "b"], [LONG, STRING]).converter()((a, b)),
    st.integers(-5, 5) | st.none(),
    st.text(max_size=3) | st.none(),
)
TYPED: list[tuple[TypeInformation, st.SearchStrategy[Any], pa.DataType]] = [
    (Types.BYTE(), st.integers(-128, 127), pa.int8()),
    (Types.SHORT(), st.integers(-(2**15), 2**15 - 1), pa.int16()),
    (Types.INT(), st.integers(-(2**31), 2**31 - 1), pa.int32()),
    (LONG, st.integers(-(2**63), 2**63 - 1), pa.int64()),
    (Types.FLOAT(), st.floats(), pa.float64()),
    (Types.DOUBLE(), st.floats(), pa.float64()),
    (Types.BOOLEAN(), st.booleans(), pa.bool_()),
    (STRING, st.text(st.characters(codec="utf-8"), max_size=5), pa.string()),
    (Types.CHAR(), st.characters(codec="utf-8"), pa.string()),
    (Types.BIG_INT(), st.integers(-(10**37), 10**37), pa.decimal128(38, 0)),
    (Types.BIG_DEC(), st.decimals(allow_nan=False), pa.string()),
    (Types.INSTANT(), instants, pa.timestamp("us", "UTC")),
    (Types.SQL_DATE(), st.dates(), pa.date32()),
    (Types.SQL_TIME(), st.times().map(lambda time: time.replace(fold=0)), pa.string()),
    (Types.SQL_TIMESTAMP(), naive, pa.timestamp("us")),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME), naive, pa.timestamp("us")),
    (Types.ROW_NAMED(["a", "b"], [LONG, STRING]), rows, pa.struct({"a": pa.int64(), "b": pa.string()})),
    (
        Types.TUPLE([LONG, Types.DOUBLE()]),
        st.tuples(st.integers(-9, 9), st.floats()),
        pa.struct({"f0": pa.int64(), "f1": pa.float64()}),
    ),
    (Types.LIST(LONG), st.lists(st.integers(-9, 9) | st.none()), pa.list_(pa.int64())),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=4), pa.binary()),
    (Types.PRIMITIVE_ARRAY(Types.INT()), st.lists(st.integers(-9, 9)), pa.list_(pa.int32())),
    (Types.BASIC_ARRAY(STRING), st.lists(st.text("ab") | st.none()), pa.list_(pa.string())),
    (Types.OBJECT_ARRAY(Types.LIST(LONG)), st.lists(st.lists(st.integers(0, 3))), pa.list_(pa.list_(pa.int64()))),
    (
        Types.MAP(STRING, Types.LIST(Types.DOUBLE())),
        st.dictionaries(st.text("abc", max_size=2), st.lists(st.floats(), max_size=2) | st.none()),
        pa.map_(pa.string(), pa.list_(pa.float64())),
    ),
    (
        Types.CLASS(Account),
        st.builds(Account, st.text("ab"), st.floats(), st.lists(st.text("ab"))),
        pa.struct({"owner": pa.string(), "balance": pa.float64(), "tags": pa.list_(pa.string())}),
    ),
    (
        Types.CLASS(Place),
        st.builds(Place, st.text("ab"), st.builds(Point, st.integers(0, 9), st.none() | st.text("ab"))),
        pa.struct({"name": pa.string(), "at": pa.struct({"x": pa.int64(), "label": pa.string()})}),
    ),
]
CASES = [pytest.param(*case, id=repr(case[0])) for case in TYPED]
ODD: list[Any] = [
    True,
    1,
    2**70,
    -(10**40),
    1.5,
    -0.0,
    math.nan,
    "text",
    "\ud800",
    Name("sub"),
    b"bytes",
    Color.RED,
    (1, 2.0),
    Pair(1, 2.0),
    (1, None),
    (1, 2, 3),
    [1, "a"],
    [None],
    {},
    {None: [1.0]},
    {1: [1.0]},
    {"a": [1]},
    Row(1, "a"),
    Row(a=1, b="b"),
    Row(a=1),
    Row(b="b", a=1),
    Row.of_kind(RowKind.DELETE, a=1, b="b"),
    Row(a=True, b="b"),
    Decimal("1.10"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("-0E+3"),
    dt.date(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc),
    dt.datetime(2020, 10, 25, 2, 30, fold=1),
    dt.time(1, 2, 3, tzinfo=dt.timezone.utc),
    Instant(1, 1),
    Instant(10**18, 0),
    Point(1),
    Account("a", 1),
    {1, 2},
]
odd = st.sampled_from(ODD)


@pytest.mark.parametrize(("info", "values", "arrow"), CASES)
def test_declared_types_have_columns_of_their_own(
    info: TypeInformation, values: st.SearchStrategy[Any], arrow: pa.DataType
) -> None:
    assert column_of(info).arrow == arrow

    @few
    @given(st.lists(values, min_size=1, max_size=8))
    def typed(given_values: list[Any]) -> None:
        batch = round_trip({i: freeze(v) for i, v in enumerate(given_values)}, described("value", info), LONG)
        assert batch.column("pickled").null_count == len(given_values), "every value fits its column"
        assert batch.column("value").null_count == 0
        assert sorted(batch.column("key").to_pylist()) == list(range(len(given_values)))

    typed()


@pytest.mark.parametrize(("info", "values", "arrow"), CASES)
def test_what_a_type_does_not_mean_is_pickled(
    info: TypeInformation, values: st.SearchStrategy[Any], arrow: pa.DataType
) -> None:
    @few
    @given(st.lists(values | odd, min_size=1, max_size=8))
    def mixed(given_values: list[Any]) -> None:
        round_trip({i: freeze(v) for i, v in enumerate(given_values)}, described("value", info), LONG)

    mixed()


@pytest.mark.parametrize(("info", "values", "arrow"), CASES)
def test_elements_of_lists_and_maps_are_typed(
    info: TypeInformation, values: st.SearchStrategy[Any], arrow: pa.DataType
) -> None:
    lists = st.lists(values | odd, min_size=1, max_size=4).map(lambda items: (True, list(map(freeze, items))))
    maps = st.dictionaries(
        st.text("ab", max_size=2) | st.integers(0, 2), values | odd | st.none(), min_size=1, max_size=4
    )

    @few
    @given(st.dictionaries(st.integers(0, 20), lists, max_size=4), st.dictionaries(st.text("xy"), maps, max_size=4))
    def elements(by_list: dict[Any, Any], by_map: dict[Any, Any]) -> None:
        round_trip(by_list, described("list", info), LONG)
        puts = {key: (True, {k: freeze(v) for k, v in found.items()}, []) for key, found in by_map.items()}
        round_trip(puts, described("map", info, STRING), STRING)

    elements()


def test_nothing_is_declared_and_everything_is_kept() -> None:
    values = {i: freeze(value) for i, value in enumerate(ODD)}
    batch = round_trip(values, described("value"))
    assert batch.schema.field("key").type == pa.binary()
    assert batch.column("pickled").null_count == len(ODD)


HARD_KEYS: list[Any] = [
    None,
    1,
    True,
    "a",
    2.5,
    b"b",
    (1, "x"),
    Decimal("1.5"),
    dt.date(2020, 1, 1),
    Row(a=1),
    Color.RED,
]


@pytest.mark.parametrize("key_type", [ANY, STRING, LONG, Types.BOOLEAN(), Types.TUPLE([LONG, STRING])], ids=repr)
@pytest.mark.parametrize("key", HARD_KEYS, ids=repr)
def test_keys_of_other_types_come_back(key_type: TypeInformation, key: Any) -> None:
    round_trip({key: 5}, described("value", LONG), key_type)


@pytest.mark.parametrize(
    ("key", "key_type", "fits"),
    [
        (Account("a", 1.0), Types.CLASS(Account), False),  # its list of tags is no key
        (Point(1), Types.CLASS(Point), True),
        (math.nan, Types.DOUBLE(), True),
        ((math.nan, 1.0), Types.TUPLE([Types.DOUBLE(), Types.DOUBLE()]), True),
        (math.nan, ANY, True),
    ],
    ids=repr,
)
def test_keys_that_no_dictionary_takes_are_boxed_again(key: Any, key_type: TypeInformation, fits: bool) -> None:
    if not fits:
        slot: Any = BoxedKey(key, encode_key("stands for it"))
        batch = to_batch(TableChanges("value", False, {slot: 1}), described("value", LONG), key_type, GROUPS)
        assert columns_of(described("value", LONG), key_type).table(batch).changes == {slot: 1}
        return
    batch = round_trip({indexed(key): 1}, described("value", LONG), key_type)
    assert batch.column("pickled").null_count == 1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(-9, 9), st.integers(-9, 9)),
            st.just(GlobalWindow.get()),
            st.builds(CountWindow, st.integers(0, 3)),
            st.none(),
            st.just((1, True)),
        ),
        max_size=6,
    )
)
def test_windows(windows: list[Any]) -> None:
    unique = {repr(window): window for window in windows}.values()
    batch = round_trip({("a", window): 1 for window in unique}, described("value", LONG, namespaced=True), STRING)
    for window, pickled, value in zip(
        batch.column("window").to_pylist(),
        batch.column("pickled").to_pylist(),
        batch.column("value").to_pylist(),
        strict=True,
    ):
        assert pickled is not None or window is None or set(window) == {"start", "end"}
        assert value == 1, "the value is there for everyone, whatever the window"


def test_time_windows_are_readable_and_the_global_window_is_null() -> None:
    changes = {("a", (10, 20)): 1, ("a", GlobalWindow.get()): 2}
    batch = round_trip(changes, described("value", LONG, namespaced=True), STRING)
    assert batch.column("window").to_pylist() == [{"start": 10, "end": 20}, None]
    assert batch.column("pickled").null_count == 2


def test_with_a_time_to_live_values_begin_with_a_time() -> None:
    changes = {1: freeze((5, [1, 2])), 2: freeze((6, [3]))}
    batch = round_trip(changes, described("value", Types.LIST(LONG), ttl_ms=1000), LONG)
    assert sorted(batch.column("value").to_pylist(), key=repr) == [
        {"timestamp": 5, "value": [1, 2]},
        {"timestamp": 6, "value": [3]},
    ]
    round_trip({1: (True, [(5, "a"), (6, "b")])}, described("list", STRING, ttl_ms=1000), LONG)
    round_trip({1: (True, {"a": (5, None), "b": (6, 1)}, [])}, described("map", LONG, STRING, ttl_ms=9), LONG)
    round_trip({1: (5, "x"), 2: freeze((6, {"a": 1}))}, described("value", ttl_ms=1000), LONG)


@given(
    st.dictionaries(
        st.text("abc", max_size=2) | st.integers(0, 5),
        st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1, max_size=4).map(lambda times: (times, [])),
    ),
    st.booleans(),
)
def test_each_timer_is_a_row(changes: dict[Any, Any], windowed: bool) -> None:
    if windowed:
        changes = {(key, (0, 5)): change for key, change in changes.items()}
    batch = round_trip(changes, described("timer", namespaced=windowed), STRING)
    assert batch.num_rows == sum(len(times) for times, _ in changes.values())
    assert batch.schema.names[-2:] == ["timestamp", "pickled"]


def test_entries_keep_their_order_between_pickled_ones() -> None:
    changes = {i: 2**80 if i % 3 == 0 else i for i in range(30)}
    table = TableChanges("value", False, changes)
    batch = to_batch(table, described("value", LONG), LONG, GROUPS)
    assert list(columns_of(described("value", LONG), LONG).table(batch).changes) == batch.column("key").to_pylist()


def test_a_class_with_more_than_its_fields_is_pickled() -> None:
    extra = Account("a", 1.0)
    extra.note = "hidden"  # type: ignore[attr-defined]
    batch = round_trip({1: freeze(Account("b", 2.0))}, described("value", Types.CLASS(Account)), LONG)
    assert batch.column("pickled").null_count == 1
    table = TableChanges("value", False, {1: freeze(extra)})
    batch = to_batch(table, described("value", Types.CLASS(Account)), LONG, GROUPS)
    back = thaw(columns_of(described("value", Types.CLASS(Account)), LONG).table(batch).changes[1])
    assert vars(back) == vars(extra)
    held = Odd(3)
    held.append(1)
    batch = to_batch(
        TableChanges("value", False, {1: freeze(held)}), described("value", Types.CLASS(Odd)), LONG, GROUPS
    )
    back = thaw(columns_of(described("value", Types.CLASS(Odd)), LONG).table(batch).changes[1])
    assert (list(back), back.n) == ([1], 3)


def test_a_class_that_is_gone_becomes_rows_of_its_fields() -> None:
    text = type_to_text(Types.CLASS(Place)).replace("Place", "Gone")
    description = StateDescription("state", "value", text)
    frozen = freeze(Place("here", Point(1, "x")))
    gone = type(frozen)(frozen.replace(b"\x8c\x05Place", b"\x8c\x05Absnt"))
    batch = to_batch(TableChanges("value", False, {1: gone}), description, LONG, GROUPS)
    assert batch.column("value").to_pylist() == [{"name": "here", "at": {"x": 1, "label": "x"}}]
    back = thaw(columns_of(description, LONG).table(batch).changes[1])
    assert back == Row(name="here", at=Point(1, "x"))


def test_a_class_that_is_not_trusted_is_not_made() -> None:
    description = described("value", Types.CLASS(Account))
    table = TableChanges("value", False, {1: freeze(Account("a", 1.0, ["x"]))})
    batch = to_batch(table, description, LONG, GROUPS)
    codec.trust((), ())
    back = thaw(columns_of(description, LONG).table(batch).changes[1])
    assert back == Row(owner="a", balance=1.0, tags=["x"])


def test_pickles_resolve_trusted_classes_only() -> None:
    import pickle

    from beadline.errors import SerializationError

    class Evil:
        def __reduce__(self) -> Any:
            return eval, ("1+1",)

    schema = columns_of(described("value", LONG), LONG).schema
    pickled = pickle.dumps(Evil())
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([0], pa.int32()),
            *(pa.nulls(1, f.type) for f in list(schema)[1:3]),
            pa.array([pickled], pa.binary()),
        ],
        schema=schema,
    )
    with pytest.raises(SerializationError, match="eval"):
        columns_of(described("value", LONG), LONG).table(batch)
