"""What a worker does to state whose type has changed: reads it from immutable segments, converts it, writes a new
segment.

A task may run twice, or elsewhere: files are named by content, and only those that the driver names count. The segments
of the snapshot are only read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import cloudpickle

from beadline.api.state_descriptors import StateMigration
from beadline.common._types.base import shorten
from beadline.common.type_description import readable, type_to_text
from beadline.common.typeinfo import PickledBytesTypeInfo, TypeInformation
from beadline.errors import StateMismatchError
from beadline.runtime.messages import RunContext
from beadline.runtime.worker import worker
from beadline.state.codec import freeze, thaw_as_written
from beadline.state.evolution import class_names, hooked, type_converter
from beadline.state.key_groups import unboxed
from beadline.state.operator.handles import BROADCAST, StateContent, encode, read_part, store
from beadline.state.segments.files import SegmentFiles
from beadline.state.segments.merging import merged
from beadline.state.segments.segment import SegmentWriter, TableChanges
from beadline.state.segments.version import SegmentRef, next_version

Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class StateChange:
    """A state that becomes another one.

    :ivar old: the type of a value, an element of a list, a value of a map
    :ivar hook: the user's function, if it is for the old type
    :ivar expired: whether values have had a time to live
    :ivar expires: whether they have one now
    """

    name: str
    old: TypeInformation
    new: TypeInformation
    hook: StateMigration | None = None
    expired: bool = False
    expires: bool = False

    def converter(self, now: int, keeps_none: bool) -> Convert:
        """What converts a value as it is stored, with its time to live from ``now`` on if it had none.

        :param keeps_none: None is a value like others; else a hook that gives None drops the value
        """
        convert = type_converter(self.old, self.new) if self.hook is None else hooked(self.old, self.new, self.hook)
        expired, expires = self.expired, self.expires
        # Classes that the old type names become rows here; other classes in a value adapt when they are loaded.
        undeclared = isinstance(self.old, PickledBytesTypeInfo)
        classes = None if undeclared and self.hook is not None else class_names(self.old)

        def convert_stored(stored: Any) -> Any:
            value = thaw_as_written(stored, classes)
            written_at, value = value if expired else (now, value)
            if convert is not None:
                value = convert(value)
            if value is None and not keeps_none:
                return None
            return freeze((written_at, value) if expires else value)

        return convert_stored


@dataclass(frozen=True)
class KeyedMigration:
    """The keyed state of one subtask.

    :ivar groups: first and last + 1 of its key groups
    :ivar changes: pickled with what they need, by :mod:`cloudpickle`: several :class:`StateChange`
    """

    operator: str
    segments: tuple[SegmentRef, ...]
    groups: tuple[int, int]
    max_parallelism: int
    changes: bytes


@dataclass(frozen=True)
class PartMigration:
    """One part of an operator state."""

    operator: str
    part: SegmentRef
    mode: str
    changes: bytes


MigrationRequest: TypeAlias = KeyedMigration | PartMigration


@dataclass(frozen=True)
class Migrated:
    """The segment that a request became; or why it can't."""

    segment: SegmentRef | None
    failure: str = ""


def migrate_in_worker(shipment: Any, context: RunContext, now: int, request: MigrationRequest) -> Migrated:
    """Rewrite the state of one request. A bad value is an answer and no error: a second try would not change it."""
    execution = worker.enter_execution(context, shipment)
    changes: tuple[StateChange, ...] = cloudpickle.loads(request.changes)
    try:
        if isinstance(request, PartMigration):
            return Migrated(_migrate_part(request, changes[0], execution.files, context, now))
        return Migrated(_migrate_keyed(request, changes, execution.files, context, now))
    except StateMismatchError as error:
        return Migrated(None, str(error))


def _migrate_keyed(
    request: KeyedMigration, changes: tuple[StateChange, ...], files: SegmentFiles, context: RunContext, now: int
) -> SegmentRef:
    """Some key groups at a time, all tables of the handle, those that change converted."""
    tables = {change.name: _TableConverter(request.operator, change, now) for change in changes}
    with files.draft() as draft:
        writer = SegmentWriter(draft.write, request.max_parallelism, by_key=True, codec=context.codec)
        groups = range(*request.groups)
        for _, content in merged(request.segments, groups):
            writer.add({name: tables[name](table) if name in tables else table for name, table in content.items()})
        writer.finish()
        version = next_version(request.segments[-1].version, f"migrated|{draft.digest}".encode())
        return draft.store(f"{draft.digest}-{version[:12]}.run", version, writer.entries)


class _TableConverter:
    def __init__(self, operator: str, change: StateChange, now: int) -> None:
        self._operator = operator
        self._change = change
        self._convert = change.converter(now, keeps_none=False)
        self._convert_in_map = change.converter(now, keeps_none=True)

    def __call__(self, table: TableChanges) -> TableChanges:
        convert_entry = {"value": self._convert, "list": self._list, "map": self._map}[table.kind]
        changes = {}
        for slot, entry in table.changes.items():
            try:
                made = convert_entry(entry)
            except Exception as error:
                raise _unfit(self._operator, self._change, error, entry, _shown(slot, table.namespaced)) from error
            if made is not None:
                changes[slot] = made
        ttl_ms = table.ttl_ms if self._change.expires else None
        return replace(table, changes=changes, ttl_ms=ttl_ms)

    def _list(self, entry: Any) -> Any:
        replaced, items = entry
        kept = [made for item in items if (made := self._convert(item)) is not None]
        return (replaced, kept) if kept else None

    def _map(self, entry: Any) -> Any:
        cleared, puts, removed = entry
        return cleared, {key: self._convert_in_map(value) for key, value in puts.items()}, removed


def _migrate_part(
    request: PartMigration, change: StateChange, files: SegmentFiles, context: RunContext, now: int
) -> SegmentRef:
    by_key = request.mode == BROADCAST
    convert = change.converter(now, keeps_none=by_key)
    items: list[Any] = []
    for number, item in enumerate(read_part(request.part, request.mode)):
        key, value = item if by_key else (number, item)
        try:
            made = convert(value)
        except Exception as error:
            where = f"key {shorten(key)}" if by_key else f"element {number}"
            raise _unfit(request.operator, change, error, value, where) from error
        if by_key:
            items.append((key, made))
        elif made is not None:
            items.append(made)
    data = encode(StateContent(request.mode, items))
    return store(data, len(items), files, context.inline_limit)


def _unfit(operator: str, change: StateChange, error: Exception, stored: Any, where: str) -> StateMismatchError:
    old, new = readable(type_to_text(change.old)), readable(type_to_text(change.new))
    by = "the function given to migrate_from() failed on it" if change.hook is not None else "it can't be converted"
    return StateMismatchError(
        f"{operator}: state '{change.name}' is of type {new} in the program and was of type {old} in the snapshot. At "
        f"{where}, the value is {_readable_value(stored)}, and {by}: {type(error).__name__}: {error}"
    )


def _shown(slot: Any, namespaced: bool) -> str:
    key, window = slot if namespaced else (slot, None)
    return f"key {shorten(unboxed(key))}" + (f", window {shorten(window)}" if namespaced else "")


def _readable_value(stored: Any) -> str:
    try:
        if stored.__class__ is tuple and len(stored) == 2 and isinstance(stored[1], list):
            return shorten([thaw_as_written(item) for item in stored[1]])
        if stored.__class__ is tuple and len(stored) == 3 and isinstance(stored[1], dict):
            return shorten({key: thaw_as_written(value) for key, value in stored[1].items()})
        return shorten(thaw_as_written(stored))
    except Exception as error:
        return f"unreadable ({error})"
