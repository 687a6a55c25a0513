"""What a snapshot holds: operators, states, and how they spread over subtasks and key groups.

Small state is counted. Of larger state the numbers are those of the segments' indexes, which are read without the state
itself: entries that later ones have replaced or removed count too, until a merge drops them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

import xxhash

from beadline.checkpoint.contents.snapshot import OperatorSnapshot
from beadline.state.description import KEYED, StateDescription
from beadline.state.heap.timers import TimerTable
from beadline.state.key_groups import encode_indexed, hash_encoded, key_group_range
from beadline.state.segments.files import read_range
from beadline.state.segments.segment import open_segment
from beadline.state_processor.catalog import Catalog
from beadline.state_processor.local.parts import UNHURRIED, Pace, TimeIsUp, entry_size, parts_of
from beadline.state_processor.local.shown import type_name
from beadline.state_processor.local.tables import tables_of

#: State of an operator up to this size is counted, unless the caller says otherwise.
COUNTED_ENTRIES = 20_000
COUNTED_BYTES = 4 << 20
_MOST_BARS = 256


class _Tally:
    """Entries and bytes of an operator's keyed state, by state, subtask and key group."""

    def __init__(self, operator: OperatorSnapshot) -> None:
        self.exact = False
        self.states: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.subtasks: list[list[float]] = [[0.0, 0.0] for _ in range(operator.parallelism)]
        self.groups: list[list[float]] = [[0.0, 0.0] for _ in range(operator.max_parallelism)]
        self.keys: list[int] | None = None

    def add(self, state: str, subtask: int, group: int, entries: float, size: float) -> None:
        for row in (self.states[state], self.subtasks[subtask], self.groups[group]):
            row[0] += entries
            row[1] += size


def overview(
    catalog: Catalog, uid: str | None = None, exact: bool | None = None, pace: Pace = UNHURRIED
) -> dict[str, Any]:
    """All operators of a snapshot, or one, as JSON.

    :param exact: count the entries; None if that is little work
    """
    operators = catalog.snapshot.operators if uid is None else [catalog.operator(uid)]
    found = [_operator_json(operator, catalog.states(operator.uid), exact, pace) for operator in operators]
    names = {(table.operator.uid, table.state): table.full_name for table in tables_of(catalog)}
    for operator, states in ((o, catalog.states(o["uid"])) for o in found):
        described = {(state.scope, state.name): state for state in states}
        for state in operator["states"]:
            known = None if state["kind"] == TimerTable.kind else described.get((state["scope"], state["name"]))
            state["table"] = names.get((operator["uid"], known))
    return {
        "step": catalog.snapshot.step,
        "at": catalog.snapshot.timestamp,
        "bytes": sum(operator["bytes"] for operator in found),
        "file_bytes": sum(operator["file_bytes"] for operator in found),
        "operators": found,
    }


def _operator_json(
    operator: OperatorSnapshot, states: Iterable[StateDescription], exact: bool | None, pace: Pace
) -> dict[str, Any]:
    keyed = bool(operator.keyed)
    tally = _tally(operator, exact, pace) if keyed else _Tally(operator)
    own = _own_states(operator)
    for subtask, sizes in enumerate(own):
        for entries, size in sizes.values():
            tally.subtasks[subtask][0] += entries
            tally.subtasks[subtask][1] += size
    counted = tally.keys
    return {
        "uid": operator.uid,
        "name": operator.name,
        "vertex_id": xxhash.xxh3_128_hexdigest(operator.uid.encode()),
        "generated_uid": operator.generated_uid,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "keyed": keyed,
        "key_type": type_name(operator.key_type),
        "exact": tally.exact or not keyed,
        "keys": None if counted is None else sum(counted),
        "entries": round(sum(row[0] for row in tally.subtasks)),
        "bytes": round(sum(row[1] for row in tally.subtasks)),
        "file_bytes": sum(operator.subtask_size(subtask) for subtask in range(operator.parallelism)),
        "states": [_state_json(state, tally, own) for state in _with_unknown(states, tally)],
        "subtasks": [
            _subtask_json(operator, subtask, row, None if counted is None else counted[subtask])
            for subtask, row in enumerate(tally.subtasks)
        ],
        "key_groups": _bars(tally.groups) if keyed else None,
    }


def _subtask_json(operator: OperatorSnapshot, subtask: int, row: list[float], keys: int | None) -> dict[str, Any]:
    owned = key_group_range(subtask, operator.parallelism, operator.max_parallelism) if operator.keyed else None
    return {
        "subtask": subtask,
        "first_key_group": owned.start if owned else None,
        "last_key_group": owned.stop - 1 if owned else None,
        "keys": keys,
        "entries": round(row[0]),
        "bytes": round(row[1]),
    }


def _with_unknown(states: Iterable[StateDescription], tally: _Tally) -> list[StateDescription]:
    """The declared states, and tables that nobody has declared yet in this snapshot."""
    known = list(states)
    names = {state.name for state in known if state.scope == KEYED}
    return [*known, *(StateDescription(name, "") for name in sorted(tally.states) if name not in names)]


def _state_json(state: StateDescription, tally: _Tally, own: list[dict[str, tuple[int, int]]]) -> dict[str, Any]:
    if state.scope == KEYED:
        entries, size = tally.states.get(state.name, (0.0, 0.0))
    else:
        entries = sum(sizes.get(state.name, (0, 0))[0] for sizes in own)
        size = sum(sizes.get(state.name, (0, 0))[1] for sizes in own)
    return {
        "name": state.name,
        "scope": state.scope,
        "kind": state.kind,
        "descriptor": state.descriptor or None,
        "type": type_name(state.type),
        "map_key_type": type_name(state.map_key_type),
        "windowed": state.namespaced,
        "ttl_ms": state.ttl_ms,
        "entries": round(entries),
        "bytes": round(size),
    }


def _own_states(operator: OperatorSnapshot) -> list[dict[str, tuple[int, int]]]:
    """Entries and bytes of operator state, by subtask and name."""
    found: list[dict[str, tuple[int, int]]] = [{} for _ in range(operator.parallelism)]
    for subtask, handle in enumerate(operator.operator_state):
        for name, ref in handle.states.items() if handle is not None else ():
            found[subtask][name] = (sum(part.entries for part in ref.own_parts), ref.size)
    return found


def _bars(groups: list[list[float]]) -> dict[str, Any]:
    width = -(-len(groups) // _MOST_BARS)
    starts = range(0, len(groups), width)
    return {
        "width": width,
        "entries": [round(sum(row[0] for row in groups[start : start + width])) for start in starts],
        "bytes": [round(sum(row[1] for row in groups[start : start + width])) for start in starts],
    }


# -- counting


def _tally(operator: OperatorSnapshot, exact: bool | None, pace: Pace) -> _Tally:
    if exact is None:
        segments = [segment for handle in operator.keyed if handle is not None for segment in handle.segments]
        exact = (
            sum(segment.entries for segment in segments) <= COUNTED_ENTRIES
            and sum(segment.weight for segment in segments) <= COUNTED_BYTES
        )
    if exact:
        try:
            return _counted(operator, pace)
        except TimeIsUp:
            pass
    return _from_indexes(operator)


def _counted(operator: OperatorSnapshot, pace: Pace) -> _Tally:
    tally = _Tally(operator)
    keys = [0] * operator.parallelism
    for part in parts_of(operator, pace):
        groups: dict[Any, int] = {}
        for name, table in part.content.items():
            timers = table.kind == TimerTable.kind
            for slot, change in table.changes.items():
                key = slot[0] if table.namespaced else slot
                group = groups.get(key)
                if group is None:
                    group = groups[key] = hash_encoded(encode_indexed(key)) % operator.max_parallelism
                tally.add(name, part.subtask, group, len(change[0]) if timers else 1, entry_size(slot, change))
        keys[part.subtask] += len(groups)
    tally.exact, tally.keys = True, keys
    return tally


def _from_indexes(operator: OperatorSnapshot) -> _Tally:
    """Blocks are spread evenly over the key groups that they reach into."""
    tally = _Tally(operator)
    for subtask, handle in enumerate(operator.keyed):
        owned = key_group_range(subtask, operator.parallelism, operator.max_parallelism)
        for segment in handle.segments if handle is not None else ():
            counting = segment.restricted(owned).key_groups or range(0)
            reader = open_segment(partial(read_range, segment), segment.size, repr(segment), segment.is_own)
            for block in reader.blocks:
                width = block.last - block.first + 1
                for group in range(max(block.first, counting.start), min(block.last + 1, counting.stop)):
                    tally.add(block.name, subtask, group, block.entries / width, block.size / width)
    return tally
