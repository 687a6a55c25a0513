"""All that an operator knows of one key. Only what can hold the key is read: its key group tells the subtask, the
indexes of the segments tell the blocks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from beadline.checkpoint.contents.snapshot import OperatorSnapshot
from beadline.errors import KeyEncodingError
from beadline.state.description import KEYED, StateDescription
from beadline.state.heap.timers import TimerTable
from beadline.state.key_groups import encode_key, encode_slot, hash_encoded, subtask_of_key_group
from beadline.state.segments.files import read_range
from beadline.state.segments.segment import (
    SegmentContent,
    TableChanges,
    add_part,
    merge_contents,
    open_segment,
    without_tombstones,
)
from beadline.state.segments.version import within
from beadline.state_processor.columns import plain
from beadline.state_processor.local.keys import NoSuchKey, keys_of
from beadline.state_processor.local.parts import entry_size
from beadline.state_processor.local.shown import entry_json, key_text, type_name, window_json
from beadline.state_processor.reading import DOMAINS

#: So many windows of a state and so many timers of a key are shown.
MOST_ENTRIES = 200

_DOMAIN_OF = {table: domain for domain, table in DOMAINS.items()}


def look_up(
    operator: OperatorSnapshot, states: Iterable[StateDescription], text: str, now: int, only: str | None = None
) -> dict[str, Any]:
    """What an operator knows of the key that a text means, as JSON.

    :param states: of the operator, as the catalog lists them
    :param now: by which time to live is judged
    :param only: the name of one state, None for all
    """
    key, encoded, content = _found(operator, text)
    if only is not None:
        content = {name: table for name, table in content.items() if name == only}
    group = hash_encoded(encoded) % operator.max_parallelism
    timers = [
        {"domain": _DOMAIN_OF.get(name, name), "timestamp": time, "window": _window(table, slot)}
        for name, table in content.items()
        if table.kind == TimerTable.kind
        for slot, change in table.changes.items()
        for time in change[0]
    ]
    timers.sort(key=lambda timer: timer["timestamp"])
    described = {state.name: state for state in states if state.scope == KEYED}
    return {
        "operator": operator.uid,
        "key": plain(key),
        "key_text": key_text(key, operator.key_type),
        "key_type": type_name(operator.key_type),
        "key_group": group,
        "subtask": subtask_of_key_group(group, operator.parallelism, operator.max_parallelism),
        "found": bool(content),
        "bytes": sum(entry_size(*entry) for table in content.values() for entry in table.changes.items()),
        "states": [
            _state_json(name, table, described.get(name), now)
            for name, table in sorted(content.items())
            if table.kind != TimerTable.kind
        ],
        "timers": timers[:MOST_ENTRIES],
        "timers_left_off": max(0, len(timers) - MOST_ENTRIES),
    }


def _found(operator: OperatorSnapshot, text: str) -> tuple[Any, bytes, SegmentContent]:
    """The first key that a text may mean and that has state, with its encoding; or the likeliest one without."""
    likeliest: tuple[Any, bytes, SegmentContent] | None = None
    problem: Exception | None = None
    for key in keys_of(text, operator):
        try:
            encoded = encode_key(key)
        except (KeyEncodingError, RecursionError) as error:
            problem = error
            continue
        content = content_of(operator, encoded)
        if content:
            return key, encoded, content
        likeliest = likeliest or (key, encoded, content)
    if likeliest is None:
        raise NoSuchKey(str(problem)) from problem
    return likeliest


def content_of(operator: OperatorSnapshot, encoded: bytes) -> SegmentContent:
    """The settled entries of the key with that canonical encoding, by table."""
    group = hash_encoded(encoded) % operator.max_parallelism
    subtask = subtask_of_key_group(group, operator.parallelism, operator.max_parallelism)
    handle = operator.keyed[subtask] if subtask < len(operator.keyed) else None
    if handle is None:
        return {}
    groups = range(group, group + 1)
    contents: list[SegmentContent] = []
    for segment in within(handle.segments, groups):
        found: SegmentContent = {}
        reader = open_segment(partial(read_range, segment), segment.size, repr(segment), segment.is_own)
        for block in reader.blocks:
            if block.overlaps(groups):
                table = reader.load(block)(groups)
                own = {s: change for s, change in table.changes.items() if encode_slot(s, table.namespaced) == encoded}
                if own:
                    add_part(found, block.name, replace(table, changes=own))
        contents.append(found)
    content = without_tombstones(merge_contents(contents))
    return {name: table for name, table in content.items() if table.changes}


def _state_json(name: str, table: TableChanges, described: StateDescription | None, now: int) -> dict[str, Any]:
    slots = sorted(table.changes, key=lambda slot: _order(table, slot))
    return {
        "name": name,
        "kind": table.kind,
        "descriptor": (described.descriptor or None) if described else None,
        "type": type_name(described.type) if described else None,
        "map_key_type": type_name(described.map_key_type) if described else None,
        "windowed": table.namespaced,
        "ttl_ms": table.ttl_ms,
        "entries": [
            {**entry_json(table, slot, table.changes[slot], now), "bytes": entry_size(slot, table.changes[slot])}
            for slot in slots[:MOST_ENTRIES]
        ],
        "left_off": max(0, len(slots) - MOST_ENTRIES),
    }


def _window(table: TableChanges, slot: Any) -> dict[str, int] | None:
    return window_json(slot[1]) if table.namespaced else None


def _order(table: TableChanges, slot: Any) -> tuple[int, int]:
    window = _window(table, slot)
    return (0, 0) if window is None else (window["start"], window["end"])
