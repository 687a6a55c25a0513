"""State that expires: handles that keep a timestamp with every value.

Time is the step's processing time, so that a re-run gives the same results. List and map state expire per element.
Expired entries are never returned unless the descriptor asks for it, and a sweep at the end of each step removes those
that nobody touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from beadline.api.state import ValueState
from beadline.api.state_descriptors import StateDescriptor, ValueStateDescriptor
from beadline.api.state_ttl import StateTtlConfig
from beadline.errors import TypeMismatchError
from beadline.state.access.keyed import (
    AggregatingHandle,
    ListHandle,
    MapHandle,
    ReducingHandle,
    Scope,
    StateHandle,
    checked_converter,
)
from beadline.state.heap.tables import MISSING, ValueTable

_SWEEP_AT_MOST = 50_000


class _Expiring(StateHandle):
    """Decides what has expired, and sweeps."""

    def __init__(self, descriptor: StateDescriptor, scope: Scope) -> None:
        super().__init__(descriptor, scope)
        config = descriptor.ttl_config
        assert config is not None
        self._ttl = config.ttl_ms
        self._refresh_on_read = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        self._show_expired = config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        strategy = config.get_cleanup_strategies().get_incremental_cleanup_strategy()
        self._per_access = 0 if strategy is None else strategy.get_cleanup_size()
        self._accesses = 0
        self._swept_to: Any = None

    def _alive(self, written_at: int) -> bool:
        return written_at + self._ttl > self._scope.now

    def sweep(self) -> None:
        """Remove some of what expired: a few entries per access, as Flink's heap backend does."""
        budget = min(self._accesses * self._per_access, _SWEEP_AT_MOST)
        self._accesses = 0
        if budget == 0:
            return
        slots, self._swept_to = self._table.walk(self._swept_to, budget)
        saved = self._scope.slot
        for slot in slots:
            self._scope.slot = slot
            self._sweep_slot(slot)
        self._scope.slot = saved

    def _sweep_slot(self, slot: Any) -> None:
        raise NotImplementedError


class _ExpiringValue(_Expiring):
    """One ``(written at, value)`` per slot; value, reducing and aggregating state build on it."""

    kind = "value"
    _table: ValueTable

    def _read(self) -> Any:
        self._accesses += 1
        slot = self._scope.slot
        entry = self._table.get(slot)
        if entry is None:
            return None
        if self._alive(entry[0]):
            if self._refresh_on_read:
                self._table.put(slot, (self._scope.now, entry[1]))
            return entry[1]
        self._table.put(slot, None)
        return entry[1] if self._show_expired else None

    def _write(self, value: Any) -> None:
        self._accesses += 1
        self._table.put(self._scope.slot, None if value is None else (self._scope.now, value))

    def clear(self) -> None:
        self._table.put(self._scope.slot, None)

    def _sweep_slot(self, slot: Any) -> None:
        entry = self._table.peek(slot)
        if entry is not None and not self._alive(entry[0]):
            self._table.put(slot, None)


class ExpiringValueState(_ExpiringValue, ValueState[Any]):
    def __init__(self, descriptor: ValueStateDescriptor, scope: Scope) -> None:
        super().__init__(descriptor, scope)
        self._convert = checked_converter(descriptor.name, descriptor.type_info)

    def value(self) -> Any:
        return self._read()

    def update(self, value: Any) -> None:
        self._write(value if self._convert is None or value is None else self._convert(value))


class ExpiringReducingState(_ExpiringValue, ReducingHandle):
    def get(self) -> Any:
        return self._read()

    def add(self, value: Any) -> None:
        current = self._read()
        reduced = value if current is None else self._reduce(current, value)
        self._write(reduced if self._convert is None else self._convert(reduced))


class ExpiringAggregatingState(_ExpiringValue, AggregatingHandle):
    def get(self) -> Any:
        accumulator = self._read()
        return None if accumulator is None else self._aggregate.get_result(accumulator)

    def add(self, value: Any) -> None:
        accumulator = self._read()
        if accumulator is None:
            accumulator = self._aggregate.create_accumulator()
        accumulator = self._aggregate.add(value, accumulator)
        self._write(accumulator if self._convert is None else self._convert(accumulator))


class ExpiringListState(_Expiring, ListHandle):
    def get(self) -> Iterable[Any]:
        self._accesses += 1
        slot, now = self._scope.slot, self._scope.now
        entries = self._table.get(slot) or []
        alive = [entry for entry in entries if self._alive(entry[0])]
        if self._refresh_on_read and alive:
            self._table.replace(slot, [(now, value) for _, value in alive])
        elif len(alive) < len(entries):
            self._table.replace(slot, alive)
        return [value for _, value in (entries if self._show_expired else alive)]

    def add(self, value: Any) -> None:
        if value is None:
            raise TypeMismatchError(f"list state '{self._descriptor.name}' can't hold None")
        self._accesses += 1
        value = value if self._convert is None else self._convert(value)
        self._table.append(self._scope.slot, (self._scope.now, value))

    def update(self, values: list[Any]) -> None:
        self.clear()
        self.add_all(values)

    def _sweep_slot(self, slot: Any) -> None:
        entries = self._table.get(slot) or []
        alive = [entry for entry in entries if self._alive(entry[0])]
        if len(alive) < len(entries):
            self._table.replace(slot, alive)


class ExpiringMapState(_Expiring, MapHandle):
    def _read(self, key: Any) -> Any:
        self._accesses += 1
        slot = self._scope.slot
        entry = self._table.get(slot, key)
        if entry is MISSING:
            return MISSING
        if self._alive(entry[0]):
            if self._refresh_on_read:
                self._table.put(slot, key, (self._scope.now, entry[1]))
            return entry[1]
        self._table.remove(slot, key)
        return entry[1] if self._show_expired else MISSING

    def get(self, key: Any) -> Any:
        value = self._read(key)
        return None if value is MISSING else value

    def put(self, key: Any, value: Any) -> None:
        self._accesses += 1
        if self._convert_key is not None:
            key = self._convert_key(key)
        if self._convert is not None and value is not None:
            value = self._convert(value)
        self._table.put(self._scope.slot, key, (self._scope.now, value))

    def contains(self, key: Any) -> bool:
        return self._read(key) is not MISSING

    def items(self) -> Iterator[tuple[Any, Any]]:
        found = []
        for key, _ in list(self._table.items(self._scope.slot)):
            value = self._read(key)
            if value is not MISSING:
                found.append((key, value))
        return iter(found)

    def keys(self) -> Iterator[Any]:
        return iter([key for key, _ in self.items()])

    def values(self) -> Iterator[Any]:
        return iter([value for _, value in self.items()])

    def is_empty(self) -> bool:
        return next(self.items(), None) is None

    def _sweep_slot(self, slot: Any) -> None:
        for key, entry in list(self._table.items(slot)):
            if not self._alive(entry[0]):
                self._table.remove(slot, key)


def sweep_all(handles: Iterable[StateHandle]) -> None:
    for handle in handles:
        if isinstance(handle, _Expiring):
            handle.sweep()
