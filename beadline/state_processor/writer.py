"""Making savepoints from DataFrames: bootstrap a job's state from a table, or edit an existing savepoint."""

from __future__ import annotations

import time
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot, SnapshotError, SnapshotKind
from beadline.common.type_description import type_to_text
from beadline.common.typeinfo import TypeInformation
from beadline.errors import ConfigurationError
from beadline.state.description import KEYED, OPERATOR, StateDescription
from beadline.state.key_groups import check_parallelism
from beadline.state.operator.handles import BROADCAST, KEYED_RAW, LIST, UNION
from beadline.state_processor.catalog import Catalog
from beadline.state_processor.drafts import OperatorDraft, StateInput, TimersInput, check_columns, check_shape
from beadline.state_processor.publishing import check_free, publish
from beadline.state_processor.tasks import Tasks

_KINDS = {"value": "ValueState", "list": "ListState", "map": "MapState"}
_DESCRIPTORS = {LIST: "ListState", UNION: "ListState", BROADCAST: "MapState"}


class SavepointWriter:
    """A savepoint in the making. Nothing is written before :meth:`write`; each method gives the writer itself.

    What is given for a state replaces all of it; other states stay as they are.
    """

    def __init__(self, tasks: Tasks, max_parallelism: int, base: Snapshot | None = None, path: str = "") -> None:
        self._tasks = tasks
        self._max_parallelism = max_parallelism
        self._base = base
        self._path = path
        self._drafts = {o.uid: OperatorDraft(o) for o in base.operators} if base is not None else {}

    @staticmethod
    def new_savepoint(spark: SparkSession, max_parallelism: int = 128) -> SavepointWriter:
        """Start from nothing.

        :param max_parallelism: of the operators; the job must have the same
        """
        check_parallelism(1, max_parallelism, "new savepoint")
        return SavepointWriter(Tasks(spark), max_parallelism)

    @staticmethod
    def from_existing(spark: SparkSession, path: str) -> SavepointWriter:
        """Start from a checkpoint or savepoint, which stays as it is."""
        catalog = Catalog(path)
        maximum = max((operator.max_parallelism for operator in catalog.snapshot.operators), default=128)
        return SavepointWriter(Tasks(spark), maximum, catalog.snapshot, path)

    def __repr__(self) -> str:
        return f"<SavepointWriter of {len(self._drafts)} operators: {', '.join(self._drafts)}>"

    # -- keyed state

    def with_keyed_state(
        self,
        uid: str,
        name: str,
        df: DataFrame,
        *,
        key: str = "key",
        value: str = "value",
        window: str | None = None,
        timestamp: str | None = None,
        key_type: TypeInformation | None = None,
        value_type: TypeInformation | None = None,
        map_key_type: TypeInformation | None = None,
        kind: str | None = None,
        ttl_ms: int | None = None,
    ) -> SavepointWriter:
        """Give an operator a state by key, one row of the DataFrame for each key.

        Types, kind and time to live are those that the program declares; where the operator has this state already,
        they are taken from there unless they are given.

        :param value: the column of values: an array for a list state, a map for a map state
        :param window: the column of windows, structs of ``start`` and ``end``, for state by key and window; null is the
            global window
        :param timestamp: the column with the time of the last write, in milliseconds, for state with a time to live;
            now if there is none
        :param value_type: of values; of a list its elements, of a map its values
        :param kind: ``'value'`` (also for reducing and aggregating state), ``'list'`` or ``'map'``
        """
        draft = self._draft(uid)
        known = draft.description(KEYED, name)
        kind = kind or (known.kind if known is not None else "value")
        if kind not in _KINDS:
            raise ConfigurationError(f"state '{name}': kind is {kind!r}; use one of {', '.join(map(repr, _KINDS))}")
        before = known or StateDescription(name, kind, descriptor=_KINDS[kind])
        state = StateDescription(
            name,
            kind,
            _type_text(value_type, before.type),
            _type_text(map_key_type, before.map_key_type) if kind == "map" else "",
            descriptor=before.descriptor if before.kind == kind else _KINDS[kind],
            namespaced=window is not None,
            ttl_ms=before.ttl_ms if ttl_ms is None else ttl_ms,
        )
        owner = f"state '{name}' of operator '{uid}'"
        if known is not None and known.namespaced != state.namespaced:
            by_window = "by window; name the column of windows with window="
            raise ConfigurationError(f"{owner} is kept {by_window if known.namespaced else 'by key, without windows'}")
        if timestamp is not None and state.ttl_ms is None:
            raise ConfigurationError(f"{owner} has no time to live, so it takes no timestamp column; give ttl_ms= too")
        columns = [key, *([window] if window else []), value, *([timestamp] if timestamp else [])]
        check_columns(df, columns, owner)
        check_shape(df, value, kind, owner)
        draft.take_key_type(key_type)
        draft.tables[name] = StateInput(state, _chosen(df, columns))
        return self

    def with_timers(
        self,
        uid: str,
        df: DataFrame,
        *,
        key: str = "key",
        domain: str = "domain",
        timestamp: str = "timestamp",
        window: str | None = None,
        key_type: TypeInformation | None = None,
    ) -> SavepointWriter:
        """Give an operator its timers, a row each: a key, a domain (``'event'`` or ``'processing'``) and a timestamp in
        milliseconds. They replace those it has.

        :param window: the column of windows, for an operator whose timers belong to windows
        """
        draft = self._draft(uid)
        columns = [key, *([window] if window else []), domain, timestamp]
        check_columns(df, columns, f"the timers of operator '{uid}'")
        draft.take_key_type(key_type)
        draft.timers = TimersInput(_chosen(df, columns), window is not None)
        return self

    # -- operator state

    def with_list_state(
        self, uid: str, name: str, df: DataFrame, *, value: str = "value", value_type: TypeInformation | None = None
    ) -> SavepointWriter:
        """Give an operator a list state, one row for each element; they are dealt out to the subtasks evenly."""
        return self._with_operator_state(uid, name, LIST, df, [value], None, value_type)

    def with_union_state(
        self, uid: str, name: str, df: DataFrame, *, value: str = "value", value_type: TypeInformation | None = None
    ) -> SavepointWriter:
        """Give an operator a union list state, one row for each element."""
        return self._with_operator_state(uid, name, UNION, df, [value], None, value_type)

    def with_broadcast_state(
        self,
        uid: str,
        name: str,
        df: DataFrame,
        *,
        key: str = "key",
        value: str = "value",
        key_type: TypeInformation | None = None,
        value_type: TypeInformation | None = None,
    ) -> SavepointWriter:
        """Give an operator a broadcast state, one row for each key."""
        return self._with_operator_state(uid, name, BROADCAST, df, [key, value], key_type, value_type)

    def _with_operator_state(
        self,
        uid: str,
        name: str,
        mode: str,
        df: DataFrame,
        columns: list[str],
        key_type: TypeInformation | None,
        value_type: TypeInformation | None,
    ) -> SavepointWriter:
        draft = self._draft(uid)
        known = draft.description(OPERATOR, name) or StateDescription(name, mode)
        value = _type_text(value_type, known.type)
        key = _type_text(key_type, known.map_key_type) if mode == BROADCAST else ""
        state = StateDescription(name, mode, value, key, OPERATOR, _DESCRIPTORS[mode])
        check_columns(df, columns, f"state '{name}' of operator '{uid}'")
        draft.lists[name] = StateInput(state, _chosen(df, columns))
        return self

    # -- operators

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Leave an operator out, with all its state."""
        self._known(uid)
        del self._drafts[uid]
        return self

    def change_operator_identifier(self, old: str, new: str) -> SavepointWriter:
        """Give an operator another uid."""
        draft = self._known(old)
        if new in self._drafts:
            raise SnapshotError(
                f"there is an operator with uid '{new}' already; remove it first, or choose another uid"
            )
        draft.uid = new
        self._drafts = {draft.uid: draft for draft in self._drafts.values()}
        return self

    def remove_state(self, uid: str, name: str) -> SavepointWriter:
        """Leave one state of an operator out."""
        self._known(uid).remove(name)
        return self

    def change_max_parallelism(self, uid: str, max_parallelism: int) -> SavepointWriter:
        """Deal an operator's keys out to another number of key groups."""
        draft = self._known(uid)
        check_parallelism(1, max_parallelism, uid)
        raw = [
            name
            for states in draft.base.operator_state
            if states
            for name, r in states.states.items()
            if r.mode == KEYED_RAW
        ]
        if raw and max_parallelism != draft.base.max_parallelism:
            raise SnapshotError(
                f"operator '{uid}' keeps raw bytes by key group ('{raw[0]}'), and only its program can move them to "
                "other key groups: its max parallelism can't change"
            )
        draft.max_parallelism = max_parallelism
        return self

    # -- writing

    def write(self, path: str) -> str:
        """Write the savepoint and give its path: what ``-s`` takes.

        1. the folder must not exist
        2. tasks write the files of what is new or changed into a folder next to it; a problem ends it here
        3. what stays as it was is copied
        4. ``_metadata`` is written, and the folder gets its name
        """
        folder = check_free(path)
        base = self._base or Snapshot(1, "bootstrap", "bootstrap", 0, int(time.time() * 1000), ())
        renamed = {draft.base.uid: draft.uid for draft in self._drafts.values()}
        in_flight = {renamed[uid]: position for uid, position in base.in_flight.items() if uid in renamed}
        snapshot = replace(base, kind=SnapshotKind.SAVEPOINT, in_flight=in_flight)
        return publish(self._tasks, snapshot, list(self._drafts.values()), folder)

    def _draft(self, uid: str) -> OperatorDraft:
        if not uid:
            raise ConfigurationError("an operator needs a uid that is not empty")
        if uid not in self._drafts:
            parallelism = min(self._tasks.slots, self._max_parallelism)
            self._drafts[uid] = OperatorDraft(OperatorSnapshot(uid, uid, parallelism, self._max_parallelism))
        return self._drafts[uid]

    def _known(self, uid: str) -> OperatorDraft:
        if uid not in self._drafts:
            known = ", ".join(f"'{one}'" for one in self._drafts) or "none"
            where = self._path or "the new savepoint"
            raise SnapshotError(f"{where} has no operator with uid '{uid}'; there is {known}")
        return self._drafts[uid]


def _chosen(df: DataFrame, columns: list[str]) -> DataFrame:
    """Some columns, one of them perhaps twice; names may contain dots."""
    escaped = [name.replace("`", "``") for name in columns]
    return df.select(*(f.col(f"`{name}`").alias(f"c{number}") for number, name in enumerate(escaped)))


def _type_text(info: TypeInformation | None, known: str) -> str:
    return known if info is None else type_to_text(info)
