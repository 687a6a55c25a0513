"""Between the dicts that fastavro reads and writes and the rows of a stream."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

from beadline.common._formats.avro_schema import AvroSchema, Node, fields_of, kind_of, nullable
from beadline.common.types import Row, new_row

Convert = Callable[[Any], Any]

_POINTS = ("timestamp-millis", "timestamp-micros")


def row_reader(schema: AvroSchema) -> Convert:
    """What turns a record that fastavro read into a row. The type of the rows is ``schema.type_info()``."""
    return _reader(schema, schema.parsed()) or _same


def row_writer(schema: AvroSchema) -> Convert:
    """What turns a row, or a dict, into what fastavro writes."""
    return _writer(schema, schema.parsed()) or _same


def _reader(schema: AvroSchema, node: Node) -> Convert | None:
    """None for values that need no change."""
    node = schema.resolved(nullable(node)[0])
    logical = node.get("logicalType") if isinstance(node, dict) else None
    if logical in _POINTS:
        return lambda value: value.replace(tzinfo=None)
    if logical == "uuid":
        return str
    kind = kind_of(node)
    if kind in ("record", "error"):
        fields = [(name, _reader(schema, inner)) for name, inner in fields_of(node)]
        names = [name for name, _ in fields]

        def read_row(record: dict[str, Any]) -> Row:
            values = [
                value if (value := record[name]) is None or read is None else read(value) for name, read in fields
            ]
            return new_row(values, names)

        return read_row
    return _inside(_reader, schema, node, kind)


def _writer(schema: AvroSchema, node: Node) -> Convert | None:
    node = schema.resolved(nullable(node)[0])
    logical = node.get("logicalType") if isinstance(node, dict) else None
    if logical in _POINTS:
        return _in_utc
    if logical == "uuid":
        return lambda value: str(value) if isinstance(value, uuid.UUID) else value
    kind = kind_of(node)
    if kind in ("record", "error"):
        fields = [(name, _writer(schema, inner)) for name, inner in fields_of(node)]
        names = [name for name, _ in fields]

        def write_row(record: Any) -> dict[str, Any]:
            if isinstance(record, dict):
                record = [record.get(name) for name in names]
            elif isinstance(record, Row):
                record = _values_for(names, record)
            pairs = zip(fields, record, strict=True)
            return {name: value if value is None or write is None else write(value) for (name, write), value in pairs}

        return write_row
    return _inside(_writer, schema, node, kind)


def _values_for(names: list[str], row: Row) -> list[Any]:
    """The values of a row in the order of the schema: by their names if the row has all of them, else by position.

    Flink goes by position alone. A name that both have in different places is no such row.
    """
    own = row._fields
    if own is None or own == names or len(own) != len(names):
        return row.get_fields_by_names(names)
    if all(own[place] == name for place, name in enumerate(names) if name in own):
        return row._values
    return row.get_fields_by_names(names)


def _inside(
    make: Callable[[AvroSchema, Node], Convert | None], schema: AvroSchema, node: Node, kind: str
) -> Convert | None:
    """For the elements of arrays and maps."""
    if kind not in ("array", "map"):
        return None
    assert isinstance(node, dict)
    convert = make(schema, node["items"] if kind == "array" else node["values"])
    if convert is None:
        return None
    if kind == "array":
        return lambda values: [None if value is None else convert(value) for value in values]
    return lambda found: {key: None if value is None else convert(value) for key, value in found.items()}


def _in_utc(value: Any) -> Any:
    """fastavro would take a time without zone as one in the zone of the machine."""
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.timezone.utc)
    return value


def _same(value: Any) -> Any:
    return value
