from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from beadline.api.function import KeySelector
from beadline.api.join_functions import JoinFunction
from beadline.common.typeinfo import BasicTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation
from beadline.datastream.data_stream import DataStream, Selector
from beadline.datastream.streams.operator_settings import check_function
from beadline.errors import ConfigurationError, TypeMismatchError
from beadline.graph.specs import LookupSpec
from beadline.runtime.operators.lookup import LookupTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger("beadline")

_WARN_BYTES = 64 << 20


class Lookup:
    """A join with a DataFrame, which is read when the join is declared."""

    def __init__(self, df: DataFrame, on: str | Sequence[str], how: str, max_bytes: int) -> None:
        if how not in ("inner", "left"):
            raise ConfigurationError(f"lookup(): how must be 'inner' or 'left', got {how!r}")
        self._df = df
        self._names = _checked_columns(df, on)
        self._columns: str | tuple[str, ...] = on if isinstance(on, str) else tuple(self._names)
        self._left = how == "left"
        self._max_bytes = max_bytes

    def join(
        self,
        stream: DataStream,
        key: Selector | None,
        function: Callable[[Any, Any], Any] | JoinFunction | None,
        output_type: TypeInformation | None,
    ) -> DataStream:
        """Read the DataFrame, check what was asked for, and add the operator.

        1. check the fields and functions
        2. evaluate the DataFrame, once for all runs of the program and all retries of a step
        3. pack the rows; they travel with the functions, in the one broadcast of an execution
        """
        names, columns = self._names, self._columns
        if key is None:
            _check_fields(stream, names)
            key = itemgetter(*names)
            if not isinstance(columns, str) and len(names) == 1:
                columns = names[0]
        else:
            check_function(key, KeySelector)
        if function is not None:
            check_function(function, JoinFunction)
        table = _materialised(self._df, self._max_bytes)
        for name in names:
            if pa.types.is_nested(table.schema.field(name).type):
                raise TypeMismatchError(
                    f"lookup(): column '{name}' is of type {table.schema.field(name).type}, which can't be a key; "
                    "choose a column of plain values"
                )
        spec = LookupSpec(LookupTable.of(table), columns, key, function, self._left)
        return stream._apply("Lookup", spec, output_type)


def _checked_columns(df: Any, on: Any) -> list[str]:
    if not hasattr(df, "toArrow") or not hasattr(df, "isStreaming"):
        raise TypeMismatchError(f"lookup() takes a Spark DataFrame, got {type(df).__name__}: {df!r}")
    if df.isStreaming:
        raise ConfigurationError(
            "lookup() takes a bounded DataFrame, since it is read once. Bring two streams together with join(), "
            "interval_join() or connect()."
        )
    names = [on] if isinstance(on, str) else list(on)
    unknown = [name for name in names if name not in df.columns]
    if unknown or not names:
        raise ConfigurationError(f"lookup(): on={on!r}, but the columns of the DataFrame are {df.columns}")
    if len(set(df.columns)) < len(df.columns):
        raise ConfigurationError(f"lookup(): the DataFrame has two columns of one name: {df.columns}; rename one")
    return names


def _check_fields(stream: DataStream, names: list[str]) -> None:
    known = stream.get_type()
    if isinstance(known, BasicTypeInfo | TupleTypeInfo):
        raise ConfigurationError(
            f"lookup(): elements of type {known} have no field names; give key=… to say what to look for"
        )
    if isinstance(known, RowTypeInfo):
        missing = [name for name in names if name not in known.get_field_names()]
        if missing:
            raise ConfigurationError(
                f"lookup(): the elements have no fields {missing}, only {known.get_field_names()}; "
                "give key=… to say what to look for"
            )


def _materialised(df: DataFrame, max_bytes: int) -> pa.Table:
    advice = (
        "Select the columns and rows that are needed, or bring the table to the stream by key: "
        "env.from_dataframe(df).key_by(…), connected with the stream"
    )
    try:
        table = df.toArrow()
    except Exception as error:
        if "maxResultSize" not in str(error):
            raise
        raise ConfigurationError(
            "lookup(): the DataFrame is larger than what the driver takes (spark.driver.maxResultSize), and each "
            f"Python worker would hold a copy. {advice}."
        ) from error
    if table.nbytes > max_bytes:
        raise ConfigurationError(
            f"lookup(): the DataFrame has {table.num_rows} rows of {_megabytes(table.nbytes)} together, more than "
            f"max_bytes={max_bytes} ({_megabytes(max_bytes)}); each Python worker would hold a copy, several times "
            f"that size as Python objects. {advice}, or raise max_bytes."
        )
    if table.nbytes > _WARN_BYTES:
        _LOG.warning(
            "lookup(): each Python worker holds a copy of the DataFrame's %d rows (%s, several times that size as "
            "Python objects)",
            table.num_rows,
            _megabytes(table.nbytes),
        )
    return table


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"
