"""Rows as lines of CSV, there and back."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import Row, Types
from beadline.common._formats.csv_dialect import CsvDialect
from beadline.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from beadline.errors import ConfigurationError, SerializationError, TypeMismatchError, UnsupportedFeatureError

PERSON = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])


def reader(type_info: Any = PERSON) -> CsvRowDeserializationSchema.Builder:
    return CsvRowDeserializationSchema.Builder(type_info)


def writer(type_info: Any = PERSON) -> CsvRowSerializationSchema.Builder:
    return CsvRowSerializationSchema.Builder(type_info)


VALUES = [
    (Types.STRING(), "a", b"a\n"),
    (Types.STRING(), "", b"\n"),
    (Types.STRING(), 'say "hi", x\ny', b'"say ""hi"", x\ny"\n'),
    (Types.STRING(), "漢字", "漢字\n".encode()),
    (Types.BOOLEAN(), True, b"true\n"),
    (Types.BYTE(), -128, b"-128\n"),
    (Types.LONG(), 2**63 - 1, b"9223372036854775807\n"),
    (Types.BIG_INT(), 10**30, b"1" + b"0" * 30 + b"\n"),
    (Types.DOUBLE(), 1.5, b"1.5\n"),
    (Types.DOUBLE(), 1e10, b"1.0E10\n"),
    (Types.BIG_DEC(), Decimal("1.50"), b"1.50\n"),
    (Types.SQL_DATE(), dt.date(2020, 1, 31), b"2020-01-31\n"),
    (Types.SQL_TIME(), dt.time(23, 59, 58), b"23:59:58\n"),
    (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 31, 1, 2, 3, 120000), b'"2020-01-31 01:02:03.12"\n'),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff", b"AP8=\n"),
    (Types.BASIC_ARRAY(Types.INT()), [1, None, 3], b"1;;3\n"),
    (Types.OBJECT_ARRAY(Types.STRING()), ["a", "b"], b"a;b\n"),
]


@pytest.mark.parametrize(("type_info", "value", "line"), VALUES, ids=lambda value: None)
def test_values_are_written_and_read(type_info: Any, value: Any, line: bytes) -> None:
    row_type = Types.ROW_NAMED(["f", "last"], [type_info, Types.INT()])
    written = writer(row_type).build().serialize(Row(f=value, last=1))
    assert written == line[:-1] + b",1\n"
    assert reader(row_type).build().deserialize(written) == Row(f=value, last=1)


def test_null_is_an_empty_field_unless_that_is_a_text() -> None:
    assert writer().build().serialize(Row(id=None, name=None)) == b",\n"
    assert reader().build().deserialize(b",") == Row(id=None, name="")


def test_null_may_have_a_name() -> None:
    assert writer().set_null_literal("n/a").build().serialize(Row(id=None, name=None)) == b"n/a,n/a\n"
    assert reader().set_null_literal("n/a").build().deserialize(b"n/a,n/a") == Row(id=None, name=None)


def test_inner_rows_are_separated_like_arrays() -> None:
    row_type = Types.ROW_NAMED(["id", "place"], [Types.INT(), Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.INT()])])
    row = Row(id=1, place=Row(x=2, y=None))
    assert writer(row_type).build().serialize(row) == b"1,2;\n"
    assert reader(row_type).build().deserialize(b"1,2;") == row
    with pytest.raises(SerializationError, match="2 fields are needed, got 3"):
        reader(row_type).build().deserialize(b"1,2;3;4")


def test_characters_can_be_chosen() -> None:
    line = (
        writer()
        .set_field_delimiter("|")
        .set_quote_character("'")
        .set_line_delimiter("\r\n")
        .build()
        .serialize(Row(id=1, name="it's|so"))
    )
    assert line == b"1|'it''s|so'\r\n"
    read = reader().set_field_delimiter("|").set_quote_character("'").build()
    assert read.deserialize(line) == Row(id=1, name="it's|so")


def test_escapes() -> None:
    made = writer().set_escape_character("\\").build()
    read = reader().set_escape_character("\\").build()
    row = Row(id=1, name='back\\slash, "quote"')
    assert read.deserialize(made.serialize(row)) == row
    assert read.deserialize(b"1,a\\,b") == Row(id=1, name="a,b")


def test_without_quotes_a_separator_has_no_form() -> None:
    plain = writer().disable_quote_character()
    assert plain.build().serialize(Row(id=1, name='a"b')) == b'1,a"b\n'
    with pytest.raises(SerializationError, match="without quotes can't hold 'a,b'"):
        plain.build().serialize(Row(id=1, name="a,b"))
    assert plain.set_escape_character("\\").build().serialize(Row(id=1, name="a,b")) == b"1,a\\,b\n"


def test_comments_and_empty_lines_are_no_rows() -> None:
    assert reader().set_allow_comments(True).build().deserialize(b"# 1,a") is None
    assert reader().build().deserialize(b"\n") is None
    assert reader().build().deserialize(None) is None
    with pytest.raises(SerializationError, match="field 'id'"):
        reader().build().deserialize(b"# 1,a")


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"x,a", "field 'id': invalid literal"),
        (b"1_000,a", "not a whole number"),
        (b"99999999999,a", "not a whole number of 32 bits"),
        (b"1", "2 fields are needed, and there are 1"),
        (b"1,a,b", "2 fields are needed, and there are 3"),
        (b'1,"a', "unexpected end of data"),
        (b'1,"a"b', "expected after"),
        (b"1,a\n2,b", "it has 2 lines"),
        (b"\xff,a", "can't decode"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_said_or_skipped(message: bytes, problem: str) -> None:
    with pytest.raises(SerializationError, match=problem):
        reader().build().deserialize(message)
    lenient = reader().set_ignore_parse_errors(True).build().deserialize(message)
    assert lenient is None or isinstance(lenient, Row)


def test_a_field_that_cannot_be_read_is_null_if_errors_are_ignored() -> None:
    lenient = reader().set_ignore_parse_errors(True).build()
    assert lenient.deserialize(b"x,a") == Row(id=None, name="a")
    assert lenient.deserialize(b"1") == Row(id=1, name="")
    assert lenient.deserialize(b"\xff") is None


def test_schemas_travel_after_use() -> None:
    read, written = reader().build(), writer().build()
    line = written.serialize(Row(id=1, name="a"))
    assert pickle.loads(pickle.dumps(read)).deserialize(line) == read.deserialize(line)
    assert pickle.loads(pickle.dumps(written)).serialize(Row(id=1, name="a")) == line
    assert read.get_produced_type() == PERSON


def test_what_cannot_work_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="must be one character, got ';;'"):
        reader().set_field_delimiter(";;")
    with pytest.raises(ConfigurationError, match="can't be the separator and a quote"):
        reader().set_field_delimiter('"')
    with pytest.raises(ConfigurationError, match="set_line_delimiter"):
        writer().set_line_delimiter("|")
    with pytest.raises(TypeMismatchError, match="needs the type of a row"):
        reader(Types.INT()).build()
    with pytest.raises(UnsupportedFeatureError, match="CSV has no form for"):
        reader(Types.ROW([Types.MAP(Types.STRING(), Types.INT())])).build()
    with pytest.raises(SerializationError, match="Can't write"):
        writer().build().serialize(Row(id="x", name="a"))
    with pytest.raises(SerializationError, match="separates elements"):
        writer(Types.ROW([Types.BASIC_ARRAY(Types.STRING())])).build().serialize(Row(["a;b"]))


texts = st.text(alphabet='ab,"\\\n\r;# é', max_size=8)


@given(rows=st.lists(st.tuples(st.none() | st.integers(-(2**31), 2**31 - 1), texts), max_size=6), escape=st.booleans())
def test_any_text_comes_back(rows: list[tuple[int | None, str]], escape: bool) -> None:
    writing, reading = writer(), reader()
    if escape:
        writing, reading = writing.set_escape_character("\\"), reading.set_escape_character("\\")
    for number, text in rows:
        line = writing.build().serialize(Row(id=number, name=text))
        assert reading.build().deserialize(line) == Row(id=number, name=text)


@given(rows=st.lists(texts.filter(lambda text: "\r" not in text), min_size=1, max_size=8))
def test_rows_are_found_in_bytes(rows: list[str]) -> None:
    dialect = CsvDialect()
    lines = [(dialect.line([text, "1"], [False, True]) + "\n").encode() for text in rows]
    data = b"".join(lines)
    assert dialect.split(data) == lines
    assert dialect.last_row_end(data + b'"open\n') == len(data)
    assert dialect.last_row_end(data) == len(data)
