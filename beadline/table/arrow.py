"""Data types as Arrow's, which Parquet and ORC files are written and read with."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from beadline.table.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    refused_type,
)

_SIMPLE: dict[type[DataType], Any] = {
    TinyIntType: pa.int8(),
    SmallIntType: pa.int16(),
    IntType: pa.int32(),
    BigIntType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    BooleanType: pa.bool_(),
    CharType: pa.string(),
    VarCharType: pa.string(),
    BinaryType: pa.binary(),
    VarBinaryType: pa.binary(),
    DateType: pa.date32(),
}


def arrow_schema(row_type: RowType) -> pa.Schema:
    """The columns of a file with such rows."""
    return pa.schema([_field(field.name, field.data_type) for field in row_type])


def _field(name: str, data_type: DataType) -> pa.Field:
    return pa.field(name, arrow_type(data_type), nullable=data_type._nullable)


def arrow_type(data_type: DataType) -> pa.DataType:
    simple = _SIMPLE.get(type(data_type))
    if simple is not None:
        return simple
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, TimeType):
        return pa.time32("ms") if data_type.precision <= 3 else pa.time64("us")
    if isinstance(data_type, TimestampType):
        return pa.timestamp(_unit(data_type.precision))
    if isinstance(data_type, LocalZonedTimestampType):
        return pa.timestamp(_unit(data_type.precision), "UTC")
    if isinstance(data_type, ArrayType):
        return pa.list_(pa.field("element", arrow_type(data_type.element_type)))
    if isinstance(data_type, MapType):
        return pa.map_(arrow_type(data_type.key_type), arrow_type(data_type.value_type))
    if isinstance(data_type, RowType):
        return pa.struct([_field(field.name, field.data_type) for field in data_type])
    raise refused_type(data_type, "Arrow")


def _unit(precision: int) -> str:
    """Python's datetimes end at microseconds."""
    return "ms" if precision <= 3 else "us"
