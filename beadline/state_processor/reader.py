"""Reading checkpoints and savepoints as Spark DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, SnapshotError
from beadline.common.type_description import readable
from beadline.common.typeinfo import TypeInformation
from beadline.state.description import StateDescription
from beadline.state.operator.handles import BROADCAST, LIST, UNION
from beadline.state_processor.catalog import Catalog
from beadline.state_processor.columns import key_column, value_column
from beadline.state_processor.reading import DiffRead, KeyedRead, OperatorRead, TimersRead, parts_of
from beadline.state_processor.slices import pairs_of, slices_of
from beadline.state_processor.tasks import Tasks

_OPERATORS = StructType(
    [StructField(name, StringType(), False) for name in ("uid", "name")]
    + [StructField("generated_uid", BooleanType(), False)]
    + [StructField(name, IntegerType(), False) for name in ("parallelism", "max_parallelism")]
    + [StructField("key_type", StringType()), StructField("states", ArrayType(StringType(), False), False)]
    + [StructField(name, LongType(), False) for name in ("keyed_bytes", "operator_bytes", "total_bytes")]
)
_STATES = StructType(
    [StructField(name, StringType(), False) for name in ("uid", "name", "scope", "kind")]
    + [StructField("windowed", BooleanType(), False)]
    + [StructField(name, StringType()) for name in ("descriptor", "key_type", "type", "map_key_type")]
    + [StructField("ttl_ms", LongType())]
)


def read(spark: SparkSession, path: str) -> SavepointReader:
    """Open a checkpoint or savepoint. Only its ``_metadata`` is read now; state is read by the tasks of the DataFrames.

    :param path: its folder, or the ``_metadata`` in it: what ``-s`` takes
    """
    return SavepointReader(Tasks(spark), Catalog(path))


def diff(
    spark: SparkSession,
    older: str,
    newer: str,
    uid: str,
    name: str,
    *,
    key_type: TypeInformation | None = None,
    value_type: TypeInformation | None = None,
) -> DataFrame:
    """The entries of a keyed state that differ between two checkpoints or savepoints: ``key``, for window state
    ``window``, ``change`` (``added``, ``removed`` or ``changed``), ``before`` and ``after``.

    Segments of state that both share are not compared. An entry that was only read or written again, so that its time
    to live restarts, has not changed.
    """
    return read(spark, newer).diff(older, uid, name, key_type=key_type, value_type=value_type)


class SavepointReader:
    """A checkpoint or savepoint. Operators are named by their uid, or the uid hash they were given."""

    def __init__(self, tasks: Tasks, catalog: Catalog) -> None:
        self._tasks = tasks
        self._catalog = catalog

    def __repr__(self) -> str:
        return f"<SavepointReader of {self._catalog.path}: {self._catalog.snapshot!r}>"

    # -- what there is

    def operators(self) -> DataFrame:
        """A row for each operator."""
        rows = []
        for operator in self._catalog.snapshot.operators:
            keyed = sum(handle.size for handle in operator.keyed if handle is not None)
            own = sum(states.size for states in operator.operator_state if states is not None)
            total = sum(operator.subtask_size(subtask) for subtask in range(operator.parallelism))
            about = (
                operator.uid,
                operator.name,
                operator.generated_uid,
                operator.parallelism,
                operator.max_parallelism,
            )
            key_type = readable(operator.key_type) if operator.key_type else None
            states = sorted(state.name for state in self._catalog.states(operator.uid))
            rows.append((*about, key_type, states, keyed, own, total))
        return self._tasks.spark.createDataFrame(rows, _OPERATORS)

    def states(self, uid: str | None = None) -> DataFrame:
        """A row for each state of an operator, or of all."""
        operators = self._catalog.snapshot.operators if uid is None else [self._catalog.operator(uid)]
        rows = [row for operator in operators for row in self._state_rows(operator)]
        return self._tasks.spark.createDataFrame(rows, _STATES)

    def _state_rows(self, operator: OperatorSnapshot) -> Iterator[tuple[Any, ...]]:
        for state in self._catalog.states(operator.uid):
            key_type = operator.key_type if state.scope == "keyed" else ""
            shown = [readable(text) if text else None for text in (key_type, state.type, state.map_key_type)]
            about = (state.scope, state.kind, state.namespaced, state.descriptor or None)
            yield (operator.uid, state.name, *about, *shown, state.ttl_ms)

    # -- keyed state

    def keyed_state(
        self,
        uid: str,
        name: str,
        *,
        key_type: TypeInformation | None = None,
        value_type: TypeInformation | None = None,
        decode: Callable[[Any], Any] | None = None,
        schema: Any = None,
    ) -> DataFrame:
        """A state by key: ``key`` and ``value``, a list as an array and a map as a map. With a time to live the time of
        the last write, in milliseconds, is in ``timestamp``, or next to each element of a list or map.

        Columns have the declared types. A column without one is text, JSON if it is more than a string.

        :param key_type: the type of the keys, if the program declared none or another one
        :param value_type: what values are; of a list its elements, of a map its values
        :param decode: converts each value instead; it gets a Python value, list or dictionary
        :param schema: the Spark type of its results, ``'bigint'`` or ``'name string, age int'``
        """
        return self._keyed(uid, name, False, key_type, value_type, decode, schema)

    def window_state(
        self,
        uid: str,
        name: str,
        *,
        key_type: TypeInformation | None = None,
        value_type: TypeInformation | None = None,
        decode: Callable[[Any], Any] | None = None,
        schema: Any = None,
    ) -> DataFrame:
        """A state by key and window: as :meth:`keyed_state`, with ``window``, a struct of ``start`` and ``end``; null
        for the global window."""
        return self._keyed(uid, name, True, key_type, value_type, decode, schema)

    def _keyed(
        self,
        uid: str,
        name: str,
        windowed: bool,
        key_type: TypeInformation | None,
        value_type: TypeInformation | None,
        decode: Callable[[Any], Any] | None,
        schema: Any,
    ) -> DataFrame:
        state = self._catalog.keyed_state(uid, name, windowed)
        operator = self._catalog.operator(uid)
        owner = _owner(uid, name)
        key = key_column(operator.key_type, key_type, owner)
        value = value_column(state, value_type, owner, decode, schema, times=state.ttl_ms is not None)
        reading = KeyedRead(state, key, value, decode is not None)
        return self._tasks.over(slices_of(operator, self._tasks.slots), reading, reading.schema)

    def timers(self, uid: str, *, key_type: TypeInformation | None = None) -> DataFrame:
        """The timers of an operator: ``key``, ``window`` (null if they belong to a key alone), ``domain`` (``event`` or
        ``processing``) and ``timestamp``."""
        operator = self._catalog.operator(uid)
        reading = TimersRead(key_column(operator.key_type, key_type, f"a timer of operator '{uid}'"))
        return self._tasks.over(slices_of(operator, self._tasks.slots), reading, reading.schema)

    def diff(
        self,
        older: str,
        uid: str,
        name: str,
        *,
        key_type: TypeInformation | None = None,
        value_type: TypeInformation | None = None,
    ) -> DataFrame:
        """The entries of a keyed state that differ from an older checkpoint or savepoint; see :func:`diff`."""
        there = Catalog(older)
        before, after = there.operator(uid), self._catalog.operator(uid)
        windowed = any(s.name == name and s.namespaced for s in self._catalog.states(uid))
        state = self._catalog.keyed_state(uid, name, windowed)
        old_state = there.keyed_state(uid, name, state.namespaced)
        if old_state.kind != state.kind:
            raise SnapshotError(
                f"state '{name}' of operator '{uid}' is a {old_state.kind} state in {older} and a {state.kind} state "
                f"in {self._catalog.path}: these can't be compared"
            )
        if before.max_parallelism != after.max_parallelism:
            raise SnapshotError(
                f"operator '{uid}' has max parallelism {before.max_parallelism} in {older} and "
                f"{after.max_parallelism} in {self._catalog.path}: their keys are in different key groups. Write one "
                "with the other's number: SavepointWriter.from_existing(…).change_max_parallelism(…)"
            )
        owner = _owner(uid, name)
        reading = DiffRead(
            state,
            (old_state.ttl_ms is not None, state.ttl_ms is not None),
            key_column(after.key_type, key_type, owner),
            value_column(old_state, value_type, owner, name="before"),
            value_column(state, value_type, owner, name="after"),
        )
        return self._tasks.over(pairs_of(before, after, self._tasks.slots), reading, reading.schema)

    # -- operator state

    def list_state(
        self,
        uid: str,
        name: str,
        *,
        value_type: TypeInformation | None = None,
        decode: Callable[[Any], Any] | None = None,
        schema: Any = None,
    ) -> DataFrame:
        """The elements of a list state of the operator's subtasks: ``subtask`` and ``value``."""
        return self._operator_state(uid, name, LIST, None, value_type, decode, schema)

    def union_state(
        self,
        uid: str,
        name: str,
        *,
        value_type: TypeInformation | None = None,
        decode: Callable[[Any], Any] | None = None,
        schema: Any = None,
    ) -> DataFrame:
        """The elements of a union list state, each once: ``subtask`` (who wrote it) and ``value``."""
        return self._operator_state(uid, name, UNION, None, value_type, decode, schema)

    def broadcast_state(
        self,
        uid: str,
        name: str,
        *,
        key_type: TypeInformation | None = None,
        value_type: TypeInformation | None = None,
        decode: Callable[[Any], Any] | None = None,
        schema: Any = None,
    ) -> DataFrame:
        """The entries of a broadcast state, which is the same in all subtasks: ``key`` and ``value``."""
        return self._operator_state(uid, name, BROADCAST, key_type, value_type, decode, schema)

    def _operator_state(
        self,
        uid: str,
        name: str,
        mode: str,
        key_type: TypeInformation | None,
        value_type: TypeInformation | None,
        decode: Callable[[Any], Any] | None,
        schema: Any,
    ) -> DataFrame:
        state = self._catalog.operator_state(uid, name, mode)
        owner = _owner(uid, name)
        element = StateDescription(name, "value", state.type)
        reading = OperatorRead(
            mode,
            key_column(state.map_key_type, key_type, owner) if mode == BROADCAST else None,
            value_column(element, value_type, owner, decode, schema),
        )
        handles = enumerate(self._catalog.operator(uid).operator_state)
        refs = [(i, handle.states[name]) for i, handle in handles if handle is not None and name in handle.states]
        return self._tasks.over(parts_of(refs, mode == BROADCAST), reading, reading.schema)


def _owner(uid: str, name: str) -> str:
    return f"state '{name}' of operator '{uid}'"
