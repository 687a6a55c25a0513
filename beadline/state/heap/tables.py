"""A state's table: the store's read-only base and the overlay that one step writes.

Each kind of table knows four things: how user code reads and writes it, which changes its overlay makes, how
changes are applied to a base, and how two changes merge into one. A *slot* is what a table is indexed by: the key, or
``(key, namespace)`` for state that belongs to a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from beadline.errors import StateAccessError
from beadline.state.codec import Frozen, all_atomic, freeze, is_immutable, thaw
from beadline.state.key_groups import EQUAL_THEMSELVES, map_indexed, unboxed

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()

Changes = dict[Any, Any]

_NO_CHANGE: tuple[bool, dict[Any, Any]] = (False, {})


class Table:
    """What all tables share. Subclasses give the meaning of a change."""

    kind: ClassVar[str]
    __slots__ = ("base", "name", "namespaced")

    def __init__(self, name: str, base: dict[Any, Any], namespaced: bool = False) -> None:
        self.name = name
        self.base = base
        self.namespaced = namespaced
        self.reset()

    def reset(self) -> None:
        """Start an empty overlay."""
        raise NotImplementedError

    def take_changes(self) -> Changes:
        """The overlay as changes by slot; the overlay is empty afterwards."""
        raise NotImplementedError

    def slots(self) -> set[Any]:
        """Every slot that may have an entry."""
        return {*self.base, *getattr(self, "overlay", ())}

    @staticmethod
    def apply(base: dict[Any, Any], changes: Changes) -> None:
        """Bring a base to the version after these changes."""
        raise NotImplementedError

    @staticmethod
    def merge(older: Any, newer: Any) -> Any:
        """One change that equals an older change followed by a newer one."""
        raise NotImplementedError

    @staticmethod
    def settle(change: Any) -> Any:
        """The change over an empty base, None if nothing of it remains."""
        raise NotImplementedError

    @staticmethod
    def expire(change: Any, alive_after: int) -> Any:
        """A settled change whose entries begin with a time, without those that are not later than ``alive_after``;
        None if nothing of it remains."""
        return change

    def walk(self, place: Any, limit: int) -> tuple[list[Any], Any]:
        """Some slots of the base and the place to go on from; None stands for the beginning and for the end."""
        if place is None:
            place = list(self.base)
        slots = place[-limit:]
        del place[-limit:]
        return slots, place or None


class ValueTable(Table):
    """One value per slot. A change is the frozen value, or None where the value was removed."""

    kind = "value"
    __slots__ = ("reads", "writes")

    def reset(self) -> None:
        self.writes: dict[Any, Any] = {}
        self.reads: dict[Any, Any] = {}

    def get(self, slot: Any) -> Any:
        value = self.writes.get(slot, MISSING)
        if value is not MISSING:
            return value
        value = self.base.get(slot)
        return self.first_touch(slot, value) if value.__class__ is Frozen else value

    def first_touch(self, slot: Any, frozen: Frozen) -> Any:
        """A mutable value enters the overlay as a copy, once per step, so that changes in place are seen."""
        live = self.reads.get(slot, MISSING)
        if live is MISSING:
            live = self.reads[slot] = thaw(frozen)
        return live

    def put(self, slot: Any, value: Any) -> None:
        self.writes[slot] = value

    def peek(self, slot: Any) -> Any:
        """The value, without taking it into the overlay."""
        value = self.writes.get(slot, MISSING)
        return thaw(self.base.get(slot)) if value is MISSING else value

    def slots(self) -> set[Any]:
        return {*self.base, *self.writes}

    def take_changes(self) -> Changes:
        writes, base = self.writes, self.base
        plain = all_atomic(writes.values())
        changes = dict(writes) if plain else {slot: freeze(value) for slot, value in writes.items()}
        for slot, live in self.reads.items():
            if slot not in writes:
                frozen = freeze(live)
                if frozen != base.get(slot):
                    changes[slot] = frozen
        self.reset()
        return changes

    @staticmethod
    def apply(base: dict[Any, Any], changes: Changes) -> None:
        if None in changes.values():
            for slot, value in changes.items():
                if value is None:
                    base.pop(slot, None)
                else:
                    base[slot] = value
        else:
            base.update(changes)

    @staticmethod
    def merge(older: Any, newer: Any) -> Any:
        return newer

    @staticmethod
    def settle(change: Any) -> Any:
        return change

    @staticmethod
    def expire(change: Any, alive_after: int) -> Any:
        return change if thaw(change)[0] > alive_after else None


class ListTable(Table):
    """A list per slot. A change is ``(replaced, items)``: the whole list, or what was appended."""

    kind = "list"
    __slots__ = ("overlay",)

    def reset(self) -> None:
        self.overlay: dict[Any, tuple[bool, list[Any]]] = {}

    def get(self, slot: Any) -> list[Any] | None:
        change = self.overlay.get(slot)
        if change is not None and change[0]:
            return [thaw(item) for item in change[1]] or None
        items = [thaw(item) for item in self.base.get(slot, ())]
        if change is not None:
            items.extend(thaw(item) for item in change[1])
        return items or None

    def append(self, slot: Any, item: Any) -> None:
        item = freeze(item)
        change = self.overlay.get(slot)
        if change is None:
            self.overlay[slot] = (False, [item])
        else:
            change[1].append(item)

    def replace(self, slot: Any, items: list[Any]) -> None:
        self.overlay[slot] = (True, [freeze(item) for item in items])

    def take_changes(self) -> Changes:
        changes, self.overlay = self.overlay, {}
        return dict(changes)

    @staticmethod
    def apply(base: dict[Any, Any], changes: Changes) -> None:
        for slot, (replaced, items) in changes.items():
            if replaced:
                if items:
                    base[slot] = list(items)
                else:
                    base.pop(slot, None)
            elif slot in base:
                base[slot].extend(items)
            else:
                base[slot] = list(items)

    @staticmethod
    def merge(older: Any, newer: Any) -> Any:
        return newer if newer[0] else (older[0], [*older[1], *newer[1]])

    @staticmethod
    def settle(change: Any) -> Any:
        return (True, change[1]) if change[1] else None

    @staticmethod
    def expire(change: Any, alive_after: int) -> Any:
        items = [item for item in change[1] if thaw(item)[0] > alive_after]
        return (change[0], items) if items else None


class MapTable(Table):
    """A map per slot. A change is ``(cleared, puts, removed)``, with map keys as :func:`map_indexed` gives them."""

    kind = "map"
    __slots__ = ("overlay",)

    def reset(self) -> None:
        self.overlay: dict[Any, tuple[bool, dict[Any, Any]]] = {}

    def get(self, slot: Any, map_key: Any) -> Any:
        """The value, or MISSING."""
        if map_key.__class__ not in EQUAL_THEMSELVES:
            map_key = map_indexed(map_key)
        change = self.overlay.get(slot)
        if change is not None:
            value = change[1].get(map_key, change)
            if value is not change:
                return thaw(value)
            if change[0]:
                return MISSING
        entries = self.base.get(slot)
        return MISSING if entries is None else thaw(entries.get(map_key, MISSING))

    def put(self, slot: Any, map_key: Any, value: Any) -> None:
        if not is_immutable(map_key):
            self._check_map_key(map_key)
        if map_key.__class__ not in EQUAL_THEMSELVES:
            map_key = map_indexed(map_key)
        change = self.overlay.get(slot)
        if change is None:
            change = self.overlay[slot] = (False, {})
        change[1][map_key] = freeze(value)

    def _check_map_key(self, map_key: Any) -> None:
        try:
            hash(map_key)
        except TypeError:
            raise StateAccessError(
                f"map state '{self.name}': a map key must be hashable, got {type(map_key).__name__}: {map_key!r}. "
                "Use a tuple instead of a list or Row."
            ) from None

    def remove(self, slot: Any, map_key: Any) -> None:
        if map_key.__class__ not in EQUAL_THEMSELVES:
            map_key = map_indexed(map_key)
        change = self.overlay.get(slot)
        if change is None:
            change = self.overlay[slot] = (False, {})
        if change[0] or not self._may_be_below(slot, map_key):
            change[1].pop(map_key, None)  # it never reached the base: there is nothing to remove there
        else:
            change[1][map_key] = MISSING

    def _may_be_below(self, slot: Any, map_key: Any) -> bool:
        """Whether the base has to be told that an entry is gone."""
        return map_key in self.base.get(slot, ())

    def clear(self, slot: Any) -> None:
        self.overlay[slot] = (True, {})

    def items(self, slot: Any) -> Iterator[tuple[Any, Any]]:
        cleared, over = self.overlay.get(slot, _NO_CHANGE)
        below = {} if cleared else self.base.get(slot, {})
        for map_key, value in below.items():
            value = over.get(map_key, value)
            if value is not MISSING:
                yield unboxed(map_key), thaw(value)
        for map_key, value in list(over.items()):
            if value is not MISSING and map_key not in below:
                yield unboxed(map_key), thaw(value)

    def take_changes(self) -> Changes:
        overlay, self.overlay = self.overlay, {}
        changes: Changes = {}
        for slot, (cleared, entries) in overlay.items():
            removed = [k for k, v in entries.items() if v is MISSING]
            puts = {k: v for k, v in entries.items() if v is not MISSING} if removed else entries
            if not (cleared or puts or removed):
                continue
            changes[slot] = (cleared, puts, [] if cleared else removed)
        return changes

    @staticmethod
    def apply(base: dict[Any, Any], changes: Changes) -> None:
        for slot, (cleared, puts, removed) in changes.items():
            entries = None if cleared else base.get(slot)
            if entries is None:
                entries = base[slot] = {}
            for map_key in removed:
                entries.pop(map_key, None)
            entries.update(puts)
            if not entries:
                del base[slot]

    @staticmethod
    def merge(older: Any, newer: Any) -> Any:
        if newer[0]:
            return newer
        gone = set(newer[2])
        puts = {k: v for k, v in older[1].items() if k not in gone}
        puts.update(newer[1])
        # A key that was removed and put again stays in `removed`: it moves to the end, as it did step by step.
        removed = [] if older[0] else list(dict.fromkeys((*older[2], *newer[2])))
        return older[0], puts, removed

    @staticmethod
    def settle(change: Any) -> Any:
        return (True, change[1], []) if change[1] else None

    @staticmethod
    def expire(change: Any, alive_after: int) -> Any:
        puts = {key: value for key, value in change[1].items() if thaw(value)[0] > alive_after}
        return (change[0], puts, change[2]) if puts else None


TABLE_KINDS: dict[str, type[Table]] = {table.kind: table for table in (ValueTable, ListTable, MapTable)}
