"""Operator state as it is stored: one immutable file (or inline piece) per state, subtask and version.

The elements of a state are plain values or :class:`~beadline.state.codec.Frozen` pickles, so that the driver can
redistribute them without loading any class of the user.

How a state is dealt out when parallelism changes is its *mode*:

========== ===========================================================================================
list       the lists of all subtasks, one after the other, split evenly
union      every subtask gets the lists of all subtasks
broadcast  every subtask gets a copy of one subtask's map; all are equal
raw        like a list in which the bytes of a subtask are one element
keyed-raw  bytes by key group; a group goes where its keys go
========== ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from beadline.errors import VersionError
from beadline.state.codec import dumps, loads, loads_own
from beadline.state.key_groups import subtask_of_key_group
from beadline.state.segments.files import SegmentFiles, read_segment
from beadline.state.segments.segment import PARQUET_MAGIC
from beadline.state.segments.version import SegmentRef

LIST = "list"
UNION = "union"
BROADCAST = "broadcast"
RAW = "raw"
KEYED_RAW = "keyed-raw"
MODES = (LIST, UNION, BROADCAST, RAW, KEYED_RAW)

_MAGIC = b"BEADOPS1"
_HEAD = len(_MAGIC) + 8


@dataclass(frozen=True)
class StateContent:
    """What one state of one subtask holds.

    :ivar items: frozen elements; ``(key, value)`` pairs for broadcast, ``(key group, bytes)`` for keyed raw state
    """

    mode: str
    items: list[Any] = field(default_factory=list)


def encode(content: StateContent) -> bytes:
    payload = dumps((content.mode, content.items))
    return b"".join((_MAGIC, xxhash.xxh3_64_digest(payload), payload))


def decode(data: bytes, where: str = "operator state", own: bool = False) -> StateContent:
    """The content of a state, as :func:`encode` or a savepoint's Parquet file has it.

    :param where: names it in errors
    :param own: the job itself has written it, so that what it holds need not be checked
    """
    if data[: len(PARQUET_MAGIC)] == PARQUET_MAGIC:
        from beadline.state.parquet.operator_columns import read_operator_state

        return read_operator_state(data, where)[1]
    if data[: len(_MAGIC)] != _MAGIC or len(data) < _HEAD:
        raise VersionError(f"{where} is not operator state or is cut short ({len(data)} bytes)")
    payload = memoryview(data)[_HEAD:]
    if xxhash.xxh3_64_digest(payload) != data[len(_MAGIC) : _HEAD]:
        raise VersionError(f"{where}: the checksum is wrong")
    found = loads_own(payload) if own else loads(payload)
    if found.__class__ is not tuple or len(found) != 2 or found[1].__class__ is not list or found[0] not in MODES:
        raise VersionError(f"{where} does not hold a mode and a list of elements")
    mode, items = found
    pair = {BROADCAST: tuple, KEYED_RAW: tuple}.get(mode)
    if pair is not None and not all(item.__class__ is pair and len(item) == 2 for item in items):
        raise VersionError(f"{where} is {mode} state whose elements are not pairs")
    return StateContent(mode, items)


def digest_of(data: bytes) -> str:
    """The version of a piece of state: equal bytes have an equal one."""
    return xxhash.xxh3_128_hexdigest(data)


def store(data: bytes, entries: int, files: SegmentFiles, inline_limit: int, occasion: str = "") -> SegmentRef:
    """Keep the bytes of a state: inline if they are small, else in a file that is named by its content.

    :param occasion: part of the name, where a state may come back to a content whose file is just being deleted
    """
    digest = digest_of(data)
    if len(data) <= inline_limit:
        return SegmentRef(digest, entries, len(data), inline=data)
    return files.store(f"{digest}{occasion}.state", data, digest, entries)


# -- handles


@dataclass(frozen=True)
class StateRef:
    """Where one state of one subtask is.

    :ivar parts: one piece, or for a union the pieces of all subtasks
    :ivar own: which of the parts are the subtask's own
    """

    mode: str
    parts: tuple[SegmentRef, ...]
    own: tuple[int, ...] = (0,)

    @property
    def own_parts(self) -> tuple[SegmentRef, ...]:
        return tuple(self.parts[i] for i in self.own)

    @property
    def size(self) -> int:
        """Of the subtask's own parts, in bytes."""
        return sum(part.size for part in self.own_parts)


@dataclass(frozen=True)
class OperatorStateHandle:
    """A version of a subtask's operator state. Equal content has an equal version."""

    states: dict[str, StateRef] = field(default_factory=dict)

    @property
    def version(self) -> str:
        named = sorted((name, ref.mode, *(p.version for p in ref.own_parts)) for name, ref in self.states.items())
        return xxhash.xxh3_128_hexdigest(repr(named).encode())

    @property
    def size(self) -> int:
        return sum(ref.size for ref in self.states.values())

    @property
    def segments(self) -> Iterator[SegmentRef]:
        """The subtask's own parts."""
        for ref in self.states.values():
            yield from ref.own_parts

    def with_segments(self, change: Callable[[SegmentRef], SegmentRef]) -> OperatorStateHandle:
        """The same state, only its own parts, with its segments elsewhere."""
        return OperatorStateHandle(
            {
                name: StateRef(ref.mode, tuple(map(change, ref.own_parts)), tuple(range(len(ref.own))))
                for name, ref in self.states.items()
            }
        )

    @property
    def paths(self) -> set[str]:
        return {part.path for ref in self.states.values() for part in ref.own_parts if part.path is not None}


def with_unions(handles: Sequence[OperatorStateHandle | None], subtask: int) -> OperatorStateHandle | None:
    """A subtask's handle as it is sent to the subtask: unions name the parts of all subtasks."""
    handle = handles[subtask]
    if handle is None or all(ref.mode != UNION for ref in handle.states.values()):
        return handle
    states = dict(handle.states)
    for name, ref in handle.states.items():
        if ref.mode == UNION:
            parts: list[SegmentRef] = []
            own: tuple[int, ...] = ()
            for number, other in enumerate(handles):
                theirs = other.states.get(name) if other is not None else None
                if theirs is not None:
                    if number == subtask:
                        own = tuple(range(len(parts), len(parts) + len(theirs.own)))
                    parts += theirs.own_parts
            states[name] = replace(ref, parts=tuple(parts), own=own)
    return OperatorStateHandle(states)


# -- another parallelism


def redistribute(
    states_by_old_subtask: Sequence[Mapping[str, StateContent]], new_parallelism: int, max_parallelism: int = 128
) -> list[dict[str, StateContent]]:
    """What each new subtask starts from, for states that are dealt out: lists and raw bytes.

    As in Flink, the subtasks that get one element more than others begin, for each state, where those of the state
    before ended.
    """
    dealt: list[dict[str, StateContent]] = [{} for _ in range(new_parallelism)]
    start = 0
    for name, mode in _modes_of(states_by_old_subtask).items():
        items = [item for states in states_by_old_subtask if name in states for item in states[name].items]
        if mode == KEYED_RAW:
            shares: list[list[Any]] = [[] for _ in range(new_parallelism)]
            for group, data in items:
                shares[subtask_of_key_group(group, new_parallelism, max_parallelism)].append((group, data))
        else:
            shares, start = _split(items, new_parallelism, start)
        for states, share in zip(dealt, shares, strict=True):
            states[name] = StateContent(mode, share)
    return dealt


def _modes_of(states_by_subtask: Sequence[Mapping[str, StateContent | StateRef]]) -> dict[str, str]:
    modes: dict[str, str] = {}
    for states in states_by_subtask:
        for name, state in states.items():
            if modes.setdefault(name, state.mode) != state.mode:
                raise VersionError(
                    f"operator state '{name}' is a {modes[name]} state in one subtask and a {state.mode} state in "
                    "another"
                )
    return dict(sorted(modes.items()))


def _split(items: list[Any], parallelism: int, start: int) -> tuple[list[list[Any]], int]:
    """Even parts in order, the longer ones from subtask ``start`` on; and where the next state's longer ones begin."""
    least, longer = divmod(len(items), parallelism)
    shares: list[list[Any]] = [[] for _ in range(parallelism)]
    at = 0
    for turn in range(parallelism):
        size = least + (turn < longer)
        shares[(start + turn) % parallelism] = items[at : at + size]
        at += size
    return shares, (start + longer) % parallelism


def redistribute_handles(
    handles: Sequence[OperatorStateHandle | None],
    new_parallelism: int,
    max_parallelism: int,
    files: SegmentFiles,
    inline_limit: int,
) -> list[OperatorStateHandle]:
    """The handles that an operator's new subtasks start from. Unions and broadcast state only get new references;
    the rest is read, dealt out and stored again."""
    given = [handle or OperatorStateHandle() for handle in handles]
    if len(given) == new_parallelism:
        return given
    dealt: list[dict[str, StateRef]] = [{} for _ in range(new_parallelism)]
    for name, mode in _modes_of([handle.states for handle in given]).items():
        refs = [handle.states[name] for handle in given if name in handle.states]
        if mode == UNION:
            parts = tuple(part for ref in refs for part in ref.own_parts)
            for subtask, states in enumerate(dealt):
                states[name] = StateRef(UNION, parts, tuple(range(subtask, len(parts), new_parallelism)))
        elif mode == BROADCAST:
            for subtask, states in enumerate(dealt):
                states[name] = refs[subtask % len(refs)]
    decoded = [
        {name: read_ref(ref) for name, ref in handle.states.items() if ref.mode not in (UNION, BROADCAST)}
        for handle in given
    ]
    for states, contents in zip(dealt, redistribute(decoded, new_parallelism, max_parallelism), strict=True):
        for name, content in contents.items():
            ref = store(encode(content), len(content.items), files, inline_limit)
            states[name] = StateRef(content.mode, (ref,))
    return [OperatorStateHandle(states) for states in dealt]


def read_ref(ref: StateRef) -> StateContent:
    return StateContent(ref.mode, [item for part in ref.parts for item in read_part(part, ref.mode)])


def read_part(part: SegmentRef, mode: str) -> list[Any]:
    content = decode(read_segment(part), repr(part), part.is_own)
    if content.mode != mode:
        raise VersionError(f"{part!r} holds a {content.mode} state, its handle says {mode}")
    return content.items
