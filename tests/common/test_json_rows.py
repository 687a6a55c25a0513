"""Rows as JSON. What is read and written was taken from PyFlink 2.3.0's own schemas, unless it says otherwise."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
from decimal import Decimal
from typing import Any

import pytest

from beadline.common import Row, Types
from beadline.common.serialization import JsonRowDeserializationSchema as FromSerialization
from beadline.common.typeinfo import TypeInformation
from beadline.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from beadline.errors import ConfigurationError, SerializationError, TypeMismatchError, UnsupportedFeatureError

INF = float("inf")
ERROR = object()


def reader(field: TypeInformation) -> JsonRowDeserializationSchema:
    return JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [field])).build()


def written(field: TypeInformation, value: Any) -> str:
    schema = JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED(["a"], [field])).build()
    text = schema.serialize(Row(a=value)).decode()
    assert text.startswith('{"a":')
    return text[5:-1]


READ: list[tuple[TypeInformation, str, Any]] = [
    (Types.STRING(), '"x"', "x"),
    (Types.STRING(), "1", "1"),
    (Types.STRING(), "1.50", "1.5"),
    (Types.STRING(), "1e10", "1.0E10"),
    (Types.STRING(), "true", "true"),
    (Types.STRING(), '{"b": 1.0}', '{"b":1.0}'),
    (Types.STRING(), '[1, "z"]', '[1,"z"]'),
    (Types.STRING(), "null", None),
    (Types.INT(), "1", 1),
    (Types.INT(), "-1.7", -1),
    (Types.INT(), "1e3", 1000),
    (Types.INT(), '" 5 "', 5),
    (Types.INT(), '"+5"', 5),
    (Types.INT(), '"1_0"', ERROR),
    (Types.INT(), "2147483648", ERROR),
    (Types.INT(), "true", ERROR),
    (Types.INT(), "[1]", ERROR),
    (Types.LONG(), "1.7", 1),
    (Types.LONG(), "9223372036854775808", ERROR),
    (Types.SHORT(), "1", 1),
    (Types.SHORT(), "1.0", ERROR),
    (Types.SHORT(), "40000", ERROR),
    (Types.BYTE(), "5", 5),
    (Types.BYTE(), "200", ERROR),
    (Types.BOOLEAN(), "true", True),
    (Types.BOOLEAN(), "1", False),
    (Types.BOOLEAN(), '"TRUE"', True),
    (Types.BOOLEAN(), '"yes"', False),
    (Types.DOUBLE(), "1", 1.0),
    (Types.DOUBLE(), '"1.5"', 1.5),
    (Types.DOUBLE(), '"Infinity"', INF),
    (Types.DOUBLE(), '"inf"', ERROR),
    (Types.DOUBLE(), "1e400", INF),
    (Types.DOUBLE(), "NaN", ERROR),
    (Types.DOUBLE(), "true", ERROR),
    (Types.FLOAT(), "16777217", 16777216.0),
    (Types.BIG_DEC(), "1", Decimal(1)),
    (Types.BIG_DEC(), "0.1234567890123456789", Decimal("0.1234567890123456789")),
    (Types.BIG_DEC(), '"1.50"', Decimal("1.50")),
    (Types.BIG_INT(), '"12345678901234567890"', 12345678901234567890),
    (Types.BIG_INT(), "1.5", ERROR),
    (Types.SQL_DATE(), '"2020-01-02"', dt.date(2020, 1, 2)),
    (Types.SQL_DATE(), '"20200102"', ERROR),
    (Types.SQL_DATE(), "5", ERROR),
    (Types.SQL_TIME(), '"10:11:12Z"', dt.time(10, 11, 12)),
    (Types.SQL_TIME(), '"10:11:12"', ERROR),
    (Types.SQL_TIME(), '"10:11:12.123Z"', ERROR),
    (Types.SQL_TIMESTAMP(), '"2020-01-02T10:11:12Z"', dt.datetime(2020, 1, 2, 10, 11, 12)),
    (Types.SQL_TIMESTAMP(), '"2020-01-02T10:11:12.123456Z"', dt.datetime(2020, 1, 2, 10, 11, 12, 123456)),
    (Types.SQL_TIMESTAMP(), '"2020-01-02T10:11:12"', ERROR),
    (Types.SQL_TIMESTAMP(), '"2020-01-02 10:11:12"', ERROR),
    (Types.SQL_TIMESTAMP(), '"2020-01-02T10:11:12+01:00"', ERROR),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), '"AQI="', b"\x01\x02"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), "[1, 2]", [1, 2]),
    (Types.BASIC_ARRAY(Types.INT()), '[1, null, "3"]', [1, None, 3]),
    (Types.OBJECT_ARRAY(Types.ROW_NAMED(["b"], [Types.INT()])), '[{"b": 1}, null, {}]', [Row(b=1), None, Row(b=None)]),
    (Types.LIST(Types.INT()), "[1, 2]", [1, 2]),
    (Types.MAP(Types.STRING(), Types.INT()), '{"x": 1, "y": null}', {"x": 1, "y": None}),
    (Types.MAP(Types.INT(), Types.INT()), '{"1": "2"}', {1: 2}),
    (Types.CHAR(), '"x"', "x"),
    (Types.CHAR(), '"xy"', ERROR),
    (Types.ROW([Types.INT(), Types.STRING()]), '{"f0": 1, "f1": "x"}', Row(f0=1, f1="x")),
    (Types.ROW([Types.INT(), Types.STRING()]), '[1, "x"]', ERROR),
    # Flink gives null, 0 and an empty map for these, and so loses what was there.
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "[1, 2]", ERROR),
    (Types.PRIMITIVE_ARRAY(Types.INT()), "[1, null]", ERROR),
    (Types.MAP(Types.STRING(), Types.INT()), "[1]", ERROR),
]


@pytest.mark.parametrize(("field", "text", "expected"), [pytest.param(*c, id=f"{c[0]}-{c[1]}") for c in READ])
def test_values_are_converted(field: TypeInformation, text: str, expected: Any) -> None:
    message = f'{{"a": {text}}}'.encode()
    if expected is ERROR:
        with pytest.raises(SerializationError, match=r"as JSON of RowTypeInfo.*field 'a'|NaN is not JSON"):
            reader(field).deserialize(message)
        return
    row = reader(field).deserialize(message)
    assert row is not None
    assert row["a"] == expected
    assert type(row["a"]) is type(expected)


def test_nan_is_read_from_text() -> None:
    row = reader(Types.DOUBLE()).deserialize(b'{"a": "NaN"}')
    assert row is not None
    assert math.isnan(row.a)


WRITTEN: list[tuple[TypeInformation, Any, str]] = [
    (Types.STRING(), 'xé\u2028\x01"/\\', '"xé\u2028\\u0001\\"/\\\\"'),
    (Types.DOUBLE(), 1e10, "1.0E10"),
    (Types.DOUBLE(), 1.0, "1.0"),
    (Types.DOUBLE(), float("nan"), '"NaN"'),
    (Types.DOUBLE(), -INF, '"-Infinity"'),
    (Types.FLOAT(), 1.1, "1.1"),
    (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
    (Types.BIG_DEC(), Decimal("0.00000001"), "1E-8"),
    (Types.BIG_INT(), 12345678901234567890, "12345678901234567890"),
    (Types.BOOLEAN(), True, "true"),
    (Types.INT(), None, "null"),
    (Types.SQL_DATE(), dt.date(2020, 1, 2), '"2020-01-02"'),
    (Types.SQL_TIME(), dt.time(10, 11, 12), '"10:11:12Z"'),
    (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 2, 10, 11, 12, 500_000), '"2020-01-02T10:11:12.5Z"'),
    (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 2, 10, 11), '"2020-01-02T10:11:00Z"'),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x01\x02", '"AQI="'),
    (Types.BASIC_ARRAY(Types.STRING()), ["x", None], '["x",null]'),
    (Types.MAP(Types.STRING(), Types.INT()), {"x": 1}, '{"x":1}'),
    (Types.ROW_NAMED(["b"], [Types.LONG()]), Row(b=1), '{"b":1}'),
]


@pytest.mark.parametrize(("field", "value", "text"), [pytest.param(*c, id=f"{c[0]}-{c[2]}") for c in WRITTEN])
def test_values_are_written(field: TypeInformation, value: Any, text: str) -> None:
    assert written(field, value) == text
    json.loads(f'{{"a":{text}}}')
    if value == value:
        back = reader(field).deserialize(f'{{"a":{text}}}'.encode())
        assert back is not None
        assert back.a == (pytest.approx(value) if field == Types.FLOAT() else value)


PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


class TestReading:
    def test_takes_the_declared_fields(self) -> None:
        schema = JsonRowDeserializationSchema.builder().type_info(PERSON).build()
        row = schema.deserialize('{"x": [], "age": 7, "name": "Zoë"}'.encode())
        assert row == Row(name="Zoë", age=7)
        assert schema.get_produced_type() == PERSON
        assert schema.deserialize(b"null") is None
        assert schema.deserialize(None) is None
        assert FromSerialization is JsonRowDeserializationSchema

    def test_what_is_missing(self) -> None:
        builder = JsonRowDeserializationSchema.builder().type_info(PERSON)
        assert builder.build().deserialize(b'{"age": 1}') == Row(name=None, age=1)
        strict = builder.fail_on_missing_field().build()
        assert strict.deserialize(b'{"age": 1, "name": null}') == Row(name=None, age=1)
        with pytest.raises(SerializationError, match=r"there are no fields \['name'\]"):
            strict.deserialize(b'{"age": 1}')

    @pytest.mark.parametrize("message", [b'{"age":', b"", b"[1]", b"\xff", b'{"age": 1} {"age": 2}', b"[" * 100_000])
    def test_what_is_no_object(self, message: bytes) -> None:
        builder = JsonRowDeserializationSchema.builder().type_info(PERSON)
        with pytest.raises(SerializationError, match=r"as JSON of RowTypeInfo\(name: String, age: Integer\)") as raised:
            builder.build().deserialize(message)
        assert len(str(raised.value)) < 1000
        assert builder.ignore_parse_errors().build().deserialize(message) is None

    def test_a_field_that_does_not_fit_is_none_if_errors_are_ignored(self) -> None:
        schema = JsonRowDeserializationSchema.builder().type_info(PERSON).ignore_parse_errors().build()
        assert schema.deserialize(b'{"name": "x", "age": "old"}') == Row(name="x", age=None)

    def test_settings_that_exclude_each_other(self) -> None:
        builder = JsonRowDeserializationSchema.builder().type_info(PERSON)
        with pytest.raises(ConfigurationError, match="exclude each other"):
            builder.fail_on_missing_field().ignore_parse_errors().build()

    def test_needs_the_type_of_a_row(self) -> None:
        with pytest.raises(ConfigurationError, match="call type_info"):
            JsonRowDeserializationSchema.builder().build()
        with pytest.raises(TypeMismatchError, match="needs the type of a row, got String"):
            JsonRowDeserializationSchema.builder().type_info(Types.STRING()).build()
        with pytest.raises(UnsupportedFeatureError, match="JSON has no form for"):
            reader(Types.PICKLED_BYTE_ARRAY())

    def test_travels_to_the_workers(self) -> None:
        schema = pickle.loads(pickle.dumps(reader(Types.INT())))
        assert schema.deserialize(b'{"a": 1}') == Row(a=1)


class TestWriting:
    def test_keeps_the_order_of_the_type(self) -> None:
        schema = JsonRowSerializationSchema.builder().with_type_info(PERSON).build()
        assert schema.serialize(Row(age=7, name="Zoë")) == '{"name":"Zoë","age":7}'.encode()
        assert schema.serialize(Row("x", None)) == b'{"name":"x","age":null}'
        assert pickle.loads(pickle.dumps(schema)).serialize(("x", 1)) == b'{"name":"x","age":1}'

    def test_refuses_what_is_not_of_the_type(self) -> None:
        schema = JsonRowSerializationSchema.builder().with_type_info(PERSON).build()
        with pytest.raises(SerializationError, match="field 'age'"):
            schema.serialize(Row(name="x", age="old"))
        with pytest.raises(SerializationError, match="Can't write 5 as JSON"):
            schema.serialize(5)
        with pytest.raises(SerializationError, match="takes a finite decimal"):
            written(Types.BIG_DEC(), Decimal("NaN"))

    def test_needs_the_type_of_a_row(self) -> None:
        with pytest.raises(TypeMismatchError, match="call with_type_info"):
            JsonRowSerializationSchema.builder().build()
        with pytest.raises(TypeMismatchError, match="needs the type of a row"):
            JsonRowSerializationSchema.builder().with_type_info(Types.INT()).build()
        with pytest.raises(UnsupportedFeatureError, match="JSON has no form for"):
            written(Types.TUPLE([Types.INT()]), (1,))


class TestJsonSchemas:
    def test_give_pyflinks_types(self) -> None:
        schema = {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": "string"},
                "c": {"type": ["null", "number"]},
                "d": {"type": "string", "format": "date-time"},
                "e": {"type": "string", "contentEncoding": "base64"},
                "f": {"type": "array", "items": {"type": "string"}},
                "g": {"type": "array", "items": {"type": "number"}},
                "h": {"type": "array", "items": [{"type": "string"}, {"type": "boolean"}]},
                "i": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/p"}]},
                "j": {"$ref": "#/definitions/p"},
                "k": {"type": "string", "format": "email"},
            },
            "definitions": {"p": {"type": "object", "properties": {"x": {"type": "string", "format": "time"}}}},
        }
        built = JsonRowDeserializationSchema.builder().json_schema(json.dumps(schema)).build()
        assert str(built.get_produced_type()) == (
            "RowTypeInfo(a: BigDecimal, b: String, c: BigDecimal, d: TimestampTypeInfo, "
            "e: PrimitiveArrayTypeInfo<Byte>, f: BasicArrayTypeInfo<String>, g: ObjectArrayTypeInfo<BigDecimal>, "
            "h: RowTypeInfo(String, Boolean), i: RowTypeInfo(x: TimeTypeInfo), j: RowTypeInfo(x: TimeTypeInfo), "
            "k: String)"
        )

    @pytest.mark.parametrize(
        ("schema", "message"),
        [
            ("[", "is not JSON"),
            ("{}", "there is no 'type'"),
            ('{"type": "null"}', "nothing but null"),
            ('{"type": "strung"}', "unknown type 'strung'"),
            ('{"type": ["string", "number"]}', "String or BigDecimal can't be one type"),
            ('{"anyOf": []}', "'anyOf' can't become a type"),
            ('{"type": "array"}', "an array needs 'items'"),
            ('{"type": "object", "additionalProperties": true}', "'additionalProperties'"),
            ('{"type": "object", "properties": {"a": {"type": "null"}}}', "#/properties/a: there is no type for null"),
            ('{"type": "string", "contentEncoding": "zip"}', "contentEncoding 'zip'"),
            ('{"$ref": "http://x"}', "leaves the document"),
            ('{"$ref": "#/definitions/x"}', "there is no #/definitions/x"),
            ('{"$ref": "#"}', "# contains itself"),
        ],
    )
    def test_that_have_no_type(self, schema: str, message: str) -> None:
        with pytest.raises((ConfigurationError, UnsupportedFeatureError), match=message):
            JsonRowDeserializationSchema.builder().json_schema(schema)

    def test_none(self) -> None:
        with pytest.raises(TypeMismatchError, match="got None"):
            JsonRowDeserializationSchema.builder().json_schema(None)  # type: ignore[arg-type]
