"""State whose declared type has changed is rewritten before the first step, by a Spark job of its own.

The job then goes on as if the state had always been so. The snapshot is only read. What is written goes to the job's
own folder, named by content, and counts when handles name it: a crash meanwhile leaves files that nobody names, which
are dropped with other orphans. A job that fails before its first checkpoint goes back to the snapshot, and does it
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import cloudpickle

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot
from beadline.common.type_description import type_from_text
from beadline.errors import StateMismatchError
from beadline.master.upgrade.comparison import Migration
from beadline.runtime.short_tasks.migrating import (
    KeyedMigration,
    Migrated,
    MigrationRequest,
    PartMigration,
    StateChange,
)
from beadline.state.description import KEYED, OPERATOR
from beadline.state.evolution import hook_for
from beadline.state.key_groups import key_group_range
from beadline.state.operator.handles import OperatorStateHandle, StateRef
from beadline.state.segments.version import KeyedStateHandle, SegmentRef

_LOG = logging.getLogger("beadline")

#: Runs requests in workers and gives their results, in the order of the requests.
Run = Callable[[list[MigrationRequest]], Sequence[Migrated]]


def migrated(snapshot: Snapshot, migrations: Iterable[Migration], run: Run) -> Snapshot:
    """The snapshot with some states as the program declares them.

    1. one request per subtask with keyed state and one per part of operator state, for the operators concerned
    2. run them all; a value that can't be converted ends it
    3. put the new segments into the handles, together with the new descriptions
    """
    by_operator: dict[str, list[Migration]] = {}
    for migration in migrations:
        by_operator.setdefault(migration.uid, []).append(migration)
    if not by_operator:
        return snapshot
    drafts = [_Draft(o, by_operator[o.uid]) if o.uid in by_operator else o for o in snapshot.operators]
    requests = [request for draft in drafts if isinstance(draft, _Draft) for request in draft.requests]
    _LOG.info("%d states have another type now and are migrated: %s", *_named(by_operator))
    results = iter(_checked(run(requests)) if requests else ())
    operators = tuple(draft.finish(results) if isinstance(draft, _Draft) else draft for draft in drafts)
    return replace(snapshot, operators=operators)


def _named(by_operator: dict[str, list[Migration]]) -> tuple[int, str]:
    names = [f"'{migration.new.name}' of {uid}" for uid, several in by_operator.items() for migration in several]
    return len(names), ", ".join(names)


def _checked(results: Sequence[Migrated]) -> list[SegmentRef]:
    for result in results:
        if result.segment is None:
            raise StateMismatchError(result.failure)
    return [result.segment for result in results if result.segment is not None]


class _Draft:
    """An operator whose state is being rewritten; results are taken in the order of ``requests``."""

    def __init__(self, operator: OperatorSnapshot, migrations: list[Migration]) -> None:
        self._operator = operator
        self._migrations = migrations
        self._title = f"operator '{operator.name}' (uid {operator.uid})"
        self.requests: list[MigrationRequest] = [*self._keyed_requests(), *self._part_requests()]

    def _keyed_requests(self) -> Iterable[KeyedMigration]:
        changes = [_change(migration) for migration in self._migrations if migration.new.scope == KEYED]
        if not changes:
            return
        packed = cloudpickle.dumps(tuple(changes), 5)
        for subtask, handle in self._subtasks():
            held = self._operator
            groups = key_group_range(subtask, held.parallelism, held.max_parallelism)
            bounds = (groups.start, groups.stop)
            yield KeyedMigration(self._title, handle.segments, bounds, held.max_parallelism, packed)

    def _subtasks(self) -> list[tuple[int, KeyedStateHandle]]:
        """Those that have keyed state."""
        handles = enumerate(self._operator.keyed)
        return [(subtask, handle) for subtask, handle in handles if handle is not None and handle.segments]

    def _part_requests(self) -> Iterable[PartMigration]:
        for migration in self._migrations:
            if migration.new.scope == OPERATOR:
                packed = cloudpickle.dumps((_change(migration),), 5)
                for part, mode in self._parts(migration.new.name).items():
                    yield PartMigration(self._title, part, mode, packed)

    def _parts(self, name: str) -> dict[SegmentRef, str]:
        """The parts of an operator state, each once: subtasks may share some."""
        refs = [handle.states[name] for handle in self._operator.operator_state if handle and name in handle.states]
        return {part: ref.mode for ref in refs for part in ref.parts}

    def finish(self, results: Iterable[SegmentRef]) -> OperatorSnapshot:
        """The operator with what its requests became."""
        taken = iter(results)
        keyed = list(self._operator.keyed)
        if any(migration.new.scope == KEYED for migration in self._migrations):
            for subtask, handle in self._subtasks():
                keyed[subtask] = KeyedStateHandle(handle.root, (next(taken),))
        states = list(self._operator.operator_state)
        for migration in self._migrations:
            if migration.new.scope == OPERATOR:
                name = migration.new.name
                became = {part: next(taken) for part in self._parts(name)}
                states = [handle and _with_parts(handle, name, became) for handle in states]
        now = {(m.new.scope, m.new.name): m.new for m in self._migrations}
        descriptions = tuple(now.get((d.scope, d.name), d) for d in self._operator.state_descriptions)
        return replace(
            self._operator, keyed=tuple(keyed), operator_state=tuple(states), state_descriptions=descriptions
        )


def _change(migration: Migration) -> StateChange:
    """The types themselves, with the program's classes: a worker may not have loaded them yet."""
    old, new = migration.old, migration.new
    return StateChange(
        new.name,
        type_from_text(old.type),
        type_from_text(new.type),
        hook_for(old.type, migration.hooks),
        old.ttl_ms is not None,
        new.ttl_ms is not None,
    )


def _with_parts(handle: OperatorStateHandle, name: str, became: dict[SegmentRef, SegmentRef]) -> OperatorStateHandle:
    ref = handle.states.get(name)
    if ref is None:
        return handle
    parts = tuple(became[part] for part in ref.parts)
    return OperatorStateHandle({**handle.states, name: StateRef(ref.mode, parts, ref.own)})
