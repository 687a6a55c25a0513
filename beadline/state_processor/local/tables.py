"""State as Arrow tables for SQL: one for each operator and state, read a batch at a time.

A table is named after its operator and its state: ``shop.total``. The names are the uids and the states' own, made into
identifiers that need no quotes; an operator whose uid was derived from the topology has its own name instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from beadline.checkpoint.contents.snapshot import OperatorSnapshot
from beadline.state.description import KEYED, StateDescription
from beadline.state.heap.timers import TimerTable
from beadline.state.operator.handles import BROADCAST, KEYED_RAW, RAW
from beadline.state_processor.catalog import Catalog
from beadline.state_processor.columns import key_column, value_column
from beadline.state_processor.local.shown import thaw_safely, type_name
from beadline.state_processor.reading import KeyedRead, OperatorRead, TimersRead, parts_of
from beadline.state_processor.slices import slices_of

#: The table of an operator's timers, of both time domains.
TIMERS = "timers"
_UNSAFE = re.compile(r"\W+", re.ASCII)
# Schemas that databases have already.
_TAKEN = frozenset({"main", "temp", "system", "pg_catalog", "information_schema"})


@dataclass(frozen=True)
class StateTable:
    """One state of one operator as a table; ``state`` is None for its timers."""

    schema: str
    name: str
    operator: OperatorSnapshot
    state: StateDescription | None

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def about(self) -> str:
        """What it holds, in a few words."""
        if self.state is None:
            return "timers"
        what = self.state.descriptor or f"{self.state.kind} state"
        kind = type_name(self.state.type)
        return f"{what}{f' of {kind}' if kind else ''}{' by window' if self.state.namespaced else ''}"

    @property
    def columns(self) -> pa.Schema:
        return self._reading().schema

    def read(self) -> pa.RecordBatchReader:
        """Its rows. Memory is bounded: some key groups of a subtask at a time."""
        return pa.RecordBatchReader.from_batches(self.columns, self._batches())

    def _reading(self) -> KeyedRead | TimersRead | OperatorRead:
        operator, state = self.operator, self.state
        if state is None:
            return TimersRead(key_column(operator.key_type, None, f"a timer of operator '{operator.uid}'"))
        owner = f"state '{state.name}' of operator '{operator.uid}'"
        if state.scope == KEYED:
            value = value_column(state, None, owner, times=state.ttl_ms is not None)
            return KeyedRead(state, key_column(operator.key_type, None, owner), value, thaw=thaw_safely)
        key = key_column(state.map_key_type, None, owner) if state.kind == BROADCAST else None
        value = value_column(StateDescription(state.name, "value", state.type), None, owner)
        return OperatorRead(state.kind, key, value, thaw_safely)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        reading = self._reading()
        if isinstance(reading, OperatorRead):
            assert self.state is not None
            name = self.state.name
            held = enumerate(self.operator.operator_state)
            refs = [(i, handle.states[name]) for i, handle in held if handle is not None and name in handle.states]
            for part in parts_of(refs, self.state.kind == BROADCAST):
                yield from reading(part)
        else:
            for piece in slices_of(self.operator, 1):
                yield from reading(piece)


def tables_of(catalog: Catalog) -> list[StateTable]:
    """The tables of a snapshot. Raw operator state has none: only the program that wrote it knows what it is."""
    found: list[StateTable] = []
    schemas: set[str] = set(_TAKEN)
    for operator in catalog.snapshot.operators:
        states = [state for state in catalog.states(operator.uid) if state.kind not in (RAW, KEYED_RAW)]
        if not states:
            continue
        schema = _unique(operator.name if operator.generated_uid else operator.uid, schemas)
        names: set[str] = set()
        timers = [state for state in states if state.kind == TimerTable.kind]
        for state in sorted(states, key=lambda state: state.name):
            if state not in timers:
                found.append(StateTable(schema, _unique(state.name, names), operator, state))
        if timers:
            found.append(StateTable(schema, _unique(TIMERS, names), operator, None))
    return found


def _unique(name: str, taken: set[str]) -> str:
    """A name as an identifier that needs no quotes, and that no other has; capitals don't count."""
    base = _UNSAFE.sub("_", name).strip("_").lower() or "unnamed"
    if base[0].isdigit():
        base = f"_{base}"
    made, number = base, 1
    while made in taken:
        number += 1
        made = f"{base}_{number}"
    taken.add(made)
    return made
