"""Type descriptions as values: equal, hashable, readable and small."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import pytest

from beadline.common import Instant, Row, RowKind, TypeInformation, Types
from beadline.common.typeinfo import BasicType, BasicTypeInfo, ExternalTypeInfo, LocalTimeTypeInfo
from beadline.errors import ConfigurationError, UnsupportedFeatureError

# The texts that PyFlink 2.3.0 shows.
SHOWN = [
    (Types.STRING(), "String"),
    (Types.BYTE(), "Byte"),
    (Types.BOOLEAN(), "Boolean"),
    (Types.SHORT(), "Short"),
    (Types.INT(), "Integer"),
    (Types.LONG(), "Long"),
    (Types.FLOAT(), "Float"),
    (Types.DOUBLE(), "Double"),
    (Types.CHAR(), "Char"),
    (Types.BIG_INT(), "BigInteger"),
    (Types.BIG_DEC(), "BigDecimal"),
    (Types.INSTANT(), "Instant"),
    (Types.SQL_DATE(), "DateTypeInfo"),
    (Types.SQL_TIME(), "TimeTypeInfo"),
    (Types.SQL_TIMESTAMP(), "TimestampTypeInfo"),
    (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
    (Types.ROW([Types.INT(), Types.BIG_DEC()]), "RowTypeInfo(Integer, BigDecimal)"),
    (Types.ROW_NAMED(["a"], [Types.INT()]), "RowTypeInfo(a: Integer)"),
    (Types.TUPLE([Types.INT(), Types.LIST(Types.INT())]), "TupleTypeInfo(Integer, ListTypeInfo<Integer>)"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "PrimitiveArrayTypeInfo<Byte>"),
    (Types.BASIC_ARRAY(Types.INT()), "BasicArrayTypeInfo<Integer>"),
    (Types.OBJECT_ARRAY(Types.INT()), "ObjectArrayTypeInfo<Integer>"),
    (Types.MAP(Types.INT(), Types.STRING()), "MapTypeInfo<Integer, String>"),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), "LocalTimeTypeInfo<LOCAL_DATE>"),
    (ExternalTypeInfo(Types.INT()), "ExternalTypeInfo<Integer>"),
]


@pytest.mark.parametrize(("declared", "text"), SHOWN, ids=str)
def test_a_type_shows_as_in_pyflink(declared: TypeInformation, text: str) -> None:
    assert repr(declared) == text


@pytest.mark.parametrize("index", range(len(SHOWN)), ids=lambda index: SHOWN[index][1])
def test_a_type_equals_only_itself(index: int) -> None:
    declared = SHOWN[index][0]
    assert [other for other, _ in SHOWN if other == declared] == [declared]
    assert declared != str(declared)


@pytest.mark.parametrize("declared", [declared for declared, _ in SHOWN], ids=str)
def test_a_type_survives_pickling_and_is_small(declared: TypeInformation) -> None:
    data = pickle.dumps(declared, protocol=5)
    copy = pickle.loads(data)
    assert copy == declared
    assert hash(copy) == hash(declared)
    assert repr(copy) == repr(declared)
    assert len(data) < 250


def test_a_wide_row_type_names_each_basic_type_once_in_its_pickle() -> None:
    wide = Types.ROW([Types.STRING(), Types.LONG()] * 50)
    assert len(pickle.dumps(wide, protocol=5)) < 600


def test_row_types_are_equal_by_field_types_and_keep_their_names() -> None:
    named = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    assert named == Types.ROW([Types.INT(), Types.STRING()])
    assert hash(named) == hash(Types.ROW([Types.INT(), Types.STRING()]))
    assert named.get_field_names() == ["a", "b"]
    assert named.get_field_index("b") == 1
    assert pickle.loads(pickle.dumps(named)).get_field_names() == ["a", "b"]
    assert Types.ROW([Types.INT()]).get_field_names() == ["f0"]
    assert Types.ROW([Types.INT()]).get_field_index("f0") == -1


def test_names_must_fit_the_types() -> None:
    with pytest.raises(ConfigurationError, match=r"2 field names .* for 1 field types"):
        Types.ROW_NAMED(["a", "b"], [Types.INT()])
    with pytest.raises(ConfigurationError, match=r"more than once: \['a'\]"):
        Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()])


def test_arrays_of_basic_types_take_only_those() -> None:
    with pytest.raises(ConfigurationError, match=r"Types\.PRIMITIVE_ARRAY can't have elements of type String"):
        Types.PRIMITIVE_ARRAY(Types.STRING())
    with pytest.raises(ConfigurationError, match=r"Types\.BASIC_ARRAY can't have elements of type BigDecimal"):
        Types.BASIC_ARRAY(Types.BIG_DEC())
    assert repr(Types.BASIC_ARRAY(Types.STRING())) == "BasicArrayTypeInfo<String>"


def test_there_is_one_description_of_each_basic_type() -> None:
    assert Types.INT() is Types.INT()
    assert BasicTypeInfo(BasicType.INT) == Types.INT()
    assert pickle.loads(pickle.dumps(Types.INT())) is Types.INT()


INTERNAL = [
    (Types.INT(), 5, 5),
    (Types.SQL_DATE(), dt.date(1970, 1, 3), 2),
    (Types.SQL_TIME(), dt.time(0, 0, 1, 5, tzinfo=dt.timezone.utc), 1_000_005),
    (Types.SQL_TIMESTAMP(), dt.datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=dt.timezone.utc), 1_000_005),
    (Types.INSTANT(), Instant(1, 5_000_000), 1_005_000),
    (Types.TUPLE([Types.INT(), Types.SQL_DATE()]), (1, dt.date(1970, 1, 2)), (1, 1)),
    (Types.ROW([Types.INT(), Types.SQL_DATE()]), (1, dt.date(1970, 1, 2)), (0, 1, 1)),
    (Types.ROW([Types.INT(), Types.INT()]), Row.of_kind(RowKind.DELETE, 1, None), (3, 1, None)),
    (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]), {"b": 2, "a": 1}, (0, 1, 2)),
    (Types.ROW([Types.INT()]), None, None),
    (Types.SQL_DATE(), None, None),
]


@pytest.mark.parametrize(("declared", "value", "internal"), INTERNAL, ids=str)
def test_the_internal_form_is_pyflinks(declared: TypeInformation, value: Any, internal: Any) -> None:
    assert declared.to_internal_type(value) == internal


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Types.SQL_DATE(), dt.date(2024, 2, 29)),
        (Types.SQL_TIME(), dt.time(13, 5, 6, 789123)),
        (Types.SQL_TIMESTAMP(), dt.datetime(2024, 2, 29, 13, 5, 6, 789123)),
        (Types.INSTANT(), Instant(-1, 500_000_000)),
    ],
    ids=str,
)
def test_the_internal_form_leads_back(declared: TypeInformation, value: Any) -> None:
    assert declared.need_conversion()
    assert declared.from_internal_type(declared.to_internal_type(value)) == value


def test_what_has_no_internal_form_is_refused() -> None:
    with pytest.raises(ValueError, match="can't become a row"):
        Types.ROW([Types.INT()]).to_internal_type(5)
    with pytest.raises(ValueError, match="can't become a tuple"):
        Types.TUPLE([Types.INT()]).to_internal_type({"a": 1})


def test_there_is_no_java_type() -> None:
    with pytest.raises(UnsupportedFeatureError, match="get_java_type_info"):
        Types.INT().get_java_type_info()
