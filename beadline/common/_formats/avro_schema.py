"""Schemas of Avro, and the types that their records have in streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from beadline.common._types.base import PickledBytesTypeInfo
from beadline.common.typeinfo import TypeInformation, Types
from beadline.common.without_java import WithoutJava
from beadline.errors import ConfigurationError, EnvironmentSetupError, TypeMismatchError, UnsupportedFeatureError

Node = str | dict[str, Any] | list[Any]

_PRIMITIVES = {
    "boolean": Types.BOOLEAN,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "string": Types.STRING,
}
_LOGICAL = {
    "decimal": Types.BIG_DEC,
    "date": Types.SQL_DATE,
    "time-millis": Types.SQL_TIME,
    "time-micros": Types.SQL_TIME,
    "timestamp-millis": Types.SQL_TIMESTAMP,
    "timestamp-micros": Types.SQL_TIMESTAMP,
    "local-timestamp-millis": Types.SQL_TIMESTAMP,
    "local-timestamp-micros": Types.SQL_TIMESTAMP,
    "uuid": Types.STRING,
}


def fastavro() -> Any:
    """The library, which comes with an extra that need not be installed."""
    try:
        import fastavro as library
    except ImportError:
        raise EnvironmentSetupError(
            "Avro needs the package fastavro: pip install 'beadline[avro]' where the job is started and on all workers"
        ) from None
    return library


class AvroSchema(WithoutJava):
    """A schema of Avro: ``AvroSchema.parse_string('{"type": "record", …}')``."""

    def __init__(self, json_schema: str) -> None:
        if not isinstance(json_schema, str):
            raise TypeMismatchError(f"An Avro schema is given as JSON text, got {json_schema!r}")
        try:
            self._definition: Node = json.loads(json_schema)
        except ValueError as error:
            raise ConfigurationError(f"The Avro schema is not JSON: {error}") from error
        self._parsed: Any = None
        self._named: dict[str, Any] = {}
        self._parse()

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        try:
            with open(file_path.removeprefix("file://"), encoding="utf-8") as stream:
                return AvroSchema(stream.read())
        except OSError as error:
            raise ConfigurationError(f"The Avro schema {file_path} can't be read: {error}") from error

    def _parse(self) -> None:
        library = fastavro()
        try:
            self._parsed = library.parse_schema(self._definition, self._named)
        except Exception as error:  # fastavro has several, with no common base
            raise ConfigurationError(f"The Avro schema is not valid: {type(error).__name__}: {error}") from error

    def parsed(self) -> Any:
        """The schema as fastavro takes it."""
        if self._parsed is None:
            self._parse()
        return self._parsed

    def resolved(self, node: Node) -> Node:
        """The definition that a name stands for; anything else as it is."""
        self.parsed()
        return self._named[node] if isinstance(node, str) and node in self._named else node

    def type_info(self) -> TypeInformation:
        """The type of a row with the fields of the record."""
        return type_of(self, self.parsed(), ())

    def __getstate__(self) -> dict[str, Any]:
        return {"_definition": self._definition, "_parsed": None, "_named": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self._definition == other._definition

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return json.dumps(self._definition, separators=(",", ":"), ensure_ascii=False)

    def __repr__(self) -> str:
        name = self._definition.get("name") if isinstance(self._definition, dict) else self._definition
        return f"<AvroSchema {name}>"


class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """The type of records of Avro as dicts, with their schema."""

    def __init__(self, schema: AvroSchema) -> None:
        if not isinstance(schema, AvroSchema):
            raise TypeMismatchError(f"GenericRecordAvroTypeInfo takes an AvroSchema, got {schema!r}")
        self._schema = schema

    def _identity(self) -> tuple[Any, ...]:
        return (str(self._schema),)

    def __repr__(self) -> str:
        return f"GenericRecordAvroTypeInfo({self._schema!r})"


def nullable(node: Node) -> tuple[Node, bool]:
    """What a union with null alone is besides; and whether it is one."""
    if isinstance(node, list):
        others = [branch for branch in node if branch != "null"]
        if len(others) == 1 and len(node) == 2:
            return others[0], True
        if others == node[:1] and len(node) == 1:
            return others[0], False
    return node, False


def kind_of(node: Node) -> str:
    """The kind of a definition: ``record``, ``array``, …, the name of a primitive type, or ``union``."""
    if isinstance(node, list):
        return "union"
    if isinstance(node, str):
        return node
    return kind_of(node["type"]) if isinstance(node["type"], (dict, list)) else str(node["type"])


def fields_of(node: Node) -> Iterator[tuple[str, Node]]:
    assert isinstance(node, dict)
    for field in node["fields"]:
        yield field["name"], field["type"]


def type_of(schema: AvroSchema, node: Node, inside: tuple[str, ...]) -> TypeInformation:
    """The type of a value in a row.

    :param inside: the names of the records that it is part of
    """
    node = schema.resolved(nullable(node)[0])
    if isinstance(node, dict) and node.get("logicalType") in _LOGICAL:
        return _LOGICAL[node["logicalType"]]()
    kind = kind_of(node)
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]()
    if kind == "enum":
        return Types.STRING()
    if kind in ("bytes", "fixed"):
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if kind in ("record", "error"):
        assert isinstance(node, dict)
        if node["name"] in inside:
            raise UnsupportedFeatureError(
                f"The Avro record {node['name']} contains itself, and a row can't. Use records as dicts, with "
                "GenericRecordAvroTypeInfo"
            )
        fields = {name: type_of(schema, inner, (*inside, node["name"])) for name, inner in fields_of(node)}
        return Types.ROW_NAMED(list(fields), list(fields.values()))
    if kind == "array":
        assert isinstance(node, dict)
        return Types.OBJECT_ARRAY(type_of(schema, node["items"], inside))
    if kind == "map":
        assert isinstance(node, dict)
        return Types.MAP(Types.STRING(), type_of(schema, node["values"], inside))
    return Types.PICKLED_BYTE_ARRAY()
