"""The keyed backend of one operator subtask: its states, its timers, its current key."""

from __future__ import annotations

from typing import Any

from beadline.api.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from beadline.errors import StateAccessError
from beadline.state import keyed, ttl
from beadline.state.keyed import Scope, StateHandle
from beadline.state.run import RunContent, TableChanges
from beadline.state.store import HeapStore
from beadline.state.tables import Table
from beadline.state.timers import TimerTable

_PLAIN: dict[type[StateDescriptor], Any] = {
    ValueStateDescriptor: keyed.KeyedValueState,
    ListStateDescriptor: keyed.KeyedListState,
    MapStateDescriptor: keyed.KeyedMapState,
    ReducingStateDescriptor: keyed.KeyedReducingState,
    AggregatingStateDescriptor: keyed.KeyedAggregatingState,
}
_EXPIRING: dict[type[StateDescriptor], Any] = {
    ValueStateDescriptor: ttl.ExpiringValueState,
    ListStateDescriptor: ttl.ExpiringListState,
    MapStateDescriptor: ttl.ExpiringMapState,
    ReducingStateDescriptor: ttl.ExpiringReducingState,
    AggregatingStateDescriptor: ttl.ExpiringAggregatingState,
}

EVENT_TIMERS = "_event-timers"
PROCESSING_TIMERS = "_processing-timers"


class KeyedBackend:
    """Hands out state and timers, and turns what a step did to them into changes.

    It outlives steps: :meth:`begin` points it at a store's tables, :meth:`finish` takes the overlay.

    :ivar scope: plain state, by key
    :ivar window_scope: state that belongs to a window, by key and window
    """

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self.scope = Scope()
        self.window_scope = Scope()
        self._handles: dict[str, tuple[StateDescriptor, StateHandle, bool]] = {}
        self._tables: dict[str, Table] = {}
        self._store: HeapStore | None = None
        self.event_timers: TimerTable
        self.processing_timers: TimerTable

    def begin(self, store: HeapStore, now: int, namespaced_timers: bool = False) -> None:
        """Start a step over a store that stands at the step's version."""
        self._store = store
        self._tables = {}
        self.scope.now = self.window_scope.now = now
        self.event_timers = self._timers(EVENT_TIMERS, namespaced_timers)
        self.processing_timers = self._timers(PROCESSING_TIMERS, namespaced_timers)
        for name, (_, handle, windowed) in self._handles.items():
            handle.point_at(self._table(name, handle.kind, windowed))

    def _timers(self, name: str, namespaced: bool) -> TimerTable:
        table = self._table(name, TimerTable.kind, namespaced)
        assert isinstance(table, TimerTable)
        return table

    def _table(self, name: str, kind: str, namespaced: bool) -> Table:
        assert self._store is not None, "state is used outside of a step"
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._store.table(name, kind, namespaced)
        return table

    def state(self, descriptor: StateDescriptor, windowed: bool = False) -> Any:
        """The handle for a descriptor; the same one when asked twice."""
        known = self._handles.get(descriptor.name)
        if known is not None:
            if type(known[0]) is not type(descriptor) or known[2] != windowed:
                raise StateAccessError(
                    f"operator '{self._operator}': state '{descriptor.name}' is already registered "
                    f"by a {type(known[0]).__name__}; use another name"
                )
            return known[1]
        makers = _PLAIN if descriptor.ttl_config is None else _EXPIRING
        handle: StateHandle = makers[type(descriptor)](descriptor, self.window_scope if windowed else self.scope)
        self._handles[descriptor.name] = (descriptor, handle, windowed)
        if self._store is not None:
            handle.point_at(self._table(descriptor.name, handle.kind, windowed))
        return handle

    def finish(self) -> RunContent:
        """End the step: what it changed, by table. The handles must not be used until the next :meth:`begin`."""
        ttl.sweep_all(handle for _, handle, _ in self._handles.values())
        content: RunContent = {}
        for name, table in self._tables.items():
            changes = table.take_changes()
            if changes:
                content[name] = TableChanges(table.kind, table.namespaced, changes)
        self._tables = {}
        self._store = None
        return content
