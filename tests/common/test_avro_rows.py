"""Rows as records of Avro, with and without a schema registry."""

from __future__ import annotations

import datetime as dt
import http.server
import json
import pickle
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import Row, Types
from beadline.common._formats import avro_registry
from beadline.common.type_description import type_to_text
from beadline.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    GenericRecordAvroTypeInfo,
)
from beadline.errors import ConfigurationError, SerializationError, TypeMismatchError, UnsupportedFeatureError


def record(*fields: tuple[str, Any], name: str = "shop.Order") -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]})


ITEM = json.loads(record(("sku", "string"), ("count", ["null", "int"]), name="Item"))
ORDER = record(
    ("id", "long"),
    ("who", ["null", "string"]),
    ("paid", "boolean"),
    ("ratio", "float"),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
    ("time", {"type": "int", "logicalType": "time-millis"}),
    ("key", {"type": "string", "logicalType": "uuid"}),
    ("state", {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}),
    ("raw", {"type": "fixed", "name": "Two", "size": 2}),
    ("first", ["null", ITEM]),
    ("more", {"type": "array", "items": "shop.Item"}),
    ("named", {"type": "map", "values": ["null", "shop.Item"]}),
    ("tags", {"type": "array", "items": ["null", "string"]}),
)
ROW = Row(
    id=1,
    who=None,
    paid=True,
    ratio=0.5,
    price=Decimal("1.25"),
    day=dt.date(2020, 1, 31),
    at=dt.datetime(2020, 1, 31, 23, 59, 59, 123000),
    local=dt.datetime(2020, 1, 31, 1, 2, 3, 456000),
    time=dt.time(1, 2, 3, 4000),
    key=str(uuid.UUID(int=7)),
    state="DONE",
    raw=b"\x00\xff",
    first=Row(sku="a", count=None),
    more=[Row(sku="b", count=2)],
    named={"x": Row(sku="c", count=3), "y": None},
    tags=["p", None],
)
SMALL = record(("id", "long"), ("name", ["null", "string"]))


class TestRows:
    def test_are_written_and_read(self) -> None:
        written = AvroRowSerializationSchema(avro_schema_string=ORDER).serialize(ROW)
        read = AvroRowDeserializationSchema(avro_schema_string=ORDER)
        assert read.deserialize(written) == ROW
        assert read.deserialize(None) is None

    def test_with_other_names_are_written_by_position(self) -> None:
        schema = AvroRowSerializationSchema(avro_schema_string=SMALL)
        typed = Types.ROW([Types.LONG(), Types.STRING()]).converter()(Row(1, "a"))  # type: ignore[misc]
        for row in (typed, Row(f0=1, f1="a"), Row(id=1, label="a"), Row(name="a", id=1), Row(1, "a")):
            read = AvroRowDeserializationSchema(avro_schema_string=SMALL).deserialize(schema.serialize(row))
            assert read == Row(id=1, name="a")

    def test_with_a_name_in_another_place_are_refused(self) -> None:
        schema = AvroRowSerializationSchema(avro_schema_string=SMALL)
        for row in (Row(name="a", number=1), Row(f0=1), Row(f0=1, f1="a", f2="b")):
            with pytest.raises(SerializationError, match="has no fields"):
                schema.serialize(row)

    def test_have_the_types_of_the_schema(self) -> None:
        produced = AvroRowDeserializationSchema(avro_schema_string=ORDER).get_produced_type()
        assert produced.converter()(ROW) == ROW  # type: ignore[misc]
        item = Types.ROW_NAMED(["sku", "count"], [Types.STRING(), Types.INT()])
        assert produced.get_field_types()[-4:] == [  # type: ignore[attr-defined]
            item,
            Types.OBJECT_ARRAY(item),
            Types.MAP(Types.STRING(), item),
            Types.OBJECT_ARRAY(Types.STRING()),
        ]

    def test_schemas_travel_after_use(self) -> None:
        writer, reader = AvroRowSerializationSchema(None, ORDER), AvroRowDeserializationSchema(None, ORDER)
        written = writer.serialize(ROW)
        reader.deserialize(written)
        assert pickle.loads(pickle.dumps(writer)).serialize(ROW) == written
        assert pickle.loads(pickle.dumps(reader)).deserialize(written) == ROW

    @pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b""])
    def test_damaged_messages_are_said(self, change: Any) -> None:
        written = AvroRowSerializationSchema(None, SMALL).serialize(Row(id=1, name="abc"))
        with pytest.raises(SerializationError, match=r"as a record of <AvroSchema shop.Order>"):
            AvroRowDeserializationSchema(None, SMALL).deserialize(change(written))

    def test_records_that_do_not_fit_are_said(self) -> None:
        with pytest.raises(SerializationError, match="Can't write"):
            AvroRowSerializationSchema(None, SMALL).serialize(Row(id="x", name=None))

    def test_what_cannot_work_is_refused_at_once(self) -> None:
        with pytest.raises(UnsupportedFeatureError, match="names a Java class"):
            AvroRowDeserializationSchema("com.example.Order")
        with pytest.raises(TypeMismatchError, match="needs avro_schema_string"):
            AvroRowSerializationSchema()
        with pytest.raises(ConfigurationError, match="needs the schema of a record"):
            AvroRowDeserializationSchema(None, '"string"')
        with pytest.raises(ConfigurationError, match="is not JSON"):
            AvroSchema.parse_string("{")
        with pytest.raises(ConfigurationError, match="is not valid"):
            AvroSchema.parse_string('{"type": "recrod", "name": "X"}')
        with pytest.raises(UnsupportedFeatureError, match="contains itself"):
            AvroSchema.parse_string(record(("next", ["null", "shop.Order"]))).type_info()

    @given(rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=9)), max_size=5))
    def test_any_value_comes_back(self, rows: list[tuple[int, str | None]]) -> None:
        write = AvroRowSerializationSchema(None, SMALL).serializer()
        read = AvroRowDeserializationSchema(None, SMALL).deserializer()
        for number, text in rows:
            assert read(write(Row(id=number, name=text))) == Row(id=number, name=text)


class TestSchemas:
    def test_are_read_from_files(self, tmp_path: Path) -> None:
        path = tmp_path / "order.avsc"
        path.write_text(ORDER)
        assert AvroSchema.parse_file(str(path)) == AvroSchema.parse_string(ORDER)
        assert json.loads(str(AvroSchema.parse_file(str(path)))) == json.loads(ORDER)
        with pytest.raises(ConfigurationError, match="can't be read"):
            AvroSchema.parse_file(str(tmp_path / "none"))

    def test_the_type_of_dicts_is_any_object_to_state(self) -> None:
        info = GenericRecordAvroTypeInfo(AvroSchema.parse_string(SMALL))
        assert info == pickle.loads(pickle.dumps(info))
        assert info != GenericRecordAvroTypeInfo(AvroSchema.parse_string(ORDER))
        assert type_to_text(info) == ""


# -- a registry


class Server:
    """A schema registry with the requests that producers and consumers make, over HTTP.

    :ivar asked: the paths that were asked for
    :ivar failures: how many requests fail before one succeeds
    """

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.failures = 0
        self.authorization: str | None = None
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def register(self, subject: str, schema: str, references: list[Any] | None = None) -> int:
        entry: dict[str, Any] = {"schema": schema}
        if references:
            entry["references"] = references
        if entry not in self.schemas:
            self.schemas.append(entry)
        number = self.schemas.index(entry) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, path: str, body: bytes | None) -> tuple[int, Any]:
        match path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                if 0 < int(number) <= len(self.schemas):
                    return 200, self.schemas[int(number) - 1]
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case ["subjects", subject, "versions"] if body is not None:
                return 200, {"id": self.register(subject, json.loads(body)["schema"])}
            case ["subjects", subject, "versions", version]:
                return 200, self.schemas[self.subjects[subject][int(version) - 1] - 1]
        return 404, {"error_code": 404, "message": f"no {path}"}

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._serve(None)

            def do_POST(self) -> None:
                self._serve(self.rfile.read(int(self.headers["Content-Length"])))

            def _serve(self, body: bytes | None) -> None:
                registry.asked.append(self.path)
                registry.authorization = self.headers.get("Authorization")
                if registry.failures:
                    registry.failures -= 1
                    status, answer = 503, {"message": "busy"}
                else:
                    status, answer = registry.answer(self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(avro_registry, "_PAUSES", (0.01, 0.01))
    made = Server()
    yield made
    made.close()
    avro_registry.registry_at.cache_clear()


class TestRegistry:
    SCHEMA = AvroSchema.parse_string(SMALL)

    def test_messages_carry_the_number_of_their_schema(self, server: Server) -> None:
        server.register("other", ORDER)
        writer = ConfluentRegistryAvroSerializationSchema.for_generic("orders-value", self.SCHEMA, server.url)
        written = writer.serialize({"id": 5, "name": "a"})
        assert written[:5] == b"\x00\x00\x00\x00\x02"
        reader = ConfluentRegistryAvroDeserializationSchema.for_generic(self.SCHEMA, server.url)
        assert reader.deserialize(written) == {"id": 5, "name": "a"}
        assert reader.get_produced_type() == GenericRecordAvroTypeInfo(self.SCHEMA)
        assert server.subjects["orders-value"] == [2]

    def test_records_may_be_rows(self, server: Server) -> None:
        schema = AvroSchema.parse_string(ORDER)
        writer = ConfluentRegistryAvroSerializationSchema.for_row("orders-value", schema, server.url)
        reader = ConfluentRegistryAvroDeserializationSchema.for_row(schema, server.url)
        assert reader.deserialize(writer.serialize(ROW)) == ROW
        assert reader.get_produced_type() == schema.type_info()

    def test_each_schema_is_asked_for_once_per_worker(self, server: Server) -> None:
        writer = ConfluentRegistryAvroSerializationSchema.for_generic("s", self.SCHEMA, server.url)
        reader = ConfluentRegistryAvroDeserializationSchema.for_generic(self.SCHEMA, server.url)
        for task in range(3):
            write = pickle.loads(pickle.dumps(writer)).serializer()
            read = pickle.loads(pickle.dumps(reader)).deserializer()
            for number in range(3):
                assert read(write({"id": number, "name": str(task)})) == {"id": number, "name": str(task)}
        assert server.asked == ["/subjects/s/versions", "/schemas/ids/1"]

    def test_old_messages_are_read_by_the_rules_of_evolution(self, server: Server) -> None:
        old = AvroSchema.parse_string(record(("id", "int"), ("gone", "string")))
        fields = [{"name": "id", "type": "long"}, {"name": "extra", "type": "string", "default": "none"}]
        new = AvroSchema.parse_string(json.dumps({"type": "record", "name": "shop.Order", "fields": fields}))
        written = ConfluentRegistryAvroSerializationSchema.for_generic("s", old, server.url).serialize(
            {"id": 5, "gone": "x"}
        )
        reader = ConfluentRegistryAvroDeserializationSchema.for_generic(new, server.url)
        assert reader.deserialize(written) == {"id": 5, "extra": "none"}

    def test_schemas_may_refer_to_others(self, server: Server) -> None:
        item = record(("sku", "string"), name="shop.Item")
        server.register("item", item)
        whole = record(("first", "shop.Item"), ("second", "shop.Item"))
        number = server.register("s", whole, [{"name": "shop.Item", "subject": "item", "version": 1}])
        inlined = AvroSchema.parse_string(record(("first", json.loads(item)), ("second", "shop.Item")))
        value = {"first": {"sku": "a"}, "second": {"sku": "b"}}
        body = ConfluentRegistryAvroSerializationSchema.for_generic("t", inlined, server.url).serialize(value)[5:]
        reader = ConfluentRegistryAvroDeserializationSchema.for_generic(inlined, server.url)
        assert reader.deserialize(b"\0" + number.to_bytes(4, "big") + body) == value

    @pytest.mark.parametrize("message", [b"", b"\x01\x00\x00\x00\x01x", b"\x00\x00\x00\x00\x63x"], ids=str)
    def test_bad_messages_are_the_messages_fault(self, server: Server, message: bytes) -> None:
        reader = ConfluentRegistryAvroDeserializationSchema.for_generic(self.SCHEMA, server.url)
        with pytest.raises(SerializationError, match="as a record of"):
            reader.deserialize(message)

    def test_a_busy_registry_is_asked_again(self, server: Server) -> None:
        server.register("s", SMALL)
        server.failures = 2
        reader = ConfluentRegistryAvroDeserializationSchema.for_generic(self.SCHEMA, server.url)
        body = AvroRowSerializationSchema(None, SMALL).serialize(Row(id=1, name=None))
        assert reader.deserialize(b"\x00\x00\x00\x00\x01" + body) == {"id": 1, "name": None}

    def test_a_registry_that_is_away_is_not_the_messages_fault(self, server: Server) -> None:
        server.close()
        reader = ConfluentRegistryAvroDeserializationSchema.for_generic(self.SCHEMA, server.url)
        with pytest.raises(OSError, match="does not answer"):
            reader.deserialize(b"\x00\x00\x00\x00\x01x")

    def test_the_next_server_is_asked_if_one_is_away(self, server: Server) -> None:
        away = Server()
        away.close()
        server.register("s", SMALL)
        reader = ConfluentRegistryAvroDeserializationSchema.for_generic(self.SCHEMA, f"{away.url},{server.url}/")
        body = AvroRowSerializationSchema(None, SMALL).serialize(Row(id=1, name=None))
        assert reader.deserialize(b"\x00\x00\x00\x00\x01" + body) == {"id": 1, "name": None}

    @pytest.mark.parametrize("place", ["url", "properties"])
    def test_passwords_are_sent_and_not_shown(self, server: Server, place: str) -> None:
        url, properties = server.url, {"basic.auth.user.info": "me:s3cret"}
        if place == "url":
            url, properties = f"http://me:s3cret@127.0.0.1:{server.port}", {}
        reader = ConfluentRegistryAvroDeserializationSchema.for_generic(self.SCHEMA, url, properties)
        with pytest.raises(SerializationError) as caught:
            reader.deserialize(b"\x00\x00\x00\x00\x63x")
        assert server.authorization == "Basic bWU6czNjcmV0"
        server.close()
        with pytest.raises(OSError, match="does not answer") as away:
            reader.deserialize(b"\x00\x00\x00\x00\x64x")
        assert "s3cret" not in f"{caught.value}{away.value}{reader!r}"

    def test_what_cannot_work_is_refused_at_once(self) -> None:
        make = ConfluentRegistryAvroDeserializationSchema.for_generic
        with pytest.raises(ConfigurationError, match=r"\['ssl.keystore'\] are not supported"):
            make(self.SCHEMA, "http://x", {"ssl.keystore": "y"})
        with pytest.raises(ConfigurationError, match="must begin with http"):
            make(self.SCHEMA, "registry:8081")
        with pytest.raises(TypeMismatchError, match="An AvroSchema is needed"):
            make(SMALL, "http://x")  # type: ignore[arg-type]
