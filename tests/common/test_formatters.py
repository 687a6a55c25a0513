"""What ``print()`` shows. The lines were printed by programs run by PyFlink 2.3.0, except where a test says why not."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal, Inexact, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import Instant, Row, RowKind, TypeInformation, Types
from beadline.common._types.javatext import to_float32
from beadline.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo

PRINTED_BY_PYFLINK = [
    (Types.STRING(), [("héllo", "héllo"), ("", "")]),
    (Types.BYTE(), [(-128, "-128"), (127, "127")]),
    (Types.BOOLEAN(), [(True, "true"), (False, "false")]),
    (Types.SHORT(), [(-32768, "-32768")]),
    (Types.INT(), [(2147483647, "2147483647")]),
    (Types.LONG(), [(-(2**63), "-9223372036854775808"), (5, "5")]),
    (
        Types.FLOAT(),
        [
            (0.1, "0.1"),
            (1e10, "1.0E10"),
            (1.0, "1.0"),
            (1e-5, "1.0E-5"),
            (0.001, "0.001"),
            (3.4028234663852886e38, "3.4028235E38"),
            (-0.0, "-0.0"),
            (1e7, "1.0E7"),
            (9999999.0, "9999999.0"),
            (1.4e-45, "1.4E-45"),
            (math.inf, "Infinity"),
            (math.nan, "NaN"),
        ],
    ),
    (
        Types.DOUBLE(),
        [
            (0.1, "0.1"),
            (1e10, "1.0E10"),
            (1.0, "1.0"),
            (1e7, "1.0E7"),
            (9999999.0, "9999999.0"),
            (123456789.125, "1.23456789125E8"),
            (1e-5, "1.0E-5"),
            (0.001, "0.001"),
            (1e-3 / 3, "3.333333333333333E-4"),
            (1e100, "1.0E100"),
            (5e-324, "4.9E-324"),
            (1.7976931348623157e308, "1.7976931348623157E308"),
            (-0.0, "-0.0"),
            (math.nan, "NaN"),
            (-math.inf, "-Infinity"),
            (100.0, "100.0"),
            (12345.678, "12345.678"),
            (0.002, "0.002"),
            (1e21, "1.0E21"),
            (1e16, "1.0E16"),
        ],
    ),
    (
        Types.BIG_DEC(),
        [
            (Decimal("1.50"), "1.50"),
            (Decimal("1E+3"), "1E+3"),
            (Decimal("0.00000001"), "1E-8"),
            (Decimal("1E-7"), "1E-7"),
            (Decimal("-123.456"), "-123.456"),
            (Decimal("1E-6"), "0.000001"),
        ],
    ),
    (
        Types.INSTANT(),
        [
            (Instant(1700000000, 123456789), "2023-11-14T22:13:20.123456789Z"),
            (Instant(0, 0), "1970-01-01T00:00:00Z"),
            (Instant(-1, 500000000), "1969-12-31T23:59:59.500Z"),
            (Instant(1, 5000), "1970-01-01T00:00:01.000005Z"),
            (Instant(253402300800, 0), "+10000-01-01T00:00:00Z"),
        ],
    ),
    (Types.SQL_DATE(), [(dt.date(2024, 2, 29), "2024-02-29")]),
    (Types.SQL_TIME(), [(dt.time(13, 5, 6, 789123), "13:05:06"), (dt.time(0, 0), "00:00:00")]),
    (
        Types.SQL_TIMESTAMP(),
        [
            (dt.datetime(2024, 2, 29, 13, 5, 6, 789000), "2024-02-29 13:05:06.789"),
            (dt.datetime(2024, 2, 29), "2024-02-29 00:00:00.0"),
            (dt.datetime(2024, 2, 29, 0, 0, 1, 120000), "2024-02-29 00:00:01.12"),
        ],
    ),
    (
        Types.PICKLED_BYTE_ARRAY(),
        [
            ("s", "s"),
            ((1, "a", None), "(1, 'a', None)"),
            ([1.0, True], "[1.0, True]"),
            ({"a": 1}, "{'a': 1}"),
            (1e10, "10000000000.0"),
        ],
    ),
    (
        Types.ROW([Types.STRING(), Types.INT(), Types.DOUBLE(), Types.BOOLEAN()]),
        [
            (Row("a", 1, 1e10, True), "+I[a,1,10000000000.0,True]"),
            (Row(None, None, None, None), "+I[None,None,None,None]"),
            (Row.of_kind(RowKind.DELETE, "b", 2, 1.0, False), "-D[b,2,1.0,False]"),
        ],
    ),
    (
        Types.ROW_NAMED(["n", "v"], [Types.STRING(), Types.FLOAT()]),
        [
            (Row(n="a", v=0.1), "+I[a,0.10000000149011612]"),
            (Row(v=2.5, n="swap"), "+I[swap,2.5]"),
            (Row("pos", 1.5), "+I[pos,1.5]"),
        ],
    ),
    (
        Types.ROW_NAMED(
            ["r", "t", "l", "m", "d", "ts"],
            [
                Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]),
                Types.TUPLE([Types.INT(), Types.STRING()]),
                Types.LIST(Types.INT()),
                Types.MAP(Types.STRING(), Types.INT()),
                Types.SQL_DATE(),
                Types.BIG_DEC(),
            ],
        ),
        [
            (
                Row(r=Row(x=1, y="q"), t=(1, "z"), l=[1, 2], m={"k": 1}, d=dt.date(2020, 1, 2), ts=Decimal("1.5")),
                "+I[Row(x=1, y='q'),(1, 'z'),[1, 2],{'k': 1},2020-01-02,1.5]",
            )
        ],
    ),
    (Types.TUPLE([Types.STRING(), Types.LONG()]), [(("a", 1), "(a,1)")]),
    (
        Types.TUPLE(
            [
                Types.BOOLEAN(),
                Types.DOUBLE(),
                Types.FLOAT(),
                Types.BIG_DEC(),
                Types.SQL_DATE(),
                Types.SQL_TIME(),
                Types.SQL_TIMESTAMP(),
                Types.INSTANT(),
            ]
        ),
        [
            (
                (
                    True,
                    1e10,
                    0.1,
                    Decimal("1.50"),
                    dt.date(2024, 2, 29),
                    dt.time(1, 2, 3),
                    dt.datetime(2024, 2, 29, 1, 2, 3, 4000),
                    Instant(5, 6),
                ),
                "(true,1.0E10,0.1,1.50,2024-02-29,01:02:03,2024-02-29 01:02:03.004,1970-01-01T00:00:05.000000006Z)",
            )
        ],
    ),
    (
        Types.TUPLE(
            [
                Types.ROW([Types.STRING(), Types.DOUBLE()]),
                Types.TUPLE([Types.INT(), Types.STRING()]),
                Types.LIST(Types.STRING()),
                Types.MAP(Types.STRING(), Types.DOUBLE()),
                Types.PRIMITIVE_ARRAY(Types.INT()),
                Types.BASIC_ARRAY(Types.STRING()),
                Types.OBJECT_ARRAY(Types.TUPLE([Types.INT()])),
                Types.PRIMITIVE_ARRAY(Types.BYTE()),
            ]
        ),
        [
            (
                (Row("a", 1.0), (1, "b"), ["x", "y"], {"k": 1.5}, [1, 2], ["p", "q"], [(1,), (2,)], b"ab"),
                "(+I[a, 1.0],(1,b),[x, y],{k=1.5},[1, 2],[p, q],[(1), (2)],[97, 98])",
            )
        ],
    ),
    (Types.MAP(Types.STRING(), Types.INT()), [({"a": 1, "b": None}, "{a=1, b=null}"), ({}, "{}")]),
    (Types.MAP(Types.INT(), Types.DOUBLE()), [({1: 1.0}, "{1=1.0}")]),
    (Types.LIST(Types.INT()), [([1, 2], "[1, 2]"), ([], "[]")]),
    (Types.LIST(Types.DOUBLE()), [([1.0, 1e10], "[1.0, 1.0E10]")]),
    (Types.LIST(Types.STRING()), [(["a", "b"], "[a, b]")]),
    (
        Types.LIST(Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.DOUBLE()])),
        [([Row(a=1, b=1.0)], "[+I[1, 1.0]]")],
    ),
    (Types.LIST(Types.TUPLE([Types.INT(), Types.BOOLEAN()])), [([(1, True)], "[(1,true)]")]),
]


def printed(declared: TypeInformation, value: Any) -> str:
    converter = declared.converter()
    return declared.formatter()(value if converter is None else converter(value))


@pytest.mark.parity
@pytest.mark.parametrize(
    ("declared", "value", "line"),
    [
        pytest.param(declared, value, line, id=line[:40])
        for declared, pairs in PRINTED_BY_PYFLINK
        for value, line in pairs
    ],
)
def test_a_value_is_printed_as_pyflink_prints_it(declared: TypeInformation, value: Any, line: str) -> None:
    assert printed(declared, value) == line


# PyFlink can't print these, or prints what helps nobody.
PRINTED_OTHERWISE = [
    # Flink prints an array by its class and address, such as [I@668d1878.
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2], "[1, 2]"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"a\xff", "[97, -1]"),
    (Types.BASIC_ARRAY(Types.STRING()), ["a", None], "[a, null]"),
    (Types.OBJECT_ARRAY(Types.ROW([Types.INT()])), [Row(1), None], "[+I[1], null]"),
    # Python and Java disagree in Flink about how these two travel, so they arrive broken or not at all.
    (Types.CHAR(), "é", "é"),
    (Types.BIG_INT(), 2**80, str(2**80)),
    # JDK 17 printed 1.9999999999999998E23, 1.23456792E8 and 1.17549435E-38; from JDK 19 on, no digit is too many.
    (Types.DOUBLE(), 2e23, "2.0E23"),
    (Types.FLOAT(), 123456789.0, "1.2345679E8"),
    (Types.FLOAT(), 1.17549435e-38, "1.1754944E-38"),
    # java.sql.Date counts by the Julian calendar before 1582, and printed 0001-01-03.
    (Types.SQL_DATE(), dt.date(1, 1, 1), "0001-01-01"),
    # A Java program prints the pickle's bytes.
    (Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()]), ("a", [1]), "(a,[1])"),
    (Types.TUPLE([Types.STRING(), Types.INSTANT()]), ("a", None), "(a,null)"),
    (Types.PICKLED_BYTE_ARRAY(), None, "None"),
    (Types.PICKLED_BYTE_ARRAY(), b"by", "b'by'"),
    (Types.LIST(Types.BYTE()), b"ab", "[97, 98]"),
    (Types.INSTANT(), None, "null"),
    (Types.INSTANT(), Instant(-62198755200, 0), "-0001-01-01T00:00:00Z"),
    # Types that only tables make.
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), dt.date(2024, 2, 29), "2024-02-29"),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME), dt.time(13, 5), "13:05"),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME), dt.time(13, 5, 0, 120000), "13:05:00.120"),
    (
        LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        "2024-02-29T01:02:03.000004",
    ),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), None, "null"),
    (ExternalTypeInfo(Types.ROW([Types.INT()])), Row(1), "+I[1]"),
]


@pytest.mark.parametrize(("declared", "value", "line"), PRINTED_OTHERWISE, ids=str)
def test_a_value_is_printed_readably(declared: TypeInformation, value: Any, line: str) -> None:
    assert printed(declared, value) == line


def test_negative_years_count_from_zero_as_in_java() -> None:
    year_zero = Instant(-62167219200, 0)
    assert printed(Types.INSTANT(), year_zero) == "0000-01-01T00:00:00Z"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_double_reads_back_as_itself(value: float) -> None:
    text = printed(Types.DOUBLE(), value)
    assert float(text) == value
    assert math.copysign(1, float(text)) == math.copysign(1, value)
    assert "." in text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_printed_float_reads_back_as_itself(value: float) -> None:
    assert to_float32(float(printed(Types.FLOAT(), value))) == value


def test_the_programs_own_decimal_settings_do_not_matter() -> None:
    with localcontext() as context:
        context.prec = 1
        context.traps[Inexact] = True
        assert printed(Types.DOUBLE(), 12345.678) == "12345.678"
        assert printed(Types.FLOAT(), 12345.678) == "12345.678"


@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)))
def test_a_printed_instant_is_the_iso_text(moment: dt.datetime) -> None:
    moment = moment.replace(microsecond=0)
    seconds = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=1)
    assert printed(Types.INSTANT(), Instant(seconds, 0)) == f"{moment.isoformat()}Z"
