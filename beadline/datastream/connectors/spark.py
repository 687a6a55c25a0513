"""Any sink of Spark's as a sink of a stream. Not in PyFlink."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from beadline.common import typeinfo as ti
from beadline.common.typeinfo import TypeInformation
from beadline.connectors.files.pieces import Piece
from beadline.connectors.sink import StagedSink
from beadline.connectors.transactions.batches import BatchLog, BatchSink
from beadline.connectors.transactions.rows import unpacked
from beadline.datastream.connectors.base import Sink
from beadline.errors import ConfigurationError, TypeMismatchError

__all__ = ["DataFrameSink"]


class DataFrameSink(Sink):
    """Hands the records of each checkpoint to Spark as one DataFrame: ``stream.sink_to(DataFrameSink(write))``.

    The call comes when the checkpoint has completed. After a failure the last one may come again, with the same id and
    the same rows: a ``write`` that leaves out an id that it knows makes the job exactly-once. Table formats can do that
    by themselves, for instance Delta with ``txnAppId`` and ``txnVersion``.

    :param write: is called with the DataFrame and the checkpoint's id; and with the name of the writer, if it takes
        three arguments. Ids of one writer grow. A job that is resumed is the same writer; one that is started anew is
        another, and its ids begin again
    """

    def __init__(self, write: Callable[..., Any]) -> None:
        if not callable(write):
            raise TypeMismatchError(
                f"DataFrameSink takes a function of a DataFrame and a checkpoint's id, got {write!r}"
            )
        self._write = write

    def _make_sink(self, type_info: TypeInformation) -> StagedSink:
        from beadline.datastream.environment.dataframes import spark_schema

        schema = spark_schema(type_info)
        if schema is None:
            raise ConfigurationError(
                f"DataFrameSink needs a stream of a declared type that Spark knows, and this one is {type_info}: give "
                "output_type to the operator before it, such as Types.ROW_NAMED([…], […])"
            )
        is_record = isinstance(type_info, ti.RowTypeInfo | ti.TupleTypeInfo)
        return BatchSink(_DataFrames(self._write, schema), _records if is_record else _values)


def _records(records: list[Any], timestamps: list[int] | None) -> list[Any]:
    return list(map(tuple, records))


def _values(records: list[Any], timestamps: list[int] | None) -> list[Any]:
    return [(record,) for record in records]


class _DataFrames(BatchLog):
    def __init__(self, write: Callable[..., Any], schema: Any) -> None:
        self._write = write
        self._schema = schema
        self._takes_writer = _takes_three(write)

    def append(self, writer: str, number: int, pieces: list[Piece]) -> None:
        from beadline.master.spark.session import find_session

        session = find_session()
        rows = session.sparkContext.parallelize(pieces, max(1, len(pieces))).flatMap(_rows)
        frame = session.createDataFrame(rows, self._schema)
        if self._takes_writer:
            self._write(frame, number, writer)
        else:
            self._write(frame, number)


def _rows(piece: Piece) -> Iterator[Any]:
    for batch in unpacked([piece]):
        yield from batch


def _takes_three(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, 0, "")
    except TypeError:
        return False
    return True
