"""Work for Spark's tasks: a function, the pieces it is called with, and leave to unpickle the user's classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import cloudpickle
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from beadline.errors import ConfigurationError
from beadline.master.shipping.shipment import main_classes
from beadline.master.spark.engine import SparkEngine
from beadline.master.spark.shipping import ship_modules
from beadline.runtime.worker.classes import Classes
from beadline.runtime.worker.surroundings import Packed
from beadline.state import codec

Piece = TypeVar("Piece")
Batches = Iterator[pa.RecordBatch]


class Tasks:
    """One user's session. What is sent with it: the classes of the user's script, and those that were registered."""

    def __init__(self, spark: SparkSession) -> None:
        if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
            raise ConfigurationError(f"a classic SparkSession is needed as the first argument, got {spark!r}")
        self.spark = spark
        self._engine = SparkEngine(spark)
        self._shipped: frozenset[tuple[str, str]] | None = None

    @property
    def slots(self) -> int:
        return self._engine.slots

    def over(self, pieces: Sequence[Piece], function: Callable[[Piece], Batches], schema: pa.Schema) -> DataFrame:
        """A DataFrame of what the function makes of each piece, a task for each."""
        count = len(pieces)
        ids = self.spark.range(0, count, 1, max(1, count))
        return self.through(ids, partial(_over_pieces, list(pieces), function), schema)

    def through(self, df: DataFrame, function: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
        """A DataFrame of what the function makes of each partition of another."""
        return self._engine.map_in_arrow(df, self._calling(function), spark_schema(schema))

    def _calling(self, work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
        registered = codec.registered_state_classes()
        if registered != self._shipped:
            ship_modules(self._engine)
            self._shipped = registered
        shipped = cloudpickle.dumps((Classes(main_classes(), (), registered), work), 5)
        broadcast = self._engine.broadcast(Packed(self._engine.surroundings, shipped))

        def task(batches: Batches) -> Batches:
            yield from _enter(broadcast.value)(batches)

        return task


def spark_schema(schema: pa.Schema) -> StructType:
    made: StructType = from_arrow_schema(schema)
    return made


def _enter(packed: Packed) -> Any:
    """Let this worker unpickle what the driver may, and give the work."""
    classes, work = packed.open()
    classes.enter()
    return work


def _over_pieces(pieces: list[Any], function: Callable[[Any], Batches], batches: Batches) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from function(pieces[number])
