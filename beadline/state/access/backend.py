"""The keyed backend of one operator subtask: its states, its timers, its current key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from beadline.api.state import ListState, MapState, ValueState
from beadline.api.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from beadline.common.typeinfo import TypeInformation
from beadline.errors import StateAccessError, StateMismatchError
from beadline.state.access import keyed, ttl
from beadline.state.access.keyed import NoKey, Scope, StateHandle
from beadline.state.description import StateDescription, describe, text_of
from beadline.state.heap.tables import Table
from beadline.state.heap.timers import TimerTable
from beadline.state.key_groups import encode_indexed
from beadline.state.segments.segment import SegmentContent, TableChanges
from beadline.state.store import Store

#: The handle for each kind of descriptor: of state without a time to live, and with one.
_HANDLES: dict[type[StateDescriptor], tuple[Any, Any]] = {
    ValueStateDescriptor: (keyed.KeyedValueState, ttl.ExpiringValueState),
    ListStateDescriptor: (keyed.KeyedListState, ttl.ExpiringListState),
    MapStateDescriptor: (keyed.KeyedMapState, ttl.ExpiringMapState),
    ReducingStateDescriptor: (keyed.KeyedReducingState, ttl.ExpiringReducingState),
    AggregatingStateDescriptor: (keyed.KeyedAggregatingState, ttl.ExpiringAggregatingState),
}

EVENT_TIMERS = "_event-timers"
PROCESSING_TIMERS = "_processing-timers"
TIMERS = {EVENT_TIMERS: "EventTimeTimers", PROCESSING_TIMERS: "ProcessingTimeTimers"}


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
        self._no_key = NoKey(self._why_no_key)
        self._handles: dict[str, tuple[StateDescriptor, StateHandle, StateDescription]] = {}
        self._tables: dict[str, Table] = {}
        self._store: Store | None = None
        self._timers_set: list[StateDescription] = []
        self.event_timers: TimerTable
        self.processing_timers: TimerTable

    def begin(self, store: Store, now: int, namespaced_timers: bool = False) -> None:
        """Start a step over a store that has the step's version."""
        self._store = store
        self._tables = {}
        self.scope.now = self.window_scope.now = now
        self.scope.slot = self.window_scope.slot = self._no_key  # until the first record or timer
        self.event_timers = self._timers(EVENT_TIMERS, namespaced_timers)
        self.processing_timers = self._timers(PROCESSING_TIMERS, namespaced_timers)
        for name, (_, handle, described) in self._handles.items():
            handle.point_at(self._table(name, handle.kind, described.namespaced))

    def _why_no_key(self) -> str:
        names = ", ".join(f"'{name}'" for name in self._handles) or "none"
        return (
            f"operator '{self._operator}' reads or writes keyed state (states that it has: {names}) where there is "
            "no current key: no record and no timer is being processed. In open() get the state from the runtime "
            "context, and use it in process_element() or on_timer()."
        )

    def _timers(self, name: str, namespaced: bool) -> TimerTable:
        table = self._table(name, TimerTable.kind, namespaced)
        assert isinstance(table, TimerTable)
        return table

    def _table(self, name: str, kind: str, namespaced: bool) -> Table:
        assert self._store is not None, "state is used outside of a step"
        table = self._tables.get(name)
        if table is None:
            try:
                table = self._tables[name] = self._store.table(name, kind, namespaced)
            except StateMismatchError as error:
                raise StateMismatchError(f"operator '{self._operator}': {error}") from None
        return table

    def state(self, descriptor: StateDescriptor, windowed: bool = False, holds: TypeInformation | None = None) -> Any:
        """The handle for a descriptor; the same one when asked twice.

        :param holds: the type that its values have already, if the descriptor is not to convert them again
        """
        known = self._handles.get(descriptor.name)
        if known is not None:
            if type(known[0]) is not type(descriptor) or known[2].namespaced != windowed:
                raise StateAccessError(
                    f"operator '{self._operator}': state '{descriptor.name}' is already registered "
                    f"by a {type(known[0]).__name__}; use another name"
                )
            return known[1]
        make = _HANDLES[type(descriptor)][descriptor.ttl_config is not None]
        handle: StateHandle = make(descriptor, self.window_scope if windowed else self.scope)
        described = describe(descriptor, handle.kind, namespaced=windowed)
        if holds is not None:
            described = replace(described, type=text_of(holds))
        self._handles[descriptor.name] = (descriptor, handle, described)
        if self._store is not None:
            handle.point_at(self._table(descriptor.name, handle.kind, windowed))
        return handle

    def descriptors(self) -> dict[str, StateDescriptor]:
        return {name: descriptor for name, (descriptor, _, _) in self._handles.items()}

    def descriptions(self) -> list[StateDescription]:
        """Of all states that were asked for so far, and of the timers that the last step changed."""
        return [described for _, _, described in self._handles.values()] + self._timers_set

    def entries(self, descriptor: StateDescriptor) -> Iterator[tuple[Any, StateHandle]]:
        """All slots that have an entry in a state, each with the state's handle, in the order of their encoded keys: a
        worker that rebuilt its store goes through them like one that kept it. The caller sets the scope's slot."""
        handle = self.state(descriptor)
        slots = self._table(descriptor.name, handle.kind, False).slots()
        for slot in sorted(slots, key=encode_indexed):
            self.scope.slot = slot
            if _has_entry(handle):
                yield slot, handle

    def _ttl_ms(self, name: str) -> int | None:
        """How long entries live, if a merge of segments may drop expired ones."""
        known = self._handles.get(name)
        config = None if known is None else known[0].ttl_config
        if config is None:
            return None
        cleanup = config.get_cleanup_strategies()
        return config.ttl_ms if cleanup.is_cleanup_in_background() or cleanup.in_full_snapshot() else None

    def finish(self) -> SegmentContent:
        """End the step: what it changed, by table. The handles must not be used until the next :meth:`begin`."""
        ttl.sweep_all(handle for _, handle, _ in self._handles.values())
        content: SegmentContent = {}
        for name, table in self._tables.items():
            changes = table.take_changes()
            if changes:
                content[name] = TableChanges(table.kind, table.namespaced, changes, self._ttl_ms(name))
        self._timers_set.clear()
        for name in TIMERS.keys() & content.keys():
            # Every keyed operator has these tables; it has timers once one was set.
            self._timers_set.append(
                StateDescription(name, TimerTable.kind, descriptor=TIMERS[name], namespaced=content[name].namespaced)
            )
        self._tables = {}
        self._store = None
        return content


def _has_entry(handle: Any) -> bool:
    """Whether the current slot has an entry that is still visible under the state's time to live."""
    if isinstance(handle, ValueState):
        return handle.value() is not None
    if isinstance(handle, MapState):
        return not handle.is_empty()
    if isinstance(handle, ListState):
        return any(True for _ in handle.get())
    return handle.get() is not None
