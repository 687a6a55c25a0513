"""Schemas of Avro as Arrow's, for Parquet files whose records are known by a schema of Avro."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from beadline.common._formats.avro_schema import AvroSchema, Node, fields_of, kind_of, nullable
from beadline.errors import ConfigurationError, UnsupportedFeatureError

_SIMPLE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}


def arrow_schema_of(schema: AvroSchema) -> pa.Schema:
    """The columns of a file with such records."""
    node = schema.parsed()
    if kind_of(node) != "record":
        raise ConfigurationError(f"Parquet files need the schema of a record, got {schema}")
    return pa.schema([_field(schema, name, inner, ()) for name, inner in fields_of(node)])


def _field(schema: AvroSchema, name: str, node: Node, inside: tuple[str, ...]) -> pa.Field:
    if node == "null":
        return pa.field(name, pa.null())
    other, optional = nullable(node)
    return pa.field(name, _type(schema, other, inside), nullable=optional)


def _type(schema: AvroSchema, node: Node, inside: tuple[str, ...]) -> pa.DataType:
    found: Any = schema.resolved(node)
    logical = found.get("logicalType") if isinstance(found, dict) else None
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical == "decimal":
        return pa.decimal128(found["precision"], found.get("scale", 0))
    kind = kind_of(found)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind == "fixed":
        return pa.binary(found["size"])
    if kind == "array":
        return pa.list_(_field(schema, "element", found["items"], inside))
    if kind == "map":
        return pa.map_(pa.string(), _field(schema, "value", found["values"], inside))
    if kind == "record" and found["name"] not in inside:
        inner = (*inside, found["name"])
        return pa.struct([_field(schema, name, each, inner) for name, each in fields_of(found)])
    raise UnsupportedFeatureError(
        f"Parquet has no form for {node} of an Avro schema: a union of several types, or a record in itself. Use an "
        "Avro file, with AvroBulkWriters"
    )
