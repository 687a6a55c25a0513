"""Spark DataFrames in and out of streams."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import types as t

from beadline.common import Row
from beadline.common import typeinfo as ti
from beadline.common.typeinfo import TypeInformation, Types
from beadline.common.types import new_row
from beadline.connectors.source import BATCH, Position, StepSource
from beadline.errors import ConfigurationError, TypeMismatchError
from beadline.graph.specs import SourceSpec
from beadline.master.spark.session import find_session, on_one_machine

if TYPE_CHECKING:
    from beadline.datastream.data_stream import DataStream
    from beadline.datastream.stream_execution_environment import StreamExecutionEnvironment


class ParquetSource(StepSource):
    """Rows of Parquet files that nobody changes: a DataFrame evaluated twice may have other rows or another order."""

    bounded = True

    def __init__(self, folder: str, names: list[str]) -> None:
        self._names = names
        self._groups: list[tuple[str, int, int]] = []
        for name in sorted(os.listdir(folder)):
            if name.endswith(".parquet"):
                path = os.path.join(folder, name)
                metadata = pq.ParquetFile(path).metadata
                self._groups += [(path, i, metadata.row_group(i).num_rows) for i in range(metadata.num_row_groups)]

    def initial(self) -> Position:
        return {"group": 0, "row": 0}

    def plan(self, start: Position, rows: int, parallelism: int) -> tuple[Position, list[Any]]:
        group, row = start["group"], start["row"]
        share = max(1, rows // parallelism)
        splits = []
        while group < len(self._groups) and rows > 0:
            path, number, length = self._groups[group]
            end = min(length, row + min(rows, share))
            if end > row:
                splits.append((path, number, row, end))
                rows -= end - row
            row = end
            if row >= length:
                group, row = group + 1, 0
        return {"group": group, "row": row}, splits

    def finished(self, position: Position) -> bool:
        return bool(position["group"] >= len(self._groups))

    def read_batches(self, split: Any) -> Iterator[list[Any]]:
        path, number, first, end = split
        table = pq.ParquetFile(path).read_row_group(number).slice(first, end - first)
        for batch in table.to_batches(BATCH):
            columns = [column.to_pylist() for column in batch.columns]
            if rows := [new_row(list(values), self._names) for values in zip(*columns, strict=True)]:
                yield rows


def from_dataframe(env: StreamExecutionEnvironment, df: DataFrame, type_info: TypeInformation | None) -> DataStream:
    """Write the DataFrame to Parquet once, then read that."""
    if df.isStreaming:
        raise ConfigurationError(
            "from_dataframe() takes a bounded DataFrame; for a stream use from_source() with its reader"
        )
    if not isinstance(df, DataFrame):
        raise TypeMismatchError(f"from_dataframe() takes a Spark DataFrame, got {type(df).__name__}")
    folder = env._make_folder(on_one_machine(df.sparkSession), "from_dataframe()", "its rows", "beadline-dataframe-")
    df.write.mode("overwrite").parquet(folder)
    names = df.columns
    produced = type_info if type_info is not None else Types.ROW_NAMED(names, [Types.PICKLED_BYTE_ARRAY()] * len(names))
    return env._stream(env._add_node("DataFrame Source", SourceSpec(ParquetSource(folder, names)), produced, []))


def to_dataframe(stream: DataStream, job_name: str | None) -> DataFrame:
    with stream.execute_and_collect(job_name) as results:  # type: ignore[union-attr]
        elements = list(results)
    session = find_session()
    schema = spark_schema(stream.get_type())
    if schema is None:
        plain = [tuple(e) if isinstance(e, Row) else e if isinstance(e, tuple | dict) else (e,) for e in elements]
        return session.createDataFrame(plain)
    if isinstance(stream.get_type(), ti.RowTypeInfo | ti.TupleTypeInfo):
        return session.createDataFrame([tuple(element) for element in elements], schema)
    return session.createDataFrame([(element,) for element in elements], schema)


_SPARK_TYPES: dict[str, t.DataType] = {
    "STRING": t.StringType(),
    "BYTE": t.ByteType(),
    "BOOLEAN": t.BooleanType(),
    "SHORT": t.ShortType(),
    "INT": t.IntegerType(),
    "LONG": t.LongType(),
    "FLOAT": t.FloatType(),
    "DOUBLE": t.DoubleType(),
    "CHAR": t.StringType(),
    "BIG_INT": t.DecimalType(38, 0),
    "BIG_DEC": t.DecimalType(38, 18),
    "SQL_DATE": t.DateType(),
    "SQL_TIMESTAMP": t.TimestampType(),
}


def spark_schema(type_info: TypeInformation) -> t.StructType | None:
    """The schema of a declared type, None if nothing was declared."""
    if isinstance(type_info, ti.RowTypeInfo):
        names, types = type_info.get_field_names(), type_info.get_field_types()
    elif isinstance(type_info, ti.TupleTypeInfo):
        types = type_info.get_field_types()
        names = [f"f{i}" for i in range(len(types))]
    else:
        single = _spark_type(type_info)
        return None if single is None else t.StructType([t.StructField("value", single)])
    fields = [_spark_type(field) for field in types]
    if None in fields:
        return None
    return t.StructType([t.StructField(n, f) for n, f in zip(names, fields, strict=True) if f is not None])


def _spark_type(type_info: TypeInformation) -> t.DataType | None:
    for name, spark in _SPARK_TYPES.items():
        if type_info == getattr(Types, name)():
            return spark
    if isinstance(type_info, ti.RowTypeInfo | ti.TupleTypeInfo):
        return spark_schema(type_info)
    if isinstance(type_info, ti.ListTypeInfo):
        element = _spark_type(type_info.elem_type)
        return None if element is None else t.ArrayType(element)
    if isinstance(type_info, ti.MapTypeInfo):
        key, value = _spark_type(type_info._key_type_info), _spark_type(type_info._value_type_info)
        return None if key is None or value is None else t.MapType(key, value)
    return None
