"""The largest keys of an operator, in one pass and bounded memory."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from typing import Any

from beadline.checkpoint.contents.snapshot import OperatorSnapshot
from beadline.state.heap.timers import TimerTable
from beadline.state.key_groups import encode_indexed, hash_encoded, unboxed
from beadline.state_processor.local.parts import UNHURRIED, Pace, Part, TimeIsUp, entry_size, parts_of
from beadline.state_processor.local.shown import bounded, key_text

#: So many keys can be asked for.
MOST_KEYS = 1000


class _Key:
    """What one key takes."""

    def __init__(self) -> None:
        self.bytes = 0
        self.entries = 0
        self.states: dict[str, int] = defaultdict(int)


def largest(operator: OperatorSnapshot, n: int = 10, only: str | None = None, pace: Pace = UNHURRIED) -> dict[str, Any]:
    """The keys with most bytes of state, the largest first, as JSON. If the time of the pace is up, those of the key
    groups that were read by then.

    :param only: count this state alone
    """
    n = max(1, min(n, MOST_KEYS))
    started = pace.clock()
    top: list[tuple[int, int, Any, _Key, int]] = []
    number = itertools.count()  # keys need not be comparable
    seen, total, groups_read, complete = 0, 0, 0, True
    try:
        for part in parts_of(operator, pace):
            found = _keys_in(part, only)
            seen += len(found)
            for key, size in found.items():
                total += size.bytes
                entry = (size.bytes, next(number), key, size, part.subtask)
                if len(top) < n:
                    heapq.heappush(top, entry)
                elif size.bytes > top[0][0]:
                    heapq.heapreplace(top, entry)
            groups_read = part.groups.stop
    except TimeIsUp:
        complete = False
    return {
        "operator": operator.uid,
        "keys": [_key_json(operator, *entry[2:]) for entry in sorted(top, key=lambda e: (-e[0], e[1]))],
        "keys_seen": seen,
        "bytes_seen": total,
        "complete": complete,
        "note": None if complete else _note(operator, groups_read, pace),
        "seconds": round(pace.clock() - started, 3),
    }


def _keys_in(part: Part, only: str | None) -> dict[Any, _Key]:
    found: dict[Any, _Key] = defaultdict(_Key)
    for name, table in part.content.items():
        if only is not None and name != only:
            continue
        timers = table.kind == TimerTable.kind
        for slot, change in table.changes.items():
            key = found[slot[0] if table.namespaced else slot]
            size = entry_size(slot, change)
            key.bytes += size
            key.entries += len(change[0]) if timers else 1
            key.states[name] += size
    return found


def _key_json(operator: OperatorSnapshot, key: Any, size: _Key, subtask: int) -> dict[str, Any]:
    return {
        "key": bounded(unboxed(key))[0],
        "key_text": key_text(unboxed(key), operator.key_type),
        "key_group": hash_encoded(encode_indexed(key)) % operator.max_parallelism,
        "subtask": subtask,
        "bytes": size.bytes,
        "entries": size.entries,
        "states": dict(sorted(size.states.items(), key=lambda item: -item[1])),
    }


def _note(operator: OperatorSnapshot, groups_read: int, pace: Pace) -> str:
    return (
        f"The state is large: after {pace.seconds:g} s, {groups_read} of {operator.max_parallelism} key groups had "
        "been read, and these are the largest keys in them. 'beadline state largest' on a checkpoint or savepoint "
        "reads all of them."
    )
