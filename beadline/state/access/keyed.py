"""The state handles that user code holds, over the tables of one step.

A handle is made once, when the function opens, and re-pointed at the tables of every step. It reads the current slot
from a :class:`Scope`, which the operator sets before each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from beadline.api.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from beadline.api.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from beadline.common.typeinfo import TypeInformation
from beadline.errors import StateAccessError, TypeMismatchError
from beadline.state.codec import Frozen
from beadline.state.heap.tables import MISSING, ListTable, MapTable, Table, ValueTable

Converter = Callable[[Any], Any]


class Scope:
    """Where state is read and written: the slot of the current key (and window), and the step's processing time."""

    __slots__ = ("now", "slot")

    def __init__(self) -> None:
        self.slot: Any = MISSING
        self.now = 0


class NoKey:
    """The slot while there is no current key. Looking it up in a table of keyed state raises an error that says why."""

    __slots__ = ("_reason",)

    def __init__(self, reason: Callable[[], str]) -> None:
        self._reason = reason

    def __hash__(self) -> int:
        raise StateAccessError(self._reason())


def checked_converter(name: str, type_info: TypeInformation) -> Converter | None:
    """A type's converter whose errors name the state."""
    convert = type_info.held().converter()
    if convert is None:
        return None

    def checked(value: Any) -> Any:
        try:
            return convert(value)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"state '{name}': {error}") from None

    return checked


class StateHandle:
    kind: str
    _table: Any

    def __init__(self, descriptor: StateDescriptor, scope: Scope) -> None:
        self._descriptor = descriptor
        self._scope = scope

    def point_at(self, table: Table) -> None:
        self._table = table

    def __repr__(self) -> str:
        return f"<{type(self).__name__} '{self._descriptor.name}'>"


class KeyedValueState(StateHandle, ValueState[Any]):
    """``value`` and ``update`` run once per record: they are closures, which reach everything they need directly."""

    kind = "value"

    def __init__(self, descriptor: ValueStateDescriptor, scope: Scope) -> None:
        super().__init__(descriptor, scope)
        convert = descriptor.type_info.held().converter()
        name = descriptor.name
        missing, frozen = MISSING, Frozen
        writes: dict[Any, Any] = {}
        written = stored = writes.get

        def point_at(table: Table) -> None:
            nonlocal writes, written, stored
            assert isinstance(table, ValueTable)
            self._table = table
            writes, written, stored = table.writes, table.writes.get, table.base.get

        def value() -> Any:
            slot = scope.slot
            found = written(slot, missing)
            if found is missing:
                found = stored(slot)
                if found.__class__ is frozen:
                    return self._table.first_touch(slot, found)
            return found

        def update(value: Any) -> None:
            if value is not None and convert is not None:
                try:
                    value = convert(value)
                except TypeMismatchError as error:
                    raise TypeMismatchError(f"state '{name}': {error}") from None
            writes[scope.slot] = value

        self.point_at = point_at  # type: ignore[method-assign]
        self.value = value  # type: ignore[method-assign]
        self.update = update  # type: ignore[method-assign]

    def value(self) -> Any:
        raise AssertionError("set in the constructor")

    def update(self, value: Any) -> None:
        raise AssertionError("set in the constructor")

    def clear(self) -> None:
        self.update(None)


class ListHandle(StateHandle, ListState[Any]):
    """What lists share, whether their elements expire or not."""

    kind = "list"
    _table: ListTable

    def __init__(self, descriptor: ListStateDescriptor, scope: Scope) -> None:
        super().__init__(descriptor, scope)
        self._convert = checked_converter(descriptor.name, descriptor.elem_type_info)

    def add_all(self, values: list[Any]) -> None:
        for value in values:
            self.add(value)

    def clear(self) -> None:
        self._table.replace(self._scope.slot, [])


class KeyedListState(ListHandle):
    def get(self) -> Iterable[Any]:
        return self._table.get(self._scope.slot) or []

    def add(self, value: Any) -> None:
        if value is None:
            raise TypeMismatchError(f"list state '{self._descriptor.name}' can't hold None")
        self._table.append(self._scope.slot, value if self._convert is None else self._convert(value))

    def merge_slots(self, sources: Iterable[Any], target: Any) -> None:
        """Move the lists of several slots to the end of the target's, and empty them."""
        for source in sources:
            for item in self._table.get(source) or ():
                self._table.append(target, item)
            self._table.replace(source, [])

    def update(self, values: list[Any]) -> None:
        items = list(values) if self._convert is None else [self._convert(value) for value in values]
        self._table.replace(self._scope.slot, items)


class MapHandle(StateHandle, MapState[Any, Any]):
    """What maps share, whether their entries expire or not."""

    kind = "map"
    _table: MapTable

    def __init__(self, descriptor: MapStateDescriptor, scope: Scope) -> None:
        super().__init__(descriptor, scope)
        self._convert_key = checked_converter(descriptor.name, descriptor.key_type_info)
        self._convert = checked_converter(descriptor.name, descriptor.value_type_info)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._table.remove(self._scope.slot, key)

    def clear(self) -> None:
        self._table.clear(self._scope.slot)


class KeyedMapState(MapHandle):
    def get(self, key: Any) -> Any:
        value = self._table.get(self._scope.slot, key)
        return None if value is MISSING else value

    def put(self, key: Any, value: Any) -> None:
        if self._convert_key is not None:
            key = self._convert_key(key)
        if self._convert is not None and value is not None:
            value = self._convert(value)
        self._table.put(self._scope.slot, key, value)

    def contains(self, key: Any) -> bool:
        return self._table.get(self._scope.slot, key) is not MISSING

    def items(self) -> Iterator[tuple[Any, Any]]:
        # A list, so that user code may change the map while it goes through it.
        return iter(list(self._table.items(self._scope.slot)))

    def keys(self) -> Iterator[Any]:
        return iter([key for key, _ in self._table.items(self._scope.slot)])

    def values(self) -> Iterator[Any]:
        return iter([value for _, value in self._table.items(self._scope.slot)])

    def is_empty(self) -> bool:
        return next(self._table.items(self._scope.slot), None) is None


class ReducingHandle(StateHandle, ReducingState[Any]):
    def __init__(self, descriptor: ReducingStateDescriptor, scope: Scope) -> None:
        super().__init__(descriptor, scope)
        self._reduce = self._merge = descriptor.get_reduce_function().reduce
        self._convert = checked_converter(descriptor.name, descriptor.type_info)


class AggregatingHandle(StateHandle, AggregatingState[Any, Any]):
    def __init__(self, descriptor: AggregatingStateDescriptor, scope: Scope) -> None:
        super().__init__(descriptor, scope)
        self._aggregate = descriptor.get_agg_function()
        self._merge = self._aggregate.merge
        self._convert = checked_converter(descriptor.name, descriptor.type_info)


class _Folded(StateHandle):
    """One value per slot, into which all added elements are folded."""

    kind = "value"
    _table: ValueTable
    _merge: Callable[[Any, Any], Any]

    def merge_slots(self, sources: Iterable[Any], target: Any) -> None:
        """Merge the values of several slots into the target's, and empty them."""
        merged = self._table.get(target)
        for source in sources:
            value = self._table.get(source)
            if value is not None:
                merged = value if merged is None else self._merge(merged, value)
            self._table.put(source, None)
        self._table.put(target, merged)

    def clear(self) -> None:
        self._table.put(self._scope.slot, None)


class KeyedReducingState(_Folded, ReducingHandle):
    def get(self) -> Any:
        return self._table.get(self._scope.slot)

    def add(self, value: Any) -> None:
        slot = self._scope.slot
        current = self._table.get(slot)
        reduced = value if current is None else self._reduce(current, value)
        self._table.put(slot, reduced if self._convert is None else self._convert(reduced))


class KeyedAggregatingState(_Folded, AggregatingHandle):
    def get(self) -> Any:
        accumulator = self._table.get(self._scope.slot)
        return None if accumulator is None else self._aggregate.get_result(accumulator)

    def add(self, value: Any) -> None:
        slot = self._scope.slot
        accumulator = self._table.get(slot)
        if accumulator is None:
            accumulator = self._aggregate.create_accumulator()
        accumulator = self._aggregate.add(value, accumulator)
        self._table.put(slot, accumulator if self._convert is None else self._convert(accumulator))
