"""What a declared type takes, and what the next function receives.

Where PyFlink 2.3.0 takes a value, the received one is what it gave: seen in programs (``map`` with an output type, no
chaining, then another ``map``) and through its coders. Beadline takes more (lists for tuples, dicts for rows), makes
CHAR and BIG_INT work, and refuses a bool or float for an int, which PyFlink turns into one without a word.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import Instant, Row, RowKind, TypeInformation, Types
from beadline.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo
from beadline.errors import ConfigurationError, TypeMismatchError


def convert(declared: TypeInformation, value: Any) -> Any:
    converter = declared.converter()
    assert converter is not None
    return converter(value)


class Name(str):
    __slots__ = ()


class Level(enum.IntEnum):
    HIGH = 3


UTC = dt.timezone.utc
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
NAMED = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LONG()])

TAKEN = [
    (Types.STRING(), "héllo", "héllo"),
    (Types.STRING(), Name("x"), "x"),
    (Types.BYTE(), -128, -128),
    (Types.SHORT(), 32767, 32767),
    (Types.INT(), -(2**31), -(2**31)),
    (Types.LONG(), 2**63 - 1, 2**63 - 1),
    (Types.INT(), Level.HIGH, 3),
    (Types.BOOLEAN(), True, True),
    (Types.FLOAT(), 0.1, 0.10000000149011612),
    (Types.FLOAT(), 16777217, 16777216.0),
    (Types.FLOAT(), 1e39, math.inf),
    (Types.DOUBLE(), 1, 1.0),
    (Types.DOUBLE(), 0.1, 0.1),
    (Types.DOUBLE(), Decimal("1.5"), 1.5),
    (Types.DOUBLE(), Fraction(1, 2), 0.5),
    (Types.CHAR(), "é", "é"),
    (Types.BIG_INT(), 2**100, 2**100),
    (Types.BIG_DEC(), Decimal("1.50"), Decimal("1.50")),
    (Types.BIG_DEC(), 1.5, Decimal("1.5")),
    (Types.BIG_DEC(), 3, Decimal("3")),
    (Types.INSTANT(), Instant(1, 5), Instant(1, 5)),
    (Types.INSTANT(), None, None),
    (Types.SQL_DATE(), dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
    (Types.SQL_DATE(), dt.datetime(2020, 1, 1, 5), dt.date(2020, 1, 1)),
    (Types.SQL_TIME(), dt.time(13, 5, 6, 789123), dt.time(13, 5, 6, 789000)),
    (Types.SQL_TIME(), dt.time(1, 2, 3, 999999, tzinfo=UTC), dt.time(1, 2, 3, 999000)),
    (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 1, 1, 2, 3, 123456), dt.datetime(2020, 1, 1, 1, 2, 3, 123000)),
    (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 1, 1, 2, 3, tzinfo=UTC), dt.datetime(2020, 1, 1, 1, 2, 3)),
    (Types.PRIMITIVE_ARRAY(Types.INT()), (1, 2), [1, 2]),
    (Types.PRIMITIVE_ARRAY(Types.FLOAT()), [0.1], [0.10000000149011612]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
    (Types.BASIC_ARRAY(Types.INT()), [1, None, 2], [1, None, 2]),
    (Types.BASIC_ARRAY(Types.BYTE()), [1, 2], [1, 2]),
    (Types.OBJECT_ARRAY(Types.STRING()), ["a", None], ["a", None]),
    (Types.LIST(Types.INT()), [1, None], [1, None]),
    (Types.LIST(Types.BYTE()), b"ab", b"ab"),
    (Types.LIST(Types.PICKLED_BYTE_ARRAY()), [object, None], [object, None]),
    (Types.MAP(Types.STRING(), Types.FLOAT()), {"a": 0.1, "b": None}, {"a": 0.10000000149011612, "b": None}),
    (Types.TUPLE([Types.INT()]), (1,), (1,)),
    (PAIR, ("a", 1), ("a", 1)),
    (PAIR, ["a", 1], ("a", 1)),
    (PAIR, Row("a", 1), ("a", 1)),
    (Types.TUPLE([Types.INT(), Types.PICKLED_BYTE_ARRAY()]), (1, None), (1, None)),
    (Types.TUPLE([PAIR, Types.LIST(PAIR)]), (("a", 1), [("b", 2)]), (("a", 1), [("b", 2)])),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME), dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4)),
    (ExternalTypeInfo(Types.FLOAT()), 0.1, 0.10000000149011612),
]


@pytest.mark.parametrize(("declared", "given_value", "received"), TAKEN, ids=lambda value: str(value)[:40])
def test_a_fitting_value_is_received_as(declared: TypeInformation, given_value: Any, received: Any) -> None:
    result = convert(declared, given_value)
    assert result == received
    assert type(result) is type(received)


NOT_TAKEN = [
    (Types.STRING(), [1, b"x", None]),
    (Types.BYTE(), [128, -129, True, 1.0, "1", None]),
    (Types.SHORT(), [32768, -32769]),
    (Types.INT(), [2**31, -(2**31) - 1, True, 1.0, 1.5, None, Decimal(3)]),
    (Types.LONG(), [2**63, -(2**63) - 1]),
    (Types.BOOLEAN(), [1, 0, "true", None]),
    (Types.FLOAT(), ["1", True, None]),
    (Types.DOUBLE(), ["1.0", True, None, 10**400]),
    (Types.CHAR(), ["", "ab", 1, None]),
    (Types.BIG_INT(), [1.0, True, None]),
    (Types.BIG_DEC(), ["1", True, None, math.nan, Decimal("NaN")]),
    (Types.INSTANT(), [5, dt.datetime(2020, 1, 1)]),
    (Types.SQL_DATE(), ["2020-01-01", None]),
    (Types.SQL_TIME(), [dt.datetime(2020, 1, 1), None]),
    (Types.SQL_TIMESTAMP(), [dt.date(2020, 1, 1), None]),
    (PAIR, [("a",), ("a", 1, 2), "ab", None, {"f0": "a", "f1": 1}, (None, 1), ("a", None)]),
    (NAMED, [("a",), ("a", 1, 2), Row("a"), Row(z=1, q=2), "ab", 5, None]),
    (Types.LIST(Types.INT()), [{1}, "ab", None, b"ab"]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [[1, None], None]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [[1, 2], "ab", None]),
    (Types.MAP(Types.STRING(), Types.INT()), [[("a", 1)], {None: 1}, {1: 1}, {"a": "b"}, None]),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), ["2020-01-01"]),
]


@pytest.mark.parametrize(
    ("declared", "value"), [(declared, value) for declared, values in NOT_TAKEN for value in values], ids=repr
)
def test_a_value_of_another_type_is_refused(declared: TypeInformation, value: Any) -> None:
    with pytest.raises(TypeMismatchError, match="is not of its declared type"):
        convert(declared, value)


def test_objects_of_any_type_pass_unchecked() -> None:
    assert Types.PICKLED_BYTE_ARRAY().converter() is None


ROWS = [
    Row("x", 1),
    Row(a="x", b=1),
    Row(b=1, a="x"),
    Row(b=1, a="x", c="not declared"),
    ("x", 1),
    ["x", 1],
    {"a": "x", "b": 1},
    {"a": "x", "b": 1, "c": "not declared"},
]


@pytest.mark.parametrize("value", ROWS, ids=repr)
def test_a_row_is_received_with_the_declared_names(value: Any) -> None:
    row = convert(NAMED, value)
    assert row == Row(a="x", b=1)
    assert list(row) == ["x", 1]
    assert repr(row) == "Row(a='x', b=1)"


def test_a_row_without_declared_names_is_received_with_numbered_ones() -> None:
    row = convert(Types.ROW([Types.STRING(), Types.DOUBLE()]), Row("a", 1))
    assert repr(row) == "Row(f0='a', f1=1.0)"


def test_fields_of_a_row_may_be_none_and_keys_may_lack() -> None:
    assert list(convert(NAMED, (None, None))) == [None, None]
    assert list(convert(NAMED, {"b": 2})) == [None, 2]


def test_an_object_with_attributes_becomes_a_row() -> None:
    class Point:
        def __init__(self) -> None:
            self.a, self.b = "x", 1

    assert convert(NAMED, Point()) == Row(a="x", b=1)


def test_the_kind_of_a_row_is_kept() -> None:
    assert convert(NAMED, Row.of_kind(RowKind.DELETE, "x", 1)).get_row_kind() is RowKind.DELETE


def test_the_given_row_is_not_changed() -> None:
    given_row = Row("x", 1)
    received = convert(NAMED, given_row)
    received[0] = "y"
    assert repr(given_row) == "<Row('x', 1)>"


def test_wide_tuples_and_rows_are_checked_in_every_field() -> None:
    width = 30
    declared = Types.TUPLE([Types.INT()] * width)
    assert convert(declared, tuple(range(width))) == tuple(range(width))
    with pytest.raises(TypeMismatchError, match="field 'f29'"):
        convert(declared, (*range(width - 1), "x"))
    assert list(convert(Types.ROW([Types.INT()] * width), list(range(width)))) == list(range(width))
    assert convert(Types.TUPLE([]), ()) == ()


def test_the_message_names_type_value_and_place() -> None:
    declared = Types.TUPLE([Types.STRING(), Types.ROW_NAMED(["n", "v"], [Types.STRING(), Types.LIST(Types.LONG())])])
    with pytest.raises(TypeMismatchError) as caught:
        convert(declared, ("a", Row(n="x", v=[1, 2.5])))
    assert str(caught.value) == (
        "A value at field 'f1', field 'v', element 1 is not of its declared type Long: got 2.5 of Python type float. "
        "Long takes an int from -9223372036854775808 to 9223372036854775807; convert the value before returning it, "
        "or declare another type."
    )


def test_the_place_in_a_map_is_its_key() -> None:
    with pytest.raises(TypeMismatchError, match="at value of key 'k' is not of its declared type Integer"):
        convert(Types.MAP(Types.STRING(), Types.INT()), {"k": "v"})
    with pytest.raises(TypeMismatchError, match="at key 7 is not of its declared type String"):
        convert(Types.MAP(Types.STRING(), Types.INT()), {7: 1})


def test_a_long_value_is_shortened_and_a_broken_repr_does_not_hide_the_mismatch() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    with pytest.raises(TypeMismatchError) as long:
        convert(Types.INT(), "x" * 10_000)
    assert len(str(long.value)) < 400
    with pytest.raises(TypeMismatchError, match="<Broken whose repr fails"):
        convert(Types.INT(), Broken())


def test_the_error_travels_between_processes() -> None:
    with pytest.raises(TypeMismatchError) as caught:
        convert(PAIR, ("a", "b"))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_numpy_numbers_are_taken_as_their_python_namesakes() -> None:
    numpy = pytest.importorskip("numpy")
    for declared, value, received in [
        (Types.INT(), numpy.int64(5), 5),
        (Types.DOUBLE(), numpy.float32(1.5), 1.5),
        (Types.DOUBLE(), numpy.float64(0.1), 0.1),
        (Types.BOOLEAN(), numpy.bool_(True), True),
        (Types.STRING(), numpy.str_("x"), "x"),
    ]:
        result = convert(declared, value)
        assert (result, type(result)) == (received, type(received))


def test_a_type_that_is_not_called_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigurationError, match=r"call it: Types.STRING\(\)"):
        Types.ROW([Types.STRING])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="takes a list of field types"):
        Types.TUPLE(Types.STRING())  # type: ignore[arg-type]


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.text(), st.binary(), st.none()))
def test_an_int_is_taken_exactly_if_it_is_one_of_32_bits(value: Any) -> None:
    if type(value) is int and -(2**31) <= value < 2**31:
        assert convert(Types.INT(), value) is value
    else:
        with pytest.raises(TypeMismatchError):
            convert(Types.INT(), value)


@given(st.tuples(st.text(), st.integers(-(2**63), 2**63 - 1)))
def test_converting_twice_changes_nothing_more(value: tuple[str, int]) -> None:
    once = convert(NAMED, value)
    assert convert(NAMED, once) == once
    assert convert(PAIR, convert(PAIR, value)) == value


BASIC = [
    *(Types.STRING(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT(), Types.BIG_DEC()),
    *(Types.BOOLEAN(), Types.FLOAT(), Types.DOUBLE(), Types.CHAR(), Types.INSTANT()),
]
EDGES = [sign * (1 << bits) + off for bits in (7, 15, 31, 63) for sign in (1, -1) for off in (-1, 0, 1)]
VALUES = st.one_of(
    st.integers(), st.sampled_from(EDGES), st.text(), st.booleans(), st.floats(), st.none(), st.just(Level.HIGH)
)


@given(
    st.sampled_from(BASIC), st.lists(VALUES) | st.lists(st.integers() | st.sampled_from(EDGES)) | st.lists(st.text())
)
def test_what_is_plain_as_a_whole_is_what_the_converter_leaves_alone(declared: TypeInformation, values: Any) -> None:
    if declared.all_plain(values):
        assert all(convert(declared, value) is value for value in values)


@pytest.mark.parametrize(
    ("bits", "declared"), [(8, Types.BYTE()), (16, Types.SHORT()), (32, Types.INT()), (64, Types.LONG())]
)
def test_numbers_are_plain_up_to_the_bounds_of_their_type(bits: int, declared: TypeInformation) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    assert declared.all_plain([low, 0, high])
    assert not declared.all_plain([low - 1, 0])
    assert not declared.all_plain([0, high + 1])
    assert not declared.all_plain([0, True])
