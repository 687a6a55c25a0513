"""Records to bytes and back; strings and row fields as Flink 2.3.0's schemas gave them."""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any

import pytest

from beadline import common
from beadline.common import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    Row,
    SerializationSchema,
    SimpleStringSchema,
    Types,
    TypeSerializer,
)
from beadline.common.io import InputFormat
from beadline.common.serialization import BulkWriterFactory, RowDataBulkWriterFactory, RowFieldExtractorSchema
from beadline.common.serializer import VoidNamespaceSerializer
from beadline.common.utils import JavaObjectWrapper
from beadline.errors import ConfigurationError, SerializationError, UnsupportedFeatureError


def test_strings() -> None:
    schema = SimpleStringSchema()
    assert schema.serialize("é") == b"\xc3\xa9"
    assert schema.deserialize(b"\xff\xfea") == "\ufffd\ufffda"
    assert schema.get_produced_type() == Types.STRING()
    assert SimpleStringSchema("ISO-8859-1").serialize("é€") == b"\xe9?"
    assert pickle.loads(pickle.dumps(SimpleStringSchema("latin-1"))).deserialize(b"\xe9") == "é"
    with pytest.raises(ConfigurationError, match="no character set 'x-nope'"):
        SimpleStringSchema("x-nope")
    with pytest.raises(SerializationError, match="takes str, got 5 of type int"):
        schema.serialize(5)  # type: ignore[arg-type]


def test_bytes() -> None:
    schema = ByteArraySchema()
    assert schema.serialize(b"\x00\xff") == b"\x00\xff"
    assert schema.deserialize(b"\x00\xff") == b"\x00\xff"
    assert schema.get_produced_type() == Types.PRIMITIVE_ARRAY(Types.BYTE())
    with pytest.raises(SerializationError, match="takes bytes, got 'x' of type str"):
        schema.serialize("x")  # type: ignore[arg-type]


def test_one_field_of_a_row() -> None:
    schema = RowFieldExtractorSchema(0)
    assert schema.serialize(Row(b"ab", 1)) == b"ab"
    assert schema.serialize(Row(None, 1)) == b""
    assert schema.serialize(None) == b""
    with pytest.raises(SerializationError, match=r"Field 0 of .* must be bytes, it is str"):
        schema.serialize(Row("x"))
    with pytest.raises(SerializationError, match="There is no field 3"):
        RowFieldExtractorSchema(3).serialize(Row(b"x"))
    with pytest.raises(ValueError, match="can't be negative, got -1"):
        RowFieldExtractorSchema(-1)


def test_schemas_of_ones_own() -> None:
    class Comma(SerializationSchema, DeserializationSchema):
        def serialize(self, value: Any) -> bytes:
            return ",".join(value).encode()

        def deserialize(self, message: bytes) -> Any:
            return tuple(message.decode().split(","))

    assert Comma().deserialize(Comma().serialize(("a", "b"))) == ("a", "b")
    assert Comma().get_produced_type() == Types.PICKLED_BYTE_ARRAY()
    assert Comma().deserializer()(Comma().serializer()(("a", "b"))) == ("a", "b")
    with pytest.raises(NotImplementedError, match="must override serialize"):
        SerializationSchema().serialize(1)
    with pytest.raises(NotImplementedError, match="must override deserialize"):
        DeserializationSchema().deserialize(b"")
    with pytest.raises(UnsupportedFeatureError, match="can't wrap the Java object"):
        SerializationSchema(object())


def test_lines_of_a_file() -> None:
    encoder = Encoder.simple_string_encoder()
    assert encoder.encode("é") == b"\xc3\xa9\n"
    assert encoder.encode(5) == b"5\n"
    assert pickle.loads(pickle.dumps(Encoder.simple_string_encoder("latin-1"))).encode("é") == b"\xe9\n"


def test_serializers_of_ones_own() -> None:
    class Number(TypeSerializer[int]):
        def serialize(self, element: int, stream: BytesIO) -> None:
            stream.write(element.to_bytes(4, "big"))

        def deserialize(self, stream: BytesIO) -> int:
            return int.from_bytes(stream.read(4), "big")

    assert Number().to_bytes(5) == b"\x00\x00\x00\x05"
    assert Number().from_bytes(b"\x00\x00\x00\x05") == 5
    assert Number() == Number()
    assert hash(Number()) == hash(Number())
    assert repr(Number()) == "Number()"
    assert Number() != VoidNamespaceSerializer()
    assert VoidNamespaceSerializer().to_bytes(b"") == b""
    assert VoidNamespaceSerializer().from_bytes(b"") == b""


@pytest.mark.parametrize(
    ("wrapper", "arguments"),
    [(BulkWriterFactory, 1), (RowDataBulkWriterFactory, 2), (InputFormat, 1), (JavaObjectWrapper, 1)],
)
def test_wrappers_of_java_objects_are_refused_by_name(wrapper: Any, arguments: int) -> None:
    with pytest.raises(UnsupportedFeatureError, match=wrapper.__name__):
        wrapper(*[None] * arguments)


@pytest.mark.parametrize("kind", ["Avro", "Csv", "Json"])
def test_row_formats_can_be_imported_from_the_package(kind: str) -> None:
    for direction in ("Serialization", "Deserialization"):
        name = f"{kind}Row{direction}Schema"
        assert getattr(common, name).__name__ == name


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'XmlRowSchema'"):
        common.XmlRowSchema  # noqa: B018
